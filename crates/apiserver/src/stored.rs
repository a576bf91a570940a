//! Objects between the form in which they are stored and the version in which they are served.

use std::sync::Arc;

use bytes::Bytes;
use mainstay_kinds::{self as kinds, Gvk};
use mainstay_store::Revision;
use serde_json::Value;

use crate::crd::{Converter, stored_version};
use crate::error::{ApiError, Result};
use crate::object;
use crate::served::Served;

/// An object of the store, in the version that was asked for.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The object with its resourceVersion.
    pub value: Value,
    /// Its revision.
    pub revision: Revision,
    /// Set if it is stored in another version than it would be now: even an update that changes nothing is a change.
    pub outdated: bool,
}

impl Served {
    /// A stored object in this version.
    pub fn read(&self, stored: &Bytes, revision: Revision) -> Result<Loaded> {
        let mut value = object::decode(stored, revision)
            .map_err(|error| ApiError::internal(format!("a stored object of {} is not JSON: {error}", self.facts.plural)))?;
        self.convert(&mut value)?;
        Ok(Loaded { value, revision, outdated: self.is_outdated(stored) })
    }

    /// The same for what comes straight from the store: a webhook converts it where it has another version.
    pub async fn load(&self, stored: &Bytes, revision: Revision) -> Result<Loaded> {
        let api_version = self.api_version();
        let Some(converter) = self.converter().filter(|_| stored_version(stored) != Some(&api_version)) else {
            return self.read(stored, revision);
        };
        let value = object::decode(stored, revision).map_err(|error| ApiError::internal(error.to_string()))?;
        let mut value = converter.convert(vec![value], &api_version).await?.swap_remove(0);
        self.convert(&mut value)?;
        Ok(Loaded { value, revision, outdated: self.is_outdated(stored) })
    }

    /// The webhook that converts between the versions.
    pub fn converter(&self) -> Option<&Arc<Converter>> {
        self.custom.as_ref()?.converter.as_ref()
    }

    /// Returns whether a webhook makes the stored form of what is written.
    pub fn converts_to_store(&self) -> bool {
        self.converter().is_some() && *self.storage_version != *self.facts.version
    }

    /// Returns whether a custom resource is stored in another version than the one that is served here.
    pub fn stores_another_version(&self) -> bool {
        self.custom.is_some() && *self.storage_version != *self.facts.version
    }

    fn is_outdated(&self, stored: &[u8]) -> bool {
        self.custom.is_some() && stored_version(stored).and_then(|version| version.rsplit('/').next()) != Some(&*self.storage_version)
    }

    /// Makes a stored object one of this version: defaults of a CRD's schema, then the version's name.
    pub fn convert(&self, value: &mut Value) -> Result<()> {
        if let Some(custom) = &self.custom {
            custom.after_read(value, &self.facts.version);
        } else if !self.stores_as_shown() {
            convert(value, &Gvk::new(&self.facts.group, &self.facts.version, &self.facts.kind))?;
        }
        if let Value::Object(map) = value {
            map.insert("apiVersion".into(), self.api_version().into());
            map.insert("kind".into(), self.facts.kind.clone().into());
        }
        Ok(())
    }

    /// Returns whether a built-in kind is stored in the form that this resource shows. Events have two groups and are stored as core ones.
    fn stores_as_shown(&self) -> bool {
        *self.storage_version == *self.facts.version && self.facts.group != "events.k8s.io"
    }

    /// The bytes to store.
    pub async fn write(&self, object: &Value) -> Result<Bytes> {
        let api_version = match &*self.facts.group {
            "" => self.storage_version.to_string(),
            "events.k8s.io" => "v1".to_owned(),
            group => format!("{group}/{}", self.storage_version),
        };
        if let Some(converter) = self.converter().filter(|_| self.converts_to_store()) {
            let stored = converter.convert(vec![object.clone()], &api_version).await?.swap_remove(0);
            return Ok(object::encode(&api_version, &self.facts.kind, &stored));
        }
        if self.custom.is_none() && !self.stores_as_shown() {
            let mut stored = object.clone();
            convert(&mut stored, &Gvk::of(&api_version, &self.facts.kind))?;
            return Ok(object::encode(&api_version, &self.facts.kind, &stored));
        }
        Ok(object::encode(&api_version, &self.facts.kind, object))
    }

    /// Returns whether stored bytes can be sent with another head alone.
    pub fn sends_stored_bytes(&self) -> bool {
        match &self.custom {
            Some(custom) => !custom.changes_on_read,
            None => self.stores_as_shown(),
        }
    }
}

/// Changes a built-in object from one of its versions into another.
pub fn convert(value: &mut Value, to: &Gvk) -> Result<()> {
    kinds::convert(value, to);
    if value.get("apiVersion").and_then(Value::as_str) == Some(to.api_version().as_str()) {
        return Ok(());
    }
    Err(ApiError::internal(format!("no conversion into {} {}", to.api_version(), to.kind)))
}
