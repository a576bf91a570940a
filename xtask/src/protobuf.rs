//! `xtask protobuf`: reads the protobuf and Go declarations of Kubernetes' API types and writes the table that `mainstay-protobuf` embeds.
//!
//! ```text
//! GO-MODULE/**/generated.proto ──┐  messages: numbers, types, repeated or map
//! GO-MODULE/**/*.go ─────────────┼─> crates/protobuf/facts/messages.txt
//! crates/kinds/facts ────────────┘  structs: JSON names, pointers, omitempty, inline; roots: the kinds that are served
//! ```
//! The folders are those of the Go modules `k8s.io/api`, `k8s.io/apimachinery`, `k8s.io/apiextensions-apiserver` and
//! `k8s.io/kube-aggregator`. The form of the table is documented where it is read (`crates/protobuf/src/table.rs`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use regex::Regex;
use serde_json::Value;

/// Messages whose JSON form is their own: the letter that stands for them in the table.
const SPECIAL: &[(&str, char)] = &[
    ("k8s.io.apimachinery.pkg.api.resource.Quantity", 'q'),
    ("k8s.io.apimachinery.pkg.apis.meta.v1.FieldsV1", 'f'),
    ("k8s.io.apimachinery.pkg.apis.meta.v1.MicroTime", 'T'),
    ("k8s.io.apimachinery.pkg.apis.meta.v1.Time", 't'),
    ("k8s.io.apimachinery.pkg.runtime.RawExtension", 'r'),
    ("k8s.io.apimachinery.pkg.util.intstr.IntOrString", 'o'),
    ("k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSON", 'f'),
    ("k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray", 'A'),
    ("k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool", 'B'),
    ("k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray", 'S'),
];
const META: &str = "k8s.io.apimachinery.pkg.apis.meta.v1";
/// Kinds that clients send and read beside the kinds of resources.
const META_KINDS: &[&str] = &[
    "APIGroup",
    "APIGroupList",
    "APIResourceList",
    "APIVersions",
    "CreateOptions",
    "DeleteOptions",
    "GetOptions",
    "List",
    "ListOptions",
    "PartialObjectMetadata",
    "PartialObjectMetadataList",
    "PatchOptions",
    "Status",
    "UpdateOptions",
];

/// Reads the modules in `folders` and writes the table into `out`.
pub fn run(folders: &[PathBuf], resources: &Path, out: &Path) -> Result<()> {
    let mut declared = Declared::default();
    for folder in folders {
        declared.read(folder)?;
    }
    let resources: Value = serde_json::from_str(&fs::read_to_string(resources)?)?;
    let text = declared.table(&roots(&resources))?;
    fs::create_dir_all(out)?;
    let path = out.join("messages.txt");
    fs::write(&path, text).with_context(|| format!("{}: cannot be written", path.display()))
}

/// Group, version and kind of everything that is served.
fn roots(resources: &Value) -> BTreeSet<(String, String, String)> {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let list = |value: &Value, key: &str| value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let mut roots = BTreeSet::new();
    for resource in list(resources, "resources") {
        let own = (text(&resource, "group").unwrap_or_default(), text(&resource, "version").unwrap_or_default());
        roots.insert((own.0.clone(), own.1.clone(), text(&resource, "kind").unwrap_or_default()));
        for sub in list(&resource, "subresources") {
            let (group, version) = match text(&sub, "version") {
                Some(version) => (text(&sub, "group").unwrap_or_default(), version),
                None => own.clone(),
            };
            roots.insert((group, version, text(&sub, "kind").unwrap_or_default()));
        }
    }
    roots
}

#[derive(Default)]
struct Declared {
    /// Group and version to package.
    packages: BTreeMap<(String, String), String>,
    /// Full name to fields.
    messages: BTreeMap<String, Vec<Field>>,
    /// Full name to the Go declaration of the field with that number.
    structs: BTreeMap<String, BTreeMap<u32, GoField>>,
    /// Go types that are lists of strings under a name of their own.
    lists: BTreeSet<String>,
}

struct Field {
    number: u32,
    name: String,
    form: Form,
    of: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    One,
    Repeated,
    Map,
}

#[allow(clippy::struct_excessive_bools, reason = "four independent marks of a declaration")]
struct GoField {
    json: String,
    pointer: bool,
    omitempty: bool,
    omitzero: bool,
    inline: bool,
}

impl Declared {
    fn read(&mut self, folder: &Path) -> Result<()> {
        let entries: BTreeSet<PathBuf> = fs::read_dir(folder)
            .with_context(|| format!("{}: cannot be read", folder.display()))?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<std::io::Result<_>>()?;
        let proto = folder.join("generated.proto");
        if proto.is_file() {
            let package = self.read_proto(&proto)?;
            for file in entries.iter().filter(|path| is_source(path)) {
                self.read_go(&package, file)?;
            }
        }
        entries.iter().filter(|path| path.is_dir()).try_for_each(|path| self.read(path))
    }

    fn read_proto(&mut self, path: &Path) -> Result<String> {
        let text = fs::read_to_string(path)?;
        let package =
            Regex::new(r"(?m)^package (\S+);")?.captures(&text).with_context(|| format!("{}: no package", path.display()))?[1].to_owned();
        let one = Regex::new(r"^(optional|repeated) (\S+) (\w+) = (\d+)")?;
        let map = Regex::new(r"^map<string, (\S+)> (\w+) = (\d+)")?;
        let full = |name: &str| match name.strip_prefix('.') {
            Some(full) => full.to_owned(),
            None if name.starts_with(char::is_uppercase) => format!("{package}.{name}"),
            None => name.to_owned(),
        };
        let mut message: Option<(String, Vec<Field>)> = None;
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix("message ") {
                let name = name.trim_end_matches('{').trim();
                message = Some((format!("{package}.{name}"), Vec::new()));
            } else if line == "}" {
                self.messages.extend(message.take());
            } else if let Some((_, fields)) = &mut message {
                if let Some(found) = one.captures(line) {
                    let form = if &found[1] == "repeated" { Form::Repeated } else { Form::One };
                    fields.push(Field { number: found[4].parse()?, name: found[3].to_owned(), form, of: full(&found[2]) });
                } else if let Some(found) = map.captures(line) {
                    fields.push(Field { number: found[3].parse()?, name: found[2].to_owned(), form: Form::Map, of: full(&found[1]) });
                } else {
                    ensure!(line.is_empty() || line.starts_with("//"), "{}: {line:?} is not understood", path.display());
                }
            }
        }
        Ok(package)
    }

    fn read_go(&mut self, package: &str, path: &Path) -> Result<()> {
        let text = fs::read_to_string(path)?;
        if let Some(found) = Regex::new(r#"(?m)^const GroupName = "(.*)""#)?.captures(&text) {
            let version = package.rsplit('.').next().unwrap_or_default();
            self.packages.insert((found[1].to_owned(), version.to_owned()), package.to_owned());
        }
        for found in Regex::new(r"(?m)^type (\w+) \[\]string")?.captures_iter(&text) {
            self.lists.insert(format!("{package}.{}", &found[1]));
        }
        let start = Regex::new(r"^type (\w+) struct \{")?;
        let tagged = Regex::new(r"^\s+(?:\w+\s+)?(\S+)\s+`(.*)`")?;
        let json = Regex::new(r#"json:"([^"]*)""#)?;
        let wire = Regex::new(r#"protobuf:"[a-z0-9]+,(\d+),"#)?;
        let mut current: Option<(String, BTreeMap<u32, GoField>)> = None;
        for line in text.lines() {
            if let Some(found) = start.captures(line) {
                current = Some((format!("{package}.{}", &found[1]), BTreeMap::new()));
            } else if line.starts_with('}') {
                self.structs.extend(current.take());
            } else if let (Some((_, fields)), Some(found)) = (&mut current, tagged.captures(line)) {
                let Some(number) = wire.captures(&found[2]) else { continue };
                let json = json.captures(&found[2]).map(|found| found[1].to_owned()).unwrap_or_default();
                let mut parts = json.split(',');
                let name = parts.next().unwrap_or_default().to_owned();
                let options: Vec<&str> = parts.collect();
                fields.insert(
                    number[1].parse()?,
                    GoField {
                        json: name,
                        pointer: found[1].starts_with('*'),
                        omitempty: options.contains(&"omitempty"),
                        omitzero: options.contains(&"omitzero"),
                        inline: options.contains(&"inline"),
                    },
                );
            }
        }
        Ok(())
    }

    /// The table of everything that the roots reach.
    fn table(&self, roots: &BTreeSet<(String, String, String)>) -> Result<String> {
        let mut wanted: VecDeque<String> = META_KINDS.iter().map(|kind| format!("{META}.{kind}")).collect();
        let mut served: BTreeMap<&str, String> = BTreeMap::from([(META, "meta.k8s.io/v1".to_owned())]);
        for (group, version, kind) in roots {
            let package = self
                .packages
                .get(&(group.clone(), version.clone()))
                .with_context(|| format!("no package declares the group {group:?} with the version {version}"))?;
            served.insert(package, if group.is_empty() { version.clone() } else { format!("{group}/{version}") });
            for name in [format!("{package}.{kind}"), format!("{package}.{kind}List")] {
                // Subresources such as the options of `exec` and reviews have no list.
                if self.messages.contains_key(&name) {
                    wanted.push_back(name);
                } else if !name.ends_with("List") {
                    bail!("the kind {kind} of {group}/{version} has no message {name}");
                }
            }
        }
        let mut reached: BTreeMap<(&str, &str), String> = BTreeMap::new();
        while let Some(name) = wanted.pop_front() {
            let (name, fields) = self.messages.get_key_value(&name).with_context(|| format!("no message {name}"))?;
            let (package, bare) = name.rsplit_once('.').context("a message without package")?;
            if reached.contains_key(&(package, bare)) {
                continue;
            }
            let mut line = bare.to_owned();
            for field in fields {
                let go = self.structs.get(name).and_then(|fields| fields.get(&field.number));
                let go = go.with_context(|| format!("{name}.{}: no Go field has the number {}", field.name, field.number))?;
                line.push(' ');
                line.push_str(&self.entry(package, field, go, &mut wanted)?);
            }
            reached.insert((package, bare), line);
        }
        let mut out = String::new();
        let mut last = "";
        for ((package, _), line) in &reached {
            if *package != last {
                last = package;
                writeln!(out, "@{} {}", short(package), served.get(package).map_or("-", String::as_str))?;
            }
            writeln!(out, "{line}")?;
        }
        Ok(out)
    }

    fn entry(&self, package: &str, field: &Field, go: &GoField, wanted: &mut VecDeque<String>) -> Result<String> {
        let mut message = None;
        let letter = match field.of.as_str() {
            "string" => 's',
            "bool" => 'b',
            "int32" => 'i',
            "int64" => 'l',
            "double" => 'd',
            "bytes" => 'y',
            name if self.lists.contains(name) => 'L',
            name => match SPECIAL.iter().find(|(special, _)| *special == name) {
                Some((_, letter)) => {
                    if "ABS".contains(*letter) {
                        wanted.push_back(name.rsplit_once("PropsOr").map(|(head, _)| format!("{head}Props")).unwrap_or_default());
                    }
                    *letter
                }
                None if name.contains('.') => {
                    wanted.push_back(name.to_owned());
                    let (home, bare) = name.rsplit_once('.').context("a message without package")?;
                    message = Some(if home == package { bare.to_owned() } else { format!("{}.{bare}", short(home)) });
                    'm'
                }
                None => bail!("{}: the type {name} is not understood", field.name),
            },
        };
        let mut entry = format!("{}{letter}", field.number);
        entry.push_str(match field.form {
            Form::Repeated => "[",
            Form::Map => "{",
            Form::One if go.inline => ">",
            Form::One if go.pointer => "*",
            Form::One => "",
        });
        entry.push_str(if go.omitempty { "?" } else { "" });
        entry.push_str(if go.omitzero { "~" } else { "" });
        if go.inline {
            ensure!(letter == 'm', "{}: only messages can be inline", field.name);
        } else {
            ensure!(!go.json.is_empty() && go.json != "-", "{}: no JSON name", field.name);
            entry.push_str(&go.json);
        }
        if let Some(message) = message {
            write!(entry, ":{message}")?;
        }
        Ok(entry)
    }
}

fn is_source(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    Path::new(name).extension().is_some_and(|extension| extension == "go") && !name.ends_with("_test.go") && !name.contains("generated")
}

/// The last two parts of a package's name.
fn short(package: &str) -> String {
    let mut parts: Vec<&str> = package.rsplit('.').take(2).collect();
    parts.reverse();
    parts.join(".")
}
