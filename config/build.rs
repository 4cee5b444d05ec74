//! Packs the schema of team files, as which it is part of the binary.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs, io};

use flate2::Compression;
use flate2::write::GzEncoder;

/// The file, beside this one.
const SCHEMA: &str = "team.schema.json";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={SCHEMA}");
    #[expect(clippy::disallowed_methods, reason = "cargo says so alone where to write")]
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let packed = fs::File::create(out.join(format!("{SCHEMA}.gz")))?;
    let mut packed = GzEncoder::new(packed, Compression::best());
    io::copy(&mut fs::File::open(SCHEMA)?, &mut packed)?;
    packed.finish()?;
    Ok(())
}
