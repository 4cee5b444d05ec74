//! Packs the files of the console, as which they are part of the binary and go to browsers.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs, io};

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=console");
    #[expect(clippy::disallowed_methods, reason = "cargo says so alone where to write")]
    let out = PathBuf::from(env::var("OUT_DIR")?);
    for file in fs::read_dir("console")? {
        let file = file?;
        let name = file.file_name().into_string().map_err(|_| "a name is no UTF-8")?;
        let packed = fs::File::create(out.join(format!("{name}.gz")))?;
        let mut packed = GzEncoder::new(packed, Compression::best());
        io::copy(&mut fs::File::open(file.path())?, &mut packed)?;
        packed.finish()?;
    }
    Ok(())
}
