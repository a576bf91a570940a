//! The installation of a CSV: certificates, Deployments, APIServices and webhooks (OLM0-CSV-11, OLM0-WEBHOOK).

use jiff::Timestamp;
use mainstay_apply::{Reason as Refusal, WriteError, Writer};
use mainstay_objects::{Expect, ObjectRef, Patch, Propagation};
use mainstay_olm_classic_core::csv::{self, Facts, InstallError, Transition, desired};
use mainstay_olm_classic_core::deployments::{Authority, WEBHOOK_NAME, Write};
use mainstay_runtime::Key;
use serde_json::{Value, json};

use super::certificates::Signer;
use super::facts::Gathered;
use super::world::{World, place};
use super::{Error, MANAGER};

/// When certificates were made, and when they are due.
pub(super) type Rotation = (Timestamp, Timestamp);

/// Why a write of an installation was not done.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Error(#[from] Error),
}

impl World {
    /// Installs a CSV, as the account of its group if that names one. The phase says how it went; what could not even be tried is an error.
    pub(super) async fn install(&self, gathered: &Gathered, authority: Option<Authority>) -> Result<(Transition, Option<Rotation>), Error> {
        let facts = gathered.facts(self.env.now_seconds());
        let signer = match &authority {
            None if facts.csv.has_endpoints() => Some(Signer::create(facts.now, self.env.random())?),
            _ => None,
        };
        let authority = signer.as_ref().map(Signer::authority).or(authority);
        let install = match desired(&facts, authority.as_ref()) {
            Ok(install) => install,
            Err(error) => return Ok((csv::failed(&error), None)),
        };
        let writer = self.installer(&facts).await?;
        match self.carry_out(&writer, &facts, &install, signer.as_ref()).await {
            Ok(()) => Ok((csv::installed(), signer.map(|signer| (facts.now, signer.rotates_at())))),
            Err(Failure::Error(error)) => Err(error),
            Err(Failure::Write(error)) if is_passing(&error) => Err(error.into()),
            Err(Failure::Write(error)) => {
                let message = match &error {
                    WriteError::Refused { message, .. } => message.clone(),
                    other => other.to_string(),
                };
                let failed = if error.is_forbidden() { InstallError::Forbidden(message) } else { InstallError::Failed(message) };
                Ok((csv::failed(&failed), None))
            }
        }
    }

    /// The writer with the identity that installs (OLM0-OG-25).
    async fn installer(&self, facts: &Facts<'_>) -> Result<Writer, Error> {
        let account = match facts.groups {
            [group] => group.service_account.as_ref().map(|name| Key::new(&group.namespace, name)),
            _ => None,
        };
        let Some(account) = account else { return Ok(self.writer.clone()) };
        Ok(Writer::new(self.accounts.client(&account).await?, self.kinds.clone(), MANAGER))
    }

    async fn carry_out(&self, writer: &Writer, facts: &Facts<'_>, install: &csv::Install, signer: Option<&Signer>) -> Result<(), Failure> {
        for write in &install.before {
            self.write(writer, facts, write, signer).await?;
        }
        for deployment in &install.deployments {
            let mut object = deployment.clone();
            object["apiVersion"] = json!("apps/v1");
            object["kind"] = json!("Deployment");
            put_deployment(writer, &object).await?;
        }
        for write in &install.after {
            self.write(writer, facts, write, signer).await?;
        }
        for name in &install.orphans {
            let place = place("apps/v1", "Deployment", &Key::new(&facts.csv.namespace, name));
            writer.delete(&place, &Expect::default(), Propagation::Background).await?;
        }
        for (resource, name) in &install.stale_webhooks {
            if let Some((api_version, kind)) = kind_of(resource) {
                writer.delete(&place(api_version, kind, &Key::new("", name)), &Expect::default(), Propagation::Background).await?;
            }
        }
        Ok(())
    }

    async fn write(&self, writer: &Writer, facts: &Facts<'_>, write: &Write, signer: Option<&Signer>) -> Result<(), Failure> {
        match write {
            Write::Apply { object, .. } => {
                writer.apply(object, true, &Expect::default()).await?;
            }
            Write::Create { resource: "secrets", object } => {
                let wanted = match signer {
                    Some(signer) => Some(signer.secret(object, facts.now).map_err(Error::from)?),
                    None => adopted(writer, object).await?,
                };
                if let Some(secret) = wanted {
                    writer.apply(&secret, true, &Expect::default()).await?;
                }
            }
            Write::Create { resource, object } => {
                let Some((api_version, kind)) = kind_of(resource) else { return Ok(()) };
                let mut object = object.clone();
                object["apiVersion"] = json!(api_version);
                object["kind"] = json!(kind);
                if let Some(fields) = object.as_object_mut() {
                    fields.remove("status");
                }
                if kind.ends_with("WebhookConfiguration") {
                    self.name_webhook(facts, resource, &mut object);
                }
                writer.apply(&object, true, &Expect::default()).await?;
            }
            Write::Conversion { crd, conversion } => {
                let place = place("apiextensions.k8s.io/v1", "CustomResourceDefinition", &Key::new("", crd));
                writer.patch(&place, "", &Patch::Merge(json!({"spec": {"conversion": conversion}}))).await?;
            }
        }
        Ok(())
    }

    /// Gives a webhook configuration the name of the one that is there, or a new one.
    fn name_webhook(&self, facts: &Facts<'_>, resource: &str, object: &mut Value) {
        let name = object["metadata"]["labels"][WEBHOOK_NAME].as_str().unwrap_or_default().to_owned();
        let found = facts.webhooks.iter().find(|found| found.resource == resource && found.generate_name == name);
        let prefix = object["metadata"]["generateName"].as_str().unwrap_or_default().to_owned();
        let Some(metadata) = object["metadata"].as_object_mut() else { return };
        // These kinds have no namespace, and an apply needs a name beside what it is made of.
        metadata.remove("namespace");
        metadata.insert(
            "name".to_owned(),
            json!(found.map_or_else(|| format!("{prefix}{}", suffix(self.env.random())), |found| found.name.clone())),
        );
    }
}

/// A Secret whose certificate is good, with this CSV as its owner: it would go with the one that is replaced. `None` if that is so already.
async fn adopted(writer: &Writer, object: &Value) -> Result<Option<Value>, WriteError> {
    let mut wanted = object.clone();
    wanted["apiVersion"] = json!("v1");
    wanted["kind"] = json!("Secret");
    let Some(live) = writer.get(&ObjectRef::of(&wanted)?).await? else { return Ok(None) };
    let owners = |object: &Value| object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    let has = |owner: &Value| owners(&live).iter().any(|live| live["uid"] == owner["uid"]);
    if owners(&wanted).iter().all(has) {
        return Ok(None);
    }
    wanted["data"] = live["data"].clone();
    Ok(Some(wanted))
}

/// Returns whether another attempt at the same write may succeed, so that it says nothing about the CSV.
fn is_passing(error: &WriteError) -> bool {
    let passing = |reason: &Refusal| {
        matches!(
            reason,
            Refusal::Conflict | Refusal::AlreadyExists | Refusal::TooManyRequests | Refusal::Unavailable | Refusal::Unauthorized
        )
    };
    matches!(error, WriteError::Unreachable { .. } | WriteError::NotLeading { .. }) || error.reason().is_some_and(passing)
}

/// Creates a Deployment, or makes its spec and owner what is wanted: what others added to the spec goes, as an update of upstream's does it.
async fn put_deployment(writer: &Writer, object: &Value) -> Result<(), WriteError> {
    let place = ObjectRef::of(object)?;
    let Some(live) = writer.get(&place).await? else {
        return writer.create(object).await.map(drop);
    };
    let merged = |field: &str| {
        let mut all = live["metadata"][field].as_object().cloned().unwrap_or_default();
        all.extend(object["metadata"][field].as_object().cloned().unwrap_or_default());
        json!(all)
    };
    // An object that has changed meanwhile answers a conflict to this, where a `test` would be an invalid request, which says nothing.
    let patch = json!([
        {"op": "replace", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]},
        {"op": "add", "path": "/metadata/labels", "value": merged("labels")},
        {"op": "add", "path": "/metadata/annotations", "value": merged("annotations")},
        {"op": "add", "path": "/metadata/ownerReferences", "value": object["metadata"]["ownerReferences"]},
        {"op": "replace", "path": "/spec", "value": object["spec"]},
    ]);
    writer.patch(&place, "", &Patch::Json(patch)).await.map(drop)
}

/// Five characters, as the API server generates them.
fn suffix(random: u64) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let letter = |at: u32| char::from(LETTERS[(random >> (at * 8)) as usize % LETTERS.len()]);
    (0..5).map(letter).collect()
}

fn kind_of(resource: &str) -> Option<(&'static str, &'static str)> {
    Some(match resource {
        "roles" => ("rbac.authorization.k8s.io/v1", "Role"),
        "rolebindings" => ("rbac.authorization.k8s.io/v1", "RoleBinding"),
        "apiservices" => ("apiregistration.k8s.io/v1", "APIService"),
        "validatingwebhookconfigurations" => ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
        "mutatingwebhookconfigurations" => ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
        _ => return None,
    })
}
