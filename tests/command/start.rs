//! Commands that a node does not start with, and what it says about them.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tools::command::Launcher;
use wire::{ErrorCode, Name, WireError};

use crate::house::{TOOL, command, folder, open_to_all, path};

fn program(file: &Path, text: &str) {
    std::fs::write(file, text).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn check(folder: &Path, path: &OsString, fields: &str) -> Result<(), WireError> {
    let launcher = Launcher::find(Some(path), &folder.join("data"));
    launcher.check(&Name::new(TOOL).unwrap(), &command(folder, fields))
}

#[tokio::test]
async fn what_cannot_be_started_is_told_with_its_cure() {
    let folder = folder();
    let home = folder.path();
    std::fs::create_dir(home.join("data")).unwrap();
    std::fs::write(home.join("plain"), "text").unwrap();
    let path = path().await;
    check(home, &path, "argv = ['true']").unwrap();
    check(home, &path, "argv = ['true']\nsandbox = 'none'").unwrap();
    let (config, sandbox) = (ErrorCode::ConfigInvalid, ErrorCode::SandboxUnavailable);
    for (fields, code, parts) in [
        (
            "argv = ['no-such-program']",
            config,
            ["no program no-such-program in its sandbox", "./no-such-program"],
        ),
        (
            "argv = ['no-such-program']\nsandbox = 'none'",
            config,
            ["no program no-such-program;", "/usr/bin"],
        ),
        ("argv = ['./gone.sh']", config, ["gone.sh", "No such file"]),
        ("argv = ['./plain']", config, ["no program", "plain"]),
        (
            "argv = ['true']\nread = ['gone']",
            config,
            ["gone cannot be opened to it", "No such file"],
        ),
        ("argv = ['true']\nworkdir = 'gone'", config, ["gone", "No such file"]),
        (
            "argv = ['true']\nread = ['data']",
            config,
            ["data belongs to the daemon alone", "tool work"],
        ),
        (
            "argv = ['true']\nwrite = ['/']",
            config,
            ["/ cannot be opened to it", "name what is needed"],
        ),
        (
            "argv = ['true']\nread = ['/proc/1']",
            config,
            ["/proc/1 cannot be opened to it", "name what"],
        ),
    ] {
        let error = check(home, &path, fields).unwrap_err();
        assert_eq!(error.code, code, "{fields}: {error}");
        for part in parts {
            assert!(error.message.contains(part), "{fields}: no {part:?} in {error}");
        }
    }

    let fake = home.join("fake");
    std::fs::create_dir(&fake).unwrap();
    open_to_all(&fake);
    for (text, part) in [
        ("#!/bin/sh\necho bubblewrap 0.6.1", "is too old (bubblewrap 0.6.1)"),
        ("#!/bin/sh\necho hello", "does not tell its version"),
        (
            "#!/bin/sh\n[ $1 = --version ] && exec echo bubblewrap 0.8.0\n\
             echo 'bwrap: no permissions to create new namespace' >&2; exit 1",
            "its sandbox cannot be made: bwrap: no permissions to create new namespace",
        ),
    ] {
        program(&fake.join("bwrap"), text);
        let error = check(home, &fake.clone().into(), "argv = ['true']").unwrap_err();
        assert_eq!(error.code, sandbox, "{error}");
        assert!(error.message.contains(part), "no {part:?} in {error}");
        assert!(error.message.contains("`sandbox = \"none\"`"), "{error}");
        check(home, &fake.clone().into(), "argv = ['true']\nsandbox = 'none'").unwrap();
    }
}
