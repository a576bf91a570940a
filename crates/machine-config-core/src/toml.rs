//! TOML in the form in which upstream's encoder writes it: values before tables, two blanks a level, an empty line before each table of the
//! first level and before each item of a list of tables. Nodes compare files byte by byte, so another form would be a change of all nodes.

use std::fmt::Write as _;

use mainstay_golang::quote;

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Toml {
    /// A text.
    Text(String),
    /// A truth value.
    Bool(bool),
    /// A number.
    Int(i64),
    /// A list of texts.
    Texts(Vec<String>),
    /// A table.
    Table(Fields),
    /// A list of tables; not empty.
    Tables(Vec<Fields>),
}

/// Values by name, in the order of upstream's struct.
pub type Fields = Vec<(String, Toml)>;

/// Returns a document.
pub fn document(fields: &Fields) -> String {
    let mut out = String::new();
    write(&mut out, &mut Vec::new(), fields);
    out
}

fn write(out: &mut String, path: &mut Vec<String>, fields: &Fields) {
    let is_table = |value: &Toml| matches!(value, Toml::Table(_) | Toml::Tables(_));
    let indent = "  ".repeat(path.len());
    for (name, value) in fields.iter().filter(|(_, value)| !is_table(value)) {
        _ = writeln!(out, "{indent}{} = {}", key(name), inline(value));
    }
    for (name, value) in fields.iter().filter(|(_, value)| is_table(value)) {
        path.push(key(name));
        let header = path.join(".");
        match value {
            Toml::Table(inner) => {
                if path.len() == 1 {
                    empty_line(out);
                }
                _ = writeln!(out, "{indent}[{header}]");
                write(out, path, inner);
            }
            Toml::Tables(items) => {
                for item in items {
                    empty_line(out);
                    _ = writeln!(out, "{indent}[[{header}]]");
                    write(out, path, item);
                }
            }
            _ => {}
        }
        path.pop();
    }
}

fn empty_line(out: &mut String) {
    if !out.is_empty() {
        out.push('\n');
    }
}

fn key(name: &str) -> String {
    let is_bare = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    if !name.is_empty() && name.chars().all(is_bare) { name.to_owned() } else { text(name) }
}

fn inline(value: &Toml) -> String {
    match value {
        Toml::Text(value) => text(value),
        Toml::Bool(value) => value.to_string(),
        Toml::Int(value) => value.to_string(),
        Toml::Texts(items) => format!("[{}]", items.iter().map(|item| text(item)).collect::<Vec<_>>().join(", ")),
        // Never asked for: tables have headers.
        Toml::Table(_) | Toml::Tables(_) => String::new(),
    }
}

fn text(value: &str) -> String {
    let mut out = String::from("\"");
    for letter in value.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\0'..='\u{1f}' | '\u{7f}' => _ = write!(out, "\\u{:04x}", u32::from(letter)),
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

/// A document that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It is no TOML.
    #[error("{0}")]
    Syntax(String),
    /// A value has another type.
    #[error("{path}: expected {expected}")]
    Type {
        /// Path of the value.
        path: String,
        /// The value that it should be.
        expected: &'static str,
    },
    /// The document is too large.
    #[error("{0} bytes are more than the {LARGEST} that are read")]
    Size(usize),
}

/// The largest document that is read, in bytes.
pub const LARGEST: usize = 1 << 20;

/// A table of a document that is being read. Names are found in any case, as upstream's decoder does.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    table: &'a dyn toml_edit::TableLike,
    path: &'a str,
}

/// Reads a document and hands over its table.
///
/// # Errors
/// It is no TOML, too large, or the function says so.
pub fn read<T>(text: &str, of: impl FnOnce(Reader<'_>) -> Result<T, ReadError>) -> Result<T, ReadError> {
    if text.len() > LARGEST {
        return Err(ReadError::Size(text.len()));
    }
    let document = toml_edit::Document::parse(text).map_err(|error| ReadError::Syntax(error.to_string()))?;
    of(Reader { table: document.as_table(), path: "" })
}

impl<'a> Reader<'a> {
    fn item(&self, name: &str) -> Option<&'a toml_edit::Item> {
        self.table.get(name).or_else(|| self.table.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, item)| item))
    }

    fn misfit(&self, name: &str, expected: &'static str) -> ReadError {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        ReadError::Type { path, expected }
    }

    /// Returns a text; empty if absent.
    ///
    /// # Errors
    /// The value is no text.
    pub fn text(&self, name: &str) -> Result<String, ReadError> {
        let Some(item) = self.item(name) else { return Ok(String::new()) };
        item.as_str().map(str::to_owned).ok_or_else(|| self.misfit(name, "a text"))
    }

    /// Returns a truth value; false if absent.
    ///
    /// # Errors
    /// The value is no truth value.
    pub fn bool(&self, name: &str) -> Result<bool, ReadError> {
        let Some(item) = self.item(name) else { return Ok(false) };
        item.as_bool().ok_or_else(|| self.misfit(name, "true or false"))
    }

    /// Returns a number of 32 bits without a sign; 0 if absent.
    ///
    /// # Errors
    /// The value is no such number.
    pub fn number(&self, name: &str) -> Result<u32, ReadError> {
        let Some(item) = self.item(name) else { return Ok(0) };
        item.as_integer().and_then(|number| u32::try_from(number).ok()).ok_or_else(|| self.misfit(name, "a number from 0 to 4294967295"))
    }

    /// Returns a list of texts.
    ///
    /// # Errors
    /// The value is no list of texts.
    pub fn texts(&self, name: &str) -> Result<Option<Vec<String>>, ReadError> {
        let Some(item) = self.item(name) else { return Ok(None) };
        let list = item.as_array().and_then(|list| list.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>());
        list.map(Some).ok_or_else(|| self.misfit(name, "a list of texts"))
    }

    /// Returns texts by name, in the order of the names.
    ///
    /// # Errors
    /// The value is no table of texts.
    pub fn text_table(&self, name: &str) -> Result<Option<Vec<(String, String)>>, ReadError> {
        let Some(item) = self.item(name) else { return Ok(None) };
        let texts = item.as_table_like().and_then(|table| {
            table.iter().map(|(key, item)| item.as_str().map(|text| (key.to_owned(), text.to_owned()))).collect::<Option<Vec<_>>>()
        });
        let mut texts = texts.ok_or_else(|| self.misfit(name, "a table of texts"))?;
        texts.sort();
        Ok(Some(texts))
    }

    /// Reads a table; one that is absent is read as empty.
    ///
    /// # Errors
    /// The value is no table, or the function says so.
    pub fn table<T>(&self, name: &str, of: impl FnOnce(Reader<'_>) -> Result<T, ReadError>) -> Result<T, ReadError> {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        match self.item(name) {
            None => of(Reader { table: &toml_edit::Table::new(), path: &path }),
            Some(item) => match item.as_table_like() {
                Some(table) => of(Reader { table, path: &path }),
                None => Err(self.misfit(name, "a table")),
            },
        }
    }

    /// Reads a list of tables.
    ///
    /// # Errors
    /// The value is no list of tables, or the function says so.
    pub fn tables<T>(&self, name: &str, of: impl Fn(Reader<'_>) -> Result<T, ReadError>) -> Result<Option<Vec<T>>, ReadError> {
        let Some(item) = self.item(name) else { return Ok(None) };
        let tables: Option<Vec<&dyn toml_edit::TableLike>> = match (item.as_array_of_tables(), item.as_array()) {
            (Some(tables), _) => Some(tables.iter().map(|table| table as &dyn toml_edit::TableLike).collect()),
            (None, Some(list)) => {
                list.iter().map(|value| value.as_inline_table().map(|table| table as &dyn toml_edit::TableLike)).collect()
            }
            (None, None) => None,
        };
        let tables = tables.ok_or_else(|| self.misfit(name, "a list of tables"))?;
        let read = |(index, table): (usize, &'_ dyn toml_edit::TableLike)| {
            let path = if self.path.is_empty() { format!("{name}[{index}]") } else { format!("{}.{name}[{index}]", self.path) };
            of(Reader { table, path: &path })
        };
        tables.into_iter().enumerate().map(read).collect::<Result<Vec<_>, _>>().map(Some)
    }
}

/// Returns a text as messages quote it.
pub(crate) fn quoted(text: &str) -> String {
    quote(text)
}
