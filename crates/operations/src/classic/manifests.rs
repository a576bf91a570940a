//! The manifests of an InstallPlan's steps: those that stand in it, and those of the bundles that it refers to (OLM0-IP-07).

use std::collections::BTreeMap;

use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_objects::ObjectRef;
use mainstay_olm_classic_core::install_plan::{self, reference::BundleReference};
use mainstay_olm_classic_core::steps::{self, Loaded, Step};
use mainstay_olm_classic_core::unpack::content;
use serde_json::{Value, json};

use super::approval::written_kind;
use super::objects::text;
use crate::failure::not_written;
use crate::images;
use crate::session::Session;

/// The manifests of one InstallPlan. Each bundle is read once.
pub struct Manifests<'s> {
    session: &'s Session,
    namespace: &'s str,
    /// The steps of each bundle by the name of its reference; none if it cannot be read.
    bundles: BTreeMap<String, Vec<Step>>,
    problems: Vec<String>,
}

impl<'s> Manifests<'s> {
    /// Begins with no bundle.
    pub fn new(session: &'s Session, namespace: &'s str) -> Self {
        Self { session, namespace, bundles: BTreeMap::new(), problems: Vec::new() }
    }

    /// The object that a step of the plan's status writes; none if its bundle cannot be read.
    pub async fn of(&mut self, step: &Value) -> Option<Value> {
        let resource = &step["resource"];
        let written = text(resource, "/manifest");
        let manifest = match BundleReference::parse(&written) {
            None => written,
            Some(reference) => {
                let (kind, name) = (text(resource, "/kind"), text(resource, "/name"));
                let (group, version) = (text(resource, "/group"), text(resource, "/version"));
                let bundle = self.bundle(&text(step, "/resolving"), &reference).await;
                let same = |one: &&Step| (&one.kind, &one.group, &one.version, &one.name) == (&kind, &group, &version, &name);
                bundle.iter().find(same)?.manifest.clone()
            }
        };
        let mut object: Value = serde_json::from_str(&manifest).ok()?;
        let kind = text(resource, "/kind");
        // Accounts and roles stand in plans without their kind, as upstream writes them.
        if object["kind"].is_null() {
            let (group, version) = (text(resource, "/group"), text(resource, "/version"));
            object["apiVersion"] = json!(if group.is_empty() { version } else { format!("{group}/{version}") });
            object["kind"] = json!(kind);
        }
        Some(object).filter(|object| text(object, "/kind") == written_kind(&kind))
    }

    /// The bundles that could not be read, and why.
    pub fn into_problems(self) -> Vec<String> {
        self.problems
    }

    async fn bundle(&mut self, csv: &str, reference: &BundleReference) -> &[Step] {
        if !self.bundles.contains_key(&reference.name) {
            let steps = match self.read(csv, reference).await {
                Ok(steps) => steps,
                Err(failure) => {
                    self.problems.push(format!("the content of {csv}: {}", failure.to_line()));
                    Vec::new()
                }
            };
            self.bundles.insert(reference.name.clone(), steps);
        }
        self.bundles.get(&reference.name).map_or(&[], Vec::as_slice)
    }

    async fn read(&self, csv: &str, reference: &BundleReference) -> Result<Vec<Step>, Failure> {
        let loaded = match &reference.image {
            Some(image) => pulled(self.session, image).await?,
            None => self.unpacked(reference).await?,
        };
        let steps = install_plan::unpacked(self.namespace, &reference.lookup(csv), &loaded);
        steps.map_err(|error| Failure::failed(format!("bundle {csv}"), &error))
    }

    /// The content that a Job has put into a ConfigMap.
    async fn unpacked(&self, reference: &BundleReference) -> Result<Loaded, Failure> {
        let place = ObjectRef {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: reference.catalog_namespace.clone(),
            name: reference.name.clone(),
        };
        let map = self.session.writer.get(&place).await.map_err(|error| not_written(&error))?;
        let map = map.ok_or_else(|| Failure::new(FailureKind::NotFound, place.to_string(), "not found"))?;
        content::load(&map).map_err(|error| Failure::failed(place.to_string(), &error))
    }
}

/// The content of a bundle's image, with the user's credentials.
pub async fn pulled(session: &Session, image: &str) -> Result<Loaded, Failure> {
    let files = images::pull_bundle(&session.registries.client()?, image).await?;
    let manifests = files.iter().filter_map(|(path, bytes)| Some((path.strip_prefix("manifests/")?, bytes.as_slice())));
    Ok(steps::load(manifests.filter(|(path, _)| !path.contains('/'))))
}
