//! Content negotiation: what a client can read, and what it sent (KAPI-SRV-07).

use http::{HeaderMap, header};
use serde_json::Value;

use crate::error::{ApiError, Result};

/// The media types of bodies, as errors list them.
pub const BODY_TYPES: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// The encoding of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `application/json`.
    #[default]
    Json,
    /// `application/json`, indented.
    Pretty,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`: built-in kinds only.
    Protobuf,
}

/// As what an object or list is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// As it is.
    #[default]
    Object,
    /// `Table` of `meta.k8s.io/v1`.
    Table,
    /// `PartialObjectMetadata`.
    Metadata,
    /// `PartialObjectMetadataList`.
    MetadataList,
    /// `APIGroupDiscoveryList` of `apidiscovery.k8s.io/v2`.
    Discovery,
}

/// The version of `meta.k8s.io` that transformed answers are in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetaVersion {
    /// `v1`.
    #[default]
    V1,
    /// `v1beta1`: older clients ask for it.
    V1Beta1,
}

impl MetaVersion {
    /// The `apiVersion`.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The form of an answer that was agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreed {
    /// The encoding.
    pub format: Format,
    /// The transformation.
    pub shape: Shape,
    /// The version of what it is transformed into.
    pub meta: MetaVersion,
}

/// The forms that a resource can be given in, beside JSON and YAML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offers {
    /// Its objects have a protobuf form.
    pub protobuf: bool,
    /// It can be shown as a table.
    pub tables: bool,
}

impl Format {
    /// The `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json | Self::Pretty => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => mainstay_protobuf::MEDIA_TYPE,
        }
    }

    /// Returns whether it is a form of JSON.
    pub fn is_json(self) -> bool {
        matches!(self, Self::Json | Self::Pretty)
    }

    /// Writes a value.
    pub fn write(self, value: &Value) -> Vec<u8> {
        match self {
            Self::Yaml => mainstay_yaml::to_string(value).into_bytes(),
            // What cannot be written is told in a Status, which always can.
            Self::Protobuf => protobuf(value).or_else(|error| protobuf(&error.status())).unwrap_or_default(),
            Self::Json => {
                // Writing a `Value` into memory has no way to fail.
                let mut out = serde_json::to_vec(value).unwrap_or_default();
                out.push(b'\n');
                out
            }
            Self::Pretty => {
                let mut out = serde_json::to_vec_pretty(value).unwrap_or_default();
                out.push(b'\n');
                out
            }
        }
    }
}

/// Writes an object of a kind that has a protobuf form.
pub fn protobuf(value: &Value) -> Result<Vec<u8>> {
    mainstay_protobuf::encode(value).map_err(|error| ApiError::internal(format!("the answer cannot be encoded as protobuf: {error}")))
}

/// Chooses the first media type of `Accept` that can be given.
pub fn agree(headers: &HeaderMap, pretty: Option<bool>, offers: Offers) -> Result<Agreed> {
    let json = json_form(headers, pretty);
    let clauses = accepted(headers);
    if clauses.is_empty() {
        return Ok(Agreed { format: json, ..Agreed::default() });
    }
    for clause in clauses {
        let Some(format) = named(clause, json) else { continue };
        let find = |name: &str| parameters(clause).find(|(key, _)| *key == name).map_or("", |(_, value)| value);
        let meta = if find("v") == "v1beta1" { MetaVersion::V1Beta1 } else { MetaVersion::V1 };
        let shape = match (find("as"), find("g"), find("v")) {
            ("", ..) => Shape::Object,
            ("Table", "meta.k8s.io", "v1" | "v1beta1") if offers.tables => Shape::Table,
            ("PartialObjectMetadata", "meta.k8s.io", "v1" | "v1beta1") => Shape::Metadata,
            ("PartialObjectMetadataList", "meta.k8s.io", "v1" | "v1beta1") => Shape::MetadataList,
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => Shape::Discovery,
            _ => continue,
        };
        if format == Format::Protobuf {
            match shape {
                Shape::Object if offers.protobuf => {}
                Shape::Metadata | Shape::MetadataList => {}
                _ => continue,
            }
        }
        return Ok(Agreed { format, shape, meta });
    }
    Err(ApiError::not_acceptable(&BODY_TYPES))
}

/// The form of a Status: the first that is asked for without a transformation, since a Status has none; else JSON.
pub fn error_format(headers: &HeaderMap, pretty: Option<bool>) -> Format {
    let json = json_form(headers, pretty);
    let mut plain = accepted(headers).into_iter().filter(|clause| parameters(clause).all(|(key, _)| key != "as"));
    plain.find_map(|clause| named(clause, json)).unwrap_or(json)
}

/// JSON, for people with line breaks.
fn json_form(headers: &HeaderMap, pretty: Option<bool>) -> Format {
    let agent = text(headers, header::USER_AGENT);
    let human = ["curl", "Wget", "Mozilla/5.0"].iter().any(|name| agent.starts_with(name));
    if pretty.unwrap_or(human) { Format::Pretty } else { Format::Json }
}

/// The format that a clause of `Accept` names.
fn named(clause: &str, json: Format) -> Option<Format> {
    match media_type(clause) {
        "application/json" | "application/*" | "*/*" => Some(json),
        "application/yaml" => Some(Format::Yaml),
        mainstay_protobuf::MEDIA_TYPE => Some(Format::Protobuf),
        _ => None,
    }
}

/// Refuses an `Accept` that names nothing of what a route produces. As Kubernetes' router it knows no ranges but `*/*`, and only looks at
/// the first header.
pub fn check_produced(headers: &HeaderMap, produced: &[&str]) -> Result<()> {
    let accept = text(headers, header::ACCEPT);
    let fits = |clause: &str| matches!(media_type(clause), "*/*") || produced.contains(&media_type(clause));
    if accept.is_empty() || accept.split(',').any(fits) { Ok(()) } else { Err(ApiError::not_representable(produced)) }
}

/// Returns whether `/openapi/v2` is asked for as protobuf; neither that nor JSON is refused (KAPI-DISC-02).
pub fn openapi_v2_as_protobuf(headers: &HeaderMap) -> Result<bool> {
    let clauses = accepted(headers);
    let found = clauses.iter().find_map(|clause| match media_type(clause) {
        "application/json" | "application/*" | "*/*" => Some(false),
        mainstay_protobuf::OPENAPI_V2_MEDIA_TYPE | mainstay_protobuf::OPENAPI_V2_MEDIA_TYPE_ASKED => Some(true),
        _ => None,
    });
    match found {
        Some(protobuf) => Ok(protobuf),
        None if clauses.is_empty() => Ok(false),
        None => Err(ApiError::not_acceptable(&["application/json", mainstay_protobuf::OPENAPI_V2_MEDIA_TYPE])),
    }
}

/// The clauses of `Accept`, the preferred first.
fn accepted(headers: &HeaderMap) -> Vec<&str> {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut clauses: Vec<(f32, &str)> = values
        .flat_map(|value| value.split(','))
        .filter(|clause| !clause.trim().is_empty())
        .map(|clause| {
            let weight = parameters(clause).find(|(key, _)| *key == "q").and_then(|(_, value)| value.parse().ok()).unwrap_or(1.0);
            (weight, clause)
        })
        .collect();
    clauses.sort_by(|left, right| right.0.total_cmp(&left.0));
    clauses.into_iter().map(|(_, clause)| clause).collect()
}

fn media_type(clause: &str) -> &str {
    clause.split(';').next().unwrap_or_default().trim()
}

fn parameters(clause: &str) -> impl Iterator<Item = (&str, &str)> {
    clause.split(';').skip(1).filter_map(|pair| pair.trim().split_once('='))
}

/// Returns whether a client takes compressed answers: gzip by name or by `*`, with a quality above zero.
pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    let mut wildcard = false;
    for value in headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok()) {
        for clause in value.split(',') {
            let coding = clause.split(';').next().unwrap_or_default().trim();
            let refused =
                parameters(clause).any(|(key, value)| key == "q" && value.trim().parse::<f32>().is_ok_and(|weight| weight <= 0.0));
            match coding {
                "gzip" => return !refused,
                "*" => wildcard = !refused,
                _ => {}
            }
        }
    }
    wildcard
}

/// The text of a header; empty when absent.
pub fn text(headers: &HeaderMap, name: header::HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The media type of the body without parameters.
pub fn content_type(headers: &HeaderMap) -> &str {
    text(headers, header::CONTENT_TYPE).split(';').next().unwrap_or_default().trim()
}

/// A decoded body.
#[derive(Debug, Default)]
pub struct Decoded {
    /// The document.
    pub value: Value,
    /// Problems of the body as a whole, in words; those of its fields follow.
    pub problems: Vec<String>,
    /// Fields that occurred twice, as dotted paths.
    pub duplicates: Vec<String>,
    /// The JSON text, for the order of its fields; empty where there is none.
    pub text: bytes::Bytes,
}

/// The media type that a body is read by, in small letters; a parameter that is no `name=value` is refused.
fn body_type(headers: &HeaderMap) -> Result<String> {
    let given = text(headers, header::CONTENT_TYPE);
    let mut parts = given.split(';');
    let media_type = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
    let parameters: Vec<&str> = parts.map(str::trim).collect();
    // One semicolon at the end is passed over.
    let (last, others) = parameters.split_last().map_or(("", &[][..]), |(last, others)| (*last, others));
    let is_pair = |pair: &&str| pair.split_once('=').is_some_and(|(name, value)| !name.is_empty() && !value.is_empty());
    if others.iter().all(is_pair) && (last.is_empty() || is_pair(&last)) { Ok(media_type) } else { Err(no_body_type()) }
}

/// Returns whether a body is YAML by its media type.
fn is_yaml(media_type: &str) -> Result<bool> {
    match media_type {
        "" | "application/json" | "*/*" => Ok(false),
        "application/yaml" | "text/yaml" | "application/x-yaml" => Ok(true),
        _ => Err(no_body_type()),
    }
}

fn no_body_type() -> ApiError {
    ApiError::unsupported_media_type(&BODY_TYPES).without_details()
}

/// Reads a body by its media type. `kind` is the kind that is expected there.
pub fn decode(headers: &HeaderMap, body: &[u8], kind: &str) -> Result<Decoded> {
    let yaml = match body_type(headers)?.as_str() {
        mainstay_protobuf::MEDIA_TYPE => return decode_protobuf(body, kind),
        other => is_yaml(other)?,
    };
    decode_as(body, kind, yaml)
}

/// Reads a protobuf object. Nothing in it can be unknown or twice.
fn decode_protobuf(body: &[u8], kind: &str) -> Result<Decoded> {
    // Options go with every group version and may leave out theirs; objects state it.
    let api_version = if kind.ends_with("Options") { "v1" } else { "" };
    match mainstay_protobuf::decode_as(body, api_version, kind, &mainstay_protobuf::Limits::default()) {
        Ok(value) => Ok(Decoded { value, ..Decoded::default() }),
        Err(mainstay_protobuf::Error::NoEnvelope) => Err(unrecognized(
            kind,
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
            &summary(body),
        )),
        Err(error) => Err(ApiError::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {error}"))),
    }
}

fn unrecognized(kind: &str, why: &str, shown: &str) -> ApiError {
    ApiError::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {why} ({shown})"))
}

/// The beginning of a body, as Kubernetes shows one that it cannot read: JSON as it is, everything else in hexadecimal digits.
fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let (start, more) = if body.len() > SHOWN { (&body[..SHOWN], " ...") } else { (body, "") };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(start).into_owned() + more,
        Some(_) => start.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}")) + more,
    }
}

/// The problem of a text that is no YAML, in the words of Go's library: without what was being parsed.
pub fn yaml_problem(error: &mainstay_yaml::Error) -> String {
    let problem =
        error.problem.strip_prefix("while ").and_then(|rest| rest.split_once(": ")).map_or(&*error.problem, |(_, problem)| problem);
    let problem = match problem {
        "did not find its end before that of the text" => "did not find expected node content",
        problem if problem.starts_with("a tab stands where a token begins") => "found character that cannot start any token",
        other => other.strip_suffix(" before the end of the text").unwrap_or(other),
    };
    // Go's reader has no number for what it finds in the first line while it looks for tokens.
    match (error.line, problem) {
        (1, "mapping values are not allowed in this context" | "found character that cannot start any token") => format!("yaml: {problem}"),
        (line, problem) => format!("yaml: line {line}: {problem}"),
    }
}

/// The messages about keys that stand twice in YAML.
pub fn yaml_duplicates<'a>(lines: impl Iterator<Item = &'a mainstay_yaml::Duplicate>) -> Vec<String> {
    lines.map(|one| format!("line {}: key {:?} already set in map", one.line, one.key)).collect()
}

/// A body that is no document, in the words of Kubernetes' decoder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It is no YAML.
    #[error("{0}")]
    Yaml(String),
    /// It is no JSON object, or does not say what it is.
    #[error("couldn't get version/kind; json parse error: {why}")]
    Json {
        /// The reason.
        why: String,
        /// The body as it is shown behind the reason.
        shown: String,
    },
}

/// Reads a JSON or YAML document with duplicates noted. `kind` is the kind that is expected there.
pub fn decode_as(body: &[u8], kind: &str, yaml: bool) -> Result<Decoded> {
    read(body, yaml).map_err(|unreadable| match &unreadable {
        Unreadable::Yaml(why) => unrecognized(kind, why, &summary(body)),
        Unreadable::Json { shown, .. } => unrecognized(kind, &unreadable.to_string(), shown),
    })
}

/// Reads options: those of a body that a media type is known of.
pub fn decode_options(headers: &HeaderMap, body: &[u8], kind: &str) -> Result<Value> {
    let yaml = match body_type(headers)?.as_str() {
        mainstay_protobuf::MEDIA_TYPE => return decode_protobuf(body, kind).map(|decoded| decoded.value),
        other => is_yaml(other)?,
    };
    read(body, yaml).map(|decoded| decoded.value).map_err(|unreadable| ApiError::bad_request(unreadable.to_string()))
}

fn read(body: &[u8], yaml: bool) -> std::result::Result<Decoded, Unreadable> {
    let unrecognized = |why: &str, shown: &str| Unreadable::Json { why: why.to_owned(), shown: shown.to_owned() };
    if yaml {
        let text = std::str::from_utf8(body).map_err(|_| Unreadable::Yaml("yaml: invalid leading UTF-8 octet".to_owned()))?;
        let read = mainstay_yaml::parse_with(text, &mainstay_yaml::Options::default());
        let document = read.map_err(|error| Unreadable::Yaml(yaml_problem(&error)))?;
        let twice = yaml_duplicates(document.duplicates.iter());
        let problems = if twice.is_empty() { Vec::new() } else { vec![format!("yaml: unmarshal errors:\n  {}", twice.join("\n  "))] };
        return Ok(Decoded { value: document.value, problems, ..Decoded::default() });
    }
    let (value, duplicates) = crate::strict::parse(body).map_err(|error| {
        let why = if error.is_eof() {
            "unexpected end of JSON input".to_owned()
        } else if error.to_string().starts_with("recursion limit") {
            "exceeded max depth".to_owned()
        } else {
            go_syntax_error(&error, body)
        };
        unrecognized(&why, &summary(body))
    })?;
    match value {
        Value::Object(_) => Ok(Decoded { value, duplicates, text: bytes::Bytes::copy_from_slice(body), ..Decoded::default() }),
        other => {
            let found = match other {
                Value::Array(_) => "array",
                Value::String(_) => "string",
                Value::Bool(_) => "bool",
                Value::Null => return Ok(Decoded { value: Value::Object(serde_json::Map::new()), duplicates, ..Decoded::default() }),
                _ => "number",
            };
            let head = "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";
            Err(unrecognized(&format!("json: cannot unmarshal {found} into Go value of type {head}"), &summary(body)))
        }
    }
}

fn go_syntax_error(error: &serde_json::Error, body: &[u8]) -> String {
    let offset = body.split(|byte| *byte == b'\n').take(error.line().saturating_sub(1)).map(|line| line.len() + 1).sum::<usize>()
        + error.column().saturating_sub(1);
    let found = match body.get(offset).copied() {
        Some(b'\'') => "'\\''".to_owned(),
        Some(b'"') => "'\"'".to_owned(),
        Some(byte) if byte.is_ascii() => format!("'{}'", (byte as char).escape_default()),
        Some(byte) => format!("'{}'", byte as char),
        None => "'?'".to_owned(),
    };
    let said = error.to_string();
    let place = [
        ("trailing characters", "after top-level value"),
        ("expected `:`", "after object key"),
        ("expected `,` or `}`", "after object key:value pair"),
        ("expected `,` or `]`", "after array element"),
        ("key must be a string", "looking for beginning of object key string"),
        ("control character", "in string literal"),
        ("invalid escape", "in string escape code"),
        ("invalid number", "in numeric literal"),
    ];
    let place = place.iter().find(|(serde, _)| said.starts_with(serde)).map_or("looking for beginning of value", |(_, go)| go);
    format!("invalid character {found} {place}")
}
