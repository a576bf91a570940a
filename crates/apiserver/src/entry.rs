//! Objects as they are stored: the keys and bytes that the store holds and the cache shows.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use mainstay_objects::{Labels, labels_of};
use mainstay_store::{KeyValue, Revision};
use serde_json::Value;

use crate::object;

/// Below this every key of the API lies.
pub const ROOT: &str = "/registry/";

/// An object as it is stored, with what selectors ask for most.
#[derive(Debug)]
pub struct Entry {
    /// `NAMESPACE/NAME`, or `NAME`.
    pub key: String,
    /// Its revision.
    pub revision: Revision,
    /// The stored bytes.
    pub stored: Bytes,
    /// The place in it where the content of the metadata begins.
    pub offset: usize,
    /// Its labels.
    pub labels: Labels,
    /// Counted from when the cache no longer remembers it.
    pub loose: Loose,
}

/// Memory that the cache has let go of and somebody else still holds: counted until that is over.
#[derive(Debug, Default)]
pub struct Loose(OnceLock<(Arc<AtomicUsize>, usize)>);

impl Loose {
    /// The cache lets go of so many bytes.
    pub fn let_go(&self, all: &Arc<AtomicUsize>, bytes: usize) {
        self.0.get_or_init(|| {
            all.fetch_add(bytes, Ordering::Relaxed);
            (all.clone(), bytes)
        });
    }
}

impl Drop for Loose {
    fn drop(&mut self) {
        if let Some((all, bytes)) = self.0.get() {
            all.fetch_sub(*bytes, Ordering::Relaxed);
        }
    }
}

impl Entry {
    /// The entry of a stored key of a resource (`GROUP/RESOURCE`).
    pub fn new(resource: &str, item: &KeyValue) -> Option<Arc<Self>> {
        let key = item.key.get(ROOT.len() + resource.len() + 1..)?.to_owned();
        Some(Arc::new(Self::of(key, item.value.clone(), item.modified)?))
    }

    /// An entry from its parts; `None` where the bytes are no stored object.
    pub fn of(key: String, stored: Bytes, revision: Revision) -> Option<Self> {
        #[derive(serde::Deserialize)]
        struct Labelled {
            #[serde(default)]
            labels: Option<Labels>,
        }
        #[derive(serde::Deserialize)]
        struct Head {
            metadata: Labelled,
        }
        let offset = object::metadata_offset(&stored)?;
        let labels = match serde_json::from_slice::<Head>(&stored) {
            Ok(head) => head.metadata.labels.unwrap_or_default(),
            Err(_) => labels_of(&serde_json::from_slice(&stored).ok()?),
        };
        Some(Self { key, revision, stored, offset, labels, loose: Loose::default() })
    }

    /// The namespace, empty for what has none.
    pub fn namespace(&self) -> &str {
        self.key.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.key.rsplit_once('/').map_or(&self.key, |(_, name)| name)
    }

    /// The object with its resourceVersion.
    pub fn value(&self) -> Value {
        // The bytes were written by this program and are guarded by the store's checksums.
        object::decode(&self.stored, self.revision).unwrap_or_default()
    }
}
