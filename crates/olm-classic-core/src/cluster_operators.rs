//! The ClusterOperators of OLM classic, where a cluster has the kind (OLM0-MET-05, OLM0-MET-06, COP-OLM0-06).

use mainstay_api::cluster_operator::{Problem, Related, Report};
use mainstay_versions::Version;

use crate::platform;

/// A part of OLM classic that reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The OLM operator.
    Olm,
    /// The catalog operator.
    Catalog,
    /// The package server.
    Packages,
}

impl Part {
    /// The name of its ClusterOperator.
    pub fn name(self) -> &'static str {
        match self {
            Self::Olm => "operator-lifecycle-manager",
            Self::Catalog => "operator-lifecycle-manager-catalog",
            Self::Packages => "operator-lifecycle-manager-packageserver",
        }
    }
}

/// An installed CSV with its properties; no copy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Installed {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The annotation with its properties.
    pub properties: Option<String>,
}

/// The facts behind a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// True once the part works: it has read what it decides on, or it answers.
    pub works: bool,
    /// The reason why it does not, if there is one.
    pub problem: Option<String>,
    /// The release of the platform that the part belongs to.
    pub release: String,
    /// The installed CSVs.
    pub installed: Vec<Installed>,
    /// The objects that belong to the part: resource, namespace and name, of OLM's group.
    pub related: Vec<(&'static str, String, String)>,
}

/// Builds the report of a part. While it does not work yet, nothing may be concluded from it, and the cluster must not go on.
pub fn report(part: Part, namespace: &str, facts: &Facts) -> Report {
    let waiting = || {
        let message = facts.problem.clone().unwrap_or_else(|| "Waiting for updates to take effect".to_owned());
        Problem::new("WaitingForUpdates", message)
    };
    let waits = (!facts.works).then(waiting);
    let incompatible = if part == Part::Olm { incompatible(&facts.release, &facts.installed) } else { None };
    let mut related: Vec<Related> =
        facts.related.iter().map(|(resource, namespace, name)| Related::new("operators.coreos.com", resource, namespace, name)).collect();
    related.push(Related::new("", "namespaces", "", namespace));
    Report {
        unavailable: waits.clone(),
        progressing: waits.clone(),
        degraded: None,
        not_upgradeable: waits.or(incompatible),
        version: facts.works.then(|| facts.release.clone()),
        related,
    }
}

/// The operators that keep a platform from its next minor version: those whose `olm.maxOpenShiftVersion` is not above the current one, and those
/// whose value cannot be read. The order is upstream's: what cannot be read first, the others from the last.
pub fn incompatible(release: &str, installed: &[Installed]) -> Option<Problem> {
    let current = match Version::parse_tolerant(release) {
        Ok(current) => current,
        Err(error) => {
            let text = format!("cluster version has invalid desired release version: {error}");
            let message = format!("Encountered errors while checking compatibility with the next minor version of OpenShift: {text}");
            return Some(Problem::new("ErrorCheckingOperatorCompatibility", message));
        }
    };
    let next = Version::new(current.major(), current.minor() + 1, 0);
    let mut installed: Vec<&Installed> = installed.iter().collect();
    installed.sort();
    let (mut odd, mut blocking) = (Vec::new(), Vec::new());
    for Installed { namespace, name, properties } in installed {
        match platform::maximum(properties.as_deref()) {
            Ok(Some(most)) if most.cmp_precedence(&next).is_lt() => {
                blocking.push(format!("- maximum supported OCP version for {namespace}/{name} is {}.{}", most.major(), most.minor()));
            }
            Ok(_) => {}
            Err(error) => odd.push(format!("- {namespace}/{name} has invalid {} properties: {error}", platform::PROPERTY)),
        }
    }
    if odd.is_empty() && blocking.is_empty() {
        return None;
    }
    let lines: Vec<String> = odd.into_iter().chain(blocking.into_iter().rev()).collect();
    let message = format!("ClusterServiceVersions blocking minor version upgrades to {next} or higher:\n{}", lines.join("\n"));
    Some(Problem::new("IncompatibleOperatorsInstalled", message))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn csv(name: &str, most: &str) -> Installed {
        let properties = format!(r#"{{"properties": [{{"type": "olm.maxOpenShiftVersion", "value": {most}}}]}}"#);
        Installed { namespace: "ns".into(), name: name.into(), properties: Some(properties) }
    }

    /// OLM0-MET-06, OLM0-BUNDLE-12: operators whose newest platform is not above the current one block the next minor version, and so do values
    /// that cannot be read; those that say nothing do not.
    #[test]
    fn operators_block_the_next_minor_version() {
        let plain = Installed { namespace: "ns".into(), name: "plain".into(), properties: None };
        assert_eq!(incompatible("4.19.3", &[plain.clone(), csv("new", r#""4.20""#), csv("newer", r#""5.0""#)]), None);
        let found = incompatible("4.19.3", &[csv("b", r#""4.19""#), plain, csv("a", r#""4.18""#), csv("z", r#""4.19.1""#)]).unwrap();
        assert_eq!(found.reason, "IncompatibleOperatorsInstalled");
        assert_eq!(
            found.message,
            "ClusterServiceVersions blocking minor version upgrades to 4.20.0 or higher:\n\
             - ns/z has invalid olm.maxOpenShiftVersion properties: property olm.maxOpenShiftVersion must specify only <major>.<minor> version, got \
             invalid value 4.19.1\n\
             - maximum supported OCP version for ns/b is 4.19\n\
             - maximum supported OCP version for ns/a is 4.18"
        );
        let unknown = incompatible("newest", &[]).unwrap();
        assert_eq!(unknown.reason, "ErrorCheckingOperatorCompatibility");
        assert!(unknown.message.starts_with("Encountered errors while checking compatibility with the next minor version of OpenShift: "));
    }

    /// OLM0-MET-05: a part that does not work yet is not available, says why, and has no version; only the OLM operator speaks of operators.
    #[test]
    fn parts_report() {
        let mut facts = Facts { release: "4.19.0".into(), installed: vec![csv("a", r#""4.19""#)], ..Facts::default() };
        let early = report(Part::Olm, "olm", &facts);
        assert!(early.unavailable.is_some() && early.progressing.is_some() && early.version.is_none());
        assert_eq!(early.not_upgradeable.unwrap().message, "Waiting for updates to take effect");
        facts.works = true;
        let olm = report(Part::Olm, "olm", &facts);
        assert_eq!((olm.unavailable, olm.progressing, olm.degraded, olm.version.as_deref()), (None, None, None, Some("4.19.0")));
        assert_eq!(olm.not_upgradeable.unwrap().reason, "IncompatibleOperatorsInstalled");
        assert_eq!(report(Part::Catalog, "olm", &facts).not_upgradeable, None);
        let down = Facts { works: false, problem: Some("no endpoints".into()), ..facts };
        assert_eq!(report(Part::Packages, "olm", &down).unavailable.unwrap().message, "no endpoints");
    }
}
