//! Decoding: from bytes to a value.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::MAGIC;
use crate::error::{Error, Result};
use crate::table::{Field, Form, Kind, Message, Table, table};
use crate::wire::{Reader, Wire};

/// The limits of what is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the whole.
    pub bytes: usize,
    /// Objects and lists inside each other.
    pub depth: usize,
    /// Values of all kinds, where an object weighs as much as eight others: short bytes can stand for many.
    pub values: usize,
}

impl Default for Limits {
    fn default() -> Self {
        // The size of a request's body; the depth that JSON bodies may have.
        Self { bytes: 3 * 1024 * 1024, depth: 128, values: 1_000_000 }
    }
}

/// Decodes an enveloped object; the value has its `apiVersion` and `kind`.
pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Value> {
    decode_as(bytes, "", "", limits)
}

/// Likewise; an envelope that does not say what it holds holds that kind.
pub fn decode_as(bytes: &[u8], api_version: &str, kind: &str, limits: &Limits) -> Result<Value> {
    if bytes.len() > limits.bytes {
        return Err(Error::Limit { what: "bytes", limit: limits.bytes });
    }
    Decoder { table: table(), limits, values: 0 }.envelope(bytes, (api_version, kind), 0)
}

/// The weight of an object beside itself.
const OBJECT_WEIGHT: usize = 7;

struct Decoder<'a> {
    table: &'static Table,
    limits: &'a Limits,
    values: usize,
}

impl Decoder<'_> {
    fn envelope(&mut self, bytes: &[u8], default: (&str, &str), depth: usize) -> Result<Value> {
        let bytes = bytes.strip_prefix(MAGIC).ok_or(Error::NoEnvelope)?;
        let (mut api_version, mut kind) = (String::new(), String::new());
        let mut raw: &[u8] = &[];
        let (mut encoding, mut content_type) = (String::new(), String::new());
        let mut reader = Reader::new(bytes);
        while let Some((number, wire)) = reader.field().map_err(|error| error.under("Unknown"))? {
            match (number, wire) {
                (1, Wire::Bytes(meta)) => {
                    let mut reader = Reader::new(meta);
                    while let Some((number, wire)) = reader.field().map_err(|error| error.under("TypeMeta"))? {
                        match number {
                            1 => api_version = text(wire).map_err(|error| error.under("apiVersion"))?,
                            2 => kind = text(wire).map_err(|error| error.under("kind"))?,
                            _ => {}
                        }
                    }
                }
                (2, Wire::Bytes(bytes)) => raw = bytes,
                (3, wire) => encoding = text(wire).map_err(|error| error.under("contentEncoding"))?,
                (4, wire) => content_type = text(wire).map_err(|error| error.under("contentType"))?,
                (1 | 2, _) => return Err(Error::here("not a message").under("Unknown")),
                _ => {}
            }
        }
        if api_version.is_empty() {
            default.0.clone_into(&mut api_version);
        }
        if kind.is_empty() {
            default.1.clone_into(&mut kind);
        }
        if !encoding.is_empty() {
            return Err(Error::Content { what: "contentEncoding", value: encoding });
        }
        match content_type.as_str() {
            "" | crate::MEDIA_TYPE => {}
            "application/json" => return serde_json::from_slice(raw).map_err(|error| Error::here(error.to_string()).under(&kind)),
            _ => return Err(Error::Content { what: "contentType", value: content_type }),
        }
        for (value, what) in [(&api_version, "apiVersion"), (&kind, "kind")] {
            if value.is_empty() {
                return Err(Error::NoType(what));
            }
        }
        let Some(message) = self.table.kind(&api_version, &kind) else {
            return Err(Error::Unsupported { api_version, kind });
        };
        let mut object = Map::new();
        self.message(message, raw, &mut object, depth).map_err(|error| error.under(&kind))?;
        object.insert("apiVersion".into(), api_version.into());
        object.insert("kind".into(), kind.into());
        Ok(Value::Object(object))
    }

    /// Reads a message into `object`.
    fn message(&mut self, message: &Message, wire: &[u8], object: &mut Map<String, Value>, depth: usize) -> Result<()> {
        if depth >= self.limits.depth {
            return Err(Error::Limit { what: "levels", limit: self.limits.depth });
        }
        // Two bytes can be an object with all its empty fields: what it takes in memory is what has to be bounded.
        self.count(OBJECT_WEIGHT)?;
        let mut seen = 0_u128;
        let mut reader = Reader::new(wire);
        while let Some((number, wire)) = reader.field()? {
            let Some((at, field)) = message.field(number) else { continue };
            self.field(field, wire, object, depth).map_err(|error| if field.json.is_empty() { error } else { error.under(field.json) })?;
            seen |= 1 << at;
        }
        for (at, field) in message.fields.iter().enumerate().filter(|(at, _)| seen & 1 << at == 0) {
            debug_assert!(at < 128, "the table refuses larger messages");
            self.absent(message, field, object, depth)?;
        }
        Ok(())
    }

    fn field(&mut self, field: &Field, wire: Wire<'_>, object: &mut Map<String, Value>, depth: usize) -> Result<()> {
        match (field.form, field.kind) {
            (Form::Inline, Kind::Message(at)) => self.message(self.table.message(at), bytes(wire)?, object, depth),
            // One occurrence adds to what others said.
            (Form::Plain | Form::Pointer, Kind::Message(at)) => {
                let mut inner = match object.remove(field.json) {
                    Some(Value::Object(inner)) => inner,
                    _ => Map::new(),
                };
                self.count(1)?;
                self.message(self.table.message(at), bytes(wire)?, &mut inner, depth + 1)?;
                if !(field.omitzero && field.form == Form::Plain && inner.is_empty()) {
                    object.insert(field.json.to_owned(), Value::Object(inner));
                }
                Ok(())
            }
            (Form::Repeated, kind) => {
                let list = object.entry(field.json).or_insert_with(|| json!([]));
                let Value::Array(list) = list else { return Err(Error::here("two fields of the message have this name")) };
                // Lists of numbers may come packed.
                if let (Kind::Int32 | Kind::Int64 | Kind::Bool, Wire::Bytes(packed)) = (kind, wire) {
                    let mut reader = Reader::new(packed);
                    while !reader.is_empty() {
                        let number = Wire::Varint(reader.varint()?);
                        list.push(self.value(kind, number, depth + 1)?);
                    }
                } else {
                    let at = list.len();
                    list.push(self.value(kind, wire, depth + 1).map_err(|error| error.under(&format!("[{at}]")))?);
                }
                Ok(())
            }
            (Form::Map, kind) => {
                let map = object.entry(field.json).or_insert_with(|| json!({}));
                let Value::Object(map) = map else { return Err(Error::here("two fields of the message have this name")) };
                let (mut key, mut value) = (String::new(), None);
                let mut reader = Reader::new(bytes(wire)?);
                while let Some((number, wire)) = reader.field()? {
                    match number {
                        1 => key = text(wire)?,
                        2 => value = Some(wire),
                        _ => {}
                    }
                }
                let value = match value {
                    Some(wire) => self.value(kind, wire, depth + 1).map_err(|error| error.under(&format!("[{key}]")))?,
                    // Go reads bytes that an entry leaves out as empty, not as nil.
                    None if kind == Kind::Bytes => "".into(),
                    None => self.zero(kind, depth + 1)?,
                };
                map.insert(key, value);
                Ok(())
            }
            (_, kind) => {
                let value = self.value(kind, wire, depth + 1)?;
                if field.form == Form::Plain && is_omitted(field, &value) {
                    object.remove(field.json);
                } else {
                    object.insert(field.json.to_owned(), value);
                }
                Ok(())
            }
        }
    }

    /// Adds the value that Go writes for a field that is not there.
    fn absent(&mut self, message: &Message, field: &Field, object: &mut Map<String, Value>, depth: usize) -> Result<()> {
        if object.contains_key(field.json) {
            return Ok(());
        }
        let value = match field.form {
            Form::Inline => {
                let Kind::Message(at) = field.kind else { return Ok(()) };
                return self.message(self.table.message(at), &[], object, depth);
            }
            Form::Plain => {
                // A struct that is left out when it is zero has nothing to show.
                if field.omitzero {
                    return Ok(());
                }
                self.zero(field.kind, depth + 1)?
            }
            // Servers write empty lists of objects so; a client that did not fill one means the same.
            Form::Repeated if field.json == "items" && message.name.ends_with("List") => json!([]),
            Form::Pointer | Form::Repeated | Form::Map => Value::Null,
        };
        let omitted = if field.form == Form::Plain { is_omitted(field, &value) } else { field.omitempty };
        if value == json!([]) || !omitted {
            object.insert(field.json.to_owned(), value);
        }
        Ok(())
    }

    fn value(&mut self, kind: Kind, wire: Wire<'_>, depth: usize) -> Result<Value> {
        self.count(1)?;
        Ok(match (kind, wire) {
            (Kind::Text, wire) => text(wire)?.into(),
            (Kind::Bool, Wire::Varint(value)) => (value != 0).into(),
            // Negative numbers come as 64 bits; Go keeps the lower half.
            (Kind::Int32, Wire::Varint(value)) => (value as i32).into(),
            (Kind::Int64, Wire::Varint(value)) => (value as i64).into(),
            (Kind::Double, Wire::Fixed64(bits)) => double(f64::from_bits(bits))?,
            (Kind::Bytes, wire) => STANDARD.encode(bytes(wire)?).into(),
            (Kind::Message(at), wire) => {
                let mut object = Map::new();
                self.message(self.table.message(at), bytes(wire)?, &mut object, depth)?;
                Value::Object(object)
            }
            (Kind::Quantity, wire) => {
                let mut amount = String::new();
                for_each(bytes(wire)?, |number, wire| {
                    if number == 1 {
                        amount = text(wire)?;
                    }
                    Ok(())
                })?;
                if amount.is_empty() { json!("0") } else { amount.into() }
            }
            (Kind::Time | Kind::MicroTime, wire) => time(bytes(wire)?, kind == Kind::MicroTime)?,
            (Kind::IntOrString, wire) => int_or_string(bytes(wire)?)?,
            (Kind::Json | Kind::Extension, wire) => self.raw(kind, bytes(wire)?, depth)?,
            (Kind::Texts, wire) => {
                let mut list = Vec::new();
                for_each(bytes(wire)?, |number, wire| {
                    if number == 1 {
                        list.push(text(wire)?.into());
                    }
                    Ok(())
                })?;
                self.count(list.len())?;
                Value::Array(list)
            }
            (Kind::SchemaOrArray | Kind::SchemaOrBool | Kind::SchemaOrTexts, wire) => self.schema_or(kind, bytes(wire)?, depth)?,
            (kind, _) => return Err(Error::here(format!("the wire does not hold {}", kind.name()))),
        })
    }

    fn zero(&mut self, kind: Kind, depth: usize) -> Result<Value> {
        Ok(match kind {
            Kind::Text => json!(""),
            Kind::Bool => json!(false),
            Kind::Int32 | Kind::Int64 | Kind::Double => json!(0),
            Kind::Bytes | Kind::Texts => Value::Null,
            kind => return self.value(kind, Wire::Bytes(&[]), depth),
        })
    }

    /// JSON text in a message; an extension may hold an enveloped object instead.
    fn raw(&mut self, kind: Kind, message: &[u8], depth: usize) -> Result<Value> {
        let mut raw: &[u8] = &[];
        for_each(message, |number, wire| {
            if number == 1 {
                raw = bytes(wire)?;
            }
            Ok(())
        })?;
        if raw.is_empty() {
            return Ok(Value::Null);
        }
        if kind == Kind::Extension && raw.starts_with(MAGIC) {
            if depth >= self.limits.depth {
                return Err(Error::Limit { what: "levels", limit: self.limits.depth });
            }
            return self.envelope(raw, ("", ""), depth + 1);
        }
        serde_json::from_slice(raw).map_err(|error| Error::here(format!("not JSON: {error}")))
    }

    fn schema_or(&mut self, kind: Kind, message: &[u8], depth: usize) -> Result<Value> {
        let (mut allows, mut schema, mut list) = (false, None, Vec::new());
        let mut reader = Reader::new(message);
        while let Some((number, wire)) = reader.field()? {
            match (kind, number, wire) {
                (Kind::SchemaOrBool, 1, Wire::Varint(value)) => allows = value != 0,
                (Kind::SchemaOrBool, 2, wire) | (Kind::SchemaOrArray | Kind::SchemaOrTexts, 1, wire) => {
                    schema = Some(self.schema(wire, depth)?);
                }
                (Kind::SchemaOrArray, 2, wire) => list.push(self.schema(wire, depth + 1)?),
                (Kind::SchemaOrTexts, 2, wire) => list.push(text(wire)?.into()),
                (_, 1, _) => return Err(Error::here(format!("the wire does not hold {}", kind.name()))),
                _ => {}
            }
        }
        self.count(list.len())?;
        Ok(match (schema, kind) {
            (_, Kind::SchemaOrArray | Kind::SchemaOrTexts) if !list.is_empty() => Value::Array(list),
            (Some(schema), _) => schema,
            (None, Kind::SchemaOrBool) => Value::Bool(allows),
            (None, _) => Value::Null,
        })
    }

    fn schema(&mut self, wire: Wire<'_>, depth: usize) -> Result<Value> {
        self.count(1)?;
        let mut object = Map::new();
        self.message(self.table.schema(), bytes(wire)?, &mut object, depth)?;
        Ok(Value::Object(object))
    }

    fn count(&mut self, more: usize) -> Result<()> {
        self.values += more;
        if self.values > self.limits.values {
            return Err(Error::Limit { what: "values", limit: self.limits.values });
        }
        Ok(())
    }
}

/// Returns true if Go leaves out a plain field with that value.
fn is_omitted(field: &Field, value: &Value) -> bool {
    match (field.kind, value) {
        // Structs are never empty for `omitempty`.
        (Kind::Time | Kind::MicroTime, Value::Null) => field.omitzero,
        (Kind::Message(_) | Kind::Quantity | Kind::IntOrString, _) => false,
        (Kind::Json | Kind::Extension, value) => field.omitempty && value.is_null(),
        (_, Value::Null | Value::Bool(false)) => field.omitempty,
        (_, Value::String(text)) => field.omitempty && text.is_empty(),
        (_, Value::Number(number)) => field.omitempty && number.as_f64() == Some(0.0),
        (_, Value::Array(list)) => field.omitempty && list.is_empty(),
        _ => false,
    }
}

fn for_each<'a>(message: &'a [u8], mut then: impl FnMut(u32, Wire<'a>) -> Result<()>) -> Result<()> {
    let mut reader = Reader::new(message);
    while let Some((number, wire)) = reader.field()? {
        then(number, wire)?;
    }
    Ok(())
}

fn bytes(wire: Wire<'_>) -> Result<&[u8]> {
    match wire {
        Wire::Bytes(bytes) => Ok(bytes),
        _ => Err(Error::here("a number stands where bytes are expected")),
    }
}

fn text(wire: Wire<'_>) -> Result<String> {
    String::from_utf8(bytes(wire)?.to_vec()).map_err(|_| Error::here("the string is not UTF-8"))
}

fn double(value: f64) -> Result<Value> {
    // Go writes whole numbers without a point.
    if value.fract() == 0.0 && value.abs() < 9_007_199_254_740_992.0 {
        return Ok((value as i64).into());
    }
    serde_json::Number::from_f64(value).map(Value::Number).ok_or_else(|| Error::here(format!("{value} is no number that JSON has")))
}

/// Seconds and nanoseconds; no bytes are the time of no value.
fn time(message: &[u8], micros: bool) -> Result<Value> {
    if message.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0_i64, 0_i32);
    for_each(message, |number, wire| {
        match (number, wire) {
            (1, Wire::Varint(value)) => seconds = value as i64,
            (2, Wire::Varint(value)) => nanos = value as i32,
            (1 | 2, _) => return Err(Error::here("the wire does not hold a time")),
            _ => {}
        }
        Ok(())
    })?;
    let wrong = || Error::here(format!("{seconds} s and {nanos} ns are no time between the years 1 and 9999"));
    if !(-62_135_596_800..=253_402_207_200).contains(&seconds) || !(0..1_000_000_000).contains(&nanos) {
        return Err(wrong());
    }
    let time = Timestamp::new(seconds, if micros { nanos / 1000 * 1000 } else { 0 }).map_err(|_| wrong())?;
    Ok(if micros { time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string() } else { time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string() }.into())
}

fn int_or_string(message: &[u8]) -> Result<Value> {
    let (mut kind, mut number_value, mut text_value) = (0, 0_i32, String::new());
    for_each(message, |number, wire| {
        match (number, wire) {
            (1, Wire::Varint(value)) => kind = value,
            (2, Wire::Varint(value)) => number_value = value as i32,
            (3, wire) => text_value = text(wire)?,
            (1 | 2, _) => return Err(Error::here("the wire does not hold an integer or a string")),
            _ => {}
        }
        Ok(())
    })?;
    match kind {
        0 => Ok(number_value.into()),
        1 => Ok(text_value.into()),
        other => Err(Error::here(format!("{other} is neither the type of an integer (0) nor of a string (1)"))),
    }
}
