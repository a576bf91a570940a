//! Access reviews for the bearer of a token: TokenReview, then SubjectAccessReview on the path (MS-OPS-01), as in controller-runtime's filter for
//! metrics.
//!
//! ```text
//!   token ──► remembered? ──no──► TokenReview ──user──► SubjectAccessReview of (verb, path) ──► Access, remembered for a while
//! ```

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Client;
use kube::api::{Api, PostParams};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// The time for which a grant is remembered: a revoked permission takes effect after it at the latest.
const GRANTED: Duration = Duration::from_secs(60);
/// The time for which a refusal is remembered: a granted permission takes effect after it at the latest.
const REFUSED: Duration = Duration::from_secs(10);
/// The number of answers that are remembered.
const REMEMBERED: usize = 256;
/// Concurrent questions to the API: a client that tries many tokens waits and does not burden the API.
const AT_ONCE: usize = 4;
/// The longest time of both reviews together.
const PATIENCE: Duration = Duration::from_secs(10);

/// The cluster's decision on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// This user has access.
    Granted(String),
    /// This user has no access.
    Denied(String),
    /// The token belongs to no user.
    Unknown,
}

/// A failed review.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// The token could not be reviewed.
    #[error("the token could not be reviewed; this process needs the right to create tokenreviews")]
    Authentication(#[source] kube::Error),
    /// The user's access could not be reviewed.
    #[error("the access of {user} could not be reviewed; this process needs the right to create subjectaccessreviews")]
    Authorization {
        /// The user.
        user: String,
        /// The cause.
        #[source]
        source: kube::Error,
    },
    /// The API took too long, or too many requests waited.
    #[error("the API did not answer within {} seconds", PATIENCE.as_secs())]
    TooSlow,
}

/// A hash of the question, so that memory holds no tokens.
type Question = [u8; 32];

/// The client for access reviews, which remembers the answers for a while.
pub struct Reviews {
    client: Client,
    remembered: Mutex<HashMap<Question, (Instant, Access)>>,
    places: Semaphore,
}

impl fmt::Debug for Reviews {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Reviews").finish_non_exhaustive()
    }
}

impl Reviews {
    /// Creates reviews through `client`, whose identity needs permission to create both kinds of reviews.
    pub fn new(client: Client) -> Self {
        Self { client, remembered: Mutex::default(), places: Semaphore::new(AT_ONCE) }
    }

    /// Returns the access of the bearer of `token` to `verb` (a method in lower case) on `path`.
    ///
    /// # Errors
    /// A review failed or took too long. Errors are not remembered.
    pub async fn access(&self, token: &str, verb: &str, path: &str) -> Result<Access, ReviewError> {
        let question = question(token, verb, path);
        if let Some(access) = self.recall(&question) {
            return Ok(access);
        }
        let asked = async {
            // The semaphore is never closed, so a permit is always granted.
            let _place = self.places.acquire().await;
            // The preceding caller may have asked the same question.
            match self.recall(&question) {
                Some(access) => Ok(access),
                None => self.ask(token, verb, path).await.inspect(|access| self.remember(question, access.clone())),
            }
        };
        tokio::time::timeout(PATIENCE, asked).await.map_err(|_| ReviewError::TooSlow)?
    }

    async fn ask(&self, token: &str, verb: &str, path: &str) -> Result<Access, ReviewError> {
        let review = TokenReview { spec: TokenReviewSpec { token: Some(token.to_owned()), audiences: None }, ..TokenReview::default() };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let reviewed = reviews.create(&PostParams::default(), &review).await.map_err(ReviewError::Authentication)?;
        let status = reviewed.status.unwrap_or_default();
        let Some(user) = status.user.filter(|_| status.authenticated == Some(true)) else { return Ok(Access::Unknown) };
        let name = user.username.clone().unwrap_or_default();
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let reviewed = reviews
            .create(&PostParams::default(), &access_of(user, verb, path))
            .await
            .map_err(|source| ReviewError::Authorization { user: name.clone(), source })?;
        let allowed = reviewed.status.is_some_and(|status| status.allowed && status.denied != Some(true));
        Ok(if allowed { Access::Granted(name) } else { Access::Denied(name) })
    }

    fn recall(&self, question: &Question) -> Option<Access> {
        let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.get(question).filter(|(until, _)| Instant::now() < *until).map(|(_, access)| access.clone())
    }

    fn remember(&self, question: Question, access: Access) {
        let now = Instant::now();
        let until = now + if matches!(access, Access::Granted(_)) { GRANTED } else { REFUSED };
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= REMEMBERED {
            remembered.retain(|_, (until, _)| now < *until);
        }
        // Refusals, which any client can cause, must not evict grants.
        if remembered.len() >= REMEMBERED {
            let refused = remembered.iter().find(|(_, (_, access))| !matches!(access, Access::Granted(_))).map(|(question, _)| *question);
            match refused {
                Some(refused) => drop(remembered.remove(&refused)),
                None => return,
            }
        }
        remembered.insert(question, (until, access));
    }
}

/// Hashes each part with its length, so that no two questions have the same text.
fn question(token: &str, verb: &str, path: &str) -> Question {
    let mut hash = Sha256::new();
    for part in [token, verb, path] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

fn access_of(user: UserInfo, verb: &str, path: &str) -> SubjectAccessReview {
    let extra: BTreeMap<String, Vec<String>> = user.extra.unwrap_or_default();
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: Some(extra).filter(|extra| !extra.is_empty()),
            non_resource_attributes: Some(NonResourceAttributes { path: Some(path.to_owned()), verb: Some(verb.to_owned()) }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    /// An API that knows the token `good` of a user who may get `/metrics`, and counts what it is asked.
    fn api(asked: &Arc<AtomicUsize>) -> Client {
        let asked = asked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let asked = asked.clone();
            async move {
                asked.fetch_add(1, Ordering::Relaxed);
                let path = request.uri().path().to_owned();
                let bytes = request.into_body().collect_bytes().await.unwrap();
                let mut review: Value = serde_json::from_slice(&bytes).unwrap();
                review["status"] = if path.ends_with("/tokenreviews") {
                    match review["spec"]["token"].as_str() {
                        Some("good") => json!({"authenticated": true, "user": {"username": "ann", "groups": ["scrapers"]}}),
                        _ => json!({"authenticated": false, "error": "no such token"}),
                    }
                } else {
                    let asks = &review["spec"];
                    assert_eq!((&asks["user"], &asks["groups"]), (&json!("ann"), &json!(["scrapers"])));
                    json!({"allowed": asks["nonResourceAttributes"] == json!({"path": "/metrics", "verb": "get"})})
                };
                Ok::<_, std::convert::Infallible>(Response::new(Body::from(serde_json::to_vec(&review).unwrap())))
            }
        });
        Client::new(service, "default")
    }

    /// MS-OPS-01: a token is reviewed and then what it may; both answers count for a while, a grant longer than a refusal.
    #[tokio::test(start_paused = true)]
    async fn answers_count_for_a_while() {
        let asked = Arc::default();
        let reviews = Reviews::new(api(&asked));
        let count = || asked.load(Ordering::Relaxed);
        let may = |token: &'static str, verb: &'static str| reviews.access(token, verb, "/metrics");
        for _ in 0..3 {
            assert_eq!(may("good", "get").await.unwrap(), Access::Granted("ann".to_owned()));
            assert_eq!(may("good", "put").await.unwrap(), Access::Denied("ann".to_owned()));
            assert_eq!(may("bad", "get").await.unwrap(), Access::Unknown);
        }
        assert_eq!(count(), 5, "two for each user's question, one for the token that is nobody's");
        tokio::time::advance(REFUSED).await;
        assert_eq!(may("good", "get").await.unwrap(), Access::Granted("ann".to_owned()));
        assert_eq!(may("bad", "get").await.unwrap(), Access::Unknown);
        assert_eq!(count(), 6);
        tokio::time::advance(GRANTED).await;
        assert_eq!(may("good", "get").await.unwrap(), Access::Granted("ann".to_owned()));
        assert_eq!(count(), 8);
    }

    /// MS-OPS-01: tokens that are tried push nothing out that was granted, and memory holds a bounded number of them.
    #[tokio::test(start_paused = true)]
    async fn tried_tokens_push_nothing_out() {
        let asked = Arc::default();
        let reviews = Reviews::new(api(&asked));
        reviews.access("good", "get", "/metrics").await.unwrap();
        for number in 0..2 * REMEMBERED {
            assert_eq!(reviews.access(&format!("bad-{number}"), "get", "/metrics").await.unwrap(), Access::Unknown);
        }
        assert_eq!(reviews.remembered.lock().unwrap().len(), REMEMBERED);
        let before = asked.load(Ordering::Relaxed);
        reviews.access("good", "get", "/metrics").await.unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), before);
    }

    /// MS-OPS-01: an API that says nothing is no answer, and not remembered as one.
    #[tokio::test(start_paused = true)]
    async fn silence_is_no_answer() {
        let silent = tower::service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, std::convert::Infallible>>());
        let reviews = Reviews::new(Client::new(silent, "default"));
        assert!(matches!(reviews.access("good", "get", "/metrics").await, Err(ReviewError::TooSlow)));
        assert!(reviews.remembered.lock().unwrap().is_empty());
    }
}
