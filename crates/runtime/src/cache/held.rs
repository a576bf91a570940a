//! Objects as a cache holds them: as trees of values, or packed.

use std::sync::Arc;

use kube::api::DynamicObject;
use mainstay_objects::Packed;

/// An object of a cache.
pub(super) enum Held {
    /// As it is used.
    Tree(Arc<DynamicObject>),
    /// As compressed JSON, unpacked each time that it is asked for.
    Packed(Packed<DynamicObject>),
}

impl Held {
    /// Holds an object, packed if that is wanted and possible.
    pub fn new(object: &Arc<DynamicObject>, is_packed: bool) -> Self {
        let packed = || Packed::new(&**object).map(Self::Packed);
        is_packed.then(packed).flatten().unwrap_or_else(|| Self::Tree(object.clone()))
    }

    /// The object.
    pub fn object(&self) -> Arc<DynamicObject> {
        match self {
            Self::Tree(object) => object.clone(),
            Self::Packed(packed) => Arc::new(packed.unpack()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packed object comes back as it was.
    #[test]
    fn packed_and_unpacked() {
        let text = "a long description, ".repeat(5_000);
        let object: DynamicObject = serde_json::from_value(serde_json::json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": "a.v1", "namespace": "home", "uid": "1", "creationTimestamp": "2026-01-02T03:04:05Z",
                "annotations": {"alm-examples": text}, "ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "a", "uid": "2"}]},
            "spec": {"description": text, "number": 1.5, "none": null, "list": [1, "two", {}]},
        }))
        .unwrap_or_else(|error| panic!("{error}"));
        let object = Arc::new(object);
        let held = Held::new(&object, true);
        assert!(matches!(held, Held::Packed(_)));
        assert_eq!(*held.object(), *object);
        assert!(Arc::ptr_eq(&Held::new(&object, false).object(), &object));
    }
}
