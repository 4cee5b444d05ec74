//! `callboard parse`: what one reply of a model says.

use std::fs::File;
use std::io::{self, Read};

use agents_core::dialect;
use wire::ErrorCode;
use wire::plan::Dialect;

use crate::args::{Parse, Spoken};
use crate::failure::{Exit, Failure};
use crate::{screen, text};

/// The most bytes of a reply or of a file of tools. The longest replies of models have some
/// hundred kilobytes.
const BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Prints the calls, the answer or the fault of the reply on stdin; all three are a success.
pub(crate) fn parse(args: &Parse) -> Result<Exit, Failure> {
    let name = args.tools.display().to_string();
    let file = File::open(&args.tools).map_err(|error| unusable(&name, &error.to_string()))?;
    let tools = read(file, &name)?;
    let toolbox = dialect::toolbox(&tools).map_err(|error| unusable(&name, &error.to_string()))?;
    let reply = read(io::stdin().lock(), "stdin")?;
    let parsed = dialect::parse(args.dialect.into(), &toolbox, &reply);
    let line = serde_json::to_string(&parsed)
        .map_err(|error| Failure::new(ErrorCode::Internal, format!("write JSON: {error}")))?;
    screen::answer(&text::json(&line))?;
    Ok(Exit::Done)
}

fn read(from: impl Read, name: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    from.take(BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unusable(name, &error.to_string()))?;
    if bytes.len() as u64 > BYTES_MAX {
        let text = format!("{name} is longer than {BYTES_MAX} bytes");
        return Err(Failure::new(ErrorCode::TooLarge, text));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn unusable(name: &str, why: &str) -> Failure {
    Failure::new(ErrorCode::BadRequest, format!("{name}: {why}"))
}

impl From<Spoken> for Dialect {
    fn from(spoken: Spoken) -> Self {
        match spoken {
            Spoken::Native => Self::Native,
            Spoken::Schema => Self::Schema,
            Spoken::Json => Self::Json,
            Spoken::React => Self::React,
        }
    }
}
