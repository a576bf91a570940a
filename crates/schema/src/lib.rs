//! Structural schemas: validate, prune, default, compare.
