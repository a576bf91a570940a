//! The permissions of a user, as the cluster's API server decides them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use mainstay_apiserver::ApiError;
use mainstay_apiserver::access::forbidden;
use mainstay_diagnostics::chain;
use mainstay_rbac::Attributes;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// The time for which an answer is remembered, as in Kubernetes' own servers.
const REMEMBER: Duration = Duration::from_secs(10);
/// The most answers that are remembered.
const REMEMBERED: usize = 2048;
/// Concurrent questions to the API.
const AT_ONCE: usize = 16;
/// The longest time that an answer may take, waiting included.
const PATIENCE: Duration = Duration::from_secs(10);

/// A refusal, with the reason that the API server gives; often none.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
struct Refusal(String);

/// The answer to a question.
type Verdict = Result<(), Refusal>;

/// Asks the API server, and remembers its answers for a while.
pub struct Permissions {
    client: Client,
    remembered: Mutex<HashMap<String, (Instant, Verdict)>>,
    places: Semaphore,
}

impl fmt::Debug for Permissions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Permissions").finish_non_exhaustive()
    }
}

/// A review that was not answered.
#[derive(Debug, thiserror::Error)]
enum ReviewError {
    #[error("the API server did not answer within {} seconds", PATIENCE.as_secs())]
    TooSlow,
    #[error("the access of the user could not be reviewed")]
    Api(#[from] kube::Error),
    #[error("the review cannot be written")]
    Form(#[from] serde_json::Error),
}

impl Permissions {
    /// Creates permissions through `client`, whose identity needs permission to create SubjectAccessReviews.
    pub fn new(client: Client) -> Self {
        Self { client, remembered: Mutex::default(), places: Semaphore::new(AT_ONCE) }
    }

    /// Checks that a request is allowed.
    ///
    /// # Errors
    /// 403 if it is not; 500 if the API server does not answer.
    pub async fn check(&self, request: &Attributes) -> Result<(), ApiError> {
        if request.user.is_master() {
            return Ok(());
        }
        let question = format!("{request:?}");
        let verdict = if let Some(verdict) = self.recall(&question) {
            verdict
        } else {
            let verdict = self.ask(request).await.map_err(|error| {
                let error = chain(&error);
                tracing::warn!(user = request.user.name, error, "a request was refused: its permission is not known");
                ApiError::internal(error)
            })?;
            self.remember(question, verdict.clone());
            verdict
        };
        verdict.map_err(|Refusal(reason)| forbidden(request, &reason))
    }

    async fn ask(&self, request: &Attributes) -> Result<Verdict, ReviewError> {
        let asked = async {
            // The semaphore is never closed, so a permit is always granted.
            let _place = self.places.acquire().await;
            let kind = GroupVersionKind::gvk("authorization.k8s.io", "v1", "SubjectAccessReview");
            let reviews: Api<DynamicObject> = Api::all_with(self.client.clone(), &ApiResource::from_gvk(&kind));
            let review: DynamicObject = serde_json::from_value(review(request))?;
            let answer = reviews.create(&PostParams::default(), &review).await?;
            let status = &answer.data["status"];
            let allowed = status["allowed"] == true && status["denied"] != true;
            Ok(if allowed { Ok(()) } else { Err(Refusal(status["reason"].as_str().unwrap_or_default().to_owned())) })
        };
        tokio::time::timeout(PATIENCE, asked).await.map_err(|_| ReviewError::TooSlow)?
    }

    fn recall(&self, question: &str) -> Option<Verdict> {
        let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.get(question).filter(|(until, _)| Instant::now() < *until).map(|(_, verdict)| verdict.clone())
    }

    fn remember(&self, question: String, verdict: Verdict) {
        let now = Instant::now();
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= REMEMBERED {
            remembered.retain(|_, (until, _)| now < *until);
        }
        if remembered.len() < REMEMBERED {
            remembered.insert(question, (now + REMEMBER, verdict));
        }
    }
}

fn review(request: &Attributes) -> Value {
    let user = &request.user;
    let mut spec = json!({"user": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra});
    if request.resource_request {
        spec["resourceAttributes"] = json!({
            "verb": request.verb, "namespace": request.namespace, "group": request.api_group, "version": request.api_version,
            "resource": request.resource, "subresource": request.subresource, "name": request.name,
        });
    } else {
        spec["nonResourceAttributes"] = json!({"verb": request.verb, "path": request.path});
    }
    json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {}, "spec": spec})
}
