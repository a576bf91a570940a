//! The platform, as far as operators that authenticate by tokens are concerned.

use mainstay_diagnostics::Failure;
use mainstay_olm_classic_core::token_auth::TokenCloud;
use serde_json::Value;

use super::objects::{Kind, list_if_served};
use crate::session::Session;

const fn config(kind: &'static str, plural: &'static str, word: &'static str) -> Kind {
    Kind { group: "config.openshift.io", version: "v1", kind, plural, word }
}

/// Infrastructure.
pub(crate) const INFRASTRUCTURE: Kind = config("Infrastructure", "infrastructures", "infrastructure");
/// Authentication.
pub(crate) const AUTHENTICATION: Kind = config("Authentication", "authentications", "authentication");
/// CloudCredential.
pub(crate) const CLOUD_CREDENTIAL: Kind =
    Kind { group: "operator.openshift.io", version: "v1", kind: "CloudCredential", plural: "cloudcredentials", word: "cloudcredential" };

/// The object `cluster` of a kind; `None` if it is missing, or the kind is not served.
pub(crate) async fn cluster(session: &Session, kind: Kind) -> Result<Option<Value>, Failure> {
    let all = list_if_served(session, kind, None).await?.unwrap_or_default();
    Ok(all.into_iter().find(|object| object["metadata"]["name"] == "cluster"))
}

/// The cloud that tokens open. A user who may not read the settings installs as on any cluster.
pub(crate) async fn token_cloud(session: &Session) -> Option<TokenCloud> {
    let credential = cluster(session, CLOUD_CREDENTIAL).await.ok()??;
    let (authentication, infrastructure) = (cluster(session, AUTHENTICATION).await.ok()?, cluster(session, INFRASTRUCTURE).await.ok()?);
    TokenCloud::of_cluster(Some(&credential), authentication.as_ref(), infrastructure.as_ref())
}
