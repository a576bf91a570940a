//! The fields of each version of the specification, read once from the tables in `schema`.

use std::sync::LazyLock;

/// A version of the specification that configs are read in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Spec {
    /// 2.2.0.
    V2_2,
    /// 3.0.0.
    V3_0,
    /// 3.1.0.
    V3_1,
    /// 3.2.0.
    V3_2,
    /// 3.3.0.
    V3_3,
    /// 3.4.0.
    V3_4,
    /// 3.5.0, which only Butane configs become. Configs of this version are not read.
    V3_5,
}

impl Spec {
    /// The versions 3.x, oldest first.
    pub const V3: [Spec; 5] = [Spec::V3_0, Spec::V3_1, Spec::V3_2, Spec::V3_3, Spec::V3_4];

    /// The version as it stands in a config.
    pub fn text(self) -> &'static str {
        match self {
            Spec::V2_2 => "2.2.0",
            Spec::V3_0 => "3.0.0",
            Spec::V3_1 => "3.1.0",
            Spec::V3_2 => "3.2.0",
            Spec::V3_3 => "3.3.0",
            Spec::V3_4 => "3.4.0",
            Spec::V3_5 => "3.5.0",
        }
    }

    /// The type of a whole config.
    pub fn root(self) -> &'static Type {
        static ROOTS: LazyLock<[&'static Type; 7]> = LazyLock::new(|| {
            [
                include_str!("schema/v2_2.txt"),
                include_str!("schema/v3_0.txt"),
                include_str!("schema/v3_1.txt"),
                include_str!("schema/v3_2.txt"),
                include_str!("schema/v3_3.txt"),
                include_str!("schema/v3_4.txt"),
                include_str!("schema/v3_5.txt"),
            ]
            .map(|table| read(table, "types."))
        });
        ROOTS[self as usize]
    }
}

/// The type that only asks a config for its version.
pub(crate) fn stub() -> &'static Type {
    static STUB: LazyLock<&'static Type> = LazyLock::new(|| {
        let inner = Type {
            name: String::new(),
            full_name: "struct { Version string }".to_owned(),
            fields: vec![Field { name: "Version".to_owned(), embedded: None, kind: Kind::Text(None), omit_empty: false }],
        };
        let field =
            Field { name: "Ignition".to_owned(), embedded: None, kind: Kind::Struct(Box::leak(Box::new(inner))), omit_empty: false };
        let (name, full_name) = ("versionStub".to_owned(), "util.versionStub".to_owned());
        Box::leak(Box::new(Type { name, full_name, fields: vec![field] }))
    });
    &STUB
}

/// The type of a config of version 1, into which upstream reads what it can read as nothing newer.
pub(crate) fn first_version() -> &'static Type {
    static ROOT: LazyLock<&'static Type> = LazyLock::new(|| read(include_str!("schema/v1.txt"), "types."));
    &ROOT
}

/// The type of a config of 2.5, by which upstream words what is wrong with a config that is not even one of version 1.
pub(crate) fn last_of_old() -> &'static Type {
    static ROOT: LazyLock<&'static Type> = LazyLock::new(|| read(include_str!("schema/v2_5.txt"), "types."));
    &ROOT
}

/// A struct of a config.
#[derive(Debug)]
pub struct Type {
    /// Its name: `Storage`.
    pub name: String,
    /// Its name with the package, as messages have it.
    pub(crate) full_name: String,
    /// Its fields in their written order.
    pub fields: Vec<Field>,
}

/// A field of a struct.
#[derive(Debug)]
pub struct Field {
    /// Its name in JSON.
    pub name: String,
    /// The embedded struct that it comes from, as messages about wrong types have it.
    pub(crate) embedded: Option<String>,
    /// The type of its value.
    pub kind: Kind,
    /// True if an empty value is left out when it is written.
    pub omit_empty: bool,
}

/// The type of a value.
#[derive(Debug)]
pub enum Kind {
    /// True or false.
    Bool,
    /// A whole number.
    Int,
    /// A whole number that is not negative; with the name of its type if it has one of its own.
    Unsigned(Option<String>),
    /// A text; with the name of its type if it has one of its own.
    Text(Option<String>),
    /// A value that may be absent.
    Optional(Box<Kind>),
    /// A list; with the name of its type if it has one of its own.
    List(Option<String>, Box<Kind>),
    /// A struct.
    Struct(&'static Type),
    /// Texts by names.
    Texts,
}

impl Kind {
    /// The name of the type as Go writes it.
    pub(crate) fn go_name(&self) -> String {
        match self {
            Kind::Bool => "bool".to_owned(),
            Kind::Int => "int".to_owned(),
            Kind::Text(None) => "string".to_owned(),
            Kind::Unsigned(None) => "uint".to_owned(),
            Kind::Texts => "map[string]string".to_owned(),
            Kind::Text(Some(name)) | Kind::List(Some(name), _) if name.contains('.') => name.clone(),
            Kind::Text(Some(name)) | Kind::List(Some(name), _) | Kind::Unsigned(Some(name)) => format!("types.{name}"),
            Kind::Optional(inner) => format!("*{}", inner.go_name()),
            Kind::List(None, item) => format!("[]{}", item.go_name()),
            Kind::Struct(of) => of.full_name.clone(),
        }
    }
}

impl Type {
    /// The place of the field with this name.
    pub fn index(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }

    /// The struct that a field holds, directly or in a list.
    pub fn child(&self, name: &str) -> Option<&'static Type> {
        fn held(kind: &Kind) -> Option<&'static Type> {
            match kind {
                Kind::Struct(of) => Some(of),
                Kind::Optional(inner) | Kind::List(_, inner) => held(inner),
                _ => None,
            }
        }
        self.fields.iter().find(|field| field.name == name).and_then(|field| held(&field.kind))
    }

    /// Lists that keep repeated entries, and are joined when configs are merged.
    pub(crate) fn keeps_repeats(&self, field: &str) -> bool {
        matches!(
            (self.name.as_str(), field),
            ("Filesystem", "options" | "mountOptions") | ("Raid" | "Luks", "options") | ("File", "append")
        )
    }

    /// The name under which entries of a list must be unique, together with those of other lists of the same name.
    pub(crate) fn unique_in<'t>(&self, field: &'t str) -> &'t str {
        match (self.name.as_str(), field) {
            ("Storage", "directories" | "files" | "links") => "Node",
            ("KernelArguments", "shouldExist" | "shouldNotExist") => "KernelArgument",
            _ => field,
        }
    }
}

/// Reads a table. A line is a struct and its fields, `[EMBEDDED/]NAME[!]:TYPE`; `!` marks a field that is written even if empty. A struct
/// stands below those that it uses, and the last one is the config.
fn read(table: &str, package: &str) -> &'static Type {
    let mut types: Vec<&'static Type> = Vec::new();
    for line in table.lines() {
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else { continue };
        let fields = words.filter_map(|word| field(word, &types)).collect();
        let (short, full_name) = (name.rsplit('.').next().unwrap_or(name), format!("{package}{name}"));
        types.push(Box::leak(Box::new(Type { name: short.to_owned(), full_name, fields })));
    }
    // A table is part of the program and not empty; a test compares its words with what was read.
    types.pop().unwrap_or_else(|| Box::leak(Box::new(Type { name: String::new(), full_name: String::new(), fields: Vec::new() })))
}

/// Reads a table in which names of types have their packages.
pub(crate) fn read_named(table: &str) -> &'static Type {
    read(table, "")
}

fn field(word: &str, types: &[&'static Type]) -> Option<Field> {
    let (name, kind) = word.split_once(':')?;
    let (embedded, name) = name.split_once('/').map_or((None, name), |(embedded, name)| (Some(embedded.to_owned()), name));
    let (name, omit_empty) = name.strip_suffix('!').map_or((name, true), |name| (name, false));
    Some(Field { name: name.to_owned(), embedded, kind: kind_of(kind, types)?, omit_empty })
}

fn kind_of(text: &str, types: &[&'static Type]) -> Option<Kind> {
    if let Some((name, list)) = text.split_once('=') {
        let Kind::List(_, item) = kind_of(list, types)? else { return None };
        return Some(Kind::List(Some(name.to_owned()), item));
    }
    if let Some(inner) = text.strip_prefix('*') {
        return Some(Kind::Optional(Box::new(kind_of(inner, types)?)));
    }
    if let Some(item) = text.strip_prefix("[]") {
        return Some(Kind::List(None, Box::new(kind_of(item, types)?)));
    }
    if let Some(name) = text.strip_prefix('$') {
        return Some(Kind::Text(Some(name.to_owned())));
    }
    if let Some(name) = text.strip_prefix('#') {
        return Some(Kind::Unsigned(Some(name.to_owned()).filter(|name| !name.is_empty())));
    }
    Some(match text {
        "string" => Kind::Text(None),
        "int" => Kind::Int,
        "bool" => Kind::Bool,
        "%" => Kind::Texts,
        name => Kind::Struct(types.iter().find(|of| of.name == name || of.full_name == name)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every word of every table is read.
    #[test]
    fn tables_are_read_whole() {
        let table = include_str!("schema/v3_4.txt");
        let fields: usize = table.lines().map(|line| line.split_whitespace().count() - 1).sum();
        let mut read = 0;
        let mut types: Vec<&'static Type> = Vec::new();
        for line in table.lines() {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap_or_default().to_owned();
            let of: Vec<Field> = words.filter_map(|word| field(word, &types)).collect();
            read += of.len();
            types.push(Box::leak(Box::new(Type { full_name: name.clone(), name, fields: of })));
        }
        assert_eq!(read, fields);
        for spec in Spec::V3.into_iter().chain([Spec::V2_2]) {
            assert_eq!(spec.root().name, "Config");
            assert!(spec.root().fields.len() >= 4, "{spec:?}");
        }
    }
}
