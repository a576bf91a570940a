//! Admission: one ordered chain of steps that every write passes (KAPI-ADM-03).
//!
//! All steps mutate first, in order; after preparation and validation all of them may still refuse. The plugins of kube-apiserver
//! stand in its order; quotas are last, since they count only what nobody else refuses.
//!
//! ```text
//!   rest ──► Chain ──► AdmissionStep(Request)     Request: the request's data, and the write
//!                           │
//!                           └──► Lookup ◄── the server implements it; no step knows the store, the cache or the authorizer
//! ```

mod audit;
mod certificates;
mod chain;
mod charges;
mod compiled;
mod defaults;
mod expressions;
mod lifecycle;
mod limit_ranger;
mod lookup;
mod matching;
mod owner_references;
mod plugins;
mod pod_security;
mod policy;
mod priority;
mod project_node_env;
mod quota;
mod reinvocation;
mod review;
mod runtime_class;
mod service_account;
mod step;
mod storage;
mod subresource;
mod webhook;

pub use audit::Annotations;
pub use chain::Chain;
pub use charges::Charges;
pub use lookup::Lookup;
pub use plugins::{PluginError, Plugins};
pub use policy::type_checking;
pub use reinvocation::Reinvocation;
pub use step::{AdmissionStep, Operation, Request, Steps};
pub use subresource::posted;
