//! `release-metadata` of a new release.

use mainstay_versions::Version;
use serde_json::{Map, Value, json};

use super::error::ComposeError;
use crate::info::Doc;

/// The description that a release gives of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Description {
    /// The version.
    pub version: String,
    /// The versions that may update to it.
    pub previous: Vec<String>,
    /// The versions that it may update to.
    pub next: Vec<String>,
    /// More about it.
    pub metadata: Map<String, Value>,
}

impl Description {
    /// Checks and normalizes what is told of a release.
    ///
    /// # Errors
    /// A version is none.
    pub fn new(name: &str, previous: &[String], next: &[String], metadata: Map<String, Value>) -> Result<Self, ComposeError> {
        let version = Version::parse(name).map_err(ComposeError::Name)?.to_string();
        let neighbours = |versions: &[String]| {
            let parsed = versions.iter().filter(|version| !version.is_empty()).map(|version| {
                let parsed = Version::parse(version);
                let error = |error| ComposeError::Neighbour { version: version.clone(), error };
                parsed.map(|parsed| parsed.to_string()).map_err(error)
            });
            let mut all = parsed.collect::<Result<Vec<_>, _>>()?;
            all.sort();
            Ok::<_, ComposeError>(all)
        };
        Ok(Self { version, previous: neighbours(previous)?, next: neighbours(next)?, metadata })
    }

    /// Reads the object of `--metadata`.
    ///
    /// # Errors
    /// It is no JSON object.
    pub fn metadata(text: &str) -> Result<Map<String, Value>, ComposeError> {
        serde_json::from_str(text).map_err(|error| ComposeError::Metadata(error.to_string()))
    }

    /// `release-metadata`.
    pub(super) fn text(&self) -> String {
        let field = |name: &str, value: Value| (name.to_owned(), Doc::Plain(value));
        let mut fields = vec![
            field("kind", "cincinnati-metadata-v0".into()),
            field("version", self.version.clone().into()),
            field("previous", json!(self.previous)),
        ];
        if !self.next.is_empty() {
            fields.push(field("next", json!(self.next)));
        }
        if !self.metadata.is_empty() {
            fields.push(field("metadata", self.metadata.clone().into()));
        }
        Doc::Object(fields).to_text()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// CVO-RELN-01: versions of the graph are sorted as texts; what is no version, and no object, is refused.
    #[test]
    fn descriptions() {
        let list = |versions: &[&str]| versions.iter().map(|version| (*version).to_owned()).collect::<Vec<_>>();
        let metadata = Description::metadata(r#"{"url": "https://a.test/<1>"}"#).unwrap();
        let described = Description::new("4.20.0", &list(&["4.19.9", "4.19.10", ""]), &list(&["4.20.1"]), metadata).unwrap();
        let expected = "{\n  \"kind\": \"cincinnati-metadata-v0\",\n  \"version\": \"4.20.0\",\n  \"previous\": [\n    \"4.19.10\",\n    \"4.19.9\"\n  ],\n  \
                        \"next\": [\n    \"4.20.1\"\n  ],\n  \"metadata\": {\n    \"url\": \"https://a.test/\\u003c1\\u003e\"\n  }\n}";
        assert_eq!(described.text(), expected);
        let bare = Description::new("4.20.0", &[], &[], Map::new()).unwrap().text();
        assert!(bare.ends_with("\"previous\": []\n}"), "{bare}");
        let refused = |name: &str, previous: &[&str]| Description::new(name, &list(previous), &[], Map::new()).unwrap_err().to_string();
        assert_eq!(refused("4.20", &[]), "--name must be a semantic version: No Major.Minor.Patch elements found");
        assert_eq!(refused("4.20.0", &["x"]), "\"x\" is not a valid semantic version: No Major.Minor.Patch elements found");
        assert!(Description::metadata("[1]").unwrap_err().to_string().starts_with("invalid --metadata: "));
    }
}
