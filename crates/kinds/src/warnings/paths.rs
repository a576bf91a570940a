//! Warnings about the inside of volumes and Secrets: files that hide each other, texts that are no PEM.

use mainstay_golang::quote;
use serde_json::Value;

use super::part;
use crate::validate::{has, list, text};

/// A file of a volume, and what it comes from.
#[derive(Clone, PartialEq, Eq)]
struct File {
    path: String,
    source: String,
}

impl File {
    fn new(path: &str, source: &str) -> Self {
        Self { path: path.trim_end_matches('/').to_owned(), source: source.to_owned() }
    }

    /// Returns true if one hides the other: they are the same, or one is a folder to the other.
    fn collides(&self, other: &Self) -> bool {
        let (own, its) = (format!("{}/", self.path), format!("{}/", other.path));
        !self.path.is_empty() && !other.path.is_empty() && (own.starts_with(&its) || its.starts_with(&own))
    }

    fn shown(&self) -> String {
        let path = quote(&self.path);
        if self.source.is_empty() { path } else { format!("{path} ({})", self.source) }
    }
}

/// Warnings about the files of volumes that are made of several.
pub(super) fn overlaps(volumes: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    for volume in volumes {
        let name = quote(text(volume, "name"));
        for (field, shown) in [
            ("configMap", format!("ConfigMap {}", quote(text(part(volume, "configMap"), "name")))),
            ("secret", format!("Secret {}", quote(text(part(volume, "secret"), "secretName")))),
            ("downwardAPI", "DownwardAPI".to_owned()),
        ] {
            found.extend(collisions(&name, &shown, &items(part(volume, field), "")));
        }
        let mut files = Vec::new();
        for source in list(part(volume, "projected"), "sources") {
            if source.as_object().is_none_or(|source| source.values().all(Value::is_null)) {
                found.push(format!("volume {name} (Projected) has no sources provided"));
            }
            files.extend(projected(source));
        }
        found.extend(collisions(&name, "Projected", &files));
    }
    found
}

fn items(source: &Value, shown: &str) -> Vec<File> {
    list(source, "items").iter().map(|item| File::new(text(item, "path"), shown)).collect()
}

fn projected(source: &Value) -> Vec<File> {
    let one = |field| part(source, field);
    if has(one("configMap"), "items") {
        return items(one("configMap"), &format!("ConfigMap {}", quote(text(one("configMap"), "name"))));
    }
    if has(one("secret"), "items") {
        return items(one("secret"), &format!("Secret {}", quote(text(one("secret"), "name"))));
    }
    if has(one("downwardAPI"), "items") {
        return items(one("downwardAPI"), "DownwardAPI");
    }
    if has(source, "serviceAccountToken") {
        return vec![File::new(text(one("serviceAccountToken"), "path"), "ServiceAccountToken")];
    }
    if has(source, "clusterTrustBundle") {
        let bundle = one("clusterTrustBundle");
        let name = if has(bundle, "name") { text(bundle, "name") } else { text(bundle, "signerName") };
        return vec![File::new(text(bundle, "path"), &format!("ClusterTrustBundle {}", quote(name)))];
    }
    let certificate = one("podCertificate");
    let kinds = [("certificateChainPath", "chain"), ("keyPath", "key"), ("credentialBundlePath", "credential bundle")];
    let given = kinds.iter().map(|(field, kind)| (text(certificate, field), kind)).filter(|(path, _)| !path.is_empty());
    given.map(|(path, kind)| File::new(path, &format!("PodCertificate {kind}"))).collect()
}

fn collisions(volume: &str, shown: &str, files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for (index, file) in files.iter().enumerate() {
        for other in files[..index].iter().filter(|other| file.collides(other)) {
            found.push(format!("volume {volume} ({shown}): overlapping paths: {} with {}", file.shown(), other.shown()));
        }
    }
    found
}

/// The reason why Go's TLS would not find a certificate and a key in two texts.
pub(super) fn pem_problem(certificate: &[u8], key: &[u8]) -> Option<String> {
    let blocks = blocks(certificate);
    if !blocks.iter().any(|kind| kind == "CERTIFICATE") {
        return Some(match blocks.as_slice() {
            [] => "tls: failed to find any PEM data in certificate input".to_owned(),
            [only] if only.ends_with("PRIVATE KEY") => {
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched".to_owned()
            }
            skipped => format!(
                "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [{}]",
                skipped.join(" ")
            ),
        });
    }
    let blocks = self::blocks(key);
    if blocks.iter().any(|kind| kind.ends_with("PRIVATE KEY")) {
        return None;
    }
    Some(match blocks.as_slice() {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [only] if only == "CERTIFICATE" => "tls: found a certificate rather than a key in the PEM for the private key".to_owned(),
        skipped => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: [{}]",
            skipped.join(" ")
        ),
    })
}

/// The kinds of the PEM blocks in a text that are whole.
fn blocks(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let mut found = Vec::new();
    let mut open: Option<String> = None;
    for line in text.lines().map(str::trim_end) {
        let marker = |begin: &str| line.strip_prefix(begin).and_then(|rest| rest.strip_suffix("-----")).map(str::to_owned);
        if let Some(kind) = marker("-----BEGIN ") {
            open = Some(kind);
        } else if let Some(kind) = marker("-----END ")
            && open.take().as_ref() == Some(&kind)
        {
            found.push(kind);
        }
    }
    found
}
