//! Semantic versions, both range dialects, and Kubernetes' version order.
