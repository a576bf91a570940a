//! The page of metrics, from the objects as they are when it is asked for (CVO-MET-02).

use mainstay_cluster_version_core::Mode;
use mainstay_cluster_version_core::metrics::{self, Sample};
use mainstay_cluster_version_core::upgradeable::ConfigMap;

use super::state::Operator;
use crate::metrics::{Counts, Samples};

/// The ConfigMaps that an installer leaves.
const INSTALLERS: [&str; 2] = ["openshift-install", "openshift-install-manifests"];

impl Samples for Operator {
    fn counts(&self) -> Counts {
        self.metrics.counts()
    }

    fn samples(&self) -> Vec<Sample> {
        let cluster_version = self.observed.cluster_version().ok().flatten().map(|(_, read)| read);
        let operators = self.observed.cluster_operators().ok().flatten().unwrap_or_default();
        let running = self.state().running.clone();
        let release = running.as_ref().map(|running| running.release());
        let report = self.shared.report();
        let total = running.as_ref().map_or(0, |running| running.manifests().len());
        let done = report.map_or(0, |report| if report.mode == Mode::Reconciling { total } else { report.done });
        let counts = self.metrics.counts();
        let installer = |name: &str| match self.observed.written(name) {
            ConfigMap::Data(data) => Some(data),
            _ => None,
        };
        let (binary, manifests) = (installer(INSTALLERS[0]), installer(INSTALLERS[1]));
        metrics::samples(&metrics::Facts {
            cluster_version: cluster_version.as_ref(),
            current: release.as_ref().map(|release| (release, running.as_ref().and_then(|running| running.created()))),
            update_service: self.config.update_service.as_deref(),
            operators: &operators,
            manifests: (done, total),
            transitions: &counts.transitions,
            payload_errors: &counts.payload_errors,
            retrieved: counts.retrieved,
            installers: [binary.as_ref(), manifests.as_ref()],
        })
    }
}
