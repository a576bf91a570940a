//! Encoding: from a value to bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::MAGIC;
use crate::error::{Error, Result};
use crate::table::{Field, Form, Kind, Message, Table, table};
use crate::wire::{put_bytes, put_double, put_number};

/// Encodes an object by its `apiVersion` and `kind`. Fields that its kind does not have are not written.
pub fn encode(object: &Value) -> Result<Vec<u8>> {
    let text = |name: &'static str| object.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).ok_or(Error::NoType(name));
    let (api_version, kind) = (text("apiVersion")?, text("kind")?);
    let table = table();
    let (Some(message), Value::Object(map)) = (table.kind(api_version, kind), object) else {
        return Err(Error::Unsupported { api_version: api_version.to_owned(), kind: kind.to_owned() });
    };
    let mut raw = Vec::new();
    Encoder { table }.message(message, map, &mut raw).map_err(|error| error.under(kind))?;
    Ok(envelope(api_version, kind, &raw))
}

/// The magic number and the `Unknown` around an object's message.
fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut meta = Vec::with_capacity(api_version.len() + kind.len() + 4);
    put_bytes(&mut meta, 1, api_version.as_bytes());
    put_bytes(&mut meta, 2, kind.as_bytes());
    let mut out = Vec::with_capacity(raw.len() + meta.len() + 20);
    out.extend_from_slice(MAGIC);
    put_bytes(&mut out, 1, &meta);
    put_bytes(&mut out, 2, raw);
    // contentEncoding and contentType: none.
    put_bytes(&mut out, 3, &[]);
    put_bytes(&mut out, 4, &[]);
    out
}

/// Writes a list item by item, so that no more than one of them is held as a value.
pub struct ListEncoder {
    api_version: String,
    kind: String,
    number: u32,
    item: &'static Message,
    raw: Vec<u8>,
    count: usize,
}

impl ListEncoder {
    /// A list of that kind with that metadata.
    ///
    /// # Errors
    /// The kind has no protobuf form or is no list, or the metadata is not what it should be.
    pub fn new(api_version: &str, kind: &str, metadata: &Value) -> Result<Self> {
        let table = table();
        let unsupported = || Error::Unsupported { api_version: api_version.to_owned(), kind: kind.to_owned() };
        let message = table.kind(api_version, kind).ok_or_else(unsupported)?;
        let items = message.fields.iter().find(|field| field.json == "items").ok_or_else(unsupported)?;
        let (Form::Repeated, Kind::Message(item)) = (items.form, items.kind) else { return Err(unsupported()) };
        let mut raw = Vec::new();
        let head = Map::from_iter([("metadata".to_owned(), metadata.clone())]);
        Encoder { table }.message(message, &head, &mut raw).map_err(|error| error.under(kind))?;
        Ok(Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            number: items.number,
            item: table.message(item),
            raw,
            count: 0,
        })
    }

    /// Appends an item.
    ///
    /// # Errors
    /// A field of the item does not hold what its type says.
    pub fn push(&mut self, item: &Value) -> Result<()> {
        let bytes = Encoder { table: table() }.object(self.item, item);
        put_bytes(&mut self.raw, self.number, &bytes.map_err(|error| error.under(&format!("items[{}]", self.count)).under(&self.kind))?);
        self.count += 1;
        Ok(())
    }

    /// The enveloped list.
    pub fn finish(self) -> Vec<u8> {
        envelope(&self.api_version, &self.kind, &self.raw)
    }
}

/// One frame of a watch: its length, then the event with an enveloped object.
pub fn encode_watch_event(kind: &str, object: &[u8]) -> Vec<u8> {
    let mut extension = Vec::with_capacity(object.len() + 6);
    put_bytes(&mut extension, 1, object);
    let mut event = vec![0; 4];
    event.reserve(extension.len() + kind.len() + 10);
    put_bytes(&mut event, 1, kind.as_bytes());
    put_bytes(&mut event, 2, &extension);
    let length = ((event.len() - 4) as u32).to_be_bytes();
    event[..4].copy_from_slice(&length);
    event
}

struct Encoder {
    table: &'static Table,
}

impl Encoder {
    fn message(&self, message: &Message, object: &Map<String, Value>, out: &mut Vec<u8>) -> Result<()> {
        for field in &message.fields {
            self.field(field, object, out).map_err(|error| if field.json.is_empty() { error } else { error.under(field.json) })?;
        }
        Ok(())
    }

    fn field(&self, field: &Field, object: &Map<String, Value>, out: &mut Vec<u8>) -> Result<()> {
        let value = object.get(field.json).filter(|value| !value.is_null());
        match (field.form, value) {
            (Form::Inline, _) => {
                let Kind::Message(at) = field.kind else { return Ok(()) };
                let mut inner = Vec::new();
                self.message(self.table.message(at), object, &mut inner)?;
                put_bytes(out, field.number, &inner);
            }
            // Go writes plain fields whatever their value, but no slice that is nil.
            (Form::Plain, None) if matches!(field.kind, Kind::Bytes | Kind::Texts) => {}
            (Form::Plain, value) => self.value(field.kind, field.number, value.unwrap_or(&Value::Null), out)?,
            (Form::Pointer, Some(value)) => self.value(field.kind, field.number, value, out)?,
            (Form::Repeated, Some(Value::Array(list))) => {
                for (at, item) in list.iter().enumerate() {
                    self.value(field.kind, field.number, item, out).map_err(|error| error.under(&format!("[{at}]")))?;
                }
            }
            (Form::Map, Some(Value::Object(map))) => {
                for (key, value) in map {
                    let mut entry = Vec::new();
                    put_bytes(&mut entry, 1, key.as_bytes());
                    self.value(field.kind, 2, value, &mut entry).map_err(|error| error.under(&format!("[{key}]")))?;
                    put_bytes(out, field.number, &entry);
                }
            }
            (Form::Repeated, Some(other)) => return Err(mismatch("a list", other)),
            (Form::Map, Some(other)) => return Err(mismatch("an object", other)),
            (_, None) => {}
        }
        Ok(())
    }

    /// Writes a field; null is the value that Go has for it.
    fn value(&self, kind: Kind, number: u32, value: &Value, out: &mut Vec<u8>) -> Result<()> {
        let wrong = || mismatch(kind.name(), value);
        match kind {
            Kind::Text => put_bytes(out, number, text(kind, value)?.as_bytes()),
            Kind::Bool => put_number(out, number, u64::from(if value.is_null() { false } else { value.as_bool().ok_or_else(wrong)? })),
            Kind::Int32 => {
                let whole = integer(value).and_then(|whole| i32::try_from(whole).ok()).ok_or_else(wrong)?;
                put_number(out, number, i64::from(whole) as u64);
            }
            Kind::Int64 => put_number(out, number, integer(value).ok_or_else(wrong)? as u64),
            Kind::Double => put_double(out, number, if value.is_null() { 0.0 } else { value.as_f64().ok_or_else(wrong)? }),
            Kind::Bytes => put_bytes(out, number, &STANDARD.decode(text(kind, value)?).map_err(|_| wrong())?),
            Kind::Message(at) => put_bytes(out, number, &self.object(self.table.message(at), value)?),
            Kind::Quantity => {
                let mut amount = Vec::new();
                match value {
                    Value::Null => put_bytes(&mut amount, 1, b"0"),
                    Value::Number(number) => put_bytes(&mut amount, 1, number.to_string().as_bytes()),
                    value => put_bytes(&mut amount, 1, text(kind, value)?.as_bytes()),
                }
                put_bytes(out, number, &amount);
            }
            Kind::Time | Kind::MicroTime => put_bytes(out, number, &time(kind, value)?),
            Kind::IntOrString => {
                let (mut inner, whole, text) = match value {
                    Value::String(text) => (Vec::new(), 0, text.as_str()),
                    value => (Vec::new(), integer(value).and_then(|whole| i32::try_from(whole).ok()).ok_or_else(wrong)?, ""),
                };
                put_number(&mut inner, 1, u64::from(value.is_string()));
                put_number(&mut inner, 2, i64::from(whole) as u64);
                put_bytes(&mut inner, 3, text.as_bytes());
                put_bytes(out, number, &inner);
            }
            Kind::Json | Kind::Extension => {
                let mut inner = Vec::new();
                if !value.is_null() {
                    let raw = serde_json::to_vec(value).map_err(|error| Error::here(error.to_string()))?;
                    put_bytes(&mut inner, 1, &raw);
                }
                put_bytes(out, number, &inner);
            }
            Kind::Texts => put_bytes(out, number, &texts(1, value).ok_or_else(wrong)?),
            Kind::SchemaOrArray | Kind::SchemaOrBool | Kind::SchemaOrTexts => {
                put_bytes(out, number, &self.schema_or(kind, value)?);
            }
        }
        Ok(())
    }

    fn object(&self, message: &Message, value: &Value) -> Result<Vec<u8>> {
        let mut inner = Vec::new();
        match value {
            Value::Object(map) => self.message(message, map, &mut inner)?,
            Value::Null => self.message(message, &Map::new(), &mut inner)?,
            other => return Err(mismatch("an object", other)),
        }
        Ok(inner)
    }

    fn schema_or(&self, kind: Kind, value: &Value) -> Result<Vec<u8>> {
        let mut inner = Vec::new();
        match (kind, value) {
            (Kind::SchemaOrBool, Value::Null) => put_number(&mut inner, 1, 0),
            (Kind::SchemaOrBool, Value::Bool(allows)) => put_number(&mut inner, 1, u64::from(*allows)),
            (Kind::SchemaOrBool, Value::Object(_)) => {
                put_number(&mut inner, 1, 1);
                put_bytes(&mut inner, 2, &self.object(self.table.schema(), value)?);
            }
            (Kind::SchemaOrArray | Kind::SchemaOrTexts, Value::Null) => {}
            (Kind::SchemaOrArray | Kind::SchemaOrTexts, Value::Object(_)) => {
                put_bytes(&mut inner, 1, &self.object(self.table.schema(), value)?);
            }
            (Kind::SchemaOrArray, Value::Array(list)) => {
                for (at, schema) in list.iter().enumerate() {
                    let schema = self.object(self.table.schema(), schema).map_err(|error| error.under(&format!("[{at}]")))?;
                    put_bytes(&mut inner, 2, &schema);
                }
            }
            (Kind::SchemaOrTexts, Value::Array(_)) => return texts(2, value).ok_or_else(|| mismatch(kind.name(), value)),
            (_, other) => return Err(mismatch(kind.name(), other)),
        }
        Ok(inner)
    }
}

fn text(kind: Kind, value: &Value) -> Result<&str> {
    match value {
        Value::Null => Ok(""),
        value => value.as_str().ok_or_else(|| mismatch(kind.name(), value)),
    }
}

fn texts(number: u32, value: &Value) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    if !value.is_null() {
        for text in value.as_array()? {
            put_bytes(&mut out, number, text.as_str()?.as_bytes());
        }
    }
    Some(out)
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Null => Some(0),
        value => {
            value.as_i64().or_else(|| value.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 9e15).map(|float| float as i64))
        }
    }
}

fn time(kind: Kind, value: &Value) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let text = text(kind, value)?;
    if text.is_empty() {
        return Ok(out);
    }
    let time: Timestamp = text.parse().map_err(|_| mismatch(kind.name(), value))?;
    let nanos = time.as_nanosecond();
    let (seconds, nanos) = (nanos.div_euclid(1_000_000_000), nanos.rem_euclid(1_000_000_000));
    put_number(&mut out, 1, seconds as i64 as u64);
    put_number(&mut out, 2, if kind == Kind::MicroTime { (nanos / 1000 * 1000) as u64 } else { 0 });
    Ok(out)
}

fn mismatch(wanted: &str, found: &Value) -> Error {
    let shown = match found {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("{:?}", text.chars().take(60).collect::<String>()),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    Error::here(format!("{shown} is not {wanted}"))
}
