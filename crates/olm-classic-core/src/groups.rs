//! OperatorGroups: targets, provided APIs and their intersections (OLM0-OG-22, OLM0-OG-23).

use std::collections::BTreeSet;

/// An OperatorGroup as far as intersections go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperatorGroup {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The target namespaces, its own with them; the empty name alone is every namespace.
    pub targets: BTreeSet<String>,
    /// The APIs in its annotation, as `Kind.version.group`.
    pub provided: BTreeSet<String>,
}

/// What to do with a group's annotation for a member that provides some APIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reconciliation {
    /// The APIs leave the annotation.
    RemoveApis,
    /// The APIs join the annotation.
    AddApis,
    /// Another group provides them: the member fails.
    Conflict,
    /// Nothing.
    NoConflict,
}

impl Reconciliation {
    /// Upstream's name of it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RemoveApis => "RemoveAPIs",
            Self::AddApis => "AddAPIs",
            Self::Conflict => "APIConflict",
            Self::NoConflict => "NoAPIConflict",
        }
    }
}

impl OperatorGroup {
    /// A group with these `status.namespaces` and this annotation `olm.providedAPIs`.
    pub fn new(name: &str, namespace: &str, status_namespaces: &[String], annotation: &str) -> Self {
        let mut targets: BTreeSet<String> = status_namespaces.iter().cloned().collect();
        if status_namespaces.first().is_some_and(|first| !first.is_empty()) {
            targets.insert(namespace.to_owned());
        }
        Self { name: name.to_owned(), namespace: namespace.to_owned(), targets, provided: apis(annotation) }
    }

    /// Returns whether it targets every namespace.
    pub fn is_global(&self) -> bool {
        self.targets.len() == 1 && self.targets.contains("")
    }

    /// The groups among others that share a target namespace with it.
    pub fn intersecting<'g>(&self, others: &'g [Self]) -> Vec<&'g Self> {
        let shares = |other: &&Self| {
            if self.is_global() {
                return !other.targets.is_empty();
            }
            if other.is_global() {
                return !self.targets.is_empty();
            }
            self.targets.intersection(&other.targets).next().is_some()
        };
        others.iter().filter(|other| (&other.name, &other.namespace) != (&self.name, &self.namespace)).filter(shares).collect()
    }

    /// The decision about a member that provides some APIs.
    pub fn reconcile(&self, member: &BTreeSet<String>, others: &[Self]) -> Reconciliation {
        let elsewhere: BTreeSet<&String> = self.intersecting(others).into_iter().flat_map(|other| &other.provided).collect();
        let intersects = member.iter().any(|api| elsewhere.contains(api));
        match (member.is_subset(&self.provided), intersects) {
            (true, true) => Reconciliation::RemoveApis,
            (false, true) => Reconciliation::Conflict,
            (false, false) => Reconciliation::AddApis,
            (true, false) => Reconciliation::NoConflict,
        }
    }
}

/// The APIs in an annotation; what is no `Kind.version.group` does not count.
pub fn apis(annotation: &str) -> BTreeSet<String> {
    let complete = |api: &&str| api.matches('.').count() >= 2;
    annotation.replace(' ', "").split(',').filter(complete).map(str::to_owned).collect()
}

/// The text of an annotation (OLM0-OG-10).
pub fn annotation(apis: &BTreeSet<String>) -> String {
    apis.iter().map(String::as_str).collect::<Vec<_>>().join(",")
}
