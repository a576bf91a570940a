//! One catalog from several, by a configuration file (CATLG-66, OLM1-FBC-16).
//!
//! ```yaml
//! name: team-catalog
//! repo: reg.example/team/catalog
//! tag: latest
//! references:
//! - {name: alpha-op, image: "reg.example/alpha/index@sha256:..."}
//! - {name: beta-op, image: "reg.example/beta/index@sha256:..."}
//! ```
//!
//! Each reference becomes a folder `<name>/<reference>/`. Two references must not share a package: [`conflicts`] finds all such packages.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::model::Catalog;

/// Maximum size of the file, in bytes.
const MAX_BYTES: usize = 4 << 20;
/// The most references of a catalog.
const MAX_REFERENCES: usize = 10_000;

/// The configuration of a composite catalog.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Composition {
    /// Name of the catalog, and of the folder it is written to.
    pub name: String,
    /// Repository of its image.
    #[serde(default)]
    pub repo: String,
    /// Tag of its image.
    #[serde(default)]
    pub tag: String,
    /// The catalogs that it consists of.
    pub references: Vec<Part>,
}

/// One of the catalogs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Name of its folder.
    pub name: String,
    /// Its location: an image, a directory or a file.
    pub image: String,
}

/// Reason why a composition cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ComposeError {
    /// The file is not YAML.
    #[error("line {line}: {reason}")]
    Yaml {
        /// Line, from 1.
        line: usize,
        /// The reader's message.
        reason: String,
    },
    /// The file has the wrong shape.
    #[error("{0}")]
    Shape(String),
    /// A name cannot be that of a folder.
    #[error("{what} {name:?} cannot name a folder; use letters, digits, `-`, `_` and `.`, beginning with a letter or digit")]
    Name {
        /// The object with that name.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Something is missing.
    #[error("{what} is missing")]
    Missing {
        /// The missing part.
        what: String,
    },
    /// A reference is named twice.
    #[error("reference {0} is named twice")]
    Twice(String),
}

impl Composition {
    /// Reads a configuration file and checks it; every problem is reported.
    pub fn from_yaml(text: &str) -> Result<Self, Vec<ComposeError>> {
        if text.len() > MAX_BYTES {
            return Err(vec![ComposeError::Shape(format!("the file is longer than {MAX_BYTES} bytes"))]);
        }
        let yaml = |error: mainstay_yaml::Error| vec![ComposeError::Yaml { line: error.line, reason: error.problem }];
        let value = mainstay_yaml::parse(text).map_err(yaml)?;
        let composition: Self = serde_json::from_value(value).map_err(|error| vec![ComposeError::Shape(error.to_string())])?;
        let problems = composition.problems();
        if problems.is_empty() { Ok(composition) } else { Err(problems) }
    }

    /// The target of its image, `REPO:TAG`; `None` if it has no repository.
    pub fn image(&self) -> Option<String> {
        let tag = if self.tag.is_empty() { "latest" } else { &self.tag };
        (!self.repo.is_empty()).then(|| format!("{}:{tag}", self.repo))
    }

    fn problems(&self) -> Vec<ComposeError> {
        let mut problems = Vec::new();
        let mut name = |what: &'static str, name: &str| {
            if name.is_empty() {
                problems.push(ComposeError::Missing { what: format!("the name of a {what}") });
            } else if !is_folder(name) {
                problems.push(ComposeError::Name { what, name: name.to_owned() });
            }
        };
        name("catalog", &self.name);
        self.references.iter().for_each(|part| name("reference", &part.name));
        let mut names = BTreeSet::new();
        for part in &self.references {
            if !names.insert(&part.name) {
                problems.push(ComposeError::Twice(part.name.clone()));
            }
            if part.image.trim().is_empty() {
                problems.push(ComposeError::Missing { what: format!("the image of reference {}", part.name) });
            }
        }
        if self.references.is_empty() {
            problems.push(ComposeError::Missing { what: "a reference".to_owned() });
        }
        if self.references.len() > MAX_REFERENCES {
            problems.push(ComposeError::Shape(format!("there are more than {MAX_REFERENCES} references")));
        }
        problems
    }
}

fn is_folder(name: &str) -> bool {
    const LONGEST: usize = 128;
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    name.len() <= LONGEST && name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric()) && name.bytes().all(inside)
}

/// Packages that several references contain, each with the names of these references.
pub fn conflicts<'a>(parts: &[(&'a str, &'a Catalog)]) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut owners: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, catalog) in parts {
        let of_blobs = catalog
            .packages
            .iter()
            .map(|package| package.name.as_str())
            .chain(catalog.channels.iter().map(|channel| channel.package.as_str()))
            .chain(catalog.bundles.iter().map(|bundle| bundle.package.as_str()));
        for package in of_blobs.collect::<BTreeSet<&str>>() {
            owners.entry(package).or_default().push(name);
        }
    }
    owners.retain(|_, names| names.len() > 1);
    owners
}

/// Merges all parts into one catalog.
pub fn merge(parts: impl IntoIterator<Item = Catalog>) -> Catalog {
    let mut all = Catalog::default();
    for part in parts {
        all.packages.extend(part.packages);
        all.channels.extend(part.channels);
        all.bundles.extend(part.bundles);
        all.deprecations.extend(part.deprecations);
        all.others.extend(part.others);
    }
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    /// CATLG-66: the file's shape, and what is wrong with one, all at once.
    #[test]
    fn configuration() {
        let text = "name: team\nrepo: reg.example/team\nreferences:\n- {name: a, image: 'reg.example/a:v1'}\n";
        let composition = Composition::from_yaml(text).unwrap();
        assert_eq!(composition.image().as_deref(), Some("reg.example/team:latest"));
        let errors = |text: &str| Composition::from_yaml(text).unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>();
        let text = "name: ../team\nreferences:\n- {name: a, image: ''}\n- {name: a, image: x}\n- {name: '.', image: x}\n";
        assert_eq!(errors(text).len(), 4, "{:?}", errors(text));
        assert_eq!(errors("name: team\nreferences: []\n"), ["a reference is missing"]);
        assert!(errors("name: team\nreferenzes: []\n")[0].contains("unknown field `referenzes`"));
        assert_eq!(errors("name: [\n").len(), 1);
    }

    /// CATLG-05, CATLG-66: a package in two references is found, whichever blob says so.
    #[test]
    fn packages_of_two_references() {
        let catalog = |json: &str| Catalog::load(&crate::MemorySource::of("c.json", json), &crate::Limits::default()).unwrap();
        let one = catalog(r#"{"schema": "olm.package", "name": "p"}{"schema": "olm.package", "name": "q"}"#);
        let other = catalog(r#"{"schema": "olm.bundle", "package": "q", "name": "q.v1"}"#);
        assert_eq!(conflicts(&[("a", &one), ("b", &other)]), BTreeMap::from([("q", vec!["a", "b"])]));
        assert_eq!(merge([one, other]).bundles.len(), 1);
    }
}
