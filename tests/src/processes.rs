//! The processes of the machine.

/// Counts those that were started with an argument.
pub fn processes(argument: &str) -> usize {
    let folders = std::fs::read_dir("/proc").expect("there is /proc").flatten();
    let lines = folders.filter_map(|folder| std::fs::read(folder.path().join("cmdline")).ok());
    lines
        .filter(|line| line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes()))
        .count()
}

/// Lists those that a process has started and that still run.
pub fn children(of: u32) -> Vec<u32> {
    let folders = std::fs::read_dir("/proc").expect("there is /proc").flatten();
    let ids = folders.filter_map(|folder| folder.file_name().to_str()?.parse().ok());
    ids.filter(|id| parent(*id) == Some(of)).collect()
}

/// Returns who has started a process, or taken it over; nothing if it does not run any more.
pub fn parent(of: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{of}/stat")).ok()?;
    // The name before these may hold anything, also a parenthesis.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    if state == "Z" { None } else { fields.next()?.parse().ok() }
}
