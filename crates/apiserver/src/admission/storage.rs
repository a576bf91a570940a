//! Plugins for volumes and claims: default class, finalizers that protect what is in use, and who may grow.

use async_trait::async_trait;
use mainstay_kinds::resource_list::ResourceList;
use serde_json::{Value, json};

use super::defaults::default_class;
use super::step::{AdmissionStep, Operation, Request};
use crate::error::Result;
use crate::object::metadata_mut;

const CLAIMS: &str = "persistentvolumeclaims";
const DEFAULT: [&str; 2] = ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

fn beta_class(claim: &Value) -> Option<&str> {
    claim.pointer("/metadata/annotations").and_then(|all| all.get(BETA_CLASS)).and_then(Value::as_str)
}

/// The class of a claim; empty where it has none.
fn class_of(claim: &Value) -> &str {
    let named = || claim.pointer("/spec/storageClassName").and_then(Value::as_str).unwrap_or_default();
    beta_class(claim).unwrap_or_else(named)
}

/// DefaultStorageClass: a claim that names no class gets the default one. A class with an empty name is named.
pub struct DefaultStorageClass;

#[async_trait]
impl AdmissionStep for DefaultStorageClass {
    async fn mutate(&self, request: &Request<'_>, object: &mut Value) -> Result<()> {
        let named = object.pointer("/spec/storageClassName").is_some_and(|name| !name.is_null()) || beta_class(object).is_some();
        if !request.creates("", CLAIMS) || named {
            return Ok(());
        }
        if let Some(class) = default_class(request.list("storage.k8s.io", "storageclasses", "")?, &DEFAULT) {
            object["spec"]["storageClassName"] = class.into();
        }
        Ok(())
    }
}

/// StorageObjectInUseProtection: volumes, claims and classes of attributes stay until a controller has seen that they are not in use.
pub struct StorageObjectInUseProtection;

#[async_trait]
impl AdmissionStep for StorageObjectInUseProtection {
    async fn mutate(&self, request: &Request<'_>, object: &mut Value) -> Result<()> {
        let finalizer = if request.creates("", "persistentvolumes") {
            "kubernetes.io/pv-protection"
        } else if request.creates("", CLAIMS) {
            "kubernetes.io/pvc-protection"
        } else if request.creates("storage.k8s.io", "volumeattributesclasses") {
            "kubernetes.io/vac-protection"
        } else {
            return Ok(());
        };
        let finalizers = metadata_mut(object).entry("finalizers").or_insert_with(|| json!([]));
        if let Some(finalizers) = finalizers.as_array_mut()
            && !finalizers.iter().any(|one| one == finalizer)
        {
            finalizers.push(finalizer.into());
        }
        Ok(())
    }
}

/// PersistentVolumeClaimResize: only a bound claim grows, and only where its class lets it.
pub struct PersistentVolumeClaimResize;

#[async_trait]
impl AdmissionStep for PersistentVolumeClaimResize {
    async fn validate(&self, request: &Request<'_>, object: Option<&Value>) -> Result<()> {
        let (Some(new), Some(old)) = (object, request.old) else { return Ok(()) };
        let size = |claim: &Value| ResourceList::read(claim.pointer("/spec/resources/requests")).get("storage");
        if request.operation != Operation::Update || !request.writes("", CLAIMS) || size(new) <= size(old) {
            return Ok(());
        }
        if old.pointer("/status/phase").is_none_or(|phase| phase != "Bound") {
            return Err(request.forbidden("Only bound persistent volume claims can be expanded"));
        }
        let (class, before) = (class_of(new), class_of(old));
        let found =
            if class.is_empty() || class != before { None } else { request.find("storage.k8s.io", "storageclasses", "", class).await? };
        if found.is_some_and(|class| class["allowVolumeExpansion"] == true) {
            return Ok(());
        }
        Err(request
            .forbidden("only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"))
    }
}
