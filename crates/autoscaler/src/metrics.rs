//! Metrics under upstream's names (COP-CAS-05).

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use mainstay_autoscaler_core::reason::PodVerdict;
use mainstay_autoscaler_core::status::NodeCounts;
use mainstay_autoscaler_core::{Plan, Snapshot};
use mainstay_runtime::Env;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// The measures of the autoscaler.
#[derive(Default)]
pub(crate) struct Measures(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    nodes: Option<NodeCounts>,
    is_safe: bool,
    unschedulable: usize,
    unneeded: usize,
    /// Least, greatest and wanted number of machines of each set.
    groups: BTreeMap<String, [usize; 3]>,
    grown: u64,
    shrunk: BTreeMap<&'static str, u64>,
    failures: BTreeMap<&'static str, u64>,
    /// The last message about each pod, so that it is not repeated in every pass.
    told: HashMap<String, String>,
}

impl Measures {
    /// Creates the measures and shows them on the page of metrics.
    pub fn shown(env: &Env) -> Arc<Self> {
        let measures = Arc::new(Self::default());
        let page = Page(Arc::downgrade(&measures));
        env.metrics().register(|registry| registry.register_collector(Box::new(page)));
        measures
    }

    fn change<T>(&self, change: impl FnOnce(&mut Counts) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes what a pass found.
    pub fn looked(&self, snapshot: &Snapshot, plan: &Plan) {
        let is_waiting = |verdict: &&PodVerdict| !matches!(verdict, PodVerdict::Expendable | PodVerdict::Awaits { .. });
        self.change(|counts| {
            counts.nodes = Some(NodeCounts::of_cluster(snapshot, plan));
            counts.is_safe = !plan.health.is_cluster_unhealthy;
            counts.unschedulable = plan.growth.pods.values().filter(is_waiting).count();
            counts.unneeded = plan.shrinkage.unneeded.len();
            counts.groups = snapshot.groups.iter().map(|group| (group.id.to_string(), [group.min, group.max, group.replicas])).collect();
        });
    }

    /// Forgets what was found: nothing is scaled any more.
    pub fn idle(&self) {
        self.change(|counts| {
            counts.nodes = None;
            (counts.unschedulable, counts.unneeded, counts.is_safe) = (0, 0, false);
            counts.groups.clear();
            counts.told.clear();
        });
    }

    /// Counts new nodes.
    pub fn grew(&self, nodes: usize) {
        self.change(|counts| counts.grown += nodes as u64);
    }

    /// Counts a removed node.
    pub fn shrank(&self, is_empty: bool) {
        self.change(|counts| *counts.shrunk.entry(if is_empty { "empty" } else { "underutilized" }).or_default() += 1);
    }

    /// Counts a growth that failed.
    pub fn growth_failed(&self, reason: &'static str) {
        self.change(|counts| *counts.failures.entry(reason).or_default() += 1);
    }

    /// Returns whether a pod was told something else last.
    pub fn is_news(&self, pod: &str, note: &str) -> bool {
        self.change(|counts| counts.told.insert(pod.to_owned(), note.to_owned()).is_none_or(|last| last != note))
    }

    /// Forgets what was told to pods, but for those of which this holds.
    pub fn forget_pods(&self, keeps: impl Fn(&str) -> bool) {
        self.change(|counts| counts.told.retain(|pod, _| keeps(pod)));
    }
}

/// The page while the autoscaler runs.
struct Page(Weak<Measures>);

impl fmt::Debug for Page {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Page")
    }
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(measures) = self.0.upgrade() else { return Ok(()) };
        let counts = measures.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.encode(&mut encoder)
    }
}

type Sample = (Vec<(&'static str, String)>, f64);

impl Counts {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let label = |name: &'static str, value: &str| vec![(name, value.to_owned())];
        if let Some(nodes) = self.nodes {
            let states = [
                ("ready", nodes.ready),
                ("unready", nodes.unready),
                ("notStarted", nodes.not_started),
                ("longUnregistered", nodes.long_unregistered),
                ("unregistered", nodes.unregistered),
            ];
            let samples = states.map(|(state, count)| (label("state", state), count as f64));
            gauge(encoder, "cluster_autoscaler_nodes_count", "Nodes of the cluster", &samples)?;
            let alone = |value: usize| [(Vec::new(), value as f64)];
            gauge(encoder, "cluster_autoscaler_cluster_safe_to_autoscale", "1 if enough nodes are ready", &alone(self.is_safe.into()))?;
            let waiting = [(label("type", "unschedulable"), self.unschedulable as f64)];
            gauge(encoder, "cluster_autoscaler_unschedulable_pods_count", "Pods that no node takes", &waiting)?;
            gauge(encoder, "cluster_autoscaler_unneeded_nodes_count", "Nodes that are not needed", &alone(self.unneeded))?;
            gauge(encoder, "cluster_autoscaler_node_groups_count", "Sets that are scaled", &alone(self.groups.len()))?;
            for (index, (name, help)) in [
                ("cluster_autoscaler_node_group_min_count", "Least number of machines of each set"),
                ("cluster_autoscaler_node_group_max_count", "Greatest number of machines of each set"),
                ("cluster_autoscaler_node_group_target_count", "Number of machines that each set is to have"),
            ]
            .into_iter()
            .enumerate()
            {
                let samples: Vec<Sample> =
                    self.groups.iter().map(|(group, sizes)| (label("node_group", group), sizes[index] as f64)).collect();
                gauge(encoder, name, help, &samples)?;
            }
        }
        let out = encoder.encode_descriptor("cluster_autoscaler_scaled_up_nodes", "Nodes that were added", None, MetricType::Counter)?;
        ConstCounter::new(self.grown).encode(out)?;
        for (name, help, counted) in [
            ("cluster_autoscaler_scaled_down_nodes", "Nodes that were removed", &self.shrunk),
            ("cluster_autoscaler_failed_scale_ups", "Attempts to grow that failed", &self.failures),
        ] {
            let mut out = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (reason, count) in counted {
                ConstCounter::new(*count).encode(out.encode_family(&[("reason", *reason)])?)?;
            }
        }
        Ok(())
    }
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, samples: &[Sample]) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    match samples {
        // Without labels there are no braces.
        [(labels, value)] if labels.is_empty() => ConstGauge::new(*value).encode(family),
        samples => samples.iter().try_for_each(|(labels, value)| ConstGauge::new(*value).encode(family.encode_family(labels)?)),
    }
}
