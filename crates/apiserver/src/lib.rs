//! Kubernetes API machinery over the store.
