//! The operators that make up the base of a cluster (COP-G-01), from `data/operators.yaml`.

use std::sync::LazyLock;

use serde::Deserialize;

/// One of the 35 operators.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PlatformOperator {
    /// The requirement that describes it, such as `COP-07`.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// Its ClusterOperators; some have several, some none.
    pub cluster_operators: Vec<String>,
    /// Its namespaces.
    pub namespaces: Vec<String>,
    /// Its project.
    pub project: String,
    /// The capabilities that turn it, or a part of it, on; none if it is always there.
    pub capabilities: Vec<String>,
    /// The runlevel of its manifests.
    pub runlevel: u8,
    /// What this program does for it, the main part first.
    pub classes: Vec<Class>,
    /// Its CRDs.
    pub crds: Vec<String>,
    /// The objects that configure it.
    pub config: Vec<String>,
    /// What is played in the embedded cluster.
    pub played: String,
    /// What there is on a real cluster.
    pub real: String,
    /// The reason for the class.
    pub reason: String,
    /// The part of class b that this version does not have; the status is played meanwhile.
    #[serde(default)]
    pub missing: Option<String>,
}

/// What this program does for an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Its manifests are applied and its status is waited for; the workload is the image of the payload.
    A,
    /// Its work is done by this program.
    B,
    /// Its ClusterOperator is played.
    C,
}

impl Class {
    /// Returns what the class means.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::A => "its manifests are applied and its status is waited for; what runs is the image of the payload",
            Self::B => "its work is done by this program",
            Self::C => "its status is played: no operand is running",
        }
    }

    /// Returns the letter.
    pub fn letter(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
            Self::C => "c",
        }
    }
}

impl PlatformOperator {
    /// Returns true if the operator has this ClusterOperator.
    pub fn has(&self, cluster_operator: &str) -> bool {
        self.cluster_operators.iter().any(|name| name == cluster_operator)
    }
}

/// Returns all operators, in the order of the reference.
pub fn platform_operators() -> &'static [PlatformOperator] {
    // The file is a part of the program: a test reads it, so that it is never empty.
    static ALL: LazyLock<Vec<PlatformOperator>> = LazyLock::new(|| read().unwrap_or_default());
    &ALL
}

/// Returns the operator of a ClusterOperator.
pub fn platform_operator(cluster_operator: &str) -> Option<&'static PlatformOperator> {
    platform_operators().iter().find(|operator| operator.has(cluster_operator))
}

/// The data file cannot be read.
#[derive(Debug, thiserror::Error)]
enum DataError {
    /// It is no YAML.
    #[error("{0}")]
    Yaml(#[from] mainstay_yaml::Error),
    /// A field is missing, unknown or of another type.
    #[error("{0}")]
    Fields(#[from] serde_json::Error),
}

fn read() -> Result<Vec<PlatformOperator>, DataError> {
    Ok(serde_json::from_value(mainstay_yaml::parse(include_str!("../data/operators.yaml"))?)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;

    use super::*;

    const REFERENCE: &str = include_str!("../../../docs/spec/cluster-operators.md");

    /// COP-G-01: every row of the reference is in the file, with its names, namespaces, project, capabilities and class, and nothing else is.
    #[test]
    fn the_file_is_the_table_of_the_reference() {
        let operators = read().unwrap();
        let (_, table) = REFERENCE.split_once("## 2. Overview").unwrap();
        let rows: Vec<Vec<&str>> = table
            .lines()
            .take_while(|line| !line.starts_with("## 3."))
            .filter(|line| line.starts_with("| COP-"))
            .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
            .collect();
        assert_eq!((rows.len(), operators.len()), (35, 35));
        for (row, operator) in rows.iter().zip(&operators) {
            let [id, _, name, cluster_operators, places, capabilities, class] = row[..] else { panic!("{row:?}") };
            assert_eq!((id, name), (operator.id.as_str(), operator.name.as_str()));
            let own = if cluster_operators.starts_with("none") { String::new() } else { cluster_operators.to_owned() };
            assert_eq!(own, operator.cluster_operators.join(", "), "{id}");
            let (namespaces, project) = places.split_once(" / ").unwrap_or((places, ""));
            if id == "COP-33" {
                assert!(operator.namespaces.iter().all(|namespace| namespaces.contains(namespace.as_str())), "{id}");
            } else {
                assert_eq!(namespaces, operator.namespaces.join(", "), "{id}");
            }
            assert!(project.is_empty() || project == operator.project, "{id}: {project}");
            let words: BTreeSet<&str> = capabilities.split([',', '(', ' ']).filter(|word| crate::KNOWN.contains(word)).collect();
            let named: BTreeSet<&str> = operator.capabilities.iter().map(String::as_str).collect();
            assert!(named.is_subset(&words) && named.is_empty() == words.is_empty(), "{id}: {named:?} {words:?}");
            let letters: String = class.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() == 1).collect();
            let own: String = operator.classes.iter().map(|class| class.letter()).collect();
            assert_eq!(letters, own, "{id}: {class}");
        }
    }

    /// COP-G-15: each has a reason for its class, and what is played is said where a status is played.
    #[test]
    fn every_row_is_complete() {
        let mut names = BTreeSet::new();
        for operator in platform_operators() {
            assert!(operator.runlevel < 100 && !operator.namespaces.is_empty() && !operator.classes.is_empty(), "{operator:?}");
            assert!(!operator.reason.is_empty() && !operator.real.is_empty() && !operator.project.is_empty());
            assert_eq!(operator.classes.contains(&Class::C), !operator.played.starts_with("nothing"), "{}", operator.id);
            for name in &operator.cluster_operators {
                assert!(names.insert(name), "{name} is there twice");
                assert_eq!(platform_operator(name), Some(operator));
            }
            assert!(operator.crds.iter().all(|crd| crd.contains('.')), "{}", operator.id);
            assert!(operator.missing.is_none() || operator.classes.contains(&Class::B), "{}", operator.id);
        }
        assert_eq!(platform_operator("demo"), None);
    }
}
