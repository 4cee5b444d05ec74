//! What a table says of what comes in by a tool and what goes out.

use super::{RawDiscover, RawEventTypes, RawInterface, RawServer, RawTool};
use wire::Capture;

/// What a table says; absent is what follows from the kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawLabels {
    pub(crate) untrusted_output: Option<bool>,
    pub(crate) private_output: Option<bool>,
    pub(crate) external_effect: Option<bool>,
    pub(crate) capture: Option<Capture>,
}

/// Reads the labels of tables, which have fields of the same names.
macro_rules! labelled {
    ($($table:ident),+) => {$(
        impl $table {
            pub(crate) const fn labels(&self) -> RawLabels {
                let Self { untrusted_output, private_output, external_effect, capture, .. } = *self;
                RawLabels { untrusted_output, private_output, external_effect, capture }
            }
        }
    )+};
}

labelled!(RawDiscover, RawEventTypes, RawInterface, RawServer, RawTool);
