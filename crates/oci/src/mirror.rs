//! Targets of mirrored images, and the configuration of clusters for them (CATLG-71, CATLG-72). Pure: the client does the copying.
//!
//! ```text
//!   references ── plan ── copies (source, target) ── rules ── ImageDigestMirrorSet, ImageTagMirrorSet, registries.conf
//!                              └── Record: what a run put there, so that the next can take away what vanished (CATLG-74)
//! ```
//!
//! A repository keeps its path below the destination, so the path tells its origin. If two registries have a repository of the same name, the
//! registry that sorts later is put in front of the name. An image named by digest keeps that digest, and gets a tag made of it, because many
//! registries delete untagged images.

mod objects;
mod record;

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

pub use objects::{digest_mirror_set, image_content_source_policy, registries_conf, tag_mirror_set};
pub use record::{Mirrored, Record};

use crate::digest::Digest;
use crate::error::Error;
use crate::reference::Reference;

/// A registry, and the path in it below which all images are put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    registry: String,
    path: String,
}

/// One image to copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    /// Its source.
    pub source: Reference,
    /// Its target.
    pub target: Reference,
}

/// Form of an image reference: by digest or by tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    /// By digest.
    Digest,
    /// By tag.
    Tag,
}

/// A repository and its mirror.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// `registry/repository` as images are named.
    pub source: String,
    /// `registry/repository` of the mirror.
    pub mirror: String,
}

impl FromStr for Destination {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refuse = |problem: &str| Error::InvalidReference { reference: text.to_owned(), problem: problem.to_owned() };
        if text.contains("://") {
            return Err(refuse("a destination is written HOST[:PORT][/PATH], without a scheme"));
        }
        let (registry, path) = text.trim_end_matches('/').split_once('/').unwrap_or((text.trim_end_matches('/'), ""));
        let probe = if path.is_empty() { format!("{registry}/a") } else { format!("{registry}/{path}") };
        let reference = Reference::parse(&probe).map_err(|_| refuse("a destination is written HOST[:PORT][/PATH]"))?;
        if reference.tag().is_some() || reference.digest().is_some() || reference.registry() != registry {
            return Err(refuse("a destination is written HOST[:PORT][/PATH], with neither tag nor digest"));
        }
        Ok(Self { registry: registry.to_owned(), path: path.to_owned() })
    }
}

impl Destination {
    /// A repository below the destination.
    pub fn repository(&self, path: &str) -> Result<Reference, Error> {
        let below = if self.path.is_empty() { path.to_owned() } else { format!("{}/{path}", self.path) };
        Reference::parse(&format!("{}/{below}", self.registry))
    }
}

/// Plans the target of each image. Each place of a repository, with its tag or digest, appears once.
pub fn plan(sources: &[Reference], destination: &Destination) -> Result<Vec<Copy>, Error> {
    let mut owners: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for source in sources {
        owners.entry(source.repository()).or_default().insert(source.registry());
    }
    let mut seen = BTreeSet::new();
    let mut copies = Vec::new();
    for source in sources {
        // With a digest the tag is ignored.
        let source = match source.digest() {
            Some(digest) => source.at(digest.clone()),
            None => source.clone(),
        };
        if !seen.insert(source.to_string()) {
            continue;
        }
        let first = owners.get(source.repository()).and_then(BTreeSet::first) == Some(&source.registry());
        let path = if first { source.repository().to_owned() } else { format!("{}/{}", folder(source.registry()), source.repository()) };
        let tag = source.digest().map_or_else(|| source.version().to_owned(), tag_of);
        let target = destination.repository(&path)?.tagged(&tag)?;
        copies.push(Copy { source, target });
    }
    Ok(copies)
}

/// Plans copies into a directory, in which images keep their names.
pub fn in_place(sources: &[Reference]) -> Vec<Copy> {
    let mut seen = BTreeSet::new();
    let new = sources.iter().filter(|source| seen.insert(source.to_string()));
    new.map(|source| Copy { source: source.clone(), target: source.clone() }).collect()
}

/// Returns the repositories of the copies and their mirrors, for images with that form of reference, sorted.
pub fn rules(copies: &[Copy], by: By) -> Vec<Rule> {
    let wanted = |copy: &&Copy| (by == By::Digest) == copy.source.digest().is_some();
    let rule = |copy: &Copy| Rule { source: copy.source.name(), mirror: copy.target.name() };
    copies.iter().filter(wanted).map(rule).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns the tag of an image that is known by its digest only.
pub fn tag_of(digest: &Digest) -> String {
    // The longest digest would be too long for a tag.
    let hex = &digest.hex()[..digest.hex().len().min(100)];
    format!("{}-{hex}", digest.algorithm())
}

/// Returns a registry as one part of a path.
fn folder(registry: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' || c == '-' { c.to_ascii_lowercase() } else { '-' };
    registry.chars().map(plain).collect::<String>().trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn copies(destination: &str, sources: &[&str]) -> Vec<String> {
        let sources: Vec<Reference> = sources.iter().map(|source| source.parse().unwrap()).collect();
        let copies = plan(&sources, &destination.parse().unwrap()).unwrap();
        copies.iter().map(|copy| format!("{} -> {}", copy.source, copy.target)).collect()
    }

    /// CATLG-71, CATLG-72: paths are kept, digests are kept and tagged, nothing is copied twice, and repositories of one name stay apart.
    #[test]
    fn where_images_go() {
        let digest_tag = DIGEST.replace(':', "-");
        let by_digest = format!("quay.io/org/a@{DIGEST}");
        let both = format!("quay.io/org/a:v1@{DIGEST}");
        assert_eq!(
            copies(
                "mirror.example:5000/olm",
                &[&by_digest, &both, "quay.io/org/a:v1", "quay.io/org/a:v1", "Other.io:80/org/a:v1", "quay.io/b"]
            ),
            [
                format!("{by_digest} -> mirror.example:5000/olm/quay.io/org/a:{digest_tag}"),
                "quay.io/org/a:v1 -> mirror.example:5000/olm/quay.io/org/a:v1".to_owned(),
                "Other.io:80/org/a:v1 -> mirror.example:5000/olm/org/a:v1".to_owned(),
                "quay.io/b -> mirror.example:5000/olm/b:latest".to_owned(),
            ]
        );
        for wrong in ["https://mirror.example", "mirror.example/a:v1", "", "mirror", "mirror.example/A"] {
            assert!(wrong.parse::<Destination>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn rules_tell_digests_from_tags() {
        let sources = [format!("quay.io/org/a@{DIGEST}"), "quay.io/org/b:v1".to_owned(), "quay.io/org/a:v2".to_owned()];
        let sources: Vec<Reference> = sources.iter().map(|source| source.parse().unwrap()).collect();
        let copies = plan(&sources, &"m.example".parse().unwrap()).unwrap();
        let names = |by| rules(&copies, by).into_iter().map(|rule| format!("{} {}", rule.source, rule.mirror)).collect::<Vec<_>>();
        assert_eq!(names(By::Digest), ["quay.io/org/a m.example/org/a"]);
        assert_eq!(names(By::Tag), ["quay.io/org/a m.example/org/a", "quay.io/org/b m.example/org/b"]);
    }
}
