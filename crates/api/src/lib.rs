//! Every custom resource type, one module per group and version.
