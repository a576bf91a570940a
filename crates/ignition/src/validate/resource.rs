//! Rules of contents that come from a URL.

use mainstay_golang::url as go_url;

use super::Rule;
use crate::data::Struct;
use crate::data_url;
use crate::model::Spec;
use crate::report::{Report, Severity, Trail};

const INVALID_URL: &str = "unable to parse url";
const INVALID_ARN: &str = "invalid S3 ARN format";

/// The fault in a source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SourceError {
    #[error("{0}")]
    Rule(&'static str),
    #[error(transparent)]
    Data(#[from] data_url::DataUrlError),
}

pub(super) fn resource(of: &Struct, spec: Spec, path: &Trail<'_>, report: &mut Report) {
    let compression = match of.text("compression") {
        None | Some("" | "gzip") => Ok(()),
        Some(_) => Err("invalid compression method"),
    };
    report.add_error(path.then("compression"), compression);
    let hash = of.child("verification").and_then(|verification| verification.text("hash"));
    let verified: Rule = match (hash, of.text("source")) {
        (Some(_), None) => Err("source must be specified if verification is specified"),
        _ => Ok(()),
    };
    report.add_error(path.then("verification").then("hash"), verified);
    report.add_error(path.then("source"), url_or_none(of.text("source"), spec));
    report.add_error(path.then("httpHeaders"), headers_fit(of));
}

fn headers_fit(of: &Struct) -> Rule {
    if of.list("httpHeaders").is_empty() {
        return Ok(());
    }
    let source = of.get("source").not_empty().ok_or(INVALID_URL)?;
    match go_url::parse(source).map_err(|_| INVALID_URL)?.scheme.as_str() {
        "http" | "https" => Ok(()),
        _ => Err("cannot use HTTP headers with this source scheme"),
    }
}

/// A source that must be there.
pub(super) fn required(of: &Struct, spec: Spec) -> Result<(), SourceError> {
    match of.get("source").not_empty() {
        None => Err(SourceError::Rule("source is required")),
        Some(source) => url(source, spec),
    }
}

/// A source that may be empty.
pub(super) fn url_or_none(text: Option<&str>, spec: Spec) -> Result<(), SourceError> {
    match text {
        None | Some("") => Ok(()),
        Some(text) => url(text, spec),
    }
}

/// A source.
pub(super) fn url(text: &str, spec: Spec) -> Result<(), SourceError> {
    let parsed = go_url::parse(text).map_err(|_| SourceError::Rule(INVALID_URL))?;
    match parsed.scheme.as_str() {
        "http" | "https" | "tftp" => Ok(()),
        "gs" if spec >= Spec::V3_2 => Ok(()),
        "s3" => version_id(&parsed),
        "arn" if spec >= Spec::V3_4 => arn(&parsed),
        "data" => Ok(data_url::decode(text).map(drop)?),
        _ => Err(SourceError::Rule("invalid url scheme")),
    }
}

fn version_id(url: &go_url::Url) -> Result<(), SourceError> {
    match url.pairs().get("versionId") {
        Some(values) if values.first().is_none_or(String::is_empty) => Err(SourceError::Rule("invalid S3 object VersionId")),
        _ => Ok(()),
    }
}

fn arn(url: &go_url::Url) -> Result<(), SourceError> {
    let full = format!("{}:{}", url.scheme, url.opaque);
    let sections: Vec<&str> = full.splitn(6, ':').collect();
    let [_, _, service, _, _, resource] = sections.as_slice() else { return Err(SourceError::Rule(INVALID_ARN)) };
    let segments = full.split('/').count();
    if *service != "s3" || segments < 2 || resource.starts_with("accesspoint/") && segments < 3 {
        return Err(SourceError::Rule(INVALID_ARN));
    }
    version_id(url)
}

pub(super) fn header(of: &Struct, path: &Trail<'_>, report: &mut Report) {
    if of.text_or_empty("name").is_empty() {
        report.add(Severity::Error, path.then("name"), "HTTP header name can't be empty");
    }
    if of.text("value") == Some("") {
        report.add(Severity::Error, path.then("value"), "unable to parse HTTP header");
    }
}

pub(super) fn verification(of: &Struct, spec: Spec, path: &Trail<'_>, report: &mut Report) {
    let Some(hash) = of.text("hash") else { return };
    report.add_error(path.then("hash"), hash_fits(hash, spec >= Spec::V3_1));
}

/// A hash with the name of its function; SHA-256 is younger.
pub(crate) fn hash_fits(hash: &str, takes_sha256: bool) -> Rule {
    let (function, sum) = hash.split_once('-').ok_or("malformed hash specifier")?;
    let digits = match function {
        "sha512" => 128,
        "sha256" if takes_sha256 => 64,
        _ => return Err("unrecognized hash function"),
    };
    if sum.len() == digits { Ok(()) } else { Err("incorrect size for hash sum") }
}
