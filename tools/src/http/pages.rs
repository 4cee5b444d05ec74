//! Gathers the pages of an answer into one.

use reqwest::Url;
use reqwest::header::{HeaderMap, LINK};
use serde_json::Value;

use crate::template::to_text;

/// Where an answer says that it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pages {
    /// Pages that are asked for at most.
    pub pages_max: u32,
    /// Where the next page is told.
    pub next: NextPage,
    /// The list of items, as a JSON pointer; if absent, the answer itself or its only list.
    pub items: Option<String>,
}

/// Where the next page is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextPage {
    /// In the header `Link`, as `rel="next"`.
    Link,
    /// In the body.
    Field {
        /// The place, as a JSON pointer.
        pointer: String,
        /// The query parameter that takes the value; without one the value is an address.
        parameter: Option<String>,
    },
}

/// Pages that belong together.
#[derive(Debug)]
pub(super) struct Gathered {
    /// The first page, with the items of all.
    whole: Value,
    pages: u32,
    /// Whether there are pages that were not asked for.
    more: bool,
}

impl Gathered {
    pub(super) fn new(first: Value) -> Self {
        Self { whole: first, pages: 1, more: false }
    }

    /// Returns how many pages there are so far.
    pub(super) fn pages(&self) -> u32 {
        self.pages
    }

    /// Notes that there are pages that are not asked for.
    pub(super) fn stop(&mut self) {
        self.more = true;
    }

    /// Adds the items of the next page, if it has some where the first one has.
    pub(super) fn add(&mut self, page: Value, how: &Pages) {
        let next = match &how.next {
            NextPage::Field { pointer, .. } => Some((pointer, page.pointer(pointer).cloned())),
            NextPage::Link => None,
        };
        let mut page = page;
        let place = how.place(&self.whole);
        let more = place.as_ref().and_then(|place| page.pointer_mut(place)?.as_array_mut());
        let more = more.map(std::mem::take);
        let items = place.and_then(|place| self.whole.pointer_mut(&place)?.as_array_mut());
        let (Some(items), Some(more)) = (items, more) else { return self.stop() };
        items.extend(more);
        self.pages += 1;
        // What follows the last page is what follows all of them.
        if let Some((pointer, value)) = next
            && let Some(told) = self.whole.pointer_mut(pointer)
        {
            *told = value.unwrap_or_default();
        }
    }

    /// Tells whether the first page has a list that can be added to.
    pub(super) fn has_items(&self, how: &Pages) -> bool {
        let place = how.place(&self.whole);
        place.is_some_and(|place| self.whole.pointer(&place).is_some_and(Value::is_array))
    }

    /// Returns all pages, and what is to be said of those that are missing.
    pub(super) fn into_parts(self) -> (Value, Option<String>) {
        let pages = if self.pages == 1 { "page" } else { "pages" };
        let cut = format!("[cut after {} {pages}; there are more]", self.pages);
        (self.whole, self.more.then_some(cut))
    }
}

impl Pages {
    /// Returns the faults of the pointers, each with the field that has it.
    pub fn pointer_faults(&self) -> Vec<(&'static str, String)> {
        let next = match &self.next {
            NextPage::Field { pointer, .. } => Some(pointer),
            NextPage::Link => None,
        };
        let pointers = [("next", next), ("items", self.items.as_ref())];
        let pointers = pointers.into_iter().filter_map(|(field, pointer)| Some((field, pointer?)));
        let bad = pointers.filter(|(_, pointer)| !pointer.is_empty() && !pointer.starts_with('/'));
        bad.map(|(field, pointer)| (field, format!("{pointer:?} is no JSON pointer"))).collect()
    }

    /// Returns the address of the page after one; `first` is what the first one was asked by.
    pub(super) fn next(
        &self,
        page: &Value,
        headers: &HeaderMap,
        url: &Url,
        first: &Url,
    ) -> Option<Result<Url, String>> {
        let (target, parameter) = match &self.next {
            NextPage::Link => (linked(headers)?, None),
            NextPage::Field { pointer, parameter } => {
                let told = page.pointer(pointer)?;
                let goes_on = match told {
                    Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
                    Value::String(text) => !text.is_empty(),
                    Value::Number(_) => true,
                };
                (goes_on.then(|| to_text(told))?, parameter.as_deref())
            }
        };
        let Some(parameter) = parameter else {
            let next = url.join(&target);
            return Some(next.map_err(|error| format!("the next page is at no address: {error}")));
        };
        let others = first.query_pairs().filter(|(name, _)| name != parameter);
        let others: Vec<(String, String)> =
            others.map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
        let mut next = first.clone();
        next.query_pairs_mut().clear().extend_pairs(others).append_pair(parameter, &target);
        Some(Ok(next))
    }

    /// Returns where the items are.
    fn place(&self, page: &Value) -> Option<String> {
        if let Some(items) = &self.items {
            return Some(items.clone());
        }
        if page.is_array() {
            return Some(String::new());
        }
        let mut lists = page.as_object()?.iter().filter(|(_, value)| value.is_array());
        let (name, _) = lists.next()?;
        // A pointer has its own way to write these two.
        let name = name.replace('~', "~0").replace('/', "~1");
        lists.next().is_none().then(|| format!("/{name}"))
    }
}

/// Returns the target of the link to the next page.
fn linked(headers: &HeaderMap) -> Option<String> {
    let lines = headers.get_all(LINK).iter().filter_map(|value| value.to_str().ok());
    lines
        .flat_map(links)
        .find(|(_, relations)| relations.iter().any(|r| r == "next"))
        .map(|link| link.0)
}

/// Takes a header of links apart: targets and what they are to the page.
fn links(text: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('<') {
        let Some((target, after)) = after.split_once('>') else { break };
        // Parameters go on to the next comma outside of quotes.
        let mut quoted = false;
        let end = after.find(|c| {
            quoted ^= c == '"';
            c == ',' && !quoted
        });
        let (parameters, behind) =
            after.split_at_checked(end.unwrap_or(after.len())).unwrap_or((after, ""));
        let relations = parameters.split(';').filter_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            name.trim().eq_ignore_ascii_case("rel").then(|| value.trim().trim_matches('"'))
        });
        let relations = relations.flat_map(str::split_whitespace).map(str::to_ascii_lowercase);
        found.push((target.trim().to_owned(), relations.collect()));
        rest = behind;
    }
    found
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;
    use serde_json::json;

    use super::*;

    fn field(pointer: &str, parameter: Option<&str>) -> Pages {
        let (pointer, parameter) = (pointer.to_owned(), parameter.map(str::to_owned));
        Pages { pages_max: 9, next: NextPage::Field { pointer, parameter }, items: None }
    }

    fn link() -> Pages {
        Pages { pages_max: 9, next: NextPage::Link, items: None }
    }

    #[test]
    fn the_next_page_is_where_the_answer_says() {
        let first = Url::parse("http://h/list?q=a%20b&page=1").unwrap();
        for (how, page, links, expected) in [
            (link(), json!([]), vec!["<http://g/2>; rel=\"next\""], Some("http://g/2")),
            (
                link(),
                json!([]),
                vec!["</2>; rel=prev, </3?a,b>; title=\"x, y\"; REL=\"last Next\""],
                Some("http://h/3?a,b"),
            ),
            (
                link(),
                json!([]),
                vec!["</1>; rel=first", "<?page=2>; rel=next"],
                Some("http://h/list?page=2"),
            ),
            (link(), json!([]), vec!["</1>; rel=prev", "</2; rel=next", "next"], None),
            (link(), json!({"next": "/2"}), vec![], None),
            (
                field("/m/next", None),
                json!({"m": {"next": "?p=2"}}),
                vec![],
                Some("http://h/list?p=2"),
            ),
            (
                field("/next", Some("page")),
                json!({"next": 2}),
                vec![],
                Some("http://h/list?q=a+b&page=2"),
            ),
            (
                field("/next", Some("token")),
                json!({"next": "a&b"}),
                vec![],
                Some("http://h/list?q=a+b&page=1&token=a%26b"),
            ),
            (field("/next", Some("page")), json!({"next": null}), vec![], None),
            (field("/next", Some("page")), json!({"next": ""}), vec![], None),
            (field("/next", Some("page")), json!({"next": false}), vec![], None),
            (field("/next", Some("page")), json!({}), vec![], None),
        ] {
            let mut headers = HeaderMap::new();
            for link in links {
                headers.append(LINK, HeaderValue::from_static(link));
            }
            let next = how.next(&page, &headers, &first, &first);
            let next = next.map(|next| next.unwrap().to_string());
            assert_eq!(next.as_deref(), expected, "{how:?} {page}");
        }
        let bad = field("/next", None).next(
            &json!({"next": "http://["}),
            &HeaderMap::new(),
            &first,
            &first,
        );
        assert!(bad.unwrap().is_err());
    }

    #[test]
    fn pages_become_one() {
        let at = |items: &str| Pages { items: Some(items.to_owned()), ..field("/next", Some("p")) };
        for (how, first, second, expected) in [
            (link(), json!([1]), json!([2, 3]), Some(json!([1, 2, 3]))),
            (
                field("/next", Some("p")),
                json!({"a/b": [1], "next": "x", "n": 1}),
                json!({"a/b": [2], "n": 2}),
                Some(json!({"a/b": [1, 2], "next": null, "n": 1})),
            ),
            (
                at("/d/items"),
                json!({"d": {"items": [1]}, "tags": [], "next": 2}),
                json!({"d": {"items": []}, "next": 3}),
                Some(json!({"d": {"items": [1]}, "tags": [], "next": 3})),
            ),
            (link(), json!({"a": [1], "b": [1]}), json!({"a": [2], "b": [2]}), None),
            (link(), json!([1]), json!({"error": 1}), None),
        ] {
            let mut gathered = Gathered::new(first.clone());
            gathered.add(second, &how);
            let pages = gathered.pages();
            let (whole, cut) = gathered.into_parts();
            match expected {
                Some(expected) => assert_eq!((whole, pages, cut), (expected, 2, None)),
                None => assert_eq!((whole, pages, cut.is_some()), (first, 1, true)),
            }
        }
    }
}
