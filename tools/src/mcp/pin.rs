//! The pinned list of a server, on disk.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wire::{ErrorCode, Name, WireError};

use super::catalog::{Catalog, Listed};

/// The form of the file; one of another form is refused.
const VERSION: u32 = 1;

/// The largest file that is read: room for the largest list, with digests and line breaks.
const FILE_BYTES_MAX: u64 = 16 << 20;

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    tools: Vec<Pinned>,
}

#[derive(Serialize, Deserialize)]
struct Pinned {
    digest: String,
    #[serde(flatten)]
    tool: Listed,
}

/// Returns the file of a server below the directory of pinned lists.
pub fn file(dir: &Path, server: &Name) -> PathBuf {
    dir.join(format!("{server}.json"))
}

/// Reads the pinned list of a server, if there is one. Blocks on the disk.
pub fn read(dir: &Path, server: &Name) -> Result<Option<Catalog>, WireError> {
    let path = file(dir, server);
    let fault = |what: String| {
        let text = format!(
            "the pinned tools of MCP server {server} in {} {what}; remove the file to pin anew what \
             the server lists",
            path.display()
        );
        WireError::new(ErrorCode::FileUnreadable, text)
    };
    let length = match fs::metadata(&path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fault(format!("cannot be read: {error}"))),
    };
    if length > FILE_BYTES_MAX {
        return Err(fault(format!("have more than {FILE_BYTES_MAX} bytes")));
    }
    let bytes = fs::read(&path).map_err(|error| fault(format!("cannot be read: {error}")))?;
    let file: File = serde_json::from_slice(&bytes)
        .map_err(|error| fault(format!("are not what was written: {error}")))?;
    if file.version != VERSION {
        return Err(fault(format!("have the form {}, and {VERSION} is read", file.version)));
    }
    if let Some(pinned) = file.tools.iter().find(|pinned| pinned.digest != pinned.tool.digest()) {
        return Err(fault(format!("do not fit their digest at {:?}", pinned.tool.name)));
    }
    Ok(Some(Catalog { tools: file.tools.into_iter().map(|pinned| pinned.tool).collect() }))
}

/// Pins the list of a server in place of any other. Blocks on the disk.
pub fn write(dir: &Path, server: &Name, catalog: &Catalog) -> Result<(), WireError> {
    let path = file(dir, server);
    let pinned = |tool: &Listed| Pinned { digest: tool.digest(), tool: tool.clone() };
    let file = File { version: VERSION, tools: catalog.tools.iter().map(pinned).collect() };
    let text = serde_json::to_string_pretty(&file).map_err(std::io::Error::from);
    let written = text.and_then(|text| {
        // It may stand in the data of a team that is still to be made, which is its owner's alone.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        // Written aside and renamed, so that nobody finds half a list.
        let aside = dir.join(format!("{server}.json.{}", std::process::id()));
        let mut out = fs::File::create(&aside)?;
        out.write_all(text.as_bytes())?;
        out.sync_all()?;
        fs::rename(&aside, &path)
    });
    written.map_err(|error| {
        let text = format!("pin the tools of MCP server {server} in {}: {error}", path.display());
        WireError::new(ErrorCode::StorageFailed, text)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_is_read_as_it_was_pinned() {
        let dir = tempfile::tempdir().unwrap();
        let server = Name::new("files").unwrap();
        let inner = dir.path().join("mcp");
        assert_eq!(read(&inner, &server), Ok(None));
        let tool = Listed {
            name: "a.b".to_owned(),
            description: "Does.".to_owned(),
            parameters: json!({"type": "object"}),
            output: Some(json!({"type": "string"})),
            ..Listed::default()
        };
        let catalog = Catalog { tools: vec![tool] };
        for catalog in [Catalog::default(), catalog.clone()] {
            write(&inner, &server, &catalog).unwrap();
            assert_eq!(read(&inner, &server), Ok(Some(catalog)));
        }
        assert_eq!(fs::read_dir(&inner).unwrap().count(), 1, "nothing is left aside");

        let written = fs::read_to_string(file(&inner, &server)).unwrap();
        let cases = [
            (written.replace("Does.", "Does more."), "do not fit their digest at \"a.b\""),
            (written.replace("\"version\": 1", "\"version\": 2"), "have the form 2"),
            (written.replace('{', "["), "are not what was written"),
        ];
        for (text, fault) in cases {
            fs::write(file(&inner, &server), text).unwrap();
            let error = read(&inner, &server).unwrap_err();
            assert_eq!(error.code, ErrorCode::FileUnreadable);
            assert!(error.message.contains(fault), "{error}");
        }
    }
}
