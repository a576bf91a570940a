//! JSON into structs by the rules of Go's `encoding/json`: keys in any case, null ignored, the first wrong type remembered.

use crate::data::{Data, Struct};
use crate::model::{Kind, Type};
use crate::node::{Node, Value, unquoted};

/// A value that is not of the type of its field, in the words of Go's library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrongType {
    pub(crate) message: String,
    /// The byte after which the mistake was seen.
    pub(crate) offset: usize,
}

/// Reads a whole config; the values up to and after a wrong one are read all the same.
pub(crate) fn decode(node: &Node<'_>, of: &'static Type) -> (Struct, Option<WrongType>) {
    decode_by(node, of, Library::Current)
}

/// The first wrong type of a config, in the words of the library that Ignition 0.x uses.
pub(crate) fn wrong_type_of_old(node: &Node<'_>, of: &'static Type) -> Option<WrongType> {
    decode_by(node, of, Library::Old).1
}

fn decode_by(node: &Node<'_>, of: &'static Type, library: Library) -> (Struct, Option<WrongType>) {
    let mut decoder = Decoder { library, owner: None, path: Vec::new(), first: None, is_over: false };
    let mut value = Data::Struct(Struct::new(of));
    decoder.value(&mut value, &Kind::Struct(of), node);
    let whole = match value {
        Data::Struct(whole) => whole,
        _ => Struct::new(of),
    };
    (whole, decoder.first)
}

/// The library whose words are wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Library {
    Current,
    /// A copy from long ago: it names no fields, and stops at a number in the wrong place.
    Old,
}

struct Decoder {
    library: Library,
    /// The struct whose field is being read.
    owner: Option<&'static Type>,
    path: Vec<&'static str>,
    first: Option<WrongType>,
    /// True if nothing more is looked at.
    is_over: bool,
}

impl Decoder {
    fn value(&mut self, slot: &mut Data, kind: &Kind, node: &Node<'_>) {
        if let Kind::Optional(inner) = kind {
            if matches!(node.value, Value::Literal("null")) {
                *slot = Data::Absent;
                return;
            }
            if *slot == Data::Absent {
                *slot = Data::zero(inner);
            }
            return self.value(slot, inner, node);
        }
        if self.is_over {
            return;
        }
        match (&node.value, kind) {
            (Value::Literal("null"), Kind::List(..)) => *slot = Data::Absent,
            (Value::Literal("null"), _) => {}
            (Value::Literal(word @ ("true" | "false")), Kind::Bool) => *slot = Data::Bool(*word == "true"),
            (Value::Literal(text), Kind::Text(_)) if text.starts_with('"') => *slot = Data::Text(unquoted(text)),
            (Value::Literal(text), Kind::Int) if is_number(text) => match text.parse() {
                Ok(number) => *slot = Data::Int(number),
                Err(_) => self.wrong(&format!("number {text}"), kind, node.last + 1),
            },
            (Value::Literal(text), Kind::Unsigned(name)) if is_number(text) => {
                let largest = if name.as_deref() == Some("FileMode") { u64::from(u32::MAX) } else { u64::MAX };
                match text.parse::<u64>() {
                    Ok(number) if number <= largest => *slot = Data::Int(i64::try_from(number).unwrap_or(i64::MAX)),
                    _ => self.wrong(&format!("number {text}"), kind, node.last + 1),
                }
            }
            (Value::Literal(text), _) => {
                let found = match text.as_bytes().first() {
                    Some(b'"') => "string",
                    Some(b't' | b'f') => "bool",
                    _ => "number",
                };
                self.wrong(found, kind, node.last + 1);
            }
            (Value::Array(items), Kind::List(_, item)) => self.list(slot, item, items),
            (Value::Array(_), _) => self.wrong("array", kind, node.first + 1),
            (Value::Object(_), Kind::Struct(of)) => {
                if let Data::Struct(value) = slot {
                    self.members(value, of, node);
                }
            }
            (Value::Object(_), _) => self.wrong("object", kind, node.first + 1),
        }
    }

    /// A list that is given twice keeps what the second one does not say.
    fn list(&mut self, slot: &mut Data, kind: &Kind, nodes: &[Node<'_>]) {
        let mut items = match std::mem::replace(slot, Data::Absent) {
            Data::List(items) => items,
            _ => Vec::new(),
        };
        items.truncate(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            if index == items.len() {
                items.push(Data::zero(kind));
            }
            self.value(&mut items[index], kind, node);
        }
        *slot = Data::List(items);
    }

    fn members(&mut self, value: &mut Struct, of: &'static Type, node: &Node<'_>) {
        let Value::Object(members) = &node.value else { return };
        let (owner, depth) = (self.owner, self.path.len());
        for member in members {
            let Some(index) = field_for(of, &member.key) else { continue };
            let field = &of.fields[index];
            self.owner = Some(of);
            self.path.extend(field.embedded.as_deref());
            self.path.push(&field.name);
            self.value(value.at_mut(index), &field.kind, &member.node);
            self.owner = owner;
            self.path.truncate(depth);
        }
    }

    fn wrong(&mut self, found: &str, kind: &Kind, offset: usize) {
        if self.library == Library::Old && found == "number" {
            self.first = None;
            self.is_over = true;
        }
        if self.first.is_some() {
            return;
        }
        let kind = kind.go_name();
        let message = match self.owner.filter(|_| self.library == Library::Current) {
            Some(owner) => {
                let (owner, path) = (&owner.name, self.path.join("."));
                format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {kind}")
            }
            None => format!("json: cannot unmarshal {found} into Go value of type {kind}"),
        };
        self.first = Some(WrongType { message, offset });
    }
}

fn is_number(text: &str) -> bool {
    text.starts_with(|first: char| first == '-' || first.is_ascii_digit())
}

/// The field that a key belongs to: the one of this name, else the first that differs in case only.
fn field_for(of: &Type, key: &str) -> Option<usize> {
    of.index(key).or_else(|| of.fields.iter().position(|field| folded(&field.name).eq(folded(key))))
}

/// A text in which letters that Unicode folds together are the same.
fn folded(text: &str) -> impl Iterator<Item = char> {
    text.chars().map(|letter| match letter {
        '\u{17f}' => 'S',
        '\u{212a}' => 'K',
        letter => letter.to_ascii_uppercase(),
    })
}
