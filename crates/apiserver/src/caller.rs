//! The caller of a request, for everything that is shared by user.

use std::sync::Arc;

use http::request::Parts;
use mainstay_rbac::UserInfo;
use mainstay_serve::Place;

use crate::request::{RequestInfo, TrustedIdentity};

/// The group whose requests are never turned away.
const ADMINISTRATORS: &str = "system:masters";
/// The user as whom all health checks count.
const PROBES: &str = "system:probes";

/// The user that a request counts for, and its connection.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The user's name.
    pub user: Arc<str>,
    /// Never turned away, and never made to wait.
    pub exempt: bool,
    /// The connection.
    pub place: Option<Place>,
}

impl Caller {
    /// From a request whose user is known.
    pub fn of(parts: &Parts, user: &UserInfo, info: &RequestInfo) -> Self {
        let administrator = user.groups.iter().any(|group| group == ADMINISTRATORS);
        // Controllers of this process act as the accounts that they have in a cluster.
        let own = user.name.starts_with("system:serviceaccount:") && parts.extensions.get::<TrustedIdentity>().is_some();
        let place = parts.extensions.get::<Place>().cloned();
        let user: Arc<str> = user.name.as_str().into();
        if let Some(place) = place.as_ref().filter(|_| *user != *mainstay_rbac::ANONYMOUS_USER) {
            place.claim(&user, administrator);
        }
        // Health checks are never turned away, however many a user sends, and share the processor as one user.
        let user = if info.is_probe() { PROBES.into() } else { user };
        Self { user, exempt: administrator || own, place }
    }
}
