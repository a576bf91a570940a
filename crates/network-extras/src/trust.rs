//! The bundle of trusted certificates: the user's, then the system's (COP-NET-01).

use std::collections::BTreeSet;

use serde_json::{Value, json};
use x509_parser::parse_x509_certificate;
use x509_parser::pem::Pem;

/// The key of the bundle in every ConfigMap.
pub const KEY: &str = "ca-bundle.crt";
/// The label of ConfigMaps that receive the bundle.
pub const LABEL: &str = "config.openshift.io/inject-trusted-cabundle";
/// The most certificates of one bundle.
const MOST: usize = 2000;
/// The most bytes of the merged bundle; a ConfigMap holds at most 1 MiB.
const MOST_BYTES: usize = 1_000_000;

/// Why a bundle is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bundle}: {problem}")]
pub struct InvalidBundle {
    /// The bundle.
    pub bundle: String,
    /// The problem, with its position.
    pub problem: String,
}

/// Merges the user's certificates and the system's, each once, in this order. A bundle of the user that has a flaw is refused as a whole; of the
/// system's, which is not the user's to mend, flawed blocks are left out.
///
/// # Errors
/// The user's bundle has no certificate, or something that is none.
pub fn merge(user: Option<(&str, &str)>, system: &str) -> Result<String, InvalidBundle> {
    let mut seen = BTreeSet::new();
    let mut merged = String::new();
    let mut add = |der: Vec<u8>| {
        if seen.insert(der.clone()) {
            merged.push_str(&pem(&der));
        }
    };
    if let Some((name, text)) = user {
        certificates(name, text)?.into_iter().for_each(&mut add);
    }
    let valid = |pem: &Pem| pem.label == "CERTIFICATE" && parse_x509_certificate(&pem.contents).is_ok();
    Pem::iter_from_buffer(system.as_bytes()).flatten().filter(valid).take(MOST).for_each(|pem| add(pem.contents));
    if merged.len() > MOST_BYTES {
        let problem = format!("with the system's certificates it has {} bytes, and a ConfigMap holds {MOST_BYTES}", merged.len());
        return Err(InvalidBundle { bundle: user.map_or("the system's bundle", |(name, _)| name).to_owned(), problem });
    }
    Ok(merged)
}

/// The certificates of a bundle of the user.
fn certificates(bundle: &str, text: &str) -> Result<Vec<Vec<u8>>, InvalidBundle> {
    let wrong = |problem: String| InvalidBundle { bundle: bundle.to_owned(), problem };
    if text.is_empty() {
        return Err(wrong(format!("data key {KEY:?} is empty")));
    }
    let lines: Vec<usize> =
        text.lines().enumerate().filter(|(_, line)| line.starts_with("-----BEGIN ")).map(|(index, _)| index + 1).collect();
    let mut all = Vec::new();
    for (index, pem) in Pem::iter_from_buffer(text.as_bytes()).enumerate() {
        let at = format!("block {}, line {}", index + 1, lines.get(index).copied().unwrap_or(1));
        let pem = pem.map_err(|error| wrong(format!("{at}: it is no PEM: {error}")))?;
        if pem.label != "CERTIFICATE" {
            return Err(wrong(format!("{at}: it is a {}, not a certificate", pem.label)));
        }
        match parse_x509_certificate(&pem.contents) {
            Ok(([], _)) => {}
            Ok(_) => return Err(wrong(format!("{at}: the certificate is followed by something else"))),
            Err(error) => return Err(wrong(format!("{at}: the certificate cannot be read: {error}"))),
        }
        if all.len() == MOST {
            return Err(wrong(format!("it has more than {MOST} certificates")));
        }
        all.push(pem.contents);
    }
    if all.len() < lines.len() {
        let line = lines.get(all.len()).copied().unwrap_or(1);
        return Err(wrong(format!("block {}, line {line}: it has no end", all.len() + 1)));
    }
    if all.is_empty() { Err(wrong("it has no certificate".to_owned())) } else { Ok(all) }
}

fn pem(der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let mut out = String::from("-----BEGIN CERTIFICATE-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        // Base64 is ASCII, so every byte is a boundary.
        let (line, after) = rest.split_at(rest.len().min(64));
        out.push_str(line);
        out.push('\n');
        rest = after;
    }
    out + "-----END CERTIFICATE-----\n"
}

/// Returns true if a ConfigMap asks for the bundle.
pub fn asks(config_map: &Value) -> bool {
    let label = config_map.pointer("/metadata/labels").and_then(|labels| labels.get(LABEL)).and_then(Value::as_str);
    label == Some("true") && config_map.pointer("/metadata/deletionTimestamp").is_none()
}

/// Returns the merge patch that gives a ConfigMap the bundle; `None` if it does not ask for it, or has it.
pub fn injection(config_map: &Value, bundle: &str) -> Option<Value> {
    let has = config_map.pointer("/data").and_then(|data| data.get(KEY)).and_then(Value::as_str) == Some(bundle);
    (asks(config_map) && !has).then(|| json!({"data": {KEY: bundle}}))
}
