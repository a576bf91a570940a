//! Decoding of known property types by Go: acceptance of a value, and the error messages (CATLG-23).
//!
//! Upstream decodes known properties into structs; the tables here describe those structs.

use std::collections::BTreeMap;

use mainstay_golang::quote;
use serde_json::Value;

use crate::json::Cursor;
use crate::json::write::{Layout, Writer};

/// Type of a field.
#[derive(Clone, Copy)]
enum Type {
    Text,
    Bool,
    /// An integer: its number of bits, and its name.
    Integer(u32, &'static str),
    /// Bytes in base64.
    Bytes,
    /// Any value.
    Any,
    /// A map with text values.
    Map,
    /// A list: its element type, and the name of that type.
    List(&'static Type, &'static str),
    Struct(&'static Struct),
}

/// A struct: its package, its name, its fields.
struct Struct(&'static str, &'static str, &'static [(&'static str, Type)]);

const TEXTS: Type = Type::List(&Type::Text, "string");

static PACKAGE: Struct = Struct("property", "Package", &[("packageName", Type::Text), ("version", Type::Text), ("release", Type::Text)]);
static PACKAGE_REQUIRED: Struct = Struct("property", "PackageRequired", &[("packageName", Type::Text), ("versionRange", Type::Text)]);
static GVK: Struct = Struct("property", "GVK", &[("group", Type::Text), ("kind", Type::Text), ("version", Type::Text)]);
static GVK_REQUIRED: Struct = Struct("property", "GVKRequired", &[("group", Type::Text), ("kind", Type::Text), ("version", Type::Text)]);
static BUNDLE_OBJECT: Struct = Struct("property", "BundleObject", &[("data", Type::Bytes)]);
static CHANNEL: Struct = Struct("property", "Channel", &[("channelName", Type::Text), ("priority", Type::Integer(64, "int"))]);
static CSV_METADATA: Struct = Struct(
    "property",
    "CSVMetadata",
    &[
        ("annotations", Type::Map),
        ("apiServiceDefinitions", Type::Struct(&API_SERVICES)),
        ("crdDescriptions", Type::Struct(&CRDS)),
        ("description", Type::Text),
        ("displayName", Type::Text),
        ("installModes", Type::List(&Type::Struct(&INSTALL_MODE), "v1alpha1.InstallMode")),
        ("keywords", TEXTS),
        ("labels", Type::Map),
        ("links", Type::List(&Type::Struct(&APP_LINK), "v1alpha1.AppLink")),
        ("maintainers", Type::List(&Type::Struct(&MAINTAINER), "v1alpha1.Maintainer")),
        ("maturity", Type::Text),
        ("minKubeVersion", Type::Text),
        ("nativeAPIs", Type::List(&Type::Struct(&KIND), "v1.GroupVersionKind")),
        ("provider", Type::Struct(&APP_LINK)),
    ],
);
const API_SERVICE: Type = Type::List(&Type::Struct(&API_SERVICE_DESCRIPTION), "v1alpha1.APIServiceDescription");
static API_SERVICES: Struct = Struct("v1alpha1", "APIServiceDefinitions", &[("owned", API_SERVICE), ("required", API_SERVICE)]);
const CRD: Type = Type::List(&Type::Struct(&CRD_DESCRIPTION), "v1alpha1.CRDDescription");
static CRDS: Struct = Struct("v1alpha1", "CustomResourceDefinitions", &[("owned", CRD), ("required", CRD)]);
const RESOURCES: Type = Type::List(&Type::Struct(&RESOURCE), "v1alpha1.APIResourceReference");
const STATUS: Type = Type::List(&Type::Struct(&STATUS_DESCRIPTOR), "v1alpha1.StatusDescriptor");
const SPEC: Type = Type::List(&Type::Struct(&SPEC_DESCRIPTOR), "v1alpha1.SpecDescriptor");
const ACTION: Type = Type::List(&Type::Struct(&ACTION_DESCRIPTOR), "v1alpha1.ActionDescriptor");
static API_SERVICE_DESCRIPTION: Struct = Struct(
    "v1alpha1",
    "APIServiceDescription",
    &[
        ("name", Type::Text),
        ("group", Type::Text),
        ("version", Type::Text),
        ("kind", Type::Text),
        ("deploymentName", Type::Text),
        ("containerPort", Type::Integer(32, "int32")),
        ("displayName", Type::Text),
        ("description", Type::Text),
        ("resources", RESOURCES),
        ("statusDescriptors", STATUS),
        ("specDescriptors", SPEC),
        ("actionDescriptors", ACTION),
    ],
);
static CRD_DESCRIPTION: Struct = Struct(
    "v1alpha1",
    "CRDDescription",
    &[
        ("name", Type::Text),
        ("version", Type::Text),
        ("kind", Type::Text),
        ("displayName", Type::Text),
        ("description", Type::Text),
        ("resources", RESOURCES),
        ("statusDescriptors", STATUS),
        ("specDescriptors", SPEC),
        ("actionDescriptors", ACTION),
    ],
);
const DESCRIPTOR: &[(&str, Type)] =
    &[("path", Type::Text), ("displayName", Type::Text), ("description", Type::Text), ("x-descriptors", TEXTS), ("value", Type::Any)];
static STATUS_DESCRIPTOR: Struct = Struct("v1alpha1", "StatusDescriptor", DESCRIPTOR);
static SPEC_DESCRIPTOR: Struct = Struct("v1alpha1", "SpecDescriptor", DESCRIPTOR);
static ACTION_DESCRIPTOR: Struct = Struct("v1alpha1", "ActionDescriptor", DESCRIPTOR);
static RESOURCE: Struct =
    Struct("v1alpha1", "APIResourceReference", &[("name", Type::Text), ("kind", Type::Text), ("version", Type::Text)]);
static INSTALL_MODE: Struct = Struct("v1alpha1", "InstallMode", &[("type", Type::Text), ("supported", Type::Bool)]);
static APP_LINK: Struct = Struct("v1alpha1", "AppLink", &[("name", Type::Text), ("url", Type::Text)]);
static MAINTAINER: Struct = Struct("v1alpha1", "Maintainer", &[("name", Type::Text), ("email", Type::Text)]);
static KIND: Struct = Struct("v1", "GroupVersionKind", &[("group", Type::Text), ("version", Type::Text), ("kind", Type::Text)]);

/// Reason why a property of a known type cannot be read; `None` if it can.
pub(crate) fn property_error(index: usize, kind: &str, value: &str) -> Option<String> {
    let of: &'static Struct = match kind {
        "olm.package" => &PACKAGE,
        "olm.package.required" => &PACKAGE_REQUIRED,
        "olm.gvk" => &GVK,
        "olm.gvk.required" => &GVK_REQUIRED,
        "olm.bundle.object" => &BUNDLE_OBJECT,
        "olm.channel" => &CHANNEL,
        "olm.csv.metadata" => &CSV_METADATA,
        _ => return None,
    };
    Some(format!("parse property[{index}] of type \"{kind}\": {}", first_mismatch(value, of)?))
}

static PROPERTY: Struct = Struct("property", "Property", &[("type", Type::Text), ("value", Type::Any)]);
const PROPERTIES: Type = Type::List(&Type::Struct(&PROPERTY), "property.Property");
static ICON: Struct = Struct("declcfg", "Icon", &[("base64data", Type::Bytes), ("mediatype", Type::Text)]);
static PACKAGE_BLOB: Struct = Struct(
    "declcfg",
    "Package",
    &[
        ("schema", Type::Text),
        ("name", Type::Text),
        ("defaultChannel", Type::Text),
        ("icon", Type::Struct(&ICON)),
        ("description", Type::Text),
        ("properties", PROPERTIES),
    ],
);
static ENTRY: Struct =
    Struct("declcfg", "ChannelEntry", &[("name", Type::Text), ("replaces", Type::Text), ("skips", TEXTS), ("skipRange", Type::Text)]);
static CHANNEL_BLOB: Struct = Struct(
    "declcfg",
    "Channel",
    &[
        ("schema", Type::Text),
        ("name", Type::Text),
        ("package", Type::Text),
        ("entries", Type::List(&Type::Struct(&ENTRY), "declcfg.ChannelEntry")),
        ("properties", PROPERTIES),
    ],
);
static RELATED_IMAGE: Struct = Struct("declcfg", "RelatedImage", &[("name", Type::Text), ("image", Type::Text)]);
static BUNDLE_BLOB: Struct = Struct(
    "declcfg",
    "Bundle",
    &[
        ("schema", Type::Text),
        ("name", Type::Text),
        ("package", Type::Text),
        ("image", Type::Text),
        ("properties", PROPERTIES),
        ("relatedImages", Type::List(&Type::Struct(&RELATED_IMAGE), "declcfg.RelatedImage")),
    ],
);
static REFERENCE: Struct = Struct("declcfg", "PackageScopedReference", &[("schema", Type::Text), ("name", Type::Text)]);
static DEPRECATION: Struct = Struct("declcfg", "DeprecationEntry", &[("reference", Type::Struct(&REFERENCE)), ("message", Type::Text)]);
static DEPRECATIONS_BLOB: Struct = Struct(
    "declcfg",
    "Deprecation",
    &[("schema", Type::Text), ("package", Type::Text), ("entries", Type::List(&Type::Struct(&DEPRECATION), "declcfg.DeprecationEntry"))],
);

/// Upstream's message about a blob that its structs do not accept.
pub(crate) fn blob_error(schema: &str, json: &str) -> Option<String> {
    let (kind, of) = match schema {
        "olm.package" => ("package", &PACKAGE_BLOB),
        "olm.channel" => ("channel", &CHANNEL_BLOB),
        "olm.bundle" => ("bundle", &BUNDLE_BLOB),
        "olm.deprecations" => ("deprecation", &DEPRECATIONS_BLOB),
        _ => return None,
    };
    Some(format!("parse {kind}: {}", first_mismatch(json, of)?))
}

/// Upstream's message about a member of a blob that must be a text and is not. It asks Go to write the value as a truth value.
pub(crate) fn not_text(key: &str, json: &str) -> Option<String> {
    let value: Value = serde_json::from_str(json).ok()?;
    Some(format!(
        "expected value for key {} to be a string, got {}: {}",
        quote(key),
        printed(&value, Verb::Truth),
        printed(&value, Verb::Plain)
    ))
}

/// The verb by which Go writes a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    /// `%t`
    Truth,
    /// `%v`
    Plain,
}

fn printed(value: &Value, verb: Verb) -> String {
    let of_kind = |kind: &str, text: String| if verb == Verb::Truth { format!("%!t({kind}={text})") } else { text };
    // Inside a list or a mapping, null is written as `<nil>`, whatever the verb.
    let inner = |value: &Value| if value.is_null() { "<nil>".to_owned() } else { printed(value, verb) };
    match value {
        Value::Null if verb == Verb::Truth => "%!t(<nil>)".to_owned(),
        Value::Null => "<nil>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => of_kind("float64", float(number.as_f64().unwrap_or_default())),
        Value::String(text) => of_kind("string", text.clone()),
        Value::Array(items) => format!("[{}]", items.iter().map(inner).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let sorted: BTreeMap<&String, &Value> = map.iter().collect();
            let pair = |(key, value): (&&String, &&Value)| format!("{}:{}", of_kind("string", (*key).clone()), inner(value));
            format!("map[{}]", sorted.iter().map(pair).collect::<Vec<_>>().join(" "))
        }
    }
}

/// A number as `%v` writes it: the shortest digits, with an exponent from a million on and below a ten thousandth.
fn float(number: f64) -> String {
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
        }
        _ => number.to_string(),
    }
}

/// The mismatch that upstream reports: the first one in the order of sorted keys.
fn first_mismatch(value: &str, of: &'static Struct) -> Option<String> {
    mismatch(value, of)?;
    let mut sorted = Vec::with_capacity(value.len());
    Writer::new(&mut sorted, Layout::Line).value(&mut Cursor::new(value)).ok()?;
    mismatch(std::str::from_utf8(&sorted).ok()?, of)
}

fn mismatch(value: &str, of: &'static Struct) -> Option<String> {
    let mut walk = Walk { cursor: Cursor::new(value), path: Vec::new(), of: None, first: None };
    walk.value(&Type::Struct(of));
    walk.first
}

/// Parallel walk over a value and a type; the value is known to be JSON.
struct Walk<'a> {
    cursor: Cursor<'a>,
    path: Vec<&'static str>,
    /// The struct that the field belongs to.
    of: Option<&'static Struct>,
    first: Option<String>,
}

impl Walk<'_> {
    fn value(&mut self, wanted: &Type) {
        let found = self.cursor.peek();
        match (wanted, found) {
            (Type::Struct(of), Some(b'{')) => self.fields(of),
            (Type::Map, Some(b'{')) => self.texts(),
            (Type::List(of, _), Some(b'[')) => self.elements(of),
            (Type::Bytes, Some(b'"')) => {
                if let Ok(text) = self.cursor.string()
                    && let Err(position) = base64_position(&text)
                {
                    self.first.get_or_insert_with(|| format!("illegal base64 data at input byte {position}"));
                }
            }
            (Type::Integer(bits, _), Some(b'-' | b'0'..=b'9')) => {
                let text = self.cursor.skip().unwrap_or_default();
                let most = 1_i128 << (bits - 1);
                if !text.parse::<i128>().is_ok_and(|number| (-most..most).contains(&number)) {
                    self.wrong(&format!("number {text}"), wanted);
                }
            }
            _ => {
                let fits = match found {
                    Some(b'n') => true,
                    Some(b'"') => matches!(wanted, Type::Text | Type::Any),
                    Some(b't' | b'f') => matches!(wanted, Type::Bool | Type::Any),
                    // Go accepts a list of small numbers as bytes.
                    Some(b'[') => matches!(wanted, Type::Any | Type::Bytes),
                    _ => matches!(wanted, Type::Any),
                };
                if !fits {
                    self.wrong(go_kind(found), wanted);
                }
                // The value was checked when its blob was.
                let _checked = self.cursor.skip();
            }
        }
    }

    fn fields(&mut self, of: &'static Struct) {
        let outer = self.of.replace(of);
        let mut first = true;
        // No error is possible: the value was checked with its blob.
        if self.cursor.enter(b'{').is_ok() {
            while let Ok(Some(key)) = self.cursor.key(&mut first) {
                match of.2.iter().find(|(name, _)| name.eq_ignore_ascii_case(&key)) {
                    Some((name, wanted)) => {
                        self.path.push(name);
                        self.value(wanted);
                        self.path.pop();
                    }
                    None => {
                        let _checked = self.cursor.skip();
                    }
                }
            }
        }
        self.of = outer;
    }

    fn texts(&mut self) {
        let mut first = true;
        if self.cursor.enter(b'{').is_ok() {
            while let Ok(Some(_)) = self.cursor.key(&mut first) {
                self.value(&Type::Text);
            }
        }
    }

    fn elements(&mut self, of: &Type) {
        let mut first = true;
        if self.cursor.enter(b'[').is_ok() {
            while let Ok(true) = self.cursor.element(&mut first) {
                self.value(of);
            }
        }
    }

    fn wrong(&mut self, found: &str, wanted: &Type) {
        let name = type_name(wanted);
        self.first.get_or_insert_with(|| match self.of {
            Some(of) if !self.path.is_empty() => {
                format!("json: cannot unmarshal {found} into Go struct field {}.{} of type {name}", of.1, self.path.join("."))
            }
            _ => format!("json: cannot unmarshal {found} into Go value of type {name}"),
        });
    }
}

fn type_name(of: &Type) -> String {
    match of {
        Type::Text => "string".to_owned(),
        Type::Bool => "bool".to_owned(),
        Type::Integer(_, name) => (*name).to_owned(),
        Type::Bytes => "[]uint8".to_owned(),
        Type::Any => "json.RawMessage".to_owned(),
        Type::Map => "map[string]string".to_owned(),
        Type::List(_, name) => format!("[]{name}"),
        Type::Struct(Struct(package, name, _)) => format!("{package}.{name}"),
    }
}

fn go_kind(first: Option<u8>) -> &'static str {
    match first {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "bool",
        _ => "number",
    }
}

/// Position at which a text stops being base64.
fn base64_position(text: &str) -> Result<(), usize> {
    match super::facts::decode_base64(text) {
        Ok(_) => Ok(()),
        Err(base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _)) => Err(at),
        // A text that ends within its padding is wrong at its end; one that ends without padding, where its last four letters begin.
        Err(_) if text.ends_with('=') => Err(text.len()),
        Err(_) => Err(text.len() - text.bytes().filter(|byte| !matches!(byte, b'\n' | b'\r')).count() % 4),
    }
}

#[cfg(test)]
mod tests {
    use super::{blob_error, not_text, property_error};

    /// CATLG-22: values where a text is expected, as `opm` v1.65 wrote them.
    #[test]
    fn words_about_what_is_no_text() {
        for (json, expected) in [
            ("1", "%!t(float64=1): 1"),
            ("1.5", "%!t(float64=1.5): 1.5"),
            ("1000000", "%!t(float64=1e+06): 1e+06"),
            ("1e21", "%!t(float64=1e+21): 1e+21"),
            ("true", "true: true"),
            ("null", "%!t(<nil>): <nil>"),
            (r#"["a",1,null,{"b":[]}]"#, "[%!t(string=a) %!t(float64=1) <nil> map[%!t(string=b):[]]]: [a 1 <nil> map[b:[]]]"),
            (r#"{"b":1,"a":"x"}"#, "map[%!t(string=a):%!t(string=x) %!t(string=b):%!t(float64=1)]: map[a:x b:1]"),
        ] {
            assert_eq!(not_text("name", json), Some(format!("expected value for key \"name\" to be a string, got {expected}")), "{json}");
        }
    }

    /// CATLG-22: the same of whole blobs.
    #[test]
    fn words_about_blobs() {
        for (schema, blob, expected) in [
            (
                "olm.package",
                r#"{"defaultChannel":1}"#,
                "package: json: cannot unmarshal number into Go struct field Package.defaultChannel of type string",
            ),
            (
                "olm.package",
                r#"{"icon":"x"}"#,
                "package: json: cannot unmarshal string into Go struct field Package.icon of type declcfg.Icon",
            ),
            ("olm.package", r#"{"icon":{"base64data":"PHN2Zy8"}}"#, "package: illegal base64 data at input byte 4"),
            ("olm.package", r#"{"icon":{"base64data":"xx="}}"#, "package: illegal base64 data at input byte 3"),
            ("olm.package", r#"{"icon":{"base64data":"x"}}"#, "package: illegal base64 data at input byte 0"),
            ("olm.package", r#"{"icon":{"base64data":"a b"}}"#, "package: illegal base64 data at input byte 1"),
            (
                "olm.channel",
                r#"{"entries":[{"replaces":0}]}"#,
                "channel: json: cannot unmarshal number into Go struct field ChannelEntry.entries.replaces of type string",
            ),
            (
                "olm.bundle",
                r#"{"properties":"x"}"#,
                "bundle: json: cannot unmarshal string into Go struct field Bundle.properties of type []property.Property",
            ),
            (
                "olm.bundle",
                r#"{"relatedImages":[1],"properties":["x"]}"#,
                "bundle: json: cannot unmarshal string into Go struct field Bundle.properties of type property.Property",
            ),
            (
                "olm.deprecations",
                r#"{"entries":[{"reference":{"name":[]}}]}"#,
                "deprecation: json: cannot unmarshal array into Go struct field PackageScopedReference.entries.reference.name of type string",
            ),
        ] {
            assert_eq!(blob_error(schema, blob), Some(format!("parse {expected}")), "{blob}");
        }
        assert_eq!(blob_error("olm.bundle", r#"{"properties":[{"value":null}],"other":[1]}"#), None);
        assert_eq!(blob_error("team.notes", "[]"), None);
    }

    /// CATLG-23: Go's words, as `opm` v1.65 gave them for these values.
    #[test]
    fn words_of_go() {
        let metadata = "olm.csv.metadata";
        let cases = [
            (metadata, "3", "number into Go value of type property.CSVMetadata"),
            (metadata, r#"{"annotations":{"a":1}}"#, "number into Go struct field CSVMetadata.annotations of type string"),
            (metadata, r#"{"keywords":"x"}"#, "string into Go struct field CSVMetadata.keywords of type []string"),
            (
                metadata,
                r#"{"installModes":[{"supported":"true"}]}"#,
                "string into Go struct field InstallMode.installModes.supported of type bool",
            ),
            (metadata, r#"{"links":{}}"#, "object into Go struct field CSVMetadata.links of type []v1alpha1.AppLink"),
            (metadata, r#"{"provider":[]}"#, "array into Go struct field CSVMetadata.provider of type v1alpha1.AppLink"),
            (metadata, r#"{"nativeAPIs":[{"group":true}]}"#, "bool into Go struct field GroupVersionKind.nativeAPIs.group of type string"),
            (
                metadata,
                r#"{"crdDescriptions":{"owned":[{"resources":[{"kind":{}}]}]}}"#,
                "object into Go struct field APIResourceReference.crdDescriptions.owned.resources.kind of type string",
            ),
            (
                metadata,
                r#"{"crdDescriptions":{"owned":[{"specDescriptors":[{"value":{"a":[1]},"x-descriptors":"q"}]}]}}"#,
                "string into Go struct field SpecDescriptor.crdDescriptions.owned.specDescriptors.x-descriptors of type []string",
            ),
            (metadata, r#"{"displayName":2,"description":1}"#, "number into Go struct field CSVMetadata.description of type string"),
            ("olm.package", r#"{"version":1.0}"#, "number into Go struct field Package.version of type string"),
            ("olm.gvk", r#"["a"]"#, "array into Go value of type property.GVK"),
        ];
        for (kind, value, expected) in cases {
            let expected = format!("parse property[1] of type \"{kind}\": json: cannot unmarshal {expected}");
            assert_eq!(property_error(1, kind, value), Some(expected), "{value}");
        }
        for (kind, value) in [(metadata, "null"), (metadata, r#"{"Keywords":[null],"other":1}"#), ("example.com/any", "1")] {
            assert_eq!(property_error(0, kind, value), None, "{value}");
        }
    }
}
