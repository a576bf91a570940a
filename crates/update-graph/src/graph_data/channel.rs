//! `channels/*.yaml` (CVO-GD-02).

use mainstay_versions::Version;
use serde_json::Value;

use super::{GraphDataError, GraphDataProblem, line_of_item, yaml};

/// A channel: the versions in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channel {
    /// Its file.
    pub file: String,
    /// Its name.
    pub name: String,
    /// Its versions. One with a build part means that architecture alone.
    pub versions: Vec<Version>,
    /// Keys of the file that have no meaning.
    pub unknown: Vec<String>,
}

const KEYS: [&str; 4] = ["name", "versions", "feeder", "tombstones"];
const MAX_VERSIONS: usize = 50_000;

impl Channel {
    /// Reads a file.
    pub(super) fn read(path: &str, bytes: &[u8]) -> Result<Self, GraphDataError> {
        let fail = |problem| GraphDataError::new(path, problem);
        let members = yaml(path, bytes)?;
        let wrong = |field: &str, expected| fail(GraphDataProblem::Field { field: field.to_owned(), expected });
        let name = members.get("name").and_then(Value::as_str).ok_or_else(|| wrong("name", "text"))?;
        let list = members.get("versions").and_then(Value::as_array).ok_or_else(|| wrong("versions", "a list of versions"))?;
        if list.len() > MAX_VERSIONS {
            return Err(fail(GraphDataProblem::TooLarge { what: "versions", limit: MAX_VERSIONS }));
        }
        let version = |item: &Value| {
            // A number such as 4.1 shows in the message as it stands in the file.
            let text = item.as_str().map_or_else(|| item.to_string(), str::to_owned);
            Version::parse(&text).map_err(|source| {
                let line = line_of_item(bytes, &text);
                fail(GraphDataProblem::Version { field: "versions", text, source }).at(line)
            })
        };
        Ok(Self {
            file: path.to_owned(),
            name: name.to_owned(),
            versions: list.iter().map(version).collect::<Result<_, _>>()?,
            unknown: members.keys().filter(|key| !KEYS.contains(&key.as_str())).cloned().collect(),
        })
    }

    /// Returns true if the channel holds a release: by its version, for all architectures or for its own.
    pub fn holds(&self, release: &Version) -> bool {
        self.versions.iter().any(|version| {
            version.cmp_precedence(release).is_eq() && matches!(version.build(), build if build.is_empty() || build == release.build())
        })
    }

    /// The name that the file should have.
    pub fn file_name(&self) -> String {
        format!("channels/{}.yaml", self.name)
    }
}
