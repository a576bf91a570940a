//! Metrics of the operator, and of the daemons of simulated nodes (MACH-OPER-05). What is not measured here (reboots of hosts, pivots, kubelets) has
//! no metric, so that no alert seems to be watched that is not.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use jiff::Timestamp;
use mainstay_machine_config_core::pool::node::{Node, annotation};
use mainstay_runtime::Env;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

/// MachineConfigs that are counted as missing at most.
const MOST_MISSING: usize = 1_000;
/// The longest reason in a label, in characters.
const LONGEST_REASON: usize = 256;

type Labels = Vec<(String, String)>;
/// Series of a metric: labels and value.
type Series = Vec<(Labels, i64)>;

/// A measurement.
#[derive(Default)]
pub(crate) struct Measures(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    overrides_registries: bool,
    /// Nodes whose drains have not ended in their time.
    drain_failed: BTreeSet<String>,
    /// Nodes that several pools claim.
    disputed: BTreeMap<String, bool>,
    /// Pools, and whether the image of their operating system is another one than the release's.
    overridden: BTreeMap<String, bool>,
    /// State and reason of each simulated daemon, and since when.
    daemons: BTreeMap<String, (String, String, i64)>,
    missing: BTreeMap<String, i64>,
}

impl Measures {
    /// Creates the measures and shows them on the page of metrics.
    pub fn shown(env: &Env) -> Arc<Self> {
        let measures = Arc::new(Self::default());
        let page = Page(Arc::downgrade(&measures));
        env.metrics().register(|registry| registry.register_collector(Box::new(page)));
        measures
    }

    fn change(&self, change: impl FnOnce(&mut Counts)) {
        // The counts are whole between statements.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Notes whether changes of registries never drain.
    pub fn overrides_registries(&self, overrides: bool) {
        self.change(|counts| counts.overrides_registries = overrides);
    }

    /// Notes whether the drain of a node has not ended in its time.
    pub fn drain_failed(&self, node: &str, failed: bool) {
        self.change(|counts| {
            if failed {
                counts.drain_failed.insert(node.to_owned());
            } else {
                counts.drain_failed.remove(node);
            }
        });
    }

    /// Notes which nodes several pools claim.
    pub fn disputed(&self, nodes: BTreeMap<String, bool>) {
        self.change(|counts| counts.disputed = nodes);
    }

    /// Notes whether the image of a pool's operating system is another one than the release's.
    pub fn overridden(&self, pools: BTreeMap<String, bool>) {
        self.change(|counts| counts.overridden = pools);
    }

    /// Notes the state of a simulated daemon.
    pub fn daemon(&self, node: &Node, now: Timestamp) {
        let of = |key: &str| node.annotation(key).unwrap_or_default().chars().take(LONGEST_REASON).collect::<String>();
        let (state, reason) = (of(annotation::STATE), of(annotation::REASON));
        self.change(|counts| {
            let known = counts.daemons.get(&node.name).filter(|known| known.0 == state && known.1 == reason);
            if known.is_none() && !state.is_empty() {
                counts.daemons.insert(node.name.clone(), (state, reason, now.as_second()));
            }
        });
    }

    /// Forgets a node that is gone.
    pub fn forget(&self, node: &str) {
        self.change(|counts| {
            counts.daemons.remove(node);
            counts.drain_failed.remove(node);
        });
    }

    /// Counts a look at a node that is asked for a MachineConfig that is not there.
    pub fn missing(&self, config: &str) {
        self.change(|counts| {
            if counts.missing.len() < MOST_MISSING || counts.missing.contains_key(config) {
                *counts.missing.entry(config.to_owned()).or_default() += 1;
            }
        });
    }

    /// The metrics: name, help and series.
    fn series(&self) -> Vec<(&'static str, &'static str, Series)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let one = |label: &'static str, name: &String, value: bool| (vec![(label.to_owned(), name.clone())], i64::from(value));
        // Prometheus gives its own label `node` to what it scrapes, and calls ours by this name.
        let failed = counts.drain_failed.iter().map(|node| one("exported_node", node, true)).collect();
        let disputed = counts.disputed.iter().map(|(node, is)| one("exported_node", node, *is)).collect();
        let overridden = counts.overridden.iter().map(|(pool, is)| one("pool", pool, *is)).collect();
        let daemons = counts.daemons.iter().map(|(node, (state, reason, since))| {
            let labels = [("node", node), ("state", state), ("reason", reason)];
            (labels.map(|(label, value)| (label.to_owned(), value.clone())).into(), *since)
        });
        let missing = counts.missing.iter().map(|(config, count)| (vec![("mc".to_owned(), config.clone())], *count)).collect();
        let exists = vec![(Labels::new(), i64::from(counts.overrides_registries))];
        vec![
            ("mco_image_registry_drain_override_exists", "1 if ConfigMap image-registry-override-drain is there", exists),
            ("mcc_drain_err", "Nodes whose drain has not ended in its time", failed),
            ("mcc_pool_alert", "1 for nodes that several pools claim", disputed),
            ("os_image_url_override", "1 for pools whose operating system is not the release's", overridden),
            ("mcd_state", "Beginning of the state of a simulated daemon, in Unix seconds", daemons.collect()),
            ("mcd_missing_mc", "Looks at nodes that are asked for a MachineConfig that is not there", missing),
        ]
    }
}

#[derive(Debug)]
struct Page(Weak<Measures>);

impl fmt::Debug for Measures {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Measures").finish_non_exhaustive()
    }
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(measures) = self.0.upgrade() else { return Ok(()) };
        for (name, help, series) in measures.series() {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (labels, value) in &series {
                if labels.is_empty() {
                    ConstGauge::new(*value).encode(metric)?;
                    break;
                }
                ConstGauge::new(*value).encode(metric.encode_family(labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// MACH-OPER-05: the page has what the alerts read, under their labels, and forgets what is over.
    #[test]
    fn the_page_of_metrics() {
        let env = Env::system();
        let measures = Measures::shown(&env);
        let mut node = Node { name: "worker-1".to_owned(), ..Node::default() };
        node.annotations.insert(annotation::STATE.to_owned(), "Working".to_owned());
        measures.overrides_registries(true);
        measures.drain_failed("worker-1", true);
        measures.disputed(BTreeMap::from([("master-1".to_owned(), true), ("worker-1".to_owned(), false)]));
        measures.overridden(BTreeMap::from([("worker".to_owned(), true)]));
        measures.missing("rendered-x");
        measures.missing("rendered-x");
        measures.daemon(&node, Timestamp::UNIX_EPOCH);
        measures.daemon(&node, Timestamp::MAX);
        let page = || env.metrics().page().unwrap_or_default();
        for line in [
            "mco_image_registry_drain_override_exists 1",
            "mcc_drain_err{exported_node=\"worker-1\"} 1",
            "mcc_pool_alert{exported_node=\"master-1\"} 1",
            "mcc_pool_alert{exported_node=\"worker-1\"} 0",
            "os_image_url_override{pool=\"worker\"} 1",
            "mcd_missing_mc{mc=\"rendered-x\"} 2",
            "mcd_state{node=\"worker-1\",state=\"Working\",reason=\"\"} 0",
        ] {
            assert!(page().lines().any(|found| found == line), "{line}:\n{}", page());
        }
        measures.forget("worker-1");
        measures.overrides_registries(false);
        assert!(!page().contains("mcc_drain_err{") && !page().contains("mcd_state{"), "{}", page());
        assert!(page().contains("mco_image_registry_drain_override_exists 0"));
    }
}
