//! Event types of Knative, as they stand in YAML files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};

use serde::Deserialize;
use serde_json::Value;

use super::schema;

/// Bytes of one file; an event type has some hundred.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// Files of one folder; more than a team can have tools.
pub const FILES_MAX: usize = 1024;

/// The group of the interface, before its version.
const GROUP: &str = "eventing.knative.dev/";

/// Where resources are that do not say.
const NAMESPACE: &str = "default";

/// The endings of files that are read in a folder.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// What a source of event types holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventTypes {
    /// Those that can be offered, by file and place in it; no two have one type.
    pub types: Vec<EventType>,
    /// What is wrong with the others.
    pub faults: Vec<EventFault>,
}

/// What a tool is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct EventType {
    /// The type of the events that are sent.
    pub kind: String,
    /// What becomes of such an event.
    pub description: String,
    /// The JSON Schema of the data.
    pub parameters: Value,
    /// Other attributes that events of this type have, with fixed values.
    pub attributes: BTreeMap<String, String>,
    /// Where its reference or its broker takes events within the cluster, by the names that
    /// Knative and Kubernetes give such addresses. Absent where it names neither.
    pub address: Option<String>,
}

/// An event type that cannot be offered, or a file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFault {
    /// The file.
    pub file: PathBuf,
    /// Which event type, if that is known, and what is wrong with it.
    pub what: String,
}

/// A resource of Kubernetes, as far as it matters here.
#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[derive(Default)]
struct Resource {
    api_version: String,
    kind: String,
    metadata: Metadata,
    spec: Option<Spec>,
    items: Vec<Resource>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
    namespace: Option<String>,
}

/// Another resource of the cluster.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Reference {
    api_version: String,
    kind: String,
    name: String,
    namespace: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    r#type: Option<String>,
    description: Option<String>,
    schema_data: Option<String>,
    attributes: Vec<Attribute>,
    reference: Option<Reference>,
    broker: Option<String>,
}

/// An attribute of v1beta3.
#[derive(Deserialize)]
struct Attribute {
    name: String,
    #[serde(default)]
    required: bool,
    #[serde(default)]
    value: Option<String>,
}

impl EventTypes {
    /// Reads a file, or all files with the endings of YAML and JSON in a folder. Blocks on the disk.
    ///
    /// The error is that of the path itself; what is wrong below it is among the faults.
    pub fn load(path: &Path) -> io::Result<Self> {
        let mut found = Self::default();
        for file in files(path)? {
            match read(&file) {
                Ok(text) => found.add(&file, &text),
                // A file that was removed meanwhile is none of the folder's.
                Err(error) if error.kind() == io::ErrorKind::NotFound && file != path => {}
                Err(error) if file == path => return Err(error),
                Err(error) => {
                    found
                        .faults
                        .push(EventFault { file, what: format!("it cannot be read: {error}") });
                }
            }
        }
        Ok(found)
    }

    /// Adds what stands in the text of a file; resources of other kinds are passed over.
    pub fn add(&mut self, file: &Path, text: &str) {
        let resources = match serde_saphyr::from_multiple::<Value>(text) {
            Ok(documents) => documents,
            Err(error) => {
                // The error shows the text around it on further lines.
                let error = error.to_string();
                let line = error.lines().next().unwrap_or_default();
                self.fault(file, format!("it is no YAML: {line}"));
                return;
            }
        };
        for (index, document) in resources.into_iter().enumerate() {
            match serde_json::from_value::<Resource>(document) {
                Ok(resource) => self.add_resource(file, resource),
                Err(error) => self.fault(file, format!("document {}: {error}", index + 1)),
            }
        }
    }

    fn add_resource(&mut self, file: &Path, resource: Resource) {
        for item in resource.items {
            self.add_resource(file, item);
        }
        let Some(version) = resource.api_version.strip_prefix(GROUP) else { return };
        if resource.kind != "EventType" {
            return;
        }
        let Metadata { name, namespace } = resource.metadata;
        if !matches!(version, "v1beta1" | "v1beta2" | "v1beta3") {
            let what = "v1beta1, v1beta2 and v1beta3 are read";
            self.fault(file, format!("event type {name:?} is of version {version:?}; {what}"));
            return;
        }
        let namespace = namespace.unwrap_or_else(|| NAMESPACE.to_owned());
        match event_type(resource.spec.unwrap_or_default(), &namespace) {
            Ok(made) if self.types.iter().any(|known| known.kind == made.kind) => {
                let what = format!("type {:?} stands in another one already", made.kind);
                self.fault(file, format!("event type {name:?}: {what}"));
            }
            Ok(made) => self.types.push(made),
            Err(what) => self.fault(file, format!("event type {name:?}: {what}")),
        }
    }

    fn fault(&mut self, file: &Path, what: String) {
        self.faults.push(EventFault { file: file.to_owned(), what });
    }

    /// Returns an event type.
    pub fn get(&self, kind: &str) -> Option<&EventType> {
        self.types.iter().find(|known| known.kind == kind)
    }
}

fn event_type(spec: Spec, namespace: &str) -> Result<EventType, String> {
    let broker = spec.broker.map(|name| Reference {
        api_version: GROUP.to_owned(),
        kind: "Broker".to_owned(),
        name,
        namespace: None,
    });
    let address = spec.reference.or(broker).and_then(|reference| reference.address(namespace));
    let mut kind = spec.r#type.filter(|kind| !kind.is_empty());
    let mut schema_data = spec.schema_data;
    let mut attributes = BTreeMap::new();
    for Attribute { name, required, value } in spec.attributes {
        let fixed = value.filter(|value| !value.is_empty() && !is_open(value));
        match (name.as_str(), fixed) {
            ("type", fixed) => {
                kind = Some(fixed.ok_or("its type has no fixed value, so no event can be made")?);
            }
            ("schemadata", fixed) => schema_data = schema_data.or(fixed),
            // These are the sender's.
            ("specversion" | "id" | "source" | "time" | "datacontenttype", _) => {}
            (_, Some(value)) => {
                if !is_attribute(&name) {
                    return Err(format!("{name:?} is no name of an attribute"));
                }
                attributes.insert(name, value);
            }
            (_, None) if required => {
                return Err(format!("its attribute {name:?} is needed and has no fixed value"));
            }
            (_, None) => {}
        }
    }
    let kind = kind.ok_or("it has no type")?;
    if kind.chars().any(char::is_control) {
        return Err("its type holds a control character".to_owned());
    }
    let parameters = schema::parameters(schema_data.as_deref())?;
    let description = spec.description.unwrap_or_default();
    Ok(EventType { kind, description, parameters, attributes, address })
}

impl Reference {
    /// Returns where the resource takes events, if it is of a kind that does.
    fn address(&self, namespace: &str) -> Option<String> {
        let namespace = self.namespace.as_deref().unwrap_or(namespace);
        let name = self.name.as_str();
        // They become part of a host's name or of a path.
        if !is_label(namespace) || !is_label(name) {
            return None;
        }
        let group = self.api_version.split_once('/').map_or("", |(group, _)| group);
        match (group, self.kind.as_str()) {
            ("eventing.knative.dev", "Broker") => Some(format!(
                "http://broker-ingress.knative-eventing.svc.cluster.local/{namespace}/{name}"
            )),
            ("serving.knative.dev" | "", "Service") => {
                Some(format!("http://{name}.{namespace}.svc.cluster.local"))
            }
            ("messaging.knative.dev", "Channel" | "InMemoryChannel") => {
                Some(format!("http://{name}-kn-channel.{namespace}.svc.cluster.local"))
            }
            _ => None,
        }
    }
}

/// Tells whether a text is one part of a host's name.
fn is_label(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&text.len()) && text.chars().all(is_letter)
}

/// Tells whether a value holds variables, such as `{region}`.
fn is_open(value: &str) -> bool {
    value.contains('{')
        && value.contains('}')
        && !value.trim_start().starts_with("{\"")
        && value.trim() != "{}"
}

/// Tells whether an attribute may have this name.
pub fn is_attribute(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=20).contains(&name.len()) && name.chars().all(is_letter)
}

/// Which writing of files is on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp(Vec<(PathBuf, Option<SystemTime>, u64)>);

/// Returns which writing of a file, or of the files of a folder, is on the disk. Blocks on it.
pub fn stamp(path: &Path) -> io::Result<Stamp> {
    let stamped = files(path)?.into_iter().map(|file| {
        let metadata = fs::metadata(&file).ok();
        let written = metadata.as_ref().and_then(|metadata| metadata.modified().ok());
        (file, written, metadata.map_or(0, |metadata| metadata.len()))
    });
    Ok(Stamp(stamped.collect()))
}

/// Returns the file itself, or the files of a folder by their names.
fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        // Editors and Kubernetes keep what is not meant under names that begin with a dot.
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned());
        let is_hidden = name.is_none_or(|name| name.starts_with('.'));
        let ending = file.extension().and_then(|ending| ending.to_str());
        if is_hidden || !ending.is_some_and(|ending| ENDINGS.contains(&ending)) {
            continue;
        }
        if files.len() == FILES_MAX {
            let text = format!("the folder has more than {FILES_MAX} files");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        files.push(file);
    }
    files.sort();
    Ok(files)
}

fn read(file: &Path) -> io::Result<String> {
    let metadata = fs::metadata(file)?;
    let refused = |text: String| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    if !metadata.is_file() {
        return refused("it is not a regular file".to_owned());
    }
    if metadata.len() > FILE_BYTES_MAX {
        return refused(format!("it has more than {FILE_BYTES_MAX} bytes"));
    }
    fs::read_to_string(file)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_text(text: &str) -> EventTypes {
        let mut found = EventTypes::default();
        found.add(Path::new("t.yaml"), text);
        found
    }

    #[test]
    fn event_types_of_all_versions_are_read() {
        let text = r#"
apiVersion: eventing.knative.dev/v1beta2
kind: EventType
metadata:
  name: word.count
spec:
  reference: {apiVersion: serving.knative.dev/v1, kind: Service, name: word-count}
  description: "Counts words."
  schemaData: '{"text":{"type":"string","description":"the text"}}'
  type: "word.count"
---
apiVersion: v1
kind: Service
metadata: {name: other}
spec: {type: ClusterIP, ports: [{port: 80}]}
---
apiVersion: eventing.knative.dev/v1beta1
kind: EventType
metadata: {name: old}
spec: {type: old.one, source: /x, broker: default}
---
apiVersion: eventing.knative.dev/v1beta3
kind: EventType
metadata: {name: new}
spec:
  description: New.
  attributes:
  - {name: type, required: true, value: new.one}
  - {name: specversion, required: true, value: "1.0"}
  - {name: id, required: true}
  - {name: source, required: true, value: "/{place}"}
  - {name: region, required: true, value: north}
  - {name: note, value: "{any}"}
  - {name: schemadata, value: '{"n":{"type":"int"}}'}
---
apiVersion: v1
kind: List
items:
- apiVersion: eventing.knative.dev/v1beta2
  kind: EventType
  metadata: {name: listed}
  spec: {type: listed.one, schemaData: ""}
"#;
        let found = read_text(text);
        assert_eq!(found.faults, []);
        let kinds: Vec<&str> = found.types.iter().map(|t| t.kind.as_str()).collect();
        assert_eq!(kinds, ["word.count", "old.one", "new.one", "listed.one"]);
        let addresses: Vec<Option<&str>> =
            found.types.iter().map(|t| t.address.as_deref()).collect();
        let broker = "http://broker-ingress.knative-eventing.svc.cluster.local/default/default";
        let service = "http://word-count.default.svc.cluster.local";
        assert_eq!(addresses, [Some(service), Some(broker), None, None]);
        let [count, _, new, _] = &found.types[..] else { panic!("{found:?}") };
        assert_eq!(count.description, "Counts words.");
        assert_eq!(count.parameters["properties"]["text"]["description"], "the text");
        assert_eq!(new.parameters["properties"], json!({"n": {"type": "integer"}}));
        assert_eq!(new.attributes, BTreeMap::from([("region".to_owned(), "north".to_owned())]));
    }

    #[test]
    fn a_broken_one_is_a_fault_of_its_own() {
        let head =
            "apiVersion: eventing.knative.dev/v1beta2\nkind: EventType\nmetadata: {name: x}\n";
        let new = head.replace("v1beta2", "v1beta3");
        let cases = [
            (format!("{head}spec: {{description: a}}"), "event type \"x\": it has no type"),
            (format!("{head}spec: {{type: a, schemaData: '{{'}}"), "schemaData is no JSON"),
            (head.replace("v1beta2", "v2") + "spec: {type: a}", "is of version \"v2\""),
            (format!("{head}spec: {{type: 5}}"), "document 2: invalid type"),
            ("a: [".to_owned(), "it is no YAML"),
            (
                format!("{new}spec: {{attributes: [{{name: type, value: 'a.{{b}}'}}]}}"),
                "no fixed value",
            ),
            (
                format!(
                    "{new}spec: {{attributes: [{{name: type, value: a}}, {{name: z, required: true}}]}}"
                ),
                "its attribute \"z\" is needed",
            ),
        ];
        for (text, expected) in cases {
            let whole = format!("{head}spec: {{type: good}}\n---\n{text}");
            let found = read_text(&whole);
            assert!(
                matches!(&found.faults[..], [fault] if fault.what.contains(expected)),
                "{found:?}"
            );
            // A text that is no YAML has no parts.
            assert_eq!(found.types.len(), usize::from(!expected.contains("YAML")), "{whole}");
        }
        let twice = format!("{head}spec: {{type: a}}\n---\n{head}spec: {{type: a}}");
        assert!(read_text(&twice).faults[0].what.contains("stands in another one already"));
    }

    #[test]
    fn a_folder_is_read_file_by_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert!(EventTypes::load(&path.join("none")).is_err());
        let one = |kind: &str| {
            format!(
                "apiVersion: eventing.knative.dev/v1beta2\nkind: EventType\nspec: {{type: {kind}}}\n"
            )
        };
        for (file, text) in [
            ("b.yaml", one("b")),
            ("a.yml", one("a")),
            ("c.json", r#"{"apiVersion":"eventing.knative.dev/v1beta2","kind":"EventType","spec":{"type":"c"}}"#.to_owned()),
            (".hidden.yaml", one("h")),
            ("readme.md", one("r")),
            ("broken.yaml", "a: [".to_owned()),
        ] {
            fs::write(path.join(file), text).unwrap();
        }
        fs::create_dir(path.join("d.yaml")).unwrap();
        let found = EventTypes::load(path).unwrap();
        let kinds: Vec<&str> = found.types.iter().map(|t| t.kind.as_str()).collect();
        assert_eq!(kinds, ["a", "b", "c"]);
        let faulty: Vec<_> =
            found.faults.iter().map(|fault| fault.file.file_name().unwrap()).collect();
        assert_eq!(faulty, ["broken.yaml", "d.yaml"]);
        let alone = EventTypes::load(&path.join("b.yaml")).unwrap();
        assert_eq!(alone.types.len(), 1);
    }

    #[test]
    fn references_become_addresses_within_the_cluster() {
        let of = |version: &str, kind: &str, name: &str, namespace: Option<&str>| {
            let reference = Reference {
                api_version: version.to_owned(),
                kind: kind.to_owned(),
                name: name.to_owned(),
                namespace: namespace.map(str::to_owned),
            };
            reference.address("shop")
        };
        let broker = "http://broker-ingress.knative-eventing.svc.cluster.local";
        let cases = [
            (of("eventing.knative.dev/v1", "Broker", "b", None), Some(format!("{broker}/shop/b"))),
            (
                of("eventing.knative.dev/v1", "Broker", "b", Some("x")),
                Some(format!("{broker}/x/b")),
            ),
            (of("v1", "Service", "s", None), Some("http://s.shop.svc.cluster.local".to_owned())),
            (
                of("serving.knative.dev/v1", "Service", "s", Some("x")),
                Some("http://s.x.svc.cluster.local".to_owned()),
            ),
            (
                of("messaging.knative.dev/v1", "InMemoryChannel", "c", None),
                Some("http://c-kn-channel.shop.svc.cluster.local".to_owned()),
            ),
            (of("apps/v1", "Deployment", "d", None), None),
            (of("eventing.knative.dev/v1", "Trigger", "t", None), None),
            // What would be more than a part of the address is none.
            (of("v1", "Service", "s/../x", None), None),
            (of("v1", "Service", "s.evil.test", None), None),
            (of("v1", "Service", "", None), None),
            (of("v1", "Service", "s", Some("a@b")), None),
        ];
        for (found, expected) in cases {
            assert_eq!(found, expected);
        }
    }
}
