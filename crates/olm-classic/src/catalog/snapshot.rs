//! The facts of a resolution, from the live copies.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use mainstay_olm_classic_core::resolve::{Catalog, CatalogFailure, Content, Csv, EXCLUDE_GLOBAL, OperatorGroup, Snapshot, Subscription};
use mainstay_olm_classic_core::source::SourceKey;
use mainstay_olm_classic_core::subscription::VisibleCatalog;
use mainstay_olm_classic_core::{catalog_source, properties};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::parts::Parts;

/// The CatalogSources that a namespace sees, by namespace and name.
pub fn visible(parts: &Parts, namespace: &str) -> Vec<VisibleCatalog> {
    let mut sources = parts.caches.sources.in_namespace(namespace);
    if namespace != parts.global_namespace {
        sources.extend(parts.caches.sources.in_namespace(&parts.global_namespace));
    }
    let mut visible: Vec<VisibleCatalog> = sources
        .iter()
        .filter(|source| source.metadata.deletion_timestamp.is_none())
        .map(|source| VisibleCatalog {
            name: source.name_any(),
            namespace: source.namespace().unwrap_or_default(),
            uid: source.uid().unwrap_or_default(),
            resource_version: source.resource_version().unwrap_or_default(),
            healthy: catalog_source::is_ready(&source.data),
        })
        .collect();
    visible.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    visible
}

/// The facts about a namespace.
pub struct Facts {
    /// The input of a resolution.
    pub snapshot: Snapshot,
    /// The last content of catalogs that cannot be read now, where they hold back only what they could concern (OLM0-CAT-35).
    pub last: BTreeMap<SourceKey, Arc<Content>>,
    /// A hash that differs if any of the facts does.
    pub identity: [u8; 32],
}

/// The facts about a namespace.
pub fn snapshot(parts: &Parts, namespace: &str, subscriptions: &[Value]) -> Facts {
    let caches = &parts.caches;
    let (mut identity, mut last) = (String::new(), BTreeMap::new());
    let catalogs = visible(parts, namespace)
        .into_iter()
        .map(|visible| {
            let key = SourceKey { name: visible.name, namespace: visible.namespace };
            let live = caches.sources.get(&mainstay_runtime::Key::new(&*key.namespace, &*key.name));
            let priority = live.and_then(|live| live.data["spec"]["priority"].as_i64()).unwrap_or_default();
            let content = parts.contents.get(&key.namespace, &key.name).filter(|_| visible.healthy);
            let digest = parts.contents.stored(&key.namespace, &key.name).map(|stored| stored.digest().to_string());
            let shown = digest.filter(|_| content.is_some()).unwrap_or_default();
            let _ = writeln!(identity, "{key} {priority} {shown}");
            if content.is_none()
                && let Some((digest, content)) = parts.contents.last(&key.namespace, &key.name)
            {
                let _ = writeln!(identity, "last {digest}");
                last.insert(key.clone(), content);
            }
            Catalog { content: content.ok_or_else(|| CatalogFailure::NoConnection(key.clone())), key, priority }
        })
        .collect();
    let groups: Vec<OperatorGroup> = caches.groups.in_namespace(namespace).iter().map(|group| operator_group(group)).collect();
    let csvs: Vec<Csv> = caches.csvs.in_namespace(namespace).iter().map(|object| csv(object)).collect();
    let subscriptions: Vec<Subscription> = subscriptions.iter().map(Subscription::read).collect();
    let _ = write!(identity, "{groups:?} {csvs:?} {subscriptions:?}");
    let snapshot = Snapshot {
        namespace: namespace.to_owned(),
        global_namespace: parts.global_namespace.clone(),
        operator_groups: groups,
        catalogs,
        csvs,
        subscriptions,
    };
    Facts { snapshot, last, identity: Sha256::digest(identity).into() }
}

fn operator_group(group: &DynamicObject) -> OperatorGroup {
    OperatorGroup::read(&group.name_any(), group.annotations().get(EXCLUDE_GLOBAL).map(String::as_str), &group.data["spec"])
}

fn csv(object: &DynamicObject) -> Csv {
    let place = (object.namespace().unwrap_or_default(), object.name_any());
    let properties = object.annotations().get(properties::ANNOTATION).map(String::as_str);
    Csv::read((&place.0, &place.1), properties, &object.data["spec"], &object.data["status"]["phase"])
}
