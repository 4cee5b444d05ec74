//! The processes of the machine.

/// Counts those that were started with an argument.
pub fn processes(argument: &str) -> usize {
    let folders = std::fs::read_dir("/proc").expect("there is /proc").flatten();
    let lines = folders.filter_map(|folder| std::fs::read(folder.path().join("cmdline")).ok());
    lines
        .filter(|line| line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes()))
        .count()
}
