//! What statements may do: `SQLite` asks for every step of a statement that it compiles.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

/// Pragmas that tell something and change nothing; full-text search needs the first.
const PRAGMAS: &[&str] = &[
    "data_version",
    "foreign_key_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "table_info",
    "table_list",
    "table_xinfo",
];

/// Refuses what reaches beyond the data of one database, or beyond one call: other files,
/// libraries, settings, transactions and temporary tables.
pub(super) struct Guard {
    lifted: Arc<AtomicBool>,
}

impl Guard {
    /// Guards a connection from here on.
    pub(super) fn new(connection: &mut Connection) -> rusqlite::Result<Self> {
        let lifted = Arc::new(AtomicBool::new(false));
        let asked = lifted.clone();
        connection.authorizer(Some(move |context: AuthContext<'_>| {
            if asked.load(Ordering::Relaxed) || is_fine(&context.action) {
                Authorization::Allow
            } else {
                Authorization::Deny
            }
        }))?;
        Ok(Self { lifted })
    }

    /// Does our own work, such as to begin a transaction.
    pub(super) fn lift<T>(&self, work: impl FnOnce() -> T) -> T {
        self.lifted.store(true, Ordering::Relaxed);
        let done = work();
        self.lifted.store(false, Ordering::Relaxed);
        done
    }
}

fn is_fine(action: &AuthAction<'_>) -> bool {
    match action {
        AuthAction::Unknown { .. }
        | AuthAction::Attach { .. }
        | AuthAction::Detach { .. }
        | AuthAction::Transaction { .. }
        | AuthAction::Savepoint { .. }
        | AuthAction::CreateTempIndex { .. }
        | AuthAction::CreateTempTable { .. }
        | AuthAction::CreateTempTrigger { .. }
        | AuthAction::CreateTempView { .. } => false,
        AuthAction::Pragma { pragma_name, .. } => {
            PRAGMAS.iter().any(|known| known.eq_ignore_ascii_case(pragma_name))
        }
        AuthAction::Function { function_name } => {
            !function_name.eq_ignore_ascii_case("load_extension")
        }
        // What remains reads or writes the data and the tables of this database.
        _ => true,
    }
}
