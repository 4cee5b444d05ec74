//! Programs that tests need and that are not ours: installed by a script, once.

use std::fs::File;
use std::process::{Command, Stdio};

use crate::daemon::root;

/// Runs an install script below `tests` and returns the lines that it prints.
///
/// Tests of several processes may ask at once, so one installs while the others wait.
pub async fn install(script: &'static str) -> Vec<String> {
    let installed = tokio::task::spawn_blocking(move || {
        let tools = root().join(".tools");
        std::fs::create_dir_all(&tools).expect("the folder of tools can be made");
        let lock = File::create(tools.join("install.lock")).expect("the lock can be made");
        lock.lock().expect("the lock can be taken");
        let output = Command::new("sh")
            .arg(root().join("tests").join(script))
            .stdin(Stdio::null())
            .output()
            .expect("sh runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "tests/{script} failed: {errors}");
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    });
    installed.await.expect("the script was run")
}
