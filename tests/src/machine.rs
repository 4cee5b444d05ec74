//! On what kind of machine something was measured.

use std::process::Command;

use crate::daemon::root;

/// Describes the machine by its class, and the versions.
pub fn machine() -> Vec<(&'static str, String)> {
    let first_line = |command: &str, arguments: &[&str]| {
        let output = Command::new(command).args(arguments).output().ok();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        text.and_then(|text| text.lines().next().map(str::to_owned)).unwrap_or_default()
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = memory.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok());
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let kernel = first_line("uname", &["-sr"]);
    let folder = std::env::temp_dir();
    let folder = folder.to_string_lossy();
    let server = root().join(".tools/nats/bin/nats-server");
    vec![
        ("date", first_line("date", &["-u", "+%Y-%m-%d"])),
        ("cores", cores.to_string()),
        ("memory", format!("{} GiB", memory.unwrap_or_default() / (1 << 20))),
        ("load when this was written", load.split(' ').next().unwrap_or_default().to_owned()),
        ("kernel", kernel.split('-').next().unwrap_or_default().to_owned()),
        ("file system", first_line("stat", &["-f", "-c", "%T", &folder])),
        ("callboard", env!("CARGO_PKG_VERSION").to_owned()),
        ("compiler", first_line("rustc", &["--version"])),
        ("server", first_line(&server.to_string_lossy(), &["--version"])),
    ]
}
