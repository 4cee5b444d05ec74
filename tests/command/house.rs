//! What the tests of commands have in common: a team of one tool, and who is left of it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;
use tests::install::install;
use tools::command::{CommandSpec, CommandTool, Launcher};
use tools::{Tool, ToolContext, ToolKind};
use wire::{CallKey, Name, ToolReply};

/// The tool of every team here.
pub(crate) const TOOL: &str = "work";

/// Returns the folders in which programs are looked for, that of bubblewrap before all.
pub(crate) async fn path() -> OsString {
    let lines = install("bwrap.sh").await;
    let bwrap = PathBuf::from(lines.last().expect("the script prints a path"));
    let folder = bwrap.parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder).chain(std::env::split_paths(&path));
    std::env::join_paths(folders.collect::<Vec<_>>()).unwrap()
}

/// Makes a folder that every user can enter, as the sandbox of a daemon that is root has to.
pub(crate) fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    open_to_all(folder.path());
    folder
}

pub(crate) fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
}

/// Returns the text of a team whose only tool is a command with these fields.
pub(crate) fn team(fields: &str) -> String {
    format!(
        "[models.m]\nprovider = 'openai'\nbase_url = 'http://127.0.0.1:9'\nmodel = 'm'\n\
         [agents.a]\ninstructions = 'i'\nmodel = 'm'\ntools = ['{TOOL}']\n\
         [tools.{TOOL}]\nkind = 'command'\ndescription = 'd'\n{fields}\n"
    )
}

/// Reads the command of such a team, whose file lies in a folder.
pub(crate) fn command(folder: &Path, fields: &str) -> CommandSpec {
    let none = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    let loaded = config::parse(&folder.join("team.toml"), &team(fields), &none);
    let team = loaded.unwrap_or_else(|report| panic!("{}", report.render(false)));
    let ToolKind::Command(spec) = &team.tools[TOOL].kind else { panic!("not a command") };
    spec.clone()
}

/// One tool that is ready to be called.
pub(crate) struct House {
    tool: Arc<CommandTool>,
}

/// One call, and how to stop it and to find its processes.
pub(crate) struct Call {
    pub(crate) context: ToolContext,
}

impl House {
    /// Makes the tool after it was checked, as a node does. Nothing may see `hidden`.
    pub(crate) async fn new(folder: &Path, fields: &str, hidden: &Path) -> Self {
        let launcher = Launcher::find(Some(&path().await), hidden);
        let spec = command(folder, fields);
        launcher.check(&Name::new(TOOL).unwrap(), &spec).unwrap_or_else(|error| panic!("{error}"));
        Self { tool: Arc::new(CommandTool::new(spec, &Arc::new(launcher))) }
    }

    pub(crate) async fn call(&self, call: &Call, arguments: &Value) -> ToolReply {
        self.tool.call(&call.context, arguments).await
    }
}

impl Call {
    pub(crate) fn new(remaining: Duration) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let call = CallKey::new(&format!("{:08x}{count:08x}", std::process::id())).unwrap();
        let tool = Name::new(TOOL).unwrap();
        let context = ToolContext { call, tool, ..tools::testing::context(remaining) };
        Self { context }
    }

    /// Finds the processes that have the key of the call in their environment.
    pub(crate) fn processes(&self) -> Vec<String> {
        let mark = format!("CALLBOARD_IDEMPOTENCY_KEY={}", self.context.call);
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Ok(env) = std::fs::read(entry.path().join("environ")) else { continue };
            if env.split(|byte| *byte == 0).any(|pair| pair == mark.as_bytes()) {
                let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                found.push(String::from_utf8_lossy(&command).replace('\0', " "));
            }
        }
        found
    }
}
