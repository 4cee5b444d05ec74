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
        ("processor", processor(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default())),
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

/// Says what kind of processor it is, by what Linux tells of it.
fn processor(told: &str) -> String {
    let told = |wanted: &str| {
        let mut pairs = told.lines().filter_map(|line| line.split_once(':'));
        pairs.find(|(name, _)| name.trim() == wanted).map(|(_, value)| value.trim())
    };
    match (told("model name"), told("cpu family"), told("model")) {
        (Some(name), Some(family), Some(model)) => {
            format!("{name}, family {family}, model {model}")
        }
        (Some(name), ..) => name.to_owned(),
        (None, ..) => std::env::consts::ARCH.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_told_by_what_is_known_of_it() {
        let cases = [
            (
                "processor\t: 0\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: A B\n",
                "A B, family 26, model 2",
            ),
            ("model name : C\n", "C"),
            ("processor : 0\n", std::env::consts::ARCH),
            ("", std::env::consts::ARCH),
        ];
        for (told, expected) in cases {
            assert_eq!(processor(told), expected, "{told:?}");
        }
    }
}
