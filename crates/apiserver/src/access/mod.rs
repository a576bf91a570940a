//! Authentication and authorization.
//!
//! ```text
//!   request ── Authenticator (certificate, token, anonymous) ── impersonation ── UserInfo
//!                    │                                               │
//!              TokenObjects                                       Policy ── authorize ── 403
//!   pki: the CA, keys and kubeconfig of the data directory           │
//!                                              reviews, escalation: questions asked as objects
//! ```
//!
//! Everything that needs live objects asks through small traits ([`TokenObjects`], [`mainstay_rbac::RoleView`]); the clock comes in
//! as a [`jiff::Timestamp`].
//!
//! Putting it together: [`pki::Pki::open`] gives keys; [`Gate::over`] takes the CA, the signing key and the watch cache, spawn
//! [`Policy::follow`] beside it; [`Escalation`] is the last step of admission. Secrets of type
//! `kubernetes.io/service-account-token` are filled by a TokenRequest that is bound to the Secret and asks for the longest time.
#![allow(clippy::result_large_err, reason = "a refusal is the rare case, and boxing it would burden every caller")]

mod admission;
mod answers;
mod authn;
mod authz;
mod escalation;
mod front_proxy;
mod gate;
mod impersonate;
mod jws;
mod known;
mod kubeconfig;
mod live;
pub mod pki;
mod policy;
mod reviews;
mod static_tokens;
mod token_request;
mod tokens;
mod x509;

pub use admission::Escalation;
pub use authn::{AnonymousAccess, Authenticator, Credentials, unauthorized};
pub use authz::{attributes, forbidden, require};
pub use escalation::{check_binding_write, check_role_write};
pub use front_proxy::FrontProxy;
pub use gate::Gate;
pub use impersonate::impersonate;
pub use jws::SigningKey;
pub use kubeconfig::{Kubeconfig, write_private};
pub use live::CachedObjects;
pub use policy::Policy;
pub use reviews::{
    ReviewScope, review_access, review_local_access, review_own_access, review_own_identity, review_own_rules, review_token,
};
pub use static_tokens::{StaticTokens, TokenFileError};
pub use token_request::request_token;
pub use tokens::{BoundObject, Claims, LiveObject, LivePod, TokenObjects, Tokens};
pub use x509::ClientAuthority;

#[cfg(test)]
mod tests;
