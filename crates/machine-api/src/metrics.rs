//! Metrics of the Machine API (MACH-RUN-04, MACH-MHC-05).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use jiff::Timestamp;
use kube::api::DynamicObject;
use mainstay_machine_core::machine::{Machine, phase};
use mainstay_runtime::{Cache, Env, Key};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use serde_json::Value;

use crate::provider::ProviderError;
use crate::shared::Shared;

/// Upper bounds of the time from a machine's creation until it entered a phase, in seconds.
const BOUNDS: [f64; 12] = [5.0, 10.0, 20.0, 30.0, 60.0, 90.0, 120.0, 180.0, 240.0, 300.0, 360.0, 480.0];
/// Different failures that are counted.
const FAILURES: usize = 1_000;

type Labels = Vec<(String, String)>;

/// The counters of the controllers.
#[derive(Default)]
pub(crate) struct Measures(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    phases: BTreeMap<String, Histogram>,
    /// Failed calls of providers: call, machine and reason.
    failures: BTreeMap<(&'static str, String, String, String), u64>,
    checks: BTreeMap<(String, String), CheckCounts>,
}

#[derive(Clone, Copy, Default)]
struct CheckCounts {
    covered: usize,
    remediated: u64,
    short_circuit: bool,
}

impl Measures {
    /// Creates the measures and shows them on the page of metrics.
    pub fn shown(env: &Env, shared: &Shared) -> Arc<Self> {
        let measures = Arc::new(Self::default());
        let page = Page { measures: Arc::downgrade(&measures), machines: shared.machines.clone(), sets: shared.sets.clone() };
        env.metrics().register(|registry| registry.register_collector(Box::new(page)));
        measures
    }

    fn change(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Notes that a machine entered a phase; deletions would all be beyond the last bound.
    pub fn entered(&self, entered: &str, machine: &Machine, now: Timestamp) {
        if entered == phase::DELETING {
            return;
        }
        let Some(created) = machine.created else { return };
        let seconds = now.duration_since(created).as_secs_f64();
        self.change(|counts| {
            counts.phases.entry(entered.to_owned()).or_insert_with(|| Histogram::new(BOUNDS)).observe(seconds);
        });
    }

    /// Counts a call of a provider that failed.
    pub fn failed(&self, call: &'static str, machine: &Machine, error: &ProviderError) {
        let reason = match error {
            ProviderError::InvalidConfiguration(_) => "InvalidConfiguration",
            ProviderError::RequeueAfter { .. } | ProviderError::Retryable(_) => "Retryable",
        };
        self.change(|counts| {
            let key = (call, machine.name.clone(), machine.namespace.clone(), reason.to_owned());
            if counts.failures.len() < FAILURES || counts.failures.contains_key(&key) {
                *counts.failures.entry(key).or_default() += 1;
            }
        });
    }

    fn check(&self, key: &Key, change: impl FnOnce(&mut CheckCounts)) {
        self.change(|counts| change(counts.checks.entry((key.namespace.clone(), key.name.clone())).or_default()));
    }

    /// Notes the number of machines that a check looks at.
    pub fn covered(&self, key: &Key, count: usize) {
        self.check(key, |counts| counts.covered = count);
    }

    /// Counts a remediation.
    pub fn remediated(&self, key: &Key) {
        self.check(key, |counts| counts.remediated += 1);
    }

    /// Notes whether a check remediates nothing because too much is unhealthy.
    pub fn short_circuit(&self, key: &Key, is_open: bool) {
        self.check(key, |counts| counts.short_circuit = is_open);
    }

    /// Forgets a check that is gone.
    pub fn forget_check(&self, key: &Key) {
        self.change(|counts| {
            counts.checks.remove(&(key.namespace.clone(), key.name.clone()));
        });
    }
}

/// The page while the controllers run.
struct Page {
    measures: Weak<Measures>,
    machines: Cache,
    sets: Cache,
}

impl fmt::Debug for Page {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Page")
    }
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(measures) = self.measures.upgrade() else { return Ok(()) };
        let (machines, sets) = (self.machines.all(), self.sets.all());
        let gauge = |encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, samples: Vec<(Labels, f64)>| {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            match samples.as_slice() {
                // Without labels there are no braces.
                [(labels, value)] if labels.is_empty() => ConstGauge::new(*value).encode(family),
                samples => samples.iter().try_for_each(|(labels, value)| ConstGauge::new(*value).encode(family.encode_family(labels)?)),
            }
        };
        let alone = |value: f64| vec![(Labels::new(), value)];
        gauge(&mut encoder, "mapi_machine_items", "Machines", alone(machines.len() as f64))?;
        gauge(&mut encoder, "mapi_machineset_items", "MachineSets", alone(sets.len() as f64))?;
        let created = machines.iter().map(|machine| (machine_labels(machine), created_at(machine))).collect();
        gauge(&mut encoder, "mapi_machine_created_timestamp_seconds", "When each Machine was created", created)?;
        let created = sets.iter().map(|set| (set_labels(set, true), created_at(set))).collect();
        gauge(&mut encoder, "mapi_machineset_created_timestamp_seconds", "When each MachineSet was created", created)?;
        for (name, field) in [
            ("mapi_machine_set_status_replicas", "replicas"),
            ("mapi_machine_set_status_replicas_available", "availableReplicas"),
            ("mapi_machine_set_status_replicas_ready", "readyReplicas"),
        ] {
            let count = |set: &DynamicObject| set.data.pointer(&format!("/status/{field}")).and_then(Value::as_f64).unwrap_or_default();
            let samples = sets.iter().map(|set| (set_labels(set, false), count(set))).collect();
            gauge(&mut encoder, name, "Machines of each MachineSet", samples)?;
        }
        let lists = [("Machine", &self.machines), ("MachineSet", &self.sets)];
        let up = lists.map(|(kind, cache)| (vec![("kind".to_owned(), kind.to_owned())], f64::from(u8::from(cache.is_ready()))));
        gauge(&mut encoder, "mapi_mao_collector_up", "1 while the objects of a kind can be listed", up.into())?;
        measures.0.lock().unwrap_or_else(PoisonError::into_inner).encode(&mut encoder)
    }
}

impl Counts {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "The time from the creation of machines until they entered a phase";
        let mut out = encoder.encode_descriptor("mapi_machine_phase_transition_seconds", help, None, MetricType::Histogram)?;
        for (phase, histogram) in &self.phases {
            histogram.encode(out.encode_family(&[("phase", phase.as_str())])?)?;
        }
        for (name, call) in [
            ("mapi_instance_create_failed", "create"),
            ("mapi_instance_update_failed", "update"),
            ("mapi_instance_delete_failed", "delete"),
        ] {
            let mut out = encoder.encode_descriptor(name, "Calls of providers that failed", None, MetricType::Gauge)?;
            for ((of, machine, namespace, reason), count) in &self.failures {
                if *of == call {
                    let labels = [("name", machine.as_str()), ("namespace", namespace.as_str()), ("reason", reason.as_str())];
                    ConstGauge::new(*count as f64).encode(out.encode_family(&labels)?)?;
                }
            }
        }
        let labels = |(namespace, name): &(String, String)| [("name", name.clone()), ("namespace", namespace.clone())];
        let help = "Machines that each MachineHealthCheck looks at";
        let mut out = encoder.encode_descriptor("mapi_machinehealthcheck_nodes_covered", help, None, MetricType::Gauge)?;
        for (key, counts) in &self.checks {
            ConstGauge::new(counts.covered as f64).encode(out.encode_family(&labels(key))?)?;
        }
        let help = "1 while a MachineHealthCheck remediates nothing because too much is unhealthy";
        let mut out = encoder.encode_descriptor("mapi_machinehealthcheck_short_circuit", help, None, MetricType::Gauge)?;
        for (key, counts) in &self.checks {
            ConstGauge::new(f64::from(u8::from(counts.short_circuit))).encode(out.encode_family(&labels(key))?)?;
        }
        let help = "Remediations of each MachineHealthCheck";
        let mut out = encoder.encode_descriptor("mapi_machinehealthcheck_remediation_success", help, None, MetricType::Counter)?;
        for (key, counts) in &self.checks {
            ConstCounter::new(counts.remediated).encode(out.encode_family(&labels(key))?)?;
        }
        Ok(())
    }
}

fn created_at(object: &DynamicObject) -> f64 {
    object.metadata.creation_timestamp.as_ref().map(|time| time.0.as_second() as f64).unwrap_or_default()
}

fn machine_labels(machine: &DynamicObject) -> Labels {
    let text = |pointer: &str| machine.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut labels = set_labels(machine, true);
    labels.extend([
        ("spec_provider_id".to_owned(), text("/spec/providerID")),
        ("node".to_owned(), text("/status/nodeRef/name")),
        ("phase".to_owned(), text("/status/phase")),
    ]);
    labels
}

fn set_labels(object: &DynamicObject, with_version: bool) -> Labels {
    let mut labels = vec![
        ("name".to_owned(), object.metadata.name.clone().unwrap_or_default()),
        ("namespace".to_owned(), object.metadata.namespace.clone().unwrap_or_default()),
    ];
    if with_version {
        labels.push(("api_version".to_owned(), "machine.openshift.io/v1beta1".to_owned()));
    }
    labels
}
