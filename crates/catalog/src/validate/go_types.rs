//! Whether Go's decoder takes the value of a property of a known type, and its words when it does not (CATLG-23).
//!
//! Upstream decodes known properties into structs; the shapes of those structs stand here as tables.

use crate::json::Cursor;
use crate::json::write::{Layout, Writer};

/// What a field holds.
#[derive(Clone, Copy)]
enum Type {
    Text,
    Bool,
    /// An integer of so many bits, and its name.
    Integer(u32, &'static str),
    /// Bytes in base64.
    Bytes,
    /// Anything.
    Any,
    /// Texts by any key.
    Map,
    /// A list; of what, and the name of that.
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

/// Why a property of a known type can not be read; nothing when it can.
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
    mismatch(value, of)?;
    // Of several mismatches upstream reports the first in the order of sorted keys.
    let mut sorted = Vec::with_capacity(value.len());
    Writer::new(&mut sorted, Layout::Line).value(&mut Cursor::new(value)).ok()?;
    let reason = mismatch(std::str::from_utf8(&sorted).ok()?, of)?;
    Some(format!("parse property[{index}] of type \"{kind}\": {reason}"))
}

fn mismatch(value: &str, of: &'static Struct) -> Option<String> {
    let mut walk = Walk { cursor: Cursor::new(value), path: Vec::new(), of: None, first: None };
    walk.value(&Type::Struct(of));
    walk.first
}

/// Goes along a value and a type; the value is known to be JSON.
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
                    // Go takes a list of small numbers for bytes.
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
        // Errors can not come: the value was checked when its blob was.
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

/// Where a text stops being base64.
fn base64_position(text: &str) -> Result<(), usize> {
    match super::facts::decode_base64(text) {
        Ok(_) => Ok(()),
        Err(base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _)) => Err(at),
        Err(_) => Err(text.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::property_error;

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
