//! The table of type facts, parsed once.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The way in which one Go type reads and writes JSON.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Type {
    String,
    Bool,
    Int32,
    Int64,
    Float,
    Bytes,
    /// Any JSON, passed through.
    Raw,
    Quantity,
    IntOrString,
    Time,
    /// A semantic version, read leniently.
    Version,
    /// The release of a version: identifiers of a pre-release.
    Release,
    /// `JSONSchemaPropsOrBool` and its two siblings.
    SchemaOrBool,
    SchemaOrArray,
    SchemaOrStrings,
    Pointer(Box<Type>),
    Slice(Box<Type>),
    Map(Box<Type>),
    /// An index into [`Types::structs`].
    Struct(usize),
}

impl Type {
    /// Returns whether it is a struct to Go's encoder, which never counts one as empty.
    pub(super) fn is_struct(&self) -> bool {
        match self {
            Self::Quantity
            | Self::IntOrString
            | Self::Time
            | Self::Version
            | Self::Release
            | Self::SchemaOrBool
            | Self::SchemaOrArray
            | Self::SchemaOrStrings
            | Self::Struct(_) => true,
            Self::String
            | Self::Bool
            | Self::Int32
            | Self::Int64
            | Self::Float
            | Self::Bytes
            | Self::Raw
            | Self::Pointer(_)
            | Self::Slice(_)
            | Self::Map(_) => false,
        }
    }
}

/// One JSON field of a struct.
#[derive(Debug)]
pub(super) struct Field {
    pub name: String,
    pub omit_empty: bool,
    pub omit_zero: bool,
    pub kind: Type,
}

/// Every struct of the table.
#[derive(Debug)]
pub(super) struct Types {
    pub structs: Vec<Vec<Field>>,
    names: HashMap<String, usize>,
}

impl Types {
    /// The struct of this name in the table; an unknown name is an empty struct, which the test of the table excludes.
    pub(super) fn named(&self, name: &str) -> Type {
        self.names.get(name).map_or(Type::Raw, |&index| Type::Struct(index))
    }

    pub(super) fn schema(&self) -> Type {
        self.named("apiextensions.JSONSchemaProps")
    }

    fn parse(table: &str) -> Self {
        let lines = || table.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let mut types = Self { structs: Vec::new(), names: HashMap::new() };
        for name in lines().filter(|line| !line.starts_with(' ')) {
            types.names.insert(name.to_owned(), types.names.len());
        }
        for line in lines() {
            let Some(field) = line.strip_prefix(' ') else {
                types.structs.push(Vec::new());
                continue;
            };
            let (name, kind) = field.split_once(' ').unwrap_or((field, "raw"));
            let kind = types.reference(kind);
            let plain = name.trim_end_matches(['?', '!']);
            let marks = &name[plain.len()..];
            let field = Field { name: plain.to_owned(), omit_empty: marks.contains('?'), omit_zero: marks.contains('!'), kind };
            if let Some(last) = types.structs.last_mut() {
                last.push(field);
            }
        }
        types
    }

    fn reference(&self, text: &str) -> Type {
        if let Some(rest) = text.strip_prefix('*') {
            return Type::Pointer(Box::new(self.reference(rest)));
        }
        if let Some(rest) = text.strip_prefix("[]") {
            return Type::Slice(Box::new(self.reference(rest)));
        }
        if let Some(rest) = text.strip_prefix("{}") {
            return Type::Map(Box::new(self.reference(rest)));
        }
        match text {
            "string" => Type::String,
            "bool" => Type::Bool,
            "int32" => Type::Int32,
            "int64" => Type::Int64,
            "float" => Type::Float,
            "bytes" => Type::Bytes,
            "quantity" => Type::Quantity,
            "intorstring" => Type::IntOrString,
            "time" => Type::Time,
            "version" => Type::Version,
            "release" => Type::Release,
            "JSONSchemaPropsOrBool" => Type::SchemaOrBool,
            "JSONSchemaPropsOrArray" => Type::SchemaOrArray,
            "JSONSchemaPropsOrStringArray" => Type::SchemaOrStrings,
            name => self.named(name),
        }
    }
}

/// The table that ships with the crate.
pub(super) static TYPES: LazyLock<Types> = LazyLock::new(|| Types::parse(include_str!("types.txt")));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_of_the_table_is_known() {
        const OPAQUE: [&str; 1] = ["raw"];
        for line in include_str!("types.txt").lines().filter(|line| line.starts_with(' ')) {
            let (_, kind) = line.trim_start().split_once(' ').unwrap_or_default();
            let base = kind.trim_start_matches(['*', '[', ']', '{', '}']);
            let base_type = TYPES.reference(base);
            assert!(base_type != Type::Raw || OPAQUE.contains(&base), "unknown type {base:?} in {line:?}");
        }
        assert!(TYPES.structs.len() > 150);
    }
}
