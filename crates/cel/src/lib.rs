//! The Common Expression Language in Kubernetes' environments.
