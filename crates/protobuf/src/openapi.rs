//! The document of `/openapi/v2` in protobuf (KAPI-DISC-02): the message `openapi.v2.Document` that gnostic declares.
//!
//! Its messages mirror the JSON objects, with three habits of their own: maps are lists of named values in the order of the document, what
//! may be one of several things is a message with one field of each (`Variant`), and free values (`default`, `x-...`) are texts of YAML,
//! for which JSON serves.

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::wire::{put_bytes, put_double, put_number};

/// The media type of the document in this form, as servers write it.
pub const OPENAPI_V2_MEDIA_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// Likewise, as most clients ask for it.
pub const OPENAPI_V2_MEDIA_TYPE_ASKED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// Encodes a document of OpenAPI v2. Keys that the specification does not have are not written.
///
/// # Errors
/// A value that is not what its key holds, with its path.
pub fn encode_openapi_v2(document: &Value) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    message(&DOCUMENT, document, &mut out).map_err(|error| error.under("OpenAPI"))?;
    Ok(out)
}

/// A message: its fields by their JSON names, and the number of the field for keys that begin with `x-` (0 for none).
struct Message {
    fields: &'static [(&'static str, u32, Shape)],
    extensions: u32,
}

/// The content of a field.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Texts,
    Bool,
    Integer,
    Double,
    /// Any value, as text.
    Any,
    Anys,
    One(&'static Message),
    Many(&'static Message),
    /// A map: a message with a list of named values in its field 1.
    Named(&'static Shape),
    /// A message whose field 1 is a list of texts; one text stands for a list of one.
    TextList,
    /// A message whose field 1 is a list of schemas; one schema stands for a list of one.
    SchemaList,
    /// `additionalProperties`.
    SchemaOrBool,
    Paths,
    Responses,
    Variant(fn(&Map<String, Value>) -> Result<Path>),
    Variants(fn(&Map<String, Value>) -> Result<Path>),
}

/// The fields that lead to the message of a variant, the outermost first.
type Path = (&'static [u32], &'static Message);

use Shape::{Any, Anys, Bool, Double, Integer, Many, Named, One, Text, TextList, Texts, Variant, Variants};

static DOCUMENT: Message = Message {
    fields: &[
        ("swagger", 1, Text),
        ("info", 2, One(&INFO)),
        ("host", 3, Text),
        ("basePath", 4, Text),
        ("schemes", 5, Texts),
        ("consumes", 6, Texts),
        ("produces", 7, Texts),
        ("paths", 8, Shape::Paths),
        ("definitions", 9, Named(&One(&SCHEMA))),
        ("parameters", 10, Named(&Variant(parameter))),
        ("responses", 11, Named(&One(&RESPONSE))),
        ("security", 12, Many(&SECURITY_REQUIREMENT)),
        ("securityDefinitions", 13, Named(&Variant(security))),
        ("tags", 14, Many(&TAG)),
        ("externalDocs", 15, One(&EXTERNAL_DOCS)),
    ],
    extensions: 16,
};
static INFO: Message = Message {
    fields: &[
        ("title", 1, Text),
        ("version", 2, Text),
        ("description", 3, Text),
        ("termsOfService", 4, Text),
        ("contact", 5, One(&CONTACT)),
        ("license", 6, One(&LICENSE)),
    ],
    extensions: 7,
};
static CONTACT: Message = Message { fields: &[("name", 1, Text), ("url", 2, Text), ("email", 3, Text)], extensions: 4 };
static LICENSE: Message = Message { fields: &[("name", 1, Text), ("url", 2, Text)], extensions: 3 };
static TAG: Message =
    Message { fields: &[("name", 1, Text), ("description", 2, Text), ("externalDocs", 3, One(&EXTERNAL_DOCS))], extensions: 4 };
static EXTERNAL_DOCS: Message = Message { fields: &[("description", 1, Text), ("url", 2, Text)], extensions: 3 };
static REFERENCE: Message = Message { fields: &[("$ref", 1, Text), ("description", 2, Text)], extensions: 0 };
/// Its keys are names; `message` writes them.
static SECURITY_REQUIREMENT: Message = Message { fields: &[], extensions: 0 };

static SCHEMA: Message = Message {
    fields: &[
        ("$ref", 1, Text),
        ("format", 2, Text),
        ("title", 3, Text),
        ("description", 4, Text),
        ("default", 5, Any),
        ("multipleOf", 6, Double),
        ("maximum", 7, Double),
        ("exclusiveMaximum", 8, Bool),
        ("minimum", 9, Double),
        ("exclusiveMinimum", 10, Bool),
        ("maxLength", 11, Integer),
        ("minLength", 12, Integer),
        ("pattern", 13, Text),
        ("maxItems", 14, Integer),
        ("minItems", 15, Integer),
        ("uniqueItems", 16, Bool),
        ("maxProperties", 17, Integer),
        ("minProperties", 18, Integer),
        ("required", 19, Texts),
        ("enum", 20, Anys),
        ("additionalProperties", 21, Shape::SchemaOrBool),
        ("type", 22, TextList),
        ("items", 23, Shape::SchemaList),
        ("allOf", 24, Many(&SCHEMA)),
        ("properties", 25, Named(&One(&SCHEMA))),
        ("discriminator", 26, Text),
        ("readOnly", 27, Bool),
        ("externalDocs", 29, One(&EXTERNAL_DOCS)),
        ("example", 30, Any),
    ],
    extensions: 31,
};
static FILE_SCHEMA: Message = Message {
    fields: &[
        ("format", 1, Text),
        ("title", 2, Text),
        ("description", 3, Text),
        ("default", 4, Any),
        ("required", 5, Texts),
        ("type", 6, Text),
        ("readOnly", 7, Bool),
        ("externalDocs", 8, One(&EXTERNAL_DOCS)),
        ("example", 9, Any),
    ],
    extensions: 10,
};

static PATH_ITEM: Message = Message {
    fields: &[
        ("$ref", 1, Text),
        ("get", 2, One(&OPERATION)),
        ("put", 3, One(&OPERATION)),
        ("post", 4, One(&OPERATION)),
        ("delete", 5, One(&OPERATION)),
        ("options", 6, One(&OPERATION)),
        ("head", 7, One(&OPERATION)),
        ("patch", 8, One(&OPERATION)),
        ("parameters", 9, Variants(parameter_or_reference)),
    ],
    extensions: 10,
};
static OPERATION: Message = Message {
    fields: &[
        ("tags", 1, Texts),
        ("summary", 2, Text),
        ("description", 3, Text),
        ("externalDocs", 4, One(&EXTERNAL_DOCS)),
        ("operationId", 5, Text),
        ("produces", 6, Texts),
        ("consumes", 7, Texts),
        ("parameters", 8, Variants(parameter_or_reference)),
        ("responses", 9, Shape::Responses),
        ("schemes", 10, Texts),
        ("deprecated", 11, Bool),
        ("security", 12, Many(&SECURITY_REQUIREMENT)),
    ],
    extensions: 13,
};
static RESPONSE: Message = Message {
    fields: &[
        ("description", 1, Text),
        ("schema", 2, Variant(schema_or_file)),
        ("headers", 3, Named(&One(&HEADER))),
        ("examples", 4, Named(&Any)),
    ],
    extensions: 5,
};

static BODY: Message = Message {
    fields: &[("description", 1, Text), ("name", 2, Text), ("in", 3, Text), ("required", 4, Bool), ("schema", 5, One(&SCHEMA))],
    extensions: 6,
};
/// The fields of a plain value from `type` on; each message that has them counts from its own number.
macro_rules! plain {
    ($([$field:literal, $number:literal, $shape:expr]),*; $extensions:literal; $a:literal $b:literal $c:literal $d:literal $e:literal $f:literal $g:literal
     $h:literal $i:literal $j:literal $k:literal $l:literal $m:literal $n:literal $o:literal $p:literal $q:literal) => {
        Message {
            fields: &[
                $(($field, $number, $shape),)*
                ("type", $a, Text),
                ("format", $b, Text),
                ("items", $c, One(&ITEMS)),
                ("collectionFormat", $d, Text),
                ("default", $e, Any),
                ("maximum", $f, Double),
                ("exclusiveMaximum", $g, Bool),
                ("minimum", $h, Double),
                ("exclusiveMinimum", $i, Bool),
                ("maxLength", $j, Integer),
                ("minLength", $k, Integer),
                ("pattern", $l, Text),
                ("maxItems", $m, Integer),
                ("minItems", $n, Integer),
                ("uniqueItems", $o, Bool),
                ("enum", $p, Anys),
                ("multipleOf", $q, Double),
            ],
            extensions: $extensions,
        }
    };
}
static ITEMS: Message = plain!(; 18; 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17);
static HEADER: Message = plain!(["description", 18, Text]; 19; 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17);
/// Of a header or a path.
static PARAMETER: Message = plain!(["required", 1, Bool], ["in", 2, Text], ["description", 3, Text], ["name", 4, Text];
    22; 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21);
/// Of a query or a form.
static EMPTY_PARAMETER: Message = plain!(["required", 1, Bool], ["in", 2, Text], ["description", 3, Text], ["name", 4, Text],
    ["allowEmptyValue", 5, Bool]; 23; 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22);

static BASIC: Message = Message { fields: &[("type", 1, Text), ("description", 2, Text)], extensions: 3 };
static API_KEY: Message =
    Message { fields: &[("type", 1, Text), ("name", 2, Text), ("in", 3, Text), ("description", 4, Text)], extensions: 5 };
static IMPLICIT: Message = Message {
    fields: &[("type", 1, Text), ("flow", 2, Text), ("scopes", 3, Named(&Text)), ("authorizationUrl", 4, Text), ("description", 5, Text)],
    extensions: 6,
};
/// The flows `password` and `application`.
static TOKEN: Message = Message {
    fields: &[("type", 1, Text), ("flow", 2, Text), ("scopes", 3, Named(&Text)), ("tokenUrl", 4, Text), ("description", 5, Text)],
    extensions: 6,
};
static ACCESS_CODE: Message = Message {
    fields: &[
        ("type", 1, Text),
        ("flow", 2, Text),
        ("scopes", 3, Named(&Text)),
        ("authorizationUrl", 4, Text),
        ("tokenUrl", 5, Text),
        ("description", 6, Text),
    ],
    extensions: 7,
};

fn of<'a>(map: &'a Map<String, Value>, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn parameter(map: &Map<String, Value>) -> Result<Path> {
    Ok(match of(map, "in") {
        "body" => (&[1], &BODY),
        "header" => (&[2, 1], &PARAMETER),
        "formData" => (&[2, 2], &EMPTY_PARAMETER),
        "query" => (&[2, 3], &EMPTY_PARAMETER),
        "path" => (&[2, 4], &PARAMETER),
        other => return Err(Error::here(format!("{other:?} is no place of a parameter")).under("in")),
    })
}

fn parameter_or_reference(map: &Map<String, Value>) -> Result<Path> {
    Ok(match (map.contains_key("$ref"), of(map, "in")) {
        (true, _) => (&[2], &REFERENCE),
        (_, "body") => (&[1, 1], &BODY),
        (_, "header") => (&[1, 2, 1], &PARAMETER),
        (_, "formData") => (&[1, 2, 2], &EMPTY_PARAMETER),
        (_, "query") => (&[1, 2, 3], &EMPTY_PARAMETER),
        (_, "path") => (&[1, 2, 4], &PARAMETER),
        (_, other) => return Err(Error::here(format!("{other:?} is no place of a parameter")).under("in")),
    })
}

#[allow(clippy::unnecessary_wraps, reason = "what a `Variant` is chosen by")]
fn response_or_reference(map: &Map<String, Value>) -> Result<Path> {
    Ok(if map.contains_key("$ref") { (&[2], &REFERENCE) } else { (&[1], &RESPONSE) })
}

#[allow(clippy::unnecessary_wraps, reason = "what a `Variant` is chosen by")]
fn schema_or_file(map: &Map<String, Value>) -> Result<Path> {
    Ok(if of(map, "type") == "file" { (&[2], &FILE_SCHEMA) } else { (&[1], &SCHEMA) })
}

fn security(map: &Map<String, Value>) -> Result<Path> {
    Ok(match (of(map, "type"), of(map, "flow")) {
        ("basic", _) => (&[1], &BASIC),
        ("apiKey", _) => (&[2], &API_KEY),
        ("oauth2", "implicit") => (&[3], &IMPLICIT),
        ("oauth2", "password") => (&[4], &TOKEN),
        ("oauth2", "application") => (&[5], &TOKEN),
        ("oauth2", "accessCode") => (&[6], &ACCESS_CODE),
        (other, _) => return Err(Error::here(format!("{other:?} is no type of security")).under("type")),
    })
}

fn message(kind: &Message, value: &Value, out: &mut Vec<u8>) -> Result<()> {
    let map = object(value)?;
    if std::ptr::eq(kind, &raw const SECURITY_REQUIREMENT) {
        for (name, scopes) in map {
            named(1, name, out, |out| field(TextList, 2, scopes, out))?;
        }
        return Ok(());
    }
    for (name, number, shape) in kind.fields {
        if let Some(value) = map.get(*name) {
            field(*shape, *number, value, out).map_err(|error| error.under(name))?;
        }
    }
    if kind.extensions > 0 {
        extensions(map, kind.extensions, out)?;
    }
    Ok(())
}

fn extensions(map: &Map<String, Value>, number: u32, out: &mut Vec<u8>) -> Result<()> {
    for (name, value) in map.iter().filter(|(name, _)| name.starts_with("x-")) {
        named(number, name, out, |out| field(Any, 2, value, out))?;
    }
    Ok(())
}

fn field(shape: Shape, number: u32, value: &Value, out: &mut Vec<u8>) -> Result<()> {
    let wrong = |what: &str| Error::here(format!("not {what}"));
    match shape {
        Text => put_bytes(out, number, value.as_str().ok_or_else(|| wrong("a string"))?.as_bytes()),
        Texts => {
            for text in value.as_array().ok_or_else(|| wrong("a list"))? {
                field(Text, number, text, out)?;
            }
        }
        Bool => put_number(out, number, u64::from(value.as_bool().ok_or_else(|| wrong("a boolean"))?)),
        Integer => {
            let whole = value.as_i64().or_else(|| value.as_f64().filter(|float| float.fract() == 0.0).map(|float| float as i64));
            put_number(out, number, whole.ok_or_else(|| wrong("an integer"))? as u64);
        }
        Double => put_double(out, number, value.as_f64().ok_or_else(|| wrong("a number"))?),
        Any => part(number, out, |out| {
            put_bytes(out, 2, value.to_string().as_bytes());
            Ok(())
        })?,
        Anys => {
            for value in value.as_array().ok_or_else(|| wrong("a list"))? {
                field(Any, number, value, out)?;
            }
        }
        One(kind) => part(number, out, |out| message(kind, value, out))?,
        Many(kind) => {
            for value in value.as_array().ok_or_else(|| wrong("a list"))? {
                field(One(kind), number, value, out)?;
            }
        }
        Named(shape) => part(number, out, |out| {
            object(value)?.iter().try_for_each(|(name, value)| named(1, name, out, |out| field(*shape, 2, value, out)))
        })?,
        TextList => part(number, out, |out| if value.is_array() { field(Texts, 1, value, out) } else { field(Text, 1, value, out) })?,
        Shape::SchemaList => part(number, out, |out| {
            let shape = if value.is_array() { Many(&SCHEMA) } else { One(&SCHEMA) };
            field(shape, 1, value, out)
        })?,
        Shape::SchemaOrBool => part(number, out, |out| match value {
            Value::Bool(_) => field(Bool, 2, value, out),
            value => field(One(&SCHEMA), 1, value, out),
        })?,
        Shape::Paths => part(number, out, |out| {
            let map = object(value)?;
            extensions(map, 1, out)?;
            let paths = map.iter().filter(|(path, _)| path.starts_with('/'));
            paths.into_iter().try_for_each(|(path, item)| named(2, path, out, |out| field(One(&PATH_ITEM), 2, item, out)))
        })?,
        Shape::Responses => part(number, out, |out| {
            let map = object(value)?;
            let codes = map.iter().filter(|(code, _)| !code.starts_with("x-"));
            codes
                .into_iter()
                .try_for_each(|(code, answer)| named(1, code, out, |out| field(Variant(response_or_reference), 2, answer, out)))?;
            extensions(map, 2, out)
        })?,
        Variant(choose) => {
            let (path, kind) = choose(object(value)?)?;
            within(number, path, out, &mut |out| message(kind, value, out))?;
        }
        Variants(choose) => {
            for (at, value) in value.as_array().ok_or_else(|| wrong("a list"))?.iter().enumerate() {
                field(Variant(choose), number, value, out).map_err(|error| error.under(&format!("[{at}]")))?;
            }
        }
    }
    Ok(())
}

fn object(value: &Value) -> Result<&Map<String, Value>> {
    value.as_object().ok_or_else(|| Error::here("not an object"))
}

/// Appends a message that `fill` writes.
fn part(number: u32, out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
    let mut inner = Vec::new();
    fill(&mut inner)?;
    put_bytes(out, number, &inner);
    Ok(())
}

/// Appends a named value; `fill` writes its field 2.
fn named(number: u32, name: &str, out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
    part(number, out, |out| {
        put_bytes(out, 1, name.as_bytes());
        fill(out)
    })
    .map_err(|error| error.under(name))
}

/// Appends messages inside each other, the innermost of which `fill` writes.
fn within(number: u32, path: &[u32], out: &mut Vec<u8>, fill: &mut dyn FnMut(&mut Vec<u8>) -> Result<()>) -> Result<()> {
    part(number, out, |out| match path.split_first() {
        Some((first, rest)) => within(*first, rest, out, fill),
        None => fill(out),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::wire::{Reader, Wire};
    use serde_json::json;

    /// The bytes of the fields with that number.
    fn fields(bytes: &[u8], wanted: u32) -> Vec<&[u8]> {
        let mut reader = Reader::new(bytes);
        let mut found = Vec::new();
        while let Some((number, wire)) = reader.field().unwrap() {
            if let (true, Wire::Bytes(bytes)) = (number == wanted, wire) {
                found.push(bytes);
            }
        }
        found
    }

    fn at<'a>(bytes: &'a [u8], path: &[u32]) -> &'a [u8] {
        path.iter().fold(bytes, |bytes, number| fields(bytes, *number)[0])
    }

    /// KAPI-DISC-02: each thing of the document stands in the field where gnostic has it.
    #[test]
    fn documents_are_those_of_gnostic() {
        let document = json!({
            "swagger": "2.0", "info": {"title": "Kubernetes", "version": "1.34"},
            "paths": {"/a": {"get": {"operationId": "readA", "x-kubernetes-action": "get",
                "parameters": [{"in": "query", "name": "watch", "type": "boolean", "uniqueItems": true}, {"in": "body", "name": "body", "schema": {}}, {"$ref": "#/p"}],
                "responses": {"200": {"description": "OK", "schema": {"$ref": "#/definitions/A"}}}}}},
            "definitions": {"A": {"type": "object", "properties": {"b": {"type": "array", "items": {"$ref": "#/definitions/A"}, "default": [1]}},
                "additionalProperties": false, "maximum": 1.5, "unknown": 1}},
            "security": [{"BearerToken": []}], "securityDefinitions": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}},
        });
        let bytes = encode_openapi_v2(&document).unwrap();
        assert_eq!(at(&bytes, &[1]), b"2.0");
        assert_eq!(at(&bytes, &[2, 1]), b"Kubernetes");
        let path = at(&bytes, &[8, 2]);
        assert_eq!(at(path, &[1]), b"/a");
        let get = at(path, &[2, 2]);
        assert_eq!((at(get, &[5]), at(get, &[13, 1]), at(get, &[13, 2, 2])), (&b"readA"[..], &b"x-kubernetes-action"[..], &b"\"get\""[..]));
        let parameters = fields(get, 8);
        assert_eq!(at(parameters[0], &[1, 2, 3, 4]), b"watch");
        assert_eq!(at(parameters[1], &[1, 1, 2]), b"body");
        assert_eq!(at(parameters[2], &[2, 1]), b"#/p");
        assert_eq!((at(get, &[9, 1, 1]), at(get, &[9, 1, 2, 1, 2, 1, 1])), (&b"200"[..], &b"#/definitions/A"[..]));
        let definition = at(&bytes, &[9, 1]);
        assert_eq!((at(definition, &[1]), at(definition, &[2, 22, 1])), (&b"A"[..], &b"object"[..]));
        assert_eq!(at(definition, &[2, 21]), [0x10, 0]);
        let property = at(definition, &[2, 25, 1]);
        assert_eq!(
            (at(property, &[1]), at(property, &[2, 23, 1, 1]), at(property, &[2, 5, 2])),
            (&b"b"[..], &b"#/definitions/A"[..], &b"[1]"[..])
        );
        assert_eq!(at(&bytes, &[12, 1, 1]), b"BearerToken");
        assert_eq!((at(&bytes, &[13, 1, 1]), at(&bytes, &[13, 1, 2, 2, 1])), (&b"BearerToken"[..], &b"apiKey"[..]));
    }

    #[test]
    fn errors_name_the_place() {
        let wrong = |document: Value| encode_openapi_v2(&document).unwrap_err().to_string();
        assert_eq!(
            wrong(json!({"definitions": {"A": {"properties": {"b": {"maxLength": "x"}}}}})),
            "OpenAPI.definitions.A.properties.b.maxLength: not an integer"
        );
        assert_eq!(
            wrong(json!({"paths": {"/a": {"parameters": [{"in": "?"}]}}})),
            "OpenAPI.paths./a.parameters[0].in: \"?\" is no place of a parameter"
        );
    }
}
