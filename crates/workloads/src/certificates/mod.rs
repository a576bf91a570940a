//! CertificateSigningRequests: those of kubelets are approved, approved ones are signed by the cluster's CA, and old ones are deleted
//! (KAPI-WL-01).

pub mod issue;
pub mod plan;
pub mod request;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::api::DynamicObject;
use mainstay_runtime::{Key, Outcome, Queue, Served};
use serde_json::{Value, json};

use self::issue::{Authority, Terms};
use self::plan::Step;
use crate::api::{Delete, builtin};
use crate::live::Live;
use crate::object::{Read as _, time};
use crate::replicaset::settle;
use crate::world::{World, wake_self};
use crate::{Error, Result};

#[derive(Clone)]
struct Controller {
    world: World,
    requests: Live,
    reviews: Served,
    authority: Option<Arc<Authority>>,
}

/// Runs the controller. Without an authority, requests are approved, refused and cleaned up, but none is signed.
pub async fn run(world: World, authority: Option<Arc<Authority>>) {
    let requests = world.follow("certificates.k8s.io/v1", "CertificateSigningRequest", "certificatesigningrequests", false);
    let queue: Queue<Key> = Queue::default();
    requests.ready().await;
    wake_self(&requests, &queue);
    let (env, stop) = (world.env.clone(), world.stop.clone());
    let reviews = builtin("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews", false);
    let controller = Controller { world, requests, reviews, authority };
    mainstay_runtime::run("certificates", queue, 1, env, stop, move |key| {
        let controller = controller.clone();
        async move { settle(controller.reconcile(&key).await) }
    })
    .await;
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some(csr) = self.requests.get(key).filter(|csr| !csr.deleting()) else { return Ok(Outcome::Done) };
        match plan::plan(&csr, self.world.env.now()) {
            Step::Rest(again) => return Ok(again.map_or(Outcome::Done, Outcome::After)),
            Step::Delete => {
                self.requests.delete(key, &Delete::uid(csr.uid())).await?;
            }
            Step::Approve(permissions) => {
                for permission in permissions {
                    if self.may(&csr, permission.subresource).await? {
                        return self.approve(&csr, permission.message).await;
                    }
                }
            }
            Step::Sign { request, from, until } => {
                let Some(authority) = &self.authority else { return Ok(Outcome::Done) };
                let mut serial = [0; 16];
                for half in serial.chunks_mut(8) {
                    half.copy_from_slice(&self.world.env.random().to_be_bytes());
                }
                let terms = Terms { from, until, usages: &plan::usages(&csr), serial };
                let pem = authority.issue(&request, &terms).map_err(|error| Error::Object {
                    kind: "CertificateSigningRequest".into(),
                    key: key.clone(),
                    problem: error.to_string(),
                })?;
                let mut status = csr.at("/status").clone();
                status["certificate"] = json!(STANDARD.encode(pem));
                self.requests.write_status(&csr, &status).await?;
            }
            Step::Fail(why) => {
                let mut status = csr.at("/status").clone();
                status["conditions"] = self.with(&csr, "Failed", "SignerValidationFailure", &why);
                self.requests.write_status(&csr, &status).await?;
            }
        }
        Ok(Outcome::Done)
    }

    /// Asks the authorizer if the requestor may create such a certificate.
    async fn may(&self, csr: &DynamicObject, subresource: &str) -> Result<bool> {
        let mut spec = json!({"resourceAttributes": {
            "group": "certificates.k8s.io", "resource": "certificatesigningrequests", "verb": "create", "subresource": subresource, "version": "*",
        }});
        for (name, path) in [("user", "/spec/username"), ("uid", "/spec/uid"), ("groups", "/spec/groups"), ("extra", "/spec/extra")] {
            if !csr.at(path).is_null() {
                spec[name] = csr.at(path).clone();
            }
        }
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec});
        let answer = self.world.api.create(&self.reviews, "", &review).await?;
        Ok(answer.pointer("/status/allowed") == Some(&Value::Bool(true)))
    }

    async fn approve(&self, csr: &DynamicObject, message: &str) -> Result<Outcome> {
        let mut body = self.requests.value(csr);
        body["status"]["conditions"] = self.with(csr, "Approved", "AutoApproved", message);
        self.world.api.replace(self.requests.served(), &Key::of(csr), "approval", &body).await?;
        Ok(Outcome::Done)
    }

    /// Returns the conditions of a request with one more.
    fn with(&self, csr: &DynamicObject, kind: &str, reason: &str, message: &str) -> Value {
        let now = time(self.world.env.now());
        let mut conditions = csr.at("/status/conditions").as_array().cloned().unwrap_or_default();
        conditions.push(json!({
            "type": kind, "status": "True", "reason": reason, "message": message, "lastUpdateTime": now, "lastTransitionTime": now,
        }));
        Value::Array(conditions)
    }
}
