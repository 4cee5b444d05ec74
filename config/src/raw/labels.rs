//! What a table says of what comes in by a tool and what goes out.

use super::{RawDiscover, RawServer, RawTool};

/// What a table says; absent is what follows from the kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawLabels {
    pub(crate) untrusted_output: Option<bool>,
    pub(crate) private_output: Option<bool>,
    pub(crate) external_effect: Option<bool>,
}

impl RawTool {
    pub(crate) const fn labels(&self) -> RawLabels {
        let Self { untrusted_output, private_output, external_effect, .. } = *self;
        RawLabels { untrusted_output, private_output, external_effect }
    }
}

impl RawServer {
    pub(crate) const fn labels(&self) -> RawLabels {
        let Self { untrusted_output, private_output, external_effect, .. } = *self;
        RawLabels { untrusted_output, private_output, external_effect }
    }
}

impl RawDiscover {
    pub(crate) const fn labels(&self) -> RawLabels {
        let Self { untrusted_output, private_output, external_effect, .. } = *self;
        RawLabels { untrusted_output, private_output, external_effect }
    }
}
