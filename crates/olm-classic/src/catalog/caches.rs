//! Live copies of the objects that the catalog operator reads.

use kube::Client;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use mainstay_runtime::{Cache, Env, Part, Scope};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

/// The group of OLM's own kinds.
pub const GROUP: &str = "operators.coreos.com";

/// The copies. Clones share them.
#[derive(Clone)]
pub struct Caches {
    /// CatalogSources.
    pub sources: Cache,
    /// Subscriptions, packed.
    pub subscriptions: Cache,
    /// InstallPlans, packed.
    pub plans: Cache,
    /// CSVs that are no copies, without what no decision here reads; packed.
    pub csvs: Cache,
    /// OperatorGroups.
    pub groups: Cache,
    /// Namespaces, their metadata.
    pub namespaces: Cache,
    /// Roles, their metadata.
    pub roles: Cache,
    /// Role bindings, their metadata.
    pub role_bindings: Cache,
    /// CRDs, their metadata.
    pub definitions: Cache,
}

/// The resource of a kind of OLM's group.
pub fn resource(version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, version, kind), plural)
}

const RBAC: &str = "rbac.authorization.k8s.io";

impl Caches {
    /// Starts the copies.
    pub fn start(client: &Client, env: &Env, stop: &CancellationToken) -> Self {
        let start = |resource: &ApiResource, scope: &Scope| Cache::start(client, resource, scope, stop).shown(env.metrics());
        let whole = |version, kind, plural| start(&resource(version, kind, plural), &Scope::default());
        let metadata = |group: &str, version: &str, kind: &str, plural: &str| {
            let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
            start(&resource, &Scope { part: Part::Metadata, ..Scope::default() })
        };
        let packed = Scope { is_packed: true, ..Scope::default() };
        let own = Scope { labels: Some("!olm.copiedFrom".to_owned()), trim: Some(trim_csv), ..packed.clone() };
        Self {
            sources: whole("v1alpha1", "CatalogSource", "catalogsources"),
            subscriptions: start(&resource("v1alpha1", "Subscription", "subscriptions"), &packed),
            // Each step repeats the properties of its bundle, or has a whole manifest.
            plans: start(&resource("v1alpha1", "InstallPlan", "installplans"), &packed),
            csvs: start(&resource("v1alpha1", "ClusterServiceVersion", "clusterserviceversions"), &own),
            groups: whole("v1", "OperatorGroup", "operatorgroups"),
            namespaces: metadata("", "v1", "Namespace", "namespaces"),
            roles: metadata(RBAC, "v1", "Role", "roles"),
            role_bindings: metadata(RBAC, "v1", "RoleBinding", "rolebindings"),
            definitions: metadata("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"),
        }
    }

    /// Waits until every first list is complete.
    pub async fn ready(&self) {
        let Self { sources, subscriptions, plans, csvs, groups, namespaces, roles, role_bindings, definitions } = self;
        for cache in [sources, subscriptions, plans, csvs, groups, namespaces, roles, role_bindings, definitions] {
            cache.ready().await;
        }
    }
}

/// The annotation with a CSV's properties.
const PROPERTIES: &str = mainstay_olm_classic_core::properties::ANNOTATION;

/// Keeps what a resolution reads of a CSV, whose rest is hundreds of kilobytes.
fn trim_csv(csv: &mut DynamicObject) {
    if let Some(annotations) = &mut csv.metadata.annotations {
        annotations.retain(|key, _| key == PROPERTIES);
    }
    let kept = |value: &Value, fields: &[&str]| -> Value {
        let found = fields.iter().filter_map(|field| Some(((*field).to_owned(), value.get(*field)?.clone())));
        Value::Object(found.collect::<Map<_, _>>())
    };
    let list = |value: &Value| -> Value {
        let items = value.as_array().into_iter().flatten();
        items.map(|item| kept(item, &["name", "group", "version", "kind"])).collect()
    };
    let apis = |value: &Value| -> Value {
        let sides = ["owned", "required"].into_iter().filter(|side| value[*side].is_array());
        Value::Object(sides.map(|side| (side.to_owned(), list(&value[side]))).collect())
    };
    let spec = &csv.data["spec"];
    let mut trimmed = kept(spec, &["version", "replaces"]);
    for field in ["customresourcedefinitions", "apiservicedefinitions"] {
        if spec[field].is_object() {
            trimmed[field] = apis(&spec[field]);
        }
    }
    csv.data = serde_json::json!({"spec": trimmed, "status": kept(&csv.data["status"], &["phase", "reason"])});
}
