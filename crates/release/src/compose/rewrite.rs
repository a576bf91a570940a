//! Replacements in the manifests of an operator: pull specs by those of the release, placeholders of versions by versions (CVO-RELN-02).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use mainstay_golang::quote;
use mainstay_versions::Version;
use regex::bytes::{Captures, Regex};

/// The largest expression that pull specs are found by, in bytes.
const MAX_EXPRESSION: usize = 64 << 20;
/// The end of a pull spec: a tag or a digest, and what may follow.
const PULL_SPEC_END: &str = r#"(?:(?::\w[\w.-]{0,127}|@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[[:xdigit:]]{2,}))?([\s"']|$)"#;
const VERSION: &str = r"(?-u)(\W|^)0\.0\.1-snapshot([a-z0-9\-]*)";

/// Manifests or declarations that cannot be rewritten, in `oc`'s words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RewriteError {
    /// An image without a pull spec to look for.
    #[error("an empty source repository is not allowed for name {}", quote(.0))]
    NoSource(String),
    /// Two images with the same pull spec to look for.
    #[error("the source repository {} was defined more than once (for {} and {})", quote(.source_spec), quote(.first), quote(.second))]
    SourceTwice {
        /// The pull spec.
        source_spec: String,
        /// The image that has it first.
        first: String,
        /// The other one.
        second: String,
    },
    /// The pull specs are too many to look for.
    #[error("the pull specs of image-references are too many to look for")]
    TooMany,
    /// A placeholder without the name of a component.
    #[error("empty version references are not allowed")]
    NoComponent,
    /// A placeholder for a component whose version is not known.
    #[error("unknown version reference {}", quote(.0))]
    UnknownComponent(String),
    /// Several of them.
    #[error("unknown version references: {}", .0.join(", "))]
    UnknownComponents(Vec<String>),
    /// A placeholder for a component whose version several images have.
    #[error("the version for {} is inconsistent across the referenced images: {}", quote(.component), .images.join(", "))]
    Inconsistent {
        /// The component.
        component: String,
        /// The images.
        images: Vec<String>,
    },
}

/// The pull specs that an operator's manifests have, and those that take their place.
#[derive(Debug)]
pub(crate) struct Images {
    expression: Option<Regex>,
    by_source: BTreeMap<String, String>,
}

/// The versions that take the place of placeholders.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    /// The version of the release; none if it is no semantic version.
    pub release: Option<String>,
    /// The versions by component.
    pub components: BTreeMap<String, String>,
    /// The images that have the version of a component.
    pub images: BTreeMap<String, BTreeSet<String>>,
}

impl Images {
    /// Takes images by name: what is looked for, and what takes its place.
    pub(crate) fn new(images: &BTreeMap<String, (String, String)>) -> Result<Self, RewriteError> {
        let (mut names, mut by_source) = (BTreeMap::<&str, &str>::new(), BTreeMap::new());
        for (name, (source, target)) in images {
            if source.is_empty() {
                return Err(RewriteError::NoSource(name.clone()));
            }
            if let Some(first) = names.insert(source, name) {
                let (source_spec, first, second) = (source.clone(), first.to_owned(), name.clone());
                return Err(RewriteError::SourceTwice { source_spec, first, second });
            }
            by_source.insert(source.clone(), target.clone());
        }
        if by_source.is_empty() {
            return Ok(Self { expression: None, by_source });
        }
        let sources: Vec<String> = by_source.keys().map(|source| regex::escape(source)).collect();
        let expression = format!(r"(?-u)(\W|^)({}){PULL_SPEC_END}", sources.join("|"));
        let compiled = regex::bytes::RegexBuilder::new(&expression).size_limit(MAX_EXPRESSION).build();
        Ok(Self { expression: Some(compiled.map_err(|_| RewriteError::TooMany)?), by_source })
    }

    /// Replaces pull specs, whatever tag or digest they have.
    pub(crate) fn rewrite<'c>(&self, content: &'c [u8]) -> Cow<'c, [u8]> {
        let Some(expression) = &self.expression else { return content.into() };
        replaced(expression, content, |found| {
            let source = std::str::from_utf8(found.get(2)?.as_bytes()).ok()?;
            self.by_source.get(source).cloned()
        })
    }
}

impl Versions {
    /// The version of a release, as placeholders are replaced by it: without build metadata.
    pub(crate) fn of_release(name: &str) -> Option<String> {
        let version = Version::parse(name).ok()?.to_string();
        Some(version.split('+').next().unwrap_or_default().to_owned())
    }

    /// Replaces placeholders.
    pub(crate) fn rewrite<'c>(&self, expression: &Regex, content: &'c [u8]) -> Result<Cow<'c, [u8]>, RewriteError> {
        let (mut missing, mut inconsistent) = (Vec::new(), None);
        let rewritten = replaced(expression, content, |found| {
            let key = std::str::from_utf8(found.get(2)?.as_bytes()).ok()?;
            let Some(component) = key.strip_prefix('-') else {
                return if key.is_empty() { self.release.clone() } else { None };
            };
            match self.components.get(component) {
                None => missing.push(component.to_owned()),
                Some(_) if self.images.get(component).is_some_and(|images| images.len() > 1) => {
                    inconsistent.get_or_insert_with(|| component.to_owned());
                }
                Some(version) => return Some(version.clone()),
            }
            None
        });
        match missing.as_slice() {
            [] => {}
            [only] if only.is_empty() => return Err(RewriteError::NoComponent),
            [only] => return Err(RewriteError::UnknownComponent(only.clone())),
            _ => return Err(RewriteError::UnknownComponents(missing)),
        }
        if let Some(component) = inconsistent {
            let images = self.images.get(&component).into_iter().flatten().cloned().collect();
            return Err(RewriteError::Inconsistent { component, images });
        }
        Ok(rewritten)
    }

    /// The expression that placeholders are found by.
    pub(crate) fn expression() -> Result<Regex, RewriteError> {
        Regex::new(VERSION).map_err(|_| RewriteError::TooMany)
    }
}

/// Replaces what `replacement` names between the letter before (group 1) and the letter after (group 3), which may be that before the next.
fn replaced<'c>(expression: &Regex, content: &'c [u8], mut replacement: impl FnMut(&Captures<'_>) -> Option<String>) -> Cow<'c, [u8]> {
    let (mut out, mut copied, mut from) = (Vec::new(), 0, 0);
    while let Some(found) = expression.captures_at(content, from) {
        let (Some(whole), Some(before)) = (found.get(0), found.get(1)) else { break };
        let end = found.get(3).map_or(whole.end(), |after| after.start());
        if let Some(text) = replacement(&found) {
            out.extend_from_slice(&content[copied..before.end()]);
            out.extend_from_slice(text.as_bytes());
            copied = end;
        }
        // A match is never empty, so this goes on.
        from = end.max(from + 1);
        if from > content.len() {
            break;
        }
    }
    if copied == 0 {
        return content.into();
    }
    out.extend_from_slice(&content[copied..]);
    out.into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn images(sources: &[(&str, &str)]) -> Result<Images, RewriteError> {
        let of = |(name, source): &(&str, &str)| ((*name).to_owned(), ((*source).to_owned(), format!("r.test/{name}@sha256:12")));
        Images::new(&sources.iter().map(of).collect())
    }

    /// CVO-RELN-02: pull specs with any tag or digest are replaced wherever they stand as a whole; what only looks like one stays.
    #[test]
    fn pull_specs() {
        let images = images(&[("etcd", "q.test/core/etcd"), ("tool", "q.test/core/etcd-tool:latest"), ("plain", "placeholder")]).unwrap();
        for (text, expected) in [
            ("image: q.test/core/etcd", "image: r.test/etcd@sha256:12"),
            ("image: q.test/core/etcd:v1.2-3_x\n", "image: r.test/etcd@sha256:12\n"),
            ("image: \"q.test/core/etcd@sha256:5678\" # x", "image: \"r.test/etcd@sha256:12\" # x"),
            ("- -images=a=q.test/core/etcd-tool:latest", "- -images=a=r.test/tool@sha256:12"),
            ("q.test/core/etcd q.test/core/etcd:1 placeholder", "r.test/etcd@sha256:12 r.test/etcd@sha256:12 r.test/plain@sha256:12"),
            ("url: https://q.test/core/etcd:8443/test", "url: https://q.test/core/etcd:8443/test"),
            (
                "q.test/core/etcd-tool q.test/core/etcdx myplaceholder q-test/core/etcd",
                "q.test/core/etcd-tool q.test/core/etcdx myplaceholder q-test/core/etcd",
            ),
            ("", ""),
        ] {
            assert_eq!(String::from_utf8_lossy(&images.rewrite(text.as_bytes())), expected);
        }
        assert!(matches!(images.rewrite(b"nothing"), Cow::Borrowed(_)));
        assert_eq!(&*images.rewrite(b"\xff q.test/core/etcd"), b"\xff r.test/etcd@sha256:12");
    }

    /// CVO-RELN-02: declarations of an operator that are refused.
    #[test]
    fn refused_sources() {
        assert_eq!(images(&[("a", "")]).unwrap_err().to_string(), "an empty source repository is not allowed for name \"a\"");
        assert_eq!(
            images(&[("a", "q.test/x"), ("b", "q.test/x")]).unwrap_err().to_string(),
            "the source repository \"q.test/x\" was defined more than once (for \"a\" and \"b\")"
        );
        assert_eq!(&*images(&[]).unwrap().rewrite(b"x"), b"x");
    }

    /// CVO-RELN-02: `0.0.1-snapshot` becomes the version of the release, with a name that of a component.
    #[test]
    fn versions() {
        let versions = Versions {
            release: Versions::of_release("4.19.1-rc.1+build"),
            components: [("kubernetes", "1.32.1"), ("machine-os", "9.6.1")]
                .map(|(name, version)| (name.to_owned(), version.to_owned()))
                .into(),
            images: BTreeMap::from([("machine-os".to_owned(), BTreeSet::from(["a".to_owned(), "b".to_owned()]))]),
        };
        let expression = Versions::expression().unwrap();
        let rewrite = |text: &str| {
            let rewritten = versions.rewrite(&expression, text.as_bytes());
            rewritten.map(|content| String::from_utf8(content.into_owned()).unwrap()).map_err(|error| error.to_string())
        };
        for (text, expected) in [
            ("version: 0.0.1-snapshot\n", Ok("version: 4.19.1-rc.1\n")),
            ("0.0.1-snapshot \"0.0.1-snapshot-kubernetes\"", Ok("4.19.1-rc.1 \"1.32.1\"")),
            ("10.0.1-snapshot 0.0.1-snapshotx", Ok("10.0.1-snapshot 0.0.1-snapshotx")),
            ("0.0.1-snapshot-", Err("empty version references are not allowed")),
            ("0.0.1-snapshot-crio", Err("unknown version reference \"crio\"")),
            ("0.0.1-snapshot-crio 0.0.1-snapshot-kernel", Err("unknown version references: crio, kernel")),
            ("0.0.1-snapshot-machine-os", Err("the version for \"machine-os\" is inconsistent across the referenced images: a, b")),
        ] {
            assert_eq!(rewrite(text).as_deref().map_err(String::as_str), expected, "{text}");
        }
        let nameless = Versions::default();
        assert_eq!(&*nameless.rewrite(&expression, b"0.0.1-snapshot").unwrap(), b"0.0.1-snapshot");
    }
}
