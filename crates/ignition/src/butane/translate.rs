//! Fields of a Butane config as the fields of an Ignition config that they stand for, with files and texts as data URLs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mainstay_golang::gzip_best;

use super::Making;
use super::files::{Files, FilesError};
use super::paths::{Paths, Way, is_plain, then, way};
use super::report::{Report, snake_case};
use super::variant::Variant;
use crate::data::{Data, Struct};
use crate::data_url;
use crate::model::{Kind, Type};

/// The sections of a config.
const SECTIONS: [(&str, &str); 5] = [
    ("ignition", "ignition"),
    ("kernel_arguments", "kernelArguments"),
    ("passwd", "passwd"),
    ("storage", "storage"),
    ("systemd", "systemd"),
];

/// Translates what has a counterpart of its own.
pub(super) fn base(config: &Struct, variant: Variant, files: &dyn Files, report: &mut Report) -> Making {
    let root = variant.spec().root();
    let mut translator = Translator { files, paths: Paths::default(), report };
    let mut made = Struct::new(root);
    for (from, to) in SECTIONS {
        let Some(index) = root.index(to) else { continue };
        let value = translator.value(config.get(from), &root.fields[index].kind, &way(from), &way(to));
        *made.at_mut(index) = value;
    }
    if let Some(Data::Struct(ignition)) = made.get_mut("ignition") {
        ignition.set("version", Data::Text(variant.spec().text().to_owned()));
    }
    translator.paths.add(&way("version"), &way("ignition.version"));
    translator.paths.add(&way("ignition"), &way("ignition"));
    Making { config: made, paths: translator.paths }
}

/// A part of a config alone, such as the Tang servers of the boot device.
pub(super) fn part(value: &Data, kind: &Kind, from: &Way, to: &Way, paths: &mut Paths) -> Data {
    let mut report = Report::default();
    let mut translator = Translator { files: &super::NoFiles, paths: Paths::default(), report: &mut report };
    let made = translator.value(value, kind, from, to);
    paths.append(translator.paths);
    made
}

struct Translator<'t> {
    files: &'t dyn Files,
    paths: Paths,
    report: &'t mut Report,
}

impl Translator<'_> {
    fn value(&mut self, value: &Data, kind: &Kind, from: &Way, to: &Way) -> Data {
        match (value, kind) {
            (Data::Absent, kind) => return Data::zero(kind),
            (Data::List(items), Kind::List(_, item)) => {
                let made = items.iter().enumerate().map(|(index, value)| self.value(value, item, &then(from, index), &then(to, index)));
                let made = made.collect();
                self.paths.add(from, to);
                return Data::List(made);
            }
            (Data::Struct(of), Kind::Struct(into)) => return Data::Struct(self.structure(of, into, from, to)),
            (value, Kind::Optional(inner)) if !is_plain(inner) => return self.value(value, inner, from, to),
            _ => {}
        }
        self.paths.add(from, to);
        value.clone()
    }

    fn structure(&mut self, of: &Struct, into: &'static Type, from: &Way, to: &Way) -> Struct {
        let mut made = Struct::new(into);
        for (index, field) in into.fields.iter().enumerate() {
            let name = snake_case(&field.name);
            if of.of().index(&name).is_some() {
                *made.at_mut(index) = self.value(of.get(&name), &field.kind, &then(from, name.as_str()), &then(to, field.name.as_str()));
            }
        }
        let is_always_said = match of.of().name.as_str() {
            "Resource" => {
                self.resource(of, &mut made, from, to);
                false
            }
            "PasswdUser" => {
                self.keys(of, &mut made, from, to);
                true
            }
            "Unit" | "Dropin" => {
                self.unit(of, &mut made, from, to);
                true
            }
            "File" | "Directory" | "Link" => true,
            _ => false,
        };
        if is_always_said || !of.is_zero() {
            self.paths.add(from, to);
        }
        made
    }

    fn resource(&mut self, of: &Struct, made: &mut Struct, from: &Way, to: &Way) {
        for field in ["local", "inline"] {
            let Some(text) = of.text(field) else { continue };
            let from = then(from, field);
            let content = if field == "local" { self.files.read(text) } else { Ok(text.as_bytes().to_vec()) };
            let content = match content {
                Ok(content) => content,
                Err(error) => return self.report.error(from, error),
            };
            let (url, compression) = as_url(&content, made.get("compression").not_empty());
            made.set("source", Data::Text(url));
            self.paths.add(&from, &then(to, "source"));
            if let Some(compression) = compression {
                made.set("compression", Data::Text(compression.to_owned()));
                self.paths.add(&from, &then(to, "compression"));
            }
        }
    }

    fn keys(&mut self, of: &Struct, made: &mut Struct, from: &Way, to: &Way) {
        if of.list("ssh_authorized_keys_local").is_empty() {
            return;
        }
        let (from, to) = (then(from, "ssh_authorized_keys_local"), then(to, "sshAuthorizedKeys"));
        self.paths.add(&from, &to);
        if !self.files.is_given() {
            return self.report.error(from, FilesError::NoFolder);
        }
        let mut keys = made.list("sshAuthorizedKeys").to_vec();
        for (index, file) in of.texts("ssh_authorized_keys_local").enumerate() {
            let from = then(&from, index);
            let content = match self.files.read(file) {
                Ok(content) => content,
                Err(error) => {
                    self.report.error(from, error);
                    continue;
                }
            };
            let text = String::from_utf8_lossy(&content).replace("\r\n", "\n");
            for line in text.split('\n').filter(|line| !line.is_empty()) {
                self.paths.add(&from, &then(&to, keys.len()));
                keys.push(Data::Text(line.to_owned()));
            }
        }
        if !keys.is_empty() {
            made.set("sshAuthorizedKeys", Data::List(keys));
        }
    }

    fn unit(&mut self, of: &Struct, made: &mut Struct, from: &Way, to: &Way) {
        let Some(file) = of.get("contents_local").not_empty() else { return };
        let from = then(from, "contents_local");
        match self.files.read(file) {
            Ok(content) => {
                self.paths.add(&from, &then(to, "contents"));
                made.set("contents", Data::Text(String::from_utf8_lossy(&content).into_owned()));
            }
            Err(error) => self.report.error(from, error),
        }
    }
}

/// The shortest data URL of a content, and the compression to set: none if the config says that the content is compressed already.
pub(super) fn as_url(content: &[u8], compression: Option<&str>) -> (String, Option<&'static str>) {
    let mut url = data_url::escaped(content);
    let base64 = format!("data:;base64,{}", STANDARD.encode(content));
    if base64.len() < url.len() {
        url = base64;
    }
    let mut chosen = Some("");
    if compression.is_some() {
        chosen = None;
    } else {
        let compressed = format!("data:;base64,{}", STANDARD.encode(gzip_best(content)));
        if compressed.len() + "gzip".len() < url.len() {
            url = compressed;
            chosen = Some("gzip");
        }
    }
    (url, chosen)
}
