//! Priority and fairness as far as it shows: which FlowSchema and priority level a request is one of.
//!
//! ```text
//!   FlowSchemas, PriorityLevelConfigurations ─ keeper ─▶ classes, in the order of their precedence ─ classify ─▶ two headers
//! ```
//! The order of waiting requests is decided by `inflight` alone (KAPI-SRV-06).

mod keeper;
mod rules;

use std::sync::{Arc, PoisonError, RwLock};

use http::{HeaderMap, HeaderName, HeaderValue};
use mainstay_rbac::UserInfo;
use serde_json::Value;

use crate::request::RequestInfo;

pub use keeper::Keeper;

const SCHEMA: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const LEVEL: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// A FlowSchema whose priority level exists.
struct Class {
    precedence: i64,
    name: String,
    spec: Value,
    flow: Flow,
}

/// The uids of a FlowSchema and its priority level, as headers.
#[derive(Clone)]
pub struct Flow {
    schema: HeaderValue,
    level: HeaderValue,
}

impl Flow {
    /// Says in an answer what its request was classified as.
    pub fn tell(self, headers: &mut HeaderMap) {
        headers.insert(SCHEMA, self.schema);
        headers.insert(LEVEL, self.level);
    }
}

/// The facts that requests are classified by.
#[derive(Default)]
pub struct Flows(RwLock<Arc<Vec<Class>>>);

impl Flows {
    /// The first class whose rules fit a request; none before the built-in objects exist.
    pub fn classify(&self, user: &UserInfo, info: &RequestInfo) -> Option<Flow> {
        let classes = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        classes.iter().find(|class| rules::fits(&class.spec, user, info)).map(|class| class.flow.clone())
    }

    /// Replaces the classes by what these objects say.
    fn replace(&self, schemas: &[Value], levels: &[Value]) {
        let uid = |object: &Value| HeaderValue::from_str(object["metadata"]["uid"].as_str().unwrap_or_default()).ok();
        let mut classes: Vec<Class> = schemas
            .iter()
            .filter_map(|schema| {
                let level = &schema["spec"]["priorityLevelConfiguration"]["name"];
                let level = levels.iter().find(|one| one["metadata"]["name"] == *level)?;
                Some(Class {
                    precedence: schema["spec"]["matchingPrecedence"].as_i64().unwrap_or_default(),
                    name: schema["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
                    spec: schema["spec"].clone(),
                    flow: Flow { schema: uid(schema)?, level: uid(level)? },
                })
            })
            .collect();
        classes.sort_by(|one, other| (one.precedence, &one.name).cmp(&(other.precedence, &other.name)));
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(classes);
    }
}
