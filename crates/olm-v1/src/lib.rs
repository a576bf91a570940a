//! OLM v1: ClusterCatalog and ClusterExtension.
