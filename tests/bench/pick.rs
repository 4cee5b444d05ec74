//! Which rows are measured.

/// Chooses rows by their ids.
pub(crate) struct Pick {
    words: Vec<String>,
}

impl Pick {
    /// Reads a list with commas of ids or of how they begin; an empty one chooses all.
    pub(crate) fn new(list: &str) -> Self {
        let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
        Self { words: words.map(str::to_owned).collect() }
    }

    /// Keeps what is chosen of all ids. A word that is an id chooses that row alone, so that
    /// `slow-1` leaves `slow-16` out.
    pub(crate) fn of<'a>(&self, all: &[&'a str]) -> Vec<&'a str> {
        let chosen = |id: &str| {
            self.words.iter().any(|word| {
                if all.contains(&word.as_str()) { word == id } else { id.starts_with(word) }
            })
        };
        let stray = self.words.iter().find(|word| !all.iter().any(|id| id.starts_with(*word)));
        assert!(stray.is_none(), "no row begins with {stray:?}; there are {}", all.join(", "));
        all.iter().copied().filter(|id| self.words.is_empty() || chosen(id)).collect()
    }
}
