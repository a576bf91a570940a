//! The table of messages, read from the embedded facts at first use.
//!
//! ```text
//! @apps.v1 apps/v1                                 package, apiVersion of its kinds ("-" for none)
//! DeploymentSpec 1i*?replicas 3mtemplate:core.v1.PodTemplateSpec ...
//!                ││││└ JSON name    └ message; without a dot: of the same package
//!                │││└ `?` omitempty, `~` omitzero
//!                ││└ nothing: a value; `*` pointer; `>` inline (no name); `[` list; `{` map of strings
//!                │└ type: see `Kind::read`
//!                └ field number
//! ```
//! `cargo xtask protobuf` writes it.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The place where the embedded facts do not have their documented form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct InvalidTable(String);

const FACTS: &str = include_str!("../facts/messages.txt");
const META: &str = "meta.v1";
/// The declaration of recursive schemas, whose variants have a JSON form of their own.
const SCHEMA: &str = "apiextensions.v1.JSONSchemaProps";

/// All messages.
pub(crate) struct Table {
    messages: Vec<Message>,
    by_name: HashMap<String, usize>,
    /// apiVersion to package.
    packages: HashMap<&'static str, &'static str>,
    schema: usize,
}

/// One message; its fields in the order of their numbers.
pub(crate) struct Message {
    pub(crate) name: &'static str,
    pub(crate) fields: Vec<Field>,
    /// The numbers of the fields in the order of Go's struct.
    declared: Vec<u32>,
}

/// One field of a message.
pub(crate) struct Field {
    pub(crate) number: u32,
    pub(crate) json: &'static str,
    pub(crate) kind: Kind,
    pub(crate) form: Form,
    pub(crate) omitempty: bool,
    pub(crate) omitzero: bool,
}

/// The form in which a field is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Always on the wire, whatever its value.
    Plain,
    Pointer,
    /// Its fields are those of the message that holds it.
    Inline,
    Repeated,
    Map,
}

/// The content of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Bool,
    Int32,
    Int64,
    Double,
    Bytes,
    Message(usize),
    Quantity,
    Time,
    MicroTime,
    IntOrString,
    /// JSON text in a message: `FieldsV1`, `JSON`.
    Json,
    /// Likewise, but what it holds may be an enveloped object.
    Extension,
    /// A list of texts in a message: `ExtraValue`, `Verbs`.
    Texts,
    SchemaOrArray,
    SchemaOrBool,
    SchemaOrTexts,
}

/// The embedded table.
pub(crate) fn table() -> &'static Table {
    static TABLE: LazyLock<Table> = LazyLock::new(|| {
        // The facts are generated and checked in; every test of this crate reads them.
        #[allow(clippy::expect_used, reason = "embedded text, read by every test of this crate")]
        Table::read(FACTS).expect("the embedded facts have their documented form")
    });
    &TABLE
}

impl Table {
    fn read(text: &'static str) -> Result<Self, InvalidTable> {
        let (mut by_name, mut packages, mut lines) = (HashMap::new(), HashMap::new(), Vec::new());
        let mut package = "";
        for line in text.lines() {
            if let Some(head) = line.strip_prefix('@') {
                let (name, api_version) = head.split_once(' ').ok_or_else(|| InvalidTable(format!("{line:?}: no apiVersion")))?;
                package = name;
                packages.insert(api_version, name);
            } else {
                let (name, fields) = line.split_once(' ').unwrap_or((line, ""));
                by_name.insert(format!("{package}.{name}"), lines.len());
                lines.push((package, name, fields));
            }
        }
        let mut messages = Vec::with_capacity(lines.len());
        for (package, name, entries) in lines {
            let mut fields = Vec::new();
            for entry in entries.split_terminator(' ') {
                fields.push(Field::read(entry, package, &by_name).ok_or_else(|| InvalidTable(format!("{package}.{name}: {entry:?}")))?);
            }
            let declared = fields.iter().map(|field| field.number).collect();
            fields.sort_by_key(|field| field.number);
            // Decoding marks the fields that it saw in so many bits.
            if fields.len() > 128 {
                return Err(InvalidTable(format!("{package}.{name}: more than 128 fields")));
            }
            messages.push(Message { name, fields, declared });
        }
        let schema = *by_name.get(SCHEMA).ok_or_else(|| InvalidTable(format!("no message {SCHEMA}")))?;
        Ok(Self { messages, by_name, packages, schema })
    }

    /// The message of a kind. Options, `Status` and the like go with every group version.
    pub(crate) fn kind(&self, api_version: &str, kind: &str) -> Option<&Message> {
        let of = |package: &str| self.by_name.get(&format!("{package}.{kind}")).map(|at| self.message(*at));
        self.packages.get(api_version).and_then(|package| of(package)).or_else(|| {
            let general = api_version == "v1" || kind.ends_with("Options");
            if general { of(META) } else { None }
        })
    }

    pub(crate) fn message(&self, at: usize) -> &Message {
        &self.messages[at]
    }

    /// The recursive schema of CustomResourceDefinitions.
    pub(crate) fn schema(&self) -> &Message {
        self.message(self.schema)
    }
}

impl Message {
    /// The fields in the order of Go's struct, those of embedded structs in their place.
    pub(crate) fn declared(&self) -> Vec<&Field> {
        let fields = self.declared.iter().filter_map(|number| self.field(*number)).map(|(_, field)| field);
        fields
            .flat_map(|field| match (field.form, field.kind) {
                (Form::Inline, Kind::Message(at)) => table().message(at).declared(),
                _ => vec![field],
            })
            .collect()
    }

    /// The position and the field of that number.
    pub(crate) fn field(&self, number: u32) -> Option<(usize, &Field)> {
        let at = self.fields.binary_search_by_key(&number, |field| field.number).ok()?;
        Some((at, &self.fields[at]))
    }
}

impl Field {
    fn read(entry: &'static str, package: &str, by_name: &HashMap<String, usize>) -> Option<Self> {
        let end = entry.find(|c: char| !c.is_ascii_digit())?;
        let number = entry[..end].parse().ok()?;
        let letter = entry[end..].chars().next()?;
        let mut rest = &entry[end + letter.len_utf8()..];
        let mut flag = |mark: char| match rest.strip_prefix(mark) {
            Some(after) => {
                rest = after;
                true
            }
            None => false,
        };
        let marks = [('*', Form::Pointer), ('>', Form::Inline), ('[', Form::Repeated), ('{', Form::Map)];
        let form = marks.into_iter().find(|(mark, _)| flag(*mark)).map_or(Form::Plain, |(_, form)| form);
        let (omitempty, omitzero) = (flag('?'), flag('~'));
        let (json, message) = rest.split_once(':').unwrap_or((rest, ""));
        let full = if message.contains('.') { message.to_owned() } else { format!("{package}.{message}") };
        let kind = Kind::read(letter, by_name.get(&full).copied())?;
        Some(Self { number, json, kind, form, omitempty, omitzero })
    }
}

impl Kind {
    fn read(letter: char, message: Option<usize>) -> Option<Self> {
        Some(match letter {
            's' => Self::Text,
            'b' => Self::Bool,
            'i' => Self::Int32,
            'l' => Self::Int64,
            'd' => Self::Double,
            'y' => Self::Bytes,
            'm' => Self::Message(message?),
            'q' => Self::Quantity,
            't' => Self::Time,
            'T' => Self::MicroTime,
            'o' => Self::IntOrString,
            'f' => Self::Json,
            'r' => Self::Extension,
            'L' => Self::Texts,
            'A' => Self::SchemaOrArray,
            'B' => Self::SchemaOrBool,
            'S' => Self::SchemaOrTexts,
            _ => return None,
        })
    }

    /// The name of the value in errors.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Bool => "a boolean",
            Self::Int32 => "an integer of 32 bits",
            Self::Int64 => "an integer of 64 bits",
            Self::Double => "a number",
            Self::Bytes => "a string of base64",
            Self::Message(_) => "an object",
            Self::Quantity => "a quantity",
            Self::Time => "a time (RFC 3339)",
            Self::MicroTime => "a time (RFC 3339 with microseconds)",
            Self::IntOrString => "an integer or a string",
            Self::Json | Self::Extension => "JSON",
            Self::Texts => "a list of strings",
            Self::SchemaOrArray => "a schema or a list of schemas",
            Self::SchemaOrBool => "a schema or a boolean",
            Self::SchemaOrTexts => "a schema or a list of strings",
        }
    }
}
