//! Record of the images a run put into a mirror, kept in the mirror, so that a later run from anywhere can remove vanished images (CATLG-74).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::error::Error;

/// The largest record, in bytes; far more than the images of any catalog need.
const MAX_BYTES: usize = 64 << 20;
const VERSION: u32 = 1;

/// One image that was mirrored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mirrored {
    /// Its source.
    pub source: String,
    /// Its target: `registry/repository:tag`, or a name in a layout.
    pub target: String,
    /// The repository, or the name in a layout.
    pub place: String,
    /// The digest of the image or index.
    pub digest: Digest,
    /// Its manifests: the index, and those of all platforms.
    pub manifests: Vec<Digest>,
    /// True if the image was there before the run: it is used, but never removed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub found: bool,
}

/// All images of a catalog in a mirror.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    version: u32,
    /// The catalog, by the reference that was mirrored.
    pub catalog: String,
    /// The images.
    pub images: Vec<Mirrored>,
}

impl Record {
    /// Makes the record of a catalog.
    pub fn new(catalog: impl Into<String>, images: Vec<Mirrored>) -> Self {
        Self { version: VERSION, catalog: catalog.into(), images }
    }

    /// Reads what [`Record::write`] wrote; `subject` names it in errors.
    pub fn read(subject: &str, bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() > MAX_BYTES {
            return Err(Error::Limit { subject: subject.to_owned(), what: "size in bytes", limit: MAX_BYTES as u64 });
        }
        let record: Self = serde_json::from_slice(bytes)
            .map_err(|error| Error::content(subject, format!("record of a mirror cannot be read: {error}")))?;
        if record.version != VERSION {
            return Err(Error::content(
                subject,
                format!("record of a mirror has version {}, and this program knows {VERSION}", record.version),
            ));
        }
        Ok(record)
    }

    /// Returns the record as text.
    pub fn write(&self) -> Result<Vec<u8>, Error> {
        serde_json::to_vec_pretty(self).map_err(|error| Error::content("record of a mirror", error.to_string()))
    }

    /// Returns true if a run of this record put the image there.
    pub fn put(&self, place: &str, digest: &Digest) -> bool {
        self.images.iter().any(|image| image.place == place && image.digest == *digest && !image.found)
    }

    /// Returns the content of this record that neither `next` nor the others keep: manifests by place, indexes before the manifests they name.
    pub fn vanished<'a>(&'a self, next: &'a Self, others: &'a [Self]) -> Vec<(&'a Mirrored, Vec<&'a Digest>)> {
        let kept: BTreeSet<(&str, &Digest)> = std::iter::once(next)
            .chain(others)
            .flat_map(|record| &record.images)
            .flat_map(|image| image.manifests.iter().chain([&image.digest]).map(|digest| (image.place.as_str(), digest)))
            .collect();
        let mut gone = BTreeSet::new();
        let mut vanished = Vec::new();
        for image in self.images.iter().filter(|image| !image.found) {
            // The last is the index itself: an index goes before the manifests that it names.
            let manifests = image.manifests.iter().rev();
            let digests: Vec<&Digest> = manifests
                .filter(|digest| !kept.contains(&(image.place.as_str(), *digest)) && gone.insert((image.place.as_str(), *digest)))
                .collect();
            if !digests.is_empty() {
                vanished.push((image, digests));
            }
        }
        vanished
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn image(place: &str, manifests: &[&str]) -> Mirrored {
        let manifests: Vec<Digest> = manifests.iter().map(|text| Digest::of(text.as_bytes())).collect();
        let digest = manifests.last().unwrap().clone();
        Mirrored {
            source: format!("quay.io/{place}"),
            target: format!("m/{place}:x"),
            place: place.to_owned(),
            digest,
            manifests,
            found: false,
        }
    }

    /// CATLG-74: only what no catalog has any more goes; a manifest that two images share stays with the one that stays.
    #[test]
    fn what_vanished() {
        let old = Record::new("c:1", vec![image("a", &["amd", "arm", "index"]), image("b", &["one"]), image("c", &["two"])]);
        let next = Record::new("c:1", vec![image("a", &["amd", "arm-2", "index-2"])]);
        let theirs = Record::new("c:1", vec![Mirrored { found: true, ..image("f", &["three"]) }]);
        assert_eq!(theirs.vanished(&next, &[]), [], "what others had put there stays");
        let others = [Record::new("d:1", vec![image("c", &["two"])])];
        let gone: Vec<(String, Vec<Digest>)> = old
            .vanished(&next, &others)
            .into_iter()
            .map(|(image, digests)| (image.place.clone(), digests.into_iter().cloned().collect()))
            .collect();
        let digest = |text: &str| Digest::of(text.as_bytes());
        assert_eq!(gone, [("a".to_owned(), vec![digest("index"), digest("arm")]), ("b".to_owned(), vec![digest("one")])]);
        assert_eq!(Record::read("r", &old.write().unwrap()).unwrap(), old);
        let newer = String::from_utf8(old.write().unwrap()).unwrap().replace("\"version\": 1", "\"version\": 2");
        assert!(Record::read("r", newer.as_bytes()).unwrap_err().to_string().contains("has version 2"));
    }
}
