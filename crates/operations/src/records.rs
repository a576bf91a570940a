//! Install records of extensions, wherever the controller keeps them. The namespace of a deployed Mainstay is read from the cluster.
//! Records that this user may not read are reported, and never taken for "none".
//!
//! ```text
//!   Secrets of all namespaces, by label ──may not──► the namespace of the Deployment ──may not──► a failure that says so
//!              │                                              │
//!              └──────────────► History ◄─────────────────────┘      none found, and something is installed: unknown, not empty
//! ```

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_lifecycle::revision::History;
use mainstay_olm_v1_core::extension::facts::UnreadableHistory;
use mainstay_olm_v1_core::extension::record::{self, EXTENSION_LABEL, RELEASES, RecordError, releases};

use crate::extensions::installed;
use crate::failure::refused;
use crate::session::Session;
use crate::settings::Settings;

/// The install records of an extension that this user can read.
#[derive(Clone, Debug)]
pub struct Records {
    /// The revisions that were found.
    pub history: History,
    /// The places that were searched, in words.
    looked_in: String,
    /// The reason why finding none does not mean that there are none; `None` if it does mean that.
    blind: Option<String>,
}

/// The reason why records cannot be read.
enum Untold {
    /// The request for them failed.
    Asked(Failure),
    /// A record is damaged.
    Damaged(RecordError),
}

impl From<Failure> for Untold {
    fn from(failure: Failure) -> Self {
        Self::Asked(failure)
    }
}

/// Reads the records of an extension.
pub async fn read(session: &Session, extension: &ClusterExtension) -> Result<Records, Failure> {
    gather(session, extension).await.map_err(|untold| match untold {
        Untold::Asked(failure) => failure,
        Untold::Damaged(error) => Failure::failed(format!("install records of {}", extension.name_any()), &error),
    })
}

/// Reads the history of an extension as the controller sees it.
pub async fn history(session: &Session, extension: &ClusterExtension) -> Result<History, UnreadableHistory> {
    let unreadable = |problem: String| UnreadableHistory { secret: None, problem: problem.into() };
    match gather(session, extension).await {
        Ok(records) => match records.unknown(extension) {
            Some(problem) => Err(unreadable(problem)),
            None => Ok(records.history),
        },
        Err(Untold::Asked(failure)) => Err(unreadable(failure.to_line())),
        Err(Untold::Damaged(error)) => Err(error.into()),
    }
}

async fn gather(session: &Session, extension: &ClusterExtension) -> Result<Records, Untold> {
    let name = extension.name_any();
    let subject = || format!("install records of {name}");
    let Some(uid) = extension.metadata.uid.as_deref().filter(|uid| !uid.is_empty()) else {
        return Ok(Records { history: History::default(), looked_in: String::new(), blind: None });
    };
    let ours = format!("{EXTENSION_LABEL}={uid}");
    let everywhere: Api<Secret> = Api::all(session.client.clone());
    let mut blind = None;
    let (secrets, of_upstream, looked_in) = match listed(&everywhere, &ours).await {
        Ok(secrets) => {
            let settings = if spread(&secrets) { Some(Settings::read(session).await) } else { None };
            let chosen = of_one_place(secrets, settings.as_ref().map(|settings| settings.system_namespace.as_str()));
            let (secrets, looked_in) = chosen.map_err(|error| Failure::new(FailureKind::Impossible, subject(), error.to_string()))?;
            let of_upstream = if secrets.is_empty() { listed(&everywhere, RELEASES).await } else { Ok(Vec::new()) };
            (secrets, of_upstream.map_err(|error| refused(subject(), &error))?, looked_in)
        }
        Err(kube::Error::Api(status)) if status.code == 403 => {
            let settings = Settings::read(session).await;
            let namespace = &settings.system_namespace;
            let api: Api<Secret> = Api::namespaced(session.client.clone(), namespace);
            let failed = |error: kube::Error| {
                refused(subject(), &error)
                    .hint(format!("kubectl auth can-i list secrets -n {namespace} tells whether this user may read them"))
            };
            let secrets = listed(&api, &ours).await.map_err(failed)?;
            let of_upstream = if secrets.is_empty() { listed(&api, RELEASES).await.map_err(failed)? } else { Vec::new() };
            blind = settings.of.is_none().then(|| {
                format!(
                    "where operator-controller keeps them is not known, and this user may not look in all namespaces: {}",
                    status.message
                )
            });
            (secrets, of_upstream, format!("in namespace {namespace}"))
        }
        Err(error) => return Err(refused(subject(), &error).into()),
    };
    let history = if secrets.is_empty() { releases(&of_upstream, &name, uid) } else { record::read(&secrets) };
    let history = history.map_err(Untold::Damaged)?;
    Ok(Records { history, looked_in, blind })
}

async fn listed(api: &Api<Secret>, labels: &str) -> Result<Vec<Secret>, kube::Error> {
    Ok(api.list(&ListParams::default().labels(labels)).await?.items)
}

impl Records {
    /// Returns the reason why finding no record does not mean that nothing was applied; `None` if the history is complete.
    pub fn unknown(&self, extension: &ClusterExtension) -> Option<String> {
        if !self.history.revisions.is_empty() {
            return None;
        }
        let found_none =
            installed(extension).map(|bundle| format!("{} is installed, and no install record was found {}", bundle.name, self.looked_in));
        match (found_none, &self.blind) {
            (Some(found), Some(blind)) => Some(format!("{found}: {blind}")),
            (found, blind) => found.or_else(|| blind.clone()),
        }
    }

    /// Returns the history; fails if it is not known.
    pub fn known(self, extension: &ClusterExtension) -> Result<History, Failure> {
        let Some(problem) = self.unknown(extension) else { return Ok(self.history) };
        let name = extension.name_any();
        let why = if self.blind.is_some() {
            "a user who may list Secrets in the namespace of operator-controller sees them"
        } else {
            "they were deleted, or a controller installed it that keeps them in a form of its own"
        };
        Err(Failure::new(FailureKind::Impossible, format!("clusterextension {name}"), "its history is not known")
            .because(problem)
            .because(why)
            .hint(format!("mainstay describe {name} shows what its status says")))
    }
}

fn spread(secrets: &[Secret]) -> bool {
    let first = secrets.first().and_then(ResourceExt::namespace);
    secrets.iter().any(|secret| secret.namespace() != first)
}

/// Records in several namespaces, none of them that of operator-controller.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are records in namespaces {}, and operator-controller runs in none of them", .0.join(", "))]
struct SeveralPlaces(Vec<String>);

/// Returns the records of one namespace. Two controllers in two namespaces, one after the other, leave two histories; the one where the
/// controller runs now counts.
fn of_one_place(secrets: Vec<Secret>, deployed: Option<&str>) -> Result<(Vec<Secret>, String), SeveralPlaces> {
    let mut places: BTreeMap<String, Vec<Secret>> = BTreeMap::new();
    for secret in secrets {
        places.entry(secret.namespace().unwrap_or_default()).or_default().push(secret);
    }
    if let Some(found) = deployed.and_then(|namespace| places.remove(namespace)) {
        return Ok((found, format!("in namespace {}", deployed.unwrap_or_default())));
    }
    let names: Vec<String> = places.keys().cloned().collect();
    let mut all = places.into_iter();
    match (all.next(), all.next()) {
        (None, _) => Ok((Vec::new(), "in any namespace".to_owned())),
        (Some((namespace, found)), None) => Ok((found, format!("in namespace {namespace}"))),
        _ => Err(SeveralPlaces(names)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn secret(namespace: &str, name: &str) -> Secret {
        serde_json::from_value(json!({"metadata": {"name": name, "namespace": namespace}})).unwrap()
    }

    fn extension(bundle: Option<&str>) -> ClusterExtension {
        let status = bundle.map(|name| json!({"install": {"bundle": {"name": name, "version": "1.0.0"}}}));
        serde_json::from_value(json!({"apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterExtension",
            "metadata": {"name": "widgets", "uid": "1234"},
            "spec": {"namespace": "work", "serviceAccount": {"name": "installer"}, "source": {"sourceType": "Catalog", "catalog": {"packageName": "widgets"}}},
            "status": status}))
        .unwrap()
    }

    /// MS-RB-01, MS-RB-02: records are found wherever they are; two places are no reason to guess.
    #[test]
    fn records_of_one_place() {
        let chosen = |all: &[Secret], deployed: Option<&str>| {
            of_one_place(all.to_vec(), deployed).map(|(found, place)| (found.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), place))
        };
        let (here, there) = (secret("olm", "a"), secret("olmv1-system", "b"));
        assert_eq!(chosen(std::slice::from_ref(&here), None), Ok((vec!["a".to_owned()], "in namespace olm".to_owned())));
        let both = [here, there];
        assert!(spread(&both) && !spread(&both[..1]));
        assert_eq!(chosen(&both, Some("olm")).unwrap().0, ["a"]);
        assert_eq!(
            chosen(&both, Some("elsewhere")).unwrap_err().to_string(),
            "there are records in namespaces olm, olmv1-system, and operator-controller runs in none of them"
        );
        assert_eq!(chosen(&[], None).unwrap().0, [""; 0]);
    }

    /// MS-RB-01: that nothing was found is not that nothing was applied.
    #[test]
    fn nothing_found_is_not_nothing() {
        let none = |blind: Option<&str>| Records {
            history: History::default(),
            looked_in: "in any namespace".to_owned(),
            blind: blind.map(str::to_owned),
        };
        assert_eq!(none(None).unknown(&extension(None)), None);
        let installed = extension(Some("widgets.v1.0.0"));
        let said = none(None).unknown(&installed).unwrap();
        assert_eq!(said, "widgets.v1.0.0 is installed, and no install record was found in any namespace");
        assert_eq!(none(Some("may not look")).unknown(&extension(None)).unwrap(), "may not look");
        let failure = none(None).known(&installed).unwrap_err();
        assert_eq!(failure.kind(), FailureKind::Impossible);
    }
}
