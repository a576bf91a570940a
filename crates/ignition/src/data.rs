//! Values of a config: structs along a [`Type`], and what is in them.

use std::collections::BTreeMap;

use crate::model::{Kind, Type};

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// No value, or no list. A list that is empty is something else.
    Absent,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Data>),
    /// A struct.
    Struct(Struct),
    /// Texts by names.
    Texts(BTreeMap<String, String>),
}

static ABSENT: Data = Data::Absent;

impl Data {
    /// The value that a field has if nothing is said.
    pub(crate) fn zero(kind: &Kind) -> Data {
        match kind {
            Kind::Bool => Data::Bool(false),
            Kind::Int | Kind::Unsigned(_) => Data::Int(0),
            Kind::Text(_) => Data::Text(String::new()),
            Kind::Optional(_) | Kind::List(..) | Kind::Texts => Data::Absent,
            Kind::Struct(of) => Data::Struct(Struct::new(of)),
        }
    }

    /// Returns whether it is the value that a field has if nothing is said.
    pub(crate) fn is_zero(&self, kind: &Kind) -> bool {
        match (self, kind) {
            (Data::Absent, _) => true,
            (_, Kind::Optional(_) | Kind::List(..) | Kind::Texts) => false,
            (Data::Bool(set), _) => !set,
            (Data::Int(number), _) => *number == 0,
            (Data::Text(text), _) => text.is_empty(),
            (Data::List(items), _) => items.is_empty(),
            (Data::Struct(of), _) => of.is_zero(),
            (Data::Texts(texts), _) => texts.is_empty(),
        }
    }

    /// Returns whether it is left out of the text of a config where it may be.
    pub(crate) fn is_empty(&self, kind: &Kind) -> bool {
        match (self, kind) {
            (Data::List(items), _) => items.is_empty(),
            (Data::Struct(of), Kind::Struct(_)) => of.entries().all(|(field, value)| value.is_empty(&field.kind)),
            _ => self.is_zero(kind),
        }
    }

    /// The text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Data::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The struct.
    pub fn as_struct(&self) -> Option<&Struct> {
        match self {
            Data::Struct(of) => Some(of),
            _ => None,
        }
    }

    /// The text, if there is one that is not empty.
    pub(crate) fn not_empty(&self) -> Option<&str> {
        self.as_text().filter(|text| !text.is_empty())
    }
}

/// A struct's values, one a field of its type.
#[derive(Clone)]
pub struct Struct {
    of: &'static Type,
    values: Vec<Data>,
}

impl Struct {
    /// A struct of which nothing is said.
    pub fn new(of: &'static Type) -> Self {
        Self { of, values: of.fields.iter().map(|field| Data::zero(&field.kind)).collect() }
    }

    /// Its type.
    pub fn of(&self) -> &'static Type {
        self.of
    }

    /// Its fields and their values, in written order.
    pub fn entries(&self) -> impl Iterator<Item = (&'static crate::model::Field, &Data)> {
        self.of.fields.iter().zip(&self.values)
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.entries().all(|(field, value)| value.is_zero(&field.kind))
    }

    /// The value of a field; absent if the type has no such field.
    pub fn get(&self, name: &str) -> &Data {
        self.of.index(name).map_or(&ABSENT, |index| &self.values[index])
    }

    /// The value of a field for changing.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Data> {
        self.of.index(name).map(|index| &mut self.values[index])
    }

    pub(crate) fn at_mut(&mut self, index: usize) -> &mut Data {
        &mut self.values[index]
    }

    pub(crate) fn at(&self, index: usize) -> &Data {
        &self.values[index]
    }

    /// Sets a field; nothing happens if the type has no such field.
    pub fn set(&mut self, name: &str, value: Data) {
        if let Some(slot) = self.get_mut(name) {
            *slot = value;
        }
    }

    /// The text of a field, if there is one.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).as_text()
    }

    /// The text of a field, empty if there is none.
    pub fn text_or_empty(&self, name: &str) -> &str {
        self.text(name).unwrap_or_default()
    }

    /// The number of a field.
    pub fn int(&self, name: &str) -> Option<i64> {
        match self.get(name) {
            Data::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// The truth of a field, if it is said.
    pub fn bool(&self, name: &str) -> Option<bool> {
        match self.get(name) {
            Data::Bool(set) => Some(*set),
            _ => None,
        }
    }

    /// Returns whether a field is said to be true.
    pub fn is_true(&self, name: &str) -> bool {
        self.bool(name) == Some(true)
    }

    /// The entries of a list.
    pub fn list(&self, name: &str) -> &[Data] {
        match self.get(name) {
            Data::List(items) => items,
            _ => &[],
        }
    }

    /// The structs of a list.
    pub fn structs(&self, name: &str) -> impl Iterator<Item = &Struct> {
        self.list(name).iter().filter_map(Data::as_struct)
    }

    /// The texts of a list.
    pub fn texts(&self, name: &str) -> impl Iterator<Item = &str> {
        self.list(name).iter().filter_map(Data::as_text)
    }

    /// The struct in a field.
    pub fn child(&self, name: &str) -> Option<&Struct> {
        self.get(name).as_struct()
    }

    /// Returns whether a field has a value.
    pub fn has(&self, name: &str) -> bool {
        *self.get(name) != Data::Absent
    }

    /// The key that makes an entry of a list the same as another one.
    pub(crate) fn key(&self) -> String {
        let field = match self.of.name.as_str() {
            "Disk" | "Filesystem" => "device",
            "File" | "Directory" | "Link" => "path",
            "Resource" | "ConfigReference" | "CaReference" | "FileContents" => "source",
            "Tang" => "url",
            "Partition" => return self.partition_key(),
            _ => "name",
        };
        self.text_or_empty(field).to_owned()
    }

    fn partition_key(&self) -> String {
        match (self.int("number"), self.text("label")) {
            (Some(number), _) if number != 0 => format!("number:{number}"),
            (_, Some(label)) => format!("label:{label}"),
            _ => String::new(),
        }
    }
}

impl PartialEq for Struct {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.of, other.of) && self.values == other.values
    }
}

impl std::fmt::Debug for Struct {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = out.debug_struct(&self.of.name);
        for (field, value) in self.entries().filter(|(field, value)| !value.is_zero(&field.kind)) {
            shown.field(&field.name, value);
        }
        shown.finish_non_exhaustive()
    }
}
