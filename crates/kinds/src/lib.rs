//! What Kubernetes knows of each built-in kind: facts, defaults, validation, table columns.
