//! A ClusterAutoscaler: its settings with upstream's defaults, and what is wrong with it in upstream's words (COP-CAS-01).

use std::time::Duration;

use mainstay_golang::{DurationError, parse_duration, quote};
use serde_json::Value;

/// The only name that counts.
pub const NAME: &str = "default";
/// Bytes of a gibibyte, the unit of memory limits.
const GIB: i128 = 1 << 30;
/// The limits of upstream where none is set.
const MOST_CORES: i128 = 5_000 * 64;
const MOST_MEMORY_GIB: i128 = 5_000 * 64 * 20;

/// A way to choose among sets that can take pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expander {
    /// The least idle processors afterwards; of equal ones the least idle memory.
    LeastWaste,
    /// The highest priority that an administrator gave.
    Priority,
    /// Any.
    Random,
}

impl Expander {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::LeastWaste => "LeastWaste",
            Self::Priority => "Priority",
            Self::Random => "Random",
        }
    }

    fn of(name: &str) -> Option<Self> {
        [Self::LeastWaste, Self::Priority, Self::Random].into_iter().find(|expander| expander.name() == name)
    }
}

/// The least and the most of a resource in the whole cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Shrinking stops here.
    pub min: i128,
    /// Growing stops here.
    pub max: i128,
}

/// The limits of the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceLimits {
    /// Nodes; `None` means any number.
    pub max_nodes: Option<usize>,
    /// Thousandths of processors.
    pub cores: Range,
    /// Bytes of memory.
    pub memory: Range,
    /// GPUs by type.
    pub gpus: Vec<(String, Range)>,
}

impl Default for ResourceLimits {
    fn default() -> Self {
        Self {
            max_nodes: None,
            cores: Range { min: 0, max: MOST_CORES * 1000 },
            memory: Range { min: 0, max: MOST_MEMORY_GIB * GIB },
            gpus: Vec::new(),
        }
    }
}

/// The rules by which nodes are removed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleDown {
    /// False: nothing is removed.
    pub is_enabled: bool,
    /// Time after the last growth in which nothing is removed.
    pub delay_after_add: Duration,
    /// The same after the last removal.
    pub delay_after_delete: Duration,
    /// The same after a removal that failed.
    pub delay_after_failure: Duration,
    /// Time that a node must have been unneeded.
    pub unneeded_time: Duration,
    /// The requested share below which a node is unneeded, between 0 and 1.
    pub threshold: f64,
    /// True: a node is cordoned before its machine is deleted.
    pub cordons: bool,
}

impl Default for ScaleDown {
    fn default() -> Self {
        Self {
            is_enabled: false,
            delay_after_add: Duration::from_secs(600),
            delay_after_delete: Duration::ZERO,
            delay_after_failure: Duration::from_secs(180),
            unneeded_time: Duration::from_secs(600),
            threshold: 0.5,
            cordons: false,
        }
    }
}

/// The settings of the autoscaler.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Settings {
    /// True: sets that are alike are kept alike in size.
    pub balances: bool,
    /// Labels that do not count when sets are compared.
    pub ignored_labels: Vec<String>,
    /// The choosers in their order; never empty.
    pub expanders: Vec<Expander>,
    /// True: pods of DaemonSets do not count as use of a node.
    pub ignores_daemons: bool,
    /// True: a pod with local storage keeps its node.
    pub keeps_local_storage: bool,
    /// The time that a machine has to become a node.
    pub provision_time: Duration,
    /// Pods below this priority neither make a set grow nor keep a node.
    pub priority_threshold: i64,
    /// Keys of taints that nodes lose when they have started.
    pub startup_taints: Vec<String>,
    /// True: a set below its least size is grown to it.
    pub enforces_min: bool,
    /// The limits of the whole cluster.
    pub limits: ResourceLimits,
    /// The rules by which nodes are removed.
    pub scale_down: ScaleDown,
    /// The age from which a pod makes a set grow.
    pub pod_delay: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            balances: false,
            ignored_labels: Vec::new(),
            expanders: vec![Expander::Random],
            ignores_daemons: false,
            keeps_local_storage: true,
            provision_time: Duration::from_secs(900),
            priority_threshold: -10,
            startup_taints: Vec::new(),
            enforces_min: false,
            limits: ResourceLimits::default(),
            scale_down: ScaleDown::default(),
            pod_delay: Duration::ZERO,
        }
    }
}

/// A mistake in a ClusterAutoscaler, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// It has another name.
    #[error("Name {} is invalid, only {} is allowed", quote(.0), quote(NAME))]
    Name(String),
    /// The greatest number of nodes is negative.
    #[error("ResourceLimits.MaxNodesTotal must be greater than 0")]
    MaxNodes,
    /// A limit is negative.
    #[error("ResourceLimits.{0}: Min and Max must be greater than zero")]
    NegativeRange(String),
    /// A least amount is above the greatest.
    #[error("ResourceLimits.{0}: Max must be greater than or equal to Min")]
    Range(String),
    /// A time is negative.
    #[error("{0}: cannot use a negative time")]
    NegativeTime(&'static str),
    /// A time is none.
    #[error("{field}: {source}")]
    Time {
        /// The field.
        field: &'static str,
        /// The mistake.
        source: DurationError,
    },
    /// The threshold is no number.
    #[error("ScaleDown.UtilizationThreshold must be a string representing float value.")]
    ThresholdForm,
    /// The threshold is out of range.
    #[error("ScaleDown.UtilizationThreshold must be a value between 0 and 1.")]
    Threshold,
    /// There is no such expander.
    #[error("Expanders: {} is not one of LeastWaste, Priority, Random", quote(.0))]
    Expander(String),
}

/// Gathers mistakes, so that all are told at once.
struct Reader<'a> {
    spec: &'a Value,
    errors: Vec<SettingsError>,
}

impl Reader<'_> {
    fn at(&self, pointer: &str) -> Option<&Value> {
        self.spec.pointer(pointer).filter(|value| !value.is_null())
    }

    fn flag(&self, pointer: &str, usual: bool) -> bool {
        self.at(pointer).and_then(Value::as_bool).unwrap_or(usual)
    }

    fn texts(&self, pointer: &str) -> Vec<String> {
        let list = self.at(pointer).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    fn time(&mut self, pointer: &str, field: &'static str, usual: Duration) -> Duration {
        let Some(text) = self.at(pointer).and_then(Value::as_str) else { return usual };
        match parse_duration(text) {
            Ok(time) => return time,
            Err(DurationError::Negative(_)) => self.errors.push(SettingsError::NegativeTime(field)),
            Err(source) => self.errors.push(SettingsError::Time { field, source }),
        }
        usual
    }

    fn range(&mut self, range: &Value, field: &str, unit: i128, usual: Range) -> Range {
        let bound = |name: &str, usual: i128| range[name].as_i64().map_or(usual, |bound| i128::from(bound) * unit);
        let read = Range { min: bound("min", usual.min), max: bound("max", usual.max) };
        if read.min < 0 || read.max < 0 {
            self.errors.push(SettingsError::NegativeRange(field.to_owned()));
        }
        if read.max < read.min {
            self.errors.push(SettingsError::Range(field.to_owned()));
        }
        read
    }

    fn limits(&mut self) -> ResourceLimits {
        let mut limits = ResourceLimits::default();
        if let Some(most) = self.at("/resourceLimits/maxNodesTotal").and_then(Value::as_i64) {
            match usize::try_from(most) {
                // As upstream's flag: 0 means any number.
                Ok(most) => limits.max_nodes = Some(most).filter(|most| *most > 0),
                Err(_) => self.errors.push(SettingsError::MaxNodes),
            }
        }
        if let Some(range) = self.at("/resourceLimits/cores").cloned() {
            limits.cores = self.range(&range, "Cores", 1000, limits.cores);
        }
        if let Some(range) = self.at("/resourceLimits/memory").cloned() {
            limits.memory = self.range(&range, "Memory", GIB, limits.memory);
        }
        let gpus = self.at("/resourceLimits/gpus").and_then(Value::as_array).cloned().unwrap_or_default();
        for gpu in gpus {
            let kind = gpu["type"].as_str().unwrap_or_default().to_owned();
            let range = self.range(&gpu, &format!("GPUS.{kind}"), 1, Range { min: 0, max: i128::from(i32::MAX) });
            limits.gpus.push((kind, range));
        }
        limits
    }

    fn scale_down(&mut self) -> ScaleDown {
        let usual = ScaleDown::default();
        let mut time = |field: &str, name, usual| self.time(&format!("/scaleDown/{field}"), name, usual);
        let delay_after_add = time("delayAfterAdd", "ScaleDown.DelayAfterAdd", usual.delay_after_add);
        let delay_after_delete = time("delayAfterDelete", "ScaleDown.DelayAfterDelete", usual.delay_after_delete);
        let delay_after_failure = time("delayAfterFailure", "ScaleDown.DelayAfterFailure", usual.delay_after_failure);
        let unneeded_time = time("unneededTime", "ScaleDown.UnneededTime", usual.unneeded_time);
        let threshold = self.at("/scaleDown/utilizationThreshold").and_then(Value::as_str).map(str::parse::<f64>);
        let threshold = match threshold {
            None => usual.threshold,
            Some(Ok(threshold)) if threshold > 0.0 && threshold < 1.0 => threshold,
            Some(Ok(_)) => {
                self.errors.push(SettingsError::Threshold);
                usual.threshold
            }
            Some(Err(_)) => {
                self.errors.push(SettingsError::ThresholdForm);
                usual.threshold
            }
        };
        ScaleDown {
            is_enabled: self.flag("/scaleDown/enabled", false),
            delay_after_add,
            delay_after_delete,
            delay_after_failure,
            unneeded_time,
            threshold,
            cordons: self.at("/scaleDown/cordonNodeBeforeTerminating").is_some_and(|mode| mode == "Enabled"),
        }
    }
}

impl Settings {
    /// Reads a ClusterAutoscaler.
    ///
    /// # Errors
    /// All mistakes, in the order of upstream's checks.
    pub fn of(object: &Value) -> Result<Self, Vec<SettingsError>> {
        let mut reader = Reader { spec: object.get("spec").unwrap_or(&Value::Null), errors: Vec::new() };
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        if name != NAME {
            reader.errors.push(SettingsError::Name(name.to_owned()));
        }
        let usual = Self::default();
        let limits = reader.limits();
        let scale_down = reader.scale_down();
        let pod_delay = reader.time("/scaleUp/newPodScaleUpDelay", "ScaleUp.NewPodScaleUpDelay", usual.pod_delay);
        let provision_time = reader.time("/maxNodeProvisionTime", "MaxNodeProvisionTime", usual.provision_time);
        let mut expanders = Vec::new();
        for name in reader.texts("/expanders") {
            match Expander::of(&name) {
                Some(expander) => expanders.push(expander),
                None => reader.errors.push(SettingsError::Expander(name)),
            }
        }
        if expanders.is_empty() {
            expanders = usual.expanders;
        }
        let settings = Self {
            balances: reader.flag("/balanceSimilarNodeGroups", false),
            ignored_labels: reader.texts("/balancingIgnoredLabels"),
            expanders,
            ignores_daemons: reader.flag("/ignoreDaemonsetsUtilization", false),
            keeps_local_storage: reader.flag("/skipNodesWithLocalStorage", true),
            provision_time,
            priority_threshold: reader.at("/podPriorityThreshold").and_then(Value::as_i64).unwrap_or(usual.priority_threshold),
            startup_taints: reader.texts("/startupTaints"),
            enforces_min: reader.at("/enforceNodeGroupMinSize").is_some_and(|mode| mode == "Enabled"),
            limits,
            scale_down,
            pod_delay,
        };
        if reader.errors.is_empty() { Ok(settings) } else { Err(reader.errors) }
    }
}

/// Returns mistakes as Go prints several errors: one alone, more in brackets.
pub fn told(errors: &[SettingsError]) -> String {
    match errors {
        [one] => one.to_string(),
        several => format!("[{}]", several.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn of(spec: &Value) -> Result<Settings, String> {
        Settings::of(&json!({"metadata": {"name": "default"}, "spec": spec})).map_err(|errors| told(&errors))
    }

    /// COP-CAS-01: an empty object has upstream's defaults.
    #[test]
    fn defaults() {
        let settings = of(&json!({})).unwrap();
        assert_eq!(settings, Settings::default());
        assert!(settings.keeps_local_storage && !settings.balances && !settings.scale_down.is_enabled);
        assert_eq!((settings.provision_time.as_secs(), settings.priority_threshold, settings.scale_down.threshold), (900, -10, 0.5));
        assert_eq!(settings.expanders, [Expander::Random]);
    }

    /// COP-CAS-01: every field is read.
    #[test]
    fn all_fields() {
        let settings = of(&json!({
            "balanceSimilarNodeGroups": true, "balancingIgnoredLabels": ["a"], "expanders": ["LeastWaste", "Priority"],
            "ignoreDaemonsetsUtilization": true, "skipNodesWithLocalStorage": false, "maxNodeProvisionTime": "5m",
            "podPriorityThreshold": 3, "startupTaints": ["t"], "enforceNodeGroupMinSize": "Enabled",
            "resourceLimits": {"maxNodesTotal": 24, "cores": {"min": 8, "max": 128}, "memory": {"min": 4, "max": 256},
                "gpus": [{"type": "nvidia", "min": 0, "max": 16}]},
            "scaleDown": {"enabled": true, "delayAfterAdd": "10s", "delayAfterDelete": "20s", "delayAfterFailure": "30s",
                "unneededTime": "1m30s", "utilizationThreshold": "0.4", "cordonNodeBeforeTerminating": "Enabled"},
            "scaleUp": {"newPodScaleUpDelay": "1s"},
        }))
        .unwrap();
        let seconds = |time: Duration| time.as_secs();
        let down = settings.scale_down;
        assert!(settings.balances && settings.ignores_daemons && !settings.keeps_local_storage && settings.enforces_min && down.cordons);
        assert_eq!(settings.expanders, [Expander::LeastWaste, Expander::Priority]);
        assert_eq!((settings.limits.max_nodes, settings.limits.cores.max, settings.limits.memory.min), (Some(24), 128_000, 4 << 30));
        assert_eq!(settings.limits.gpus, [("nvidia".to_owned(), Range { min: 0, max: 16 })]);
        let times = [down.delay_after_add, down.delay_after_delete, down.delay_after_failure, down.unneeded_time, settings.pod_delay];
        assert_eq!(times.map(seconds), [10, 20, 30, 90, 1]);
    }

    /// COP-CAS-01: what upstream's webhook refuses, in its words.
    #[test]
    fn mistakes() {
        let cases = [
            (json!({"resourceLimits": {"maxNodesTotal": -1}}), "ResourceLimits.MaxNodesTotal must be greater than 0"),
            (json!({"resourceLimits": {"cores": {"min": 2, "max": 1}}}), "ResourceLimits.Cores: Max must be greater than or equal to Min"),
            (
                json!({"resourceLimits": {"gpus": [{"type": "t", "min": 2, "max": 1}]}}),
                "ResourceLimits.GPUS.t: Max must be greater than or equal to Min",
            ),
            (json!({"scaleDown": {"enabled": true, "unneededTime": "-10m"}}), "ScaleDown.UnneededTime: cannot use a negative time"),
            (json!({"scaleDown": {"enabled": true, "delayAfterAdd": "soon"}}), "ScaleDown.DelayAfterAdd: time: invalid duration \"soon\""),
            (
                json!({"scaleDown": {"enabled": true, "utilizationThreshold": "1.5"}}),
                "ScaleDown.UtilizationThreshold must be a value between 0 and 1.",
            ),
            (json!({"scaleUp": {"newPodScaleUpDelay": "-1s"}}), "ScaleUp.NewPodScaleUpDelay: cannot use a negative time"),
            (
                json!({"resourceLimits": {"maxNodesTotal": -1, "memory": {"min": 2, "max": 1}}}),
                "[ResourceLimits.MaxNodesTotal must be greater than 0, ResourceLimits.Memory: Max must be greater than or equal to Min]",
            ),
        ];
        for (spec, wanted) in cases {
            assert_eq!(of(&spec).unwrap_err(), wanted, "{spec}");
        }
        let other = Settings::of(&json!({"metadata": {"name": "other"}})).unwrap_err();
        assert_eq!(told(&other), "Name \"other\" is invalid, only \"default\" is allowed");
    }
}
