//! `registries.d`: the places of images' signatures.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use super::Malformed;
use super::policy::scopes;
use crate::digest::Digest;
use crate::error::Error;
use crate::reference::Reference;

/// The largest file, in bytes.
const MAX_FILE: usize = 4 << 20;
const MAX_NAMESPACES: usize = 10_000;

/// The combined entries of the files of `registries.d`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Places {
    default: Option<(String, Namespace)>,
    namespaces: BTreeMap<String, (String, Namespace)>,
}

/// Entries of a registry or a part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Namespace {
    lookaside: Option<String>,
    attachments: Option<bool>,
}

impl Places {
    /// Adds the entries of a file; `subject` names it in errors.
    pub(crate) fn add(&mut self, subject: &str, text: &str) -> Result<(), Error> {
        self.read(subject, text).map_err(|problem| Error::Configuration { subject: subject.to_owned(), problem: problem.to_string() })
    }

    fn read(&mut self, subject: &str, text: &str) -> Result<(), Malformed> {
        if text.len() > MAX_FILE {
            return Err(Malformed(format!("the file is longer than {MAX_FILE} bytes")));
        }
        let value = mainstay_yaml::parse(text).map_err(|error| Malformed(error.to_string()))?;
        if value.is_null() {
            return Ok(());
        }
        let whole = value.as_object().ok_or_else(|| Malformed("expected a mapping".to_owned()))?;
        if let Some(said) = whole.get("default-docker").filter(|said| !said.is_null()) {
            if let Some((other, _)) = &self.default {
                return Err(Malformed(format!(
                    "Error parsing signature storage configuration: \"default-docker\" defined both in \"{other}\" and \"{subject}\""
                )));
            }
            self.default = Some((subject.to_owned(), Namespace::read("default-docker", said)?));
        }
        let Some(namespaces) = whole.get("docker").filter(|said| !said.is_null()) else { return Ok(()) };
        for (name, said) in namespaces.as_object().ok_or_else(|| Malformed("docker: expected a mapping".to_owned()))? {
            let namespace = Namespace::read(&format!("docker.{name}"), said)?;
            if let Some((other, _)) = self.namespaces.insert(name.clone(), (subject.to_owned(), namespace)) {
                return Err(Malformed(format!(
                    "Error parsing signature storage configuration: \"docker\" namespace \"{name}\" defined both in \"{other}\" and \"{subject}\""
                )));
            }
        }
        if self.namespaces.len() > MAX_NAMESPACES {
            return Err(Malformed(format!("more than {MAX_NAMESPACES} namespaces")));
        }
        Ok(())
    }

    /// Returns the base of the separate store for the image's signatures, if one is named.
    pub(crate) fn lookaside(&self, place: &Reference) -> Option<&str> {
        self.said_of(place).find_map(|namespace| namespace.lookaside.as_deref())
    }

    /// Returns true if signatures are looked for beside the image in its repository.
    pub(crate) fn attachments(&self, place: &Reference) -> bool {
        self.said_of(place).find_map(|namespace| namespace.attachments).unwrap_or(false)
    }

    /// Returns the entries for the image, the narrowest first. Each key counts by itself: a wider entry applies if the narrower lacks the key.
    fn said_of(&self, place: &Reference) -> impl Iterator<Item = &Namespace> {
        let narrow = scopes(place).into_iter().filter_map(|scope| self.namespaces.get(&scope));
        narrow.chain(&self.default).map(|(_, namespace)| namespace)
    }
}

impl Namespace {
    fn read(path: &str, said: &Value) -> Result<Self, Malformed> {
        let Some(said) = said.as_object() else {
            return if said.is_null() { Ok(Self::default()) } else { Err(Malformed(format!("{path}: expected a mapping"))) };
        };
        let text = |key: &str| match said.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
            Some(_) => Err(Malformed(format!("{path}.{key}: expected text"))),
        };
        let attachments = match said.get("use-sigstore-attachments") {
            None | Some(Value::Null) => None,
            Some(Value::Bool(wanted)) => Some(*wanted),
            Some(_) => return Err(Malformed(format!("{path}.use-sigstore-attachments: expected true or false"))),
        };
        // `sigstore` is the older word for the lookaside store.
        let older = text("sigstore")?;
        Ok(Self { lookaside: text("lookaside")?.or(older), attachments })
    }
}

/// Place of one signature in a separate store; they are counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SignaturePlace {
    /// A file.
    File(PathBuf),
    /// An address, by HTTP or HTTPS.
    Url(reqwest::Url),
}

/// Returns the place of the signature with that number of a manifest.
pub(crate) fn signature_place(base: &str, place: &Reference, manifest: &Digest, number: usize) -> Result<SignaturePlace, Malformed> {
    let mut url = reqwest::Url::parse(base).map_err(|error| Malformed(format!("Invalid signature storage URL {base}: {error}")))?;
    let path = format!(
        "{}/{}@{}={}/signature-{number}",
        url.path().trim_end_matches('/'),
        place.repository(),
        manifest.algorithm(),
        manifest.hex()
    );
    url.set_path(&path);
    match url.scheme() {
        "http" | "https" => Ok(SignaturePlace::Url(url)),
        "file" => url
            .to_file_path()
            .map(SignaturePlace::File)
            .map_err(|()| Malformed(format!("Invalid signature storage URL {base}: no local path"))),
        other => {
            Err(Malformed(format!("Unsupported scheme when reading signature from {base}: {other}; file, http and https are supported")))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    /// OLM1-GEN-12: the narrowest namespace that says something counts, for each word by itself.
    #[test]
    fn where_signatures_lie() {
        let mut places = Places::default();
        places.add("00.yaml", "default-docker:\n  sigstore: https://old.example/sigs\n").unwrap();
        places
            .add(
                "10.yaml",
                "docker:\n  q.example:\n    lookaside: file:///var/sigs\n  q.example/org:\n    use-sigstore-attachments: true\n  \
                 q.example/org/a:\n    use-sigstore-attachments: false\n  '*.wild.example':\n    lookaside: http://w.example\n",
            )
            .unwrap();
        places.add("20.yaml", "# nothing\n").unwrap();
        let said = |text: &str| {
            let reference = Reference::parse(text).unwrap();
            (places.lookaside(&reference).unwrap().to_owned(), places.attachments(&reference))
        };
        assert_eq!(said("q.example/org/b:1"), ("file:///var/sigs".to_owned(), true));
        assert_eq!(said("q.example/org/a:1"), ("file:///var/sigs".to_owned(), false));
        assert_eq!(said("x.wild.example/a:1"), ("http://w.example".to_owned(), false));
        assert_eq!(said("other.example/a:1"), ("https://old.example/sigs".to_owned(), false));
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        let twice = "docker:\n  q.example:\n    lookaside: a\n";
        for (text, problem) in [
            ("- a\n", "expected a mapping"),
            ("docker: 5\n", "docker: expected a mapping"),
            ("docker:\n  a.example: 5\n", "docker.a.example: expected a mapping"),
            ("docker:\n  a.example:\n    lookaside: 5\n", "docker.a.example.lookaside: expected text"),
            ("docker:\n  b.example:\n    use-sigstore-attachments: maybe\n", "use-sigstore-attachments: expected true or false"),
            (twice, "\"docker\" namespace \"q.example\" defined both in \"a.yaml\" and \"b.yaml\""),
            ("default-docker: {}\n", "\"default-docker\" defined both in \"a.yaml\" and \"b.yaml\""),
        ] {
            let mut places = Places::default();
            places.add("a.yaml", &format!("{twice}default-docker: {{}}\n")).unwrap();
            let error = places.add("b.yaml", text).unwrap_err().to_string();
            assert!(error.starts_with("b.yaml: ") && error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn names_of_signatures() {
        let (place, digest) = (Reference::parse("q.example:5000/org/a:1").unwrap(), DIGEST.parse().unwrap());
        let named = |base: &str| match signature_place(base, &place, &digest, 2) {
            Ok(SignaturePlace::File(path)) => path.display().to_string(),
            Ok(SignaturePlace::Url(url)) => url.to_string(),
            Err(problem) => problem.to_string(),
        };
        let rest = format!("org/a@{}/signature-2", DIGEST.replace(':', "="));
        assert_eq!(named("file:///var/sigs"), format!("/var/sigs/{rest}"));
        assert_eq!(named("https://s.example/x/?k=v"), format!("https://s.example/x/{rest}?k=v"));
        assert!(named("ftp://s.example").contains("Unsupported scheme when reading signature from ftp://s.example"));
        assert!(named("nowhere").starts_with("Invalid signature storage URL nowhere"));
    }
}
