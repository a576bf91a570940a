//! The test for the embedded cluster: on a real one nothing is played (COP-G-10).

use mainstay_runtime::Cluster;

/// Returns true if the cluster is in this process.
pub(crate) fn is_embedded(cluster: &Cluster) -> bool {
    match cluster {
        Cluster::Embedded { .. } => true,
        Cluster::Remote(_) => false,
        Cluster::Within(cluster, _) | Cluster::Guarded(cluster, _) => is_embedded(cluster),
    }
}
