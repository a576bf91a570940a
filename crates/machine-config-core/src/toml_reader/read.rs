//! Tables, keys and values of a TOML text.

use std::collections::BTreeSet;

use super::scan::{END, Mistake, Scan, Scanned, is_blank, is_line_end, quoted, shown_or_end};
use super::{Document, Table, TomlError, Value, key_name, scalar};

/// Arrays and inline tables inside each other that are read.
const DEPTH: usize = 100;

/// Reads a text.
pub(crate) fn read(text: &[u8]) -> Result<Document, TomlError> {
    let marks = [b"\xff\xfe" as &[u8], b"\xfe\xff", b"\xef\xbb\xbf"];
    let text = marks.iter().find_map(|mark| text.strip_prefix(*mark)).unwrap_or(text);
    if text.iter().take(6).any(|byte| *byte == 0) {
        let message = "files cannot contain NULL bytes; probably using UTF-16; TOML files must be UTF-8".to_owned();
        return Err(TomlError { line: 1, key: String::new(), message });
    }
    let mut reader = Reader {
        scan: Scan::new(text),
        document: Document::default(),
        context: Vec::new(),
        key: String::new(),
        line: 0,
        implicit: BTreeSet::new(),
        arrays: BTreeSet::new(),
        depth: 0,
    };
    match reader.top() {
        Ok(()) => Ok(reader.document),
        Err(Mistake { line, message }) => Err(TomlError { line, key: reader.current(), message }),
    }
}

struct Reader<'t> {
    scan: Scan<'t>,
    document: Document,
    /// The table that keys go into.
    context: Vec<String>,
    /// The key whose value is read.
    key: String,
    /// The line of the last name, to which complaints about names that stand twice count.
    line: usize,
    /// Tables that no text names but as parents.
    implicit: BTreeSet<String>,
    /// Keys whose value is an array.
    arrays: BTreeSet<String>,
    depth: usize,
}

impl Reader<'_> {
    fn current(&self) -> String {
        match (self.key.as_str(), self.context.is_empty()) {
            ("", _) => key_name(&self.context),
            (key, true) => key.to_owned(),
            (key, false) => format!("{}.{key}", key_name(&self.context)),
        }
    }

    fn top(&mut self) -> Scanned<()> {
        loop {
            match self.scan.next()? {
                letter if is_blank(letter) || is_line_end(letter) => {}
                '#' => self.comment()?,
                '[' => {
                    self.header()?;
                    self.top_end()?;
                }
                END => return Ok(()),
                letter => {
                    self.scan.back(letter);
                    let outer = self.context.clone();
                    self.assignment(None)?;
                    self.context = outer;
                    self.key.clear();
                    self.top_end()?;
                }
            }
        }
    }

    /// Reads the rest of the line behind a table's name or a value.
    fn top_end(&mut self) -> Scanned<()> {
        loop {
            match self.scan.next()? {
                '#' => return self.comment(),
                letter if is_blank(letter) => {}
                letter if is_line_end(letter) => return Ok(()),
                END => {
                    self.scan.back(END);
                    return Ok(());
                }
                letter => {
                    let words = "expected a top-level item to end with a newline, comment, or EOF, but got";
                    return Err(self.scan.mistake(format!("{words} {} instead", quoted(letter))));
                }
            }
        }
    }

    fn comment(&mut self) -> Scanned<()> {
        self.scan.take_while(|letter| !is_line_end(letter))
    }

    fn header(&mut self) -> Scanned<()> {
        let is_array = self.scan.accept('[')?;
        let start = self.scan.line;
        let mut parts: Vec<String> = Vec::new();
        loop {
            self.scan.take_while(is_blank)?;
            let part = match self.scan.peek()? {
                ']' | END => return Err(self.scan.mistake("unexpected end of table name (table names cannot be empty)")),
                '.' => return Err(self.scan.mistake("unexpected table separator (table names cannot be empty)")),
                _ => self.name()?,
            };
            self.add_part(&mut parts, part);
            self.scan.take_while(is_blank)?;
            match self.scan.next()? {
                '.' => {}
                ']' => break,
                letter => {
                    let words = "expected '.' or ']' to end table name, but got";
                    return Err(self.scan.mistake(format!("{words} {} instead", quoted(letter))));
                }
            }
        }
        if is_array {
            let letter = self.scan.next()?;
            if letter != ']' {
                let words = "expected end of table array name delimiter ']', but got";
                return Err(self.scan.mistake(format!("{words} {} instead", quoted(letter))));
            }
        }
        self.add_context(&parts, is_array)?;
        let name = key_name(&self.context);
        self.arrays.remove(&name);
        self.document.lines.insert(name, start);
        Ok(())
    }

    fn add_part(&mut self, parts: &mut Vec<String>, part: String) {
        if parts.is_empty() {
            self.line = self.scan.line;
        }
        parts.push(part);
    }

    fn name(&mut self) -> Scanned<String> {
        let start = self.scan.at;
        match self.scan.next()? {
            '"' => scalar::text(&mut self.scan),
            '\'' => scalar::raw_text(&mut self.scan),
            letter => {
                self.scan.back(letter);
                self.scan.take_while(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-'))?;
                Ok(self.scan.since(start))
            }
        }
    }

    /// Reads a key and its value; `into` is the inline table that it is in.
    fn assignment(&mut self, into: Option<&mut Table>) -> Scanned<()> {
        let begin = self.scan.line;
        self.scan.take_while(is_blank)?;
        match self.scan.peek()? {
            '=' | END => return Err(self.scan.mistake("unexpected '=': key name appears blank")),
            '.' => return Err(self.scan.mistake("unexpected '.': keys cannot start with a '.'")),
            _ => {}
        }
        let mut parts = self.key_parts()?;
        let key = parts.pop().unwrap_or_default();
        self.key.clone_from(&key);
        for part in &parts {
            let mut path = self.context.clone();
            path.push(part.clone());
            self.implicit.insert(key_name(&path));
            self.add_context(&path, false)?;
        }
        self.scan.take_while(is_blank)?;
        let line = self.scan.line;
        let value = self.value(false)?;
        self.set_value(&key, value.clone())?;
        self.set_line(if into.is_some() { begin } else { line }, matches!(value, Value::Array(_)));
        if into.is_none_or(|table| put(table, &parts, key, value)) {
            return Ok(());
        }
        let message = format!("{} is not a table", mainstay_golang::quoted_list(&self.context));
        Err(Mistake { line: self.line, message })
    }

    fn set_line(&mut self, line: usize, is_array: bool) {
        let mut path = self.context.clone();
        path.push(self.key.clone());
        let name = key_name(&path);
        if is_array {
            self.arrays.insert(name.clone());
        } else {
            self.arrays.remove(&name);
        }
        self.document.lines.insert(name, line);
    }

    /// Reads the parts of a key, and the equals sign.
    fn key_parts(&mut self) -> Scanned<Vec<String>> {
        let mut parts = Vec::new();
        loop {
            self.scan.take_while(is_blank)?;
            let part = match self.scan.peek()? {
                '=' | END => return Err(self.scan.mistake("unexpected '='")),
                '.' => return Err(self.scan.mistake("unexpected '.'")),
                _ => self.name()?,
            };
            self.add_part(&mut parts, part);
            self.scan.take_while(is_blank)?;
            match self.scan.next()? {
                END => return Err(self.scan.mistake("unexpected EOF; expected key separator '='")),
                '.' => {}
                '=' => return Ok(parts),
                letter => {
                    let message = format!("expected '.' or '=', but got {} instead", quoted(letter));
                    return Err(if letter == '\n' { self.scan.mistake_before(message) } else { self.scan.mistake(message) });
                }
            }
        }
    }

    fn value(&mut self, in_array: bool) -> Scanned<Value> {
        self.scan.take_while(is_blank)?;
        let start = self.scan.at;
        let letter = self.scan.next()?;
        match letter {
            '0'..='9' => {
                self.scan.back(letter);
                scalar::number(&mut self.scan)
            }
            '[' => self.array(),
            '{' => self.inline_table(in_array),
            '"' | '\'' => self.any_text(letter).map(Value::Text),
            '.' => Err(self.scan.mistake("floats must start with a digit, not '.'")),
            '-' | '+' => scalar::signed(&mut self.scan, start),
            'i' | 'n' => {
                let is_infinite = self.scan.accept('n')? && self.scan.accept('f')?;
                if is_infinite || self.scan.accept('a')? && self.scan.accept('n')? {
                    return Ok(Value::Float);
                }
                // Upstream gives only the last letter of a word back that merely begins like these.
                if let Some(last) = self.scan.since(start).chars().last() {
                    self.scan.back(last);
                }
                scalar::word(&mut self.scan)
            }
            letter if letter.is_alphabetic() => {
                self.scan.back(letter);
                scalar::word(&mut self.scan)
            }
            END => Err(self.scan.mistake("unexpected EOF; expected value")),
            '\n' => Err(self.scan.mistake_before(format!("expected value but found {} instead", quoted(letter)))),
            letter => Err(self.scan.mistake(format!("expected value but found {} instead", quoted(letter)))),
        }
    }

    fn any_text(&mut self, mark: char) -> Scanned<String> {
        if self.scan.accept(mark)? {
            if self.scan.accept(mark)? {
                return scalar::long_text(&mut self.scan, mark);
            }
            self.scan.back(mark);
        }
        if mark == '"' { scalar::text(&mut self.scan) } else { scalar::raw_text(&mut self.scan) }
    }

    fn deeper(&mut self) -> Scanned<()> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(self.scan.mistake(format!("more than {DEPTH} arrays and tables inside each other")));
        }
        Ok(())
    }

    fn array(&mut self) -> Scanned<Value> {
        self.deeper()?;
        // Upstream remembers the key as an array before it has read it.
        self.set_line(self.scan.line, true);
        let mut items = Vec::new();
        loop {
            match self.scan.next()? {
                letter if is_blank(letter) || is_line_end(letter) => continue,
                '#' => {
                    self.comment()?;
                    continue;
                }
                ',' => return Err(self.scan.mistake("unexpected comma")),
                ']' => break,
                letter => self.scan.back(letter),
            }
            items.push(self.value(true)?);
            if self.array_item_end()? {
                break;
            }
        }
        self.depth -= 1;
        Ok(Value::Array(items))
    }

    /// Reads what stands behind an item; returns whether the array ends.
    fn array_item_end(&mut self) -> Scanned<bool> {
        loop {
            match self.scan.next()? {
                letter if is_blank(letter) || is_line_end(letter) => {}
                '#' => self.comment()?,
                ',' => return Ok(false),
                ']' => return Ok(true),
                letter => {
                    let words = "expected a comma (',') or array terminator (']'), but got";
                    return Err(self.scan.mistake(format!("{words} {}", shown_or_end(letter))));
                }
            }
        }
    }

    fn inline_table(&mut self, in_array: bool) -> Scanned<Value> {
        self.deeper()?;
        let (outer, outer_key) = (self.context.clone(), self.key.clone());
        let mut path = outer.clone();
        path.push(std::mem::take(&mut self.key));
        self.context.clone_from(&path);
        self.implicit.insert(key_name(&path));
        self.add_context(&path, in_array)?;
        let mut table = Table::new();
        loop {
            match self.scan.next()? {
                letter if is_blank(letter) => continue,
                letter if is_line_end(letter) => return Err(self.scan.mistake_before(NO_LINES)),
                '#' => {
                    self.comment()?;
                    continue;
                }
                ',' => return Err(self.scan.mistake("unexpected comma")),
                '}' => break,
                letter => self.scan.back(letter),
            }
            self.assignment(Some(&mut table))?;
            self.context.clone_from(&path);
            if self.pair_end()? {
                break;
            }
        }
        self.context = outer;
        self.key = outer_key;
        self.depth -= 1;
        Ok(Value::Table(table))
    }

    /// Reads what stands behind a pair of an inline table; returns whether the table ends.
    fn pair_end(&mut self) -> Scanned<bool> {
        loop {
            match self.scan.next()? {
                letter if is_blank(letter) => {}
                letter if is_line_end(letter) => return Err(self.scan.mistake_before(NO_LINES)),
                '#' => self.comment()?,
                ',' => {
                    self.scan.take_while(is_blank)?;
                    if self.scan.peek()? == '}' {
                        return Err(self.scan.mistake("trailing comma not allowed in inline tables"));
                    }
                    return Ok(false);
                }
                '}' => return Ok(true),
                letter => {
                    let words = "expected a comma or an inline table terminator '}', but got";
                    return Err(self.scan.mistake(format!("{words} {} instead", shown_or_end(letter))));
                }
            }
        }
    }

    /// The table that a path leads to, of tables in a row the last one; else the place in the path that is no table.
    fn table_at(&mut self, path: &[String]) -> Result<&mut Table, usize> {
        let mut table = &mut self.document.root;
        for (index, part) in path.iter().enumerate() {
            let value = table.entry(part.clone()).or_insert_with(|| Value::Table(Table::new()));
            table = match value {
                Value::Table(inner) => inner,
                Value::Tables(tables) => tables.last_mut().ok_or(index)?,
                _ => return Err(index),
            };
        }
        Ok(table)
    }

    fn add_context(&mut self, path: &[String], is_array: bool) -> Scanned<()> {
        let line = self.line;
        let fail = |message: String| Mistake { line, message };
        let Some((last, parents)) = path.split_last() else { return Ok(()) };
        for (index, name) in parents.iter().enumerate() {
            let is_known = self.table_at(&parents[..index]).is_ok_and(|table| table.contains_key(name));
            if !is_known {
                self.implicit.insert(key_name(&parents[..=index]));
            }
            if self.table_at(&parents[..=index]).is_err() {
                return Err(fail(format!("Key '{}' was already created as a hash.", key_name(&parents[..=index]))));
            }
        }
        self.context = parents.to_vec();
        if is_array {
            let shown = key_name(path);
            let table = self.table_at(parents).map_err(|_| fail(format!("Key '{shown}' was already created as a hash.")))?;
            match table.entry(last.clone()).or_insert_with(|| Value::Tables(Vec::new())) {
                Value::Tables(tables) => tables.push(Table::new()),
                _ => return Err(fail(format!("Key '{shown}' was already created and cannot be used as an array."))),
            }
        } else {
            self.set_value(last, Value::Table(Table::new()))?;
        }
        self.context = path.to_vec();
        Ok(())
    }

    fn set_value(&mut self, key: &str, value: Value) -> Scanned<()> {
        let line = self.line;
        let context = self.context.clone();
        let mut path = context.clone();
        path.push(key.to_owned());
        let name = key_name(&path);
        let (is_array, is_implicit) = (self.arrays.contains(&name), self.implicit.contains(&name));
        let defined = |name: String| Mistake { line, message: format!("Key '{name}' has already been defined.") };
        let table = self.table_at(&context).map_err(|index| defined(key_name(&context[..=index])))?;
        if !table.contains_key(key) {
            table.insert(key.to_owned(), value);
        } else if is_array {
            table.insert(key.to_owned(), value);
            self.implicit.remove(&name);
        } else if is_implicit {
            self.implicit.remove(&name);
        } else {
            return Err(defined(name));
        }
        Ok(())
    }
}

const NO_LINES: &str = "newlines not allowed within inline tables";

/// Puts a value into an inline table, where the parts before its key lead; returns whether they lead to a table.
fn put(mut table: &mut Table, parts: &[String], key: String, value: Value) -> bool {
    for part in parts {
        table = match table.entry(part.clone()).or_insert_with(|| Value::Table(Table::new())) {
            Value::Table(inner) => inner,
            _ => return false,
        };
    }
    table.insert(key, value);
    true
}
