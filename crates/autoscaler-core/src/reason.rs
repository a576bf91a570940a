//! Why a set grows or does not, and why a node stays or goes: the values of decisions. Their `Display` is what events, the status and explanations
//! say; upstream's words, where it has some.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use mainstay_golang::duration_text;

use crate::group::GroupId;
use crate::settings::Expander;
use crate::template::TemplateError;

/// A resource with a limit for the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// Processors.
    Cpu,
    /// Memory.
    Memory,
    /// GPUs of a type.
    Gpu(String),
}

impl fmt::Display for Resource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => out.write_str("cpu"),
            Self::Memory => out.write_str("memory"),
            Self::Gpu(kind) => out.write_str(kind),
        }
    }
}

/// Why a set does not take a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It has its greatest number of machines.
    MaxSize,
    /// Its machines did not become nodes; it is left out for a time.
    Backoff {
        /// The end of the time.
        until: Timestamp,
    },
    /// Too many of its nodes are not ready.
    NotReady,
    /// The cluster has its greatest number of nodes.
    MaxNodes,
    /// A new node would exceed limits of the cluster.
    Limits(Vec<Resource>),
    /// It is not known what a new node would be.
    Template(TemplateError),
    /// A new node would not take the pod: the scheduler's reasons.
    Unfit(Vec<String>),
}

impl Refusal {
    /// Returns the sentences that are counted in an event.
    pub fn sentences(&self) -> Vec<String> {
        match self {
            Self::MaxSize => vec!["max node group size reached".to_owned()],
            Self::Backoff { .. } => vec!["in backoff after failed scale-up".to_owned()],
            Self::NotReady | Self::Template(_) => vec!["not ready for scale-up".to_owned()],
            Self::MaxNodes => vec!["max total nodes in cluster reached".to_owned()],
            Self::Limits(resources) => {
                let named: Vec<String> = resources.iter().map(ToString::to_string).collect();
                vec![format!("max cluster {} limit reached", named.join(", "))]
            }
            Self::Unfit(reasons) => reasons.clone(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backoff { until } => write!(out, "in backoff after failed scale-up until {until:.0}"),
            Self::Template(error) => write!(out, "not ready for scale-up: {error}"),
            other => out.write_str(&other.sentences().join(", ")),
        }
    }
}

/// The verdict on a pod that the scheduler found no node for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodVerdict {
    /// Its priority is below the threshold: nothing grows for it.
    Expendable,
    /// It is younger than the delay.
    TooYoung,
    /// A node that is there or on its way takes it.
    Awaits {
        /// The node, which may be an imagined one.
        node: String,
    },
    /// A set grows for it.
    Triggered,
    /// Another set grew for other pods; it is looked at again in the next pass.
    Later,
    /// No set takes it.
    Refused(BTreeMap<GroupId, Refusal>),
}

impl PodVerdict {
    /// Returns the note of event NotTriggerScaleUp, if there is to be one.
    pub fn not_triggered(&self) -> Option<String> {
        let Self::Refused(refusals) = self else { return None };
        if !refusals.is_empty() && refusals.values().all(|refusal| *refusal == Refusal::MaxNodes) {
            return Some("pod didn't trigger scale-up: max total nodes in cluster reached".to_owned());
        }
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for sentence in refusals.values().flat_map(Refusal::sentences) {
            *counts.entry(sentence).or_default() += 1;
        }
        let counted: Vec<String> = counts.iter().map(|(sentence, count)| format!("{count} {sentence}")).collect();
        Some(format!("pod didn't trigger scale-up: {}", counted.join(", ")))
    }
}

/// A set that is given another number of machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resize {
    /// The set.
    pub group: GroupId,
    /// Its number of machines now.
    pub from: usize,
    /// Its number of machines then.
    pub to: usize,
    /// The most that it may have.
    pub max: usize,
}

impl fmt::Display for Resize {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{{{} {}->{} (max: {})}}", self.group, self.from, self.to, self.max)
    }
}

/// Why a set grows or does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupVerdict {
    /// No pod needs more.
    NotNeeded,
    /// The machines that are becoming nodes will do.
    Upcoming {
        /// Their number.
        nodes: usize,
        /// The pods that wait for them.
        pods: usize,
    },
    /// It grows for pods.
    Grows {
        /// The sizes.
        resize: Resize,
        /// The pods.
        pods: usize,
    },
    /// It grows to its least size.
    GrowsToMin(Resize),
    /// Another set was chosen.
    NotChosen {
        /// That set.
        chosen: GroupId,
        /// The chooser that decided.
        by: Expander,
    },
    /// It takes none of the pods; the commonest reason.
    Refused {
        /// The reason.
        refusal: Refusal,
        /// The pods.
        pods: usize,
    },
    /// Too many nodes of the cluster are not ready: nothing is changed.
    ClusterUnhealthy,
}

impl GroupVerdict {
    /// Returns the reason in one word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotNeeded => "NotNeeded",
            Self::Upcoming { .. } => "NodesUpcoming",
            Self::Grows { .. } => "ScaledUp",
            Self::GrowsToMin(_) => "ScaledUpToMinSize",
            Self::NotChosen { .. } => "OtherGroupChosen",
            Self::ClusterUnhealthy => "ClusterUnhealthy",
            Self::Refused { refusal, .. } => match refusal {
                Refusal::MaxSize => "MaxNodeGroupSizeReached",
                Refusal::Backoff { .. } => "Backoff",
                Refusal::NotReady => "NotReady",
                Refusal::MaxNodes => "MaxNodesTotalReached",
                Refusal::Limits(_) => "MaxResourceLimitReached",
                Refusal::Template(_) => "TemplateUnknown",
                Refusal::Unfit(_) => "PodsDoNotFit",
            },
        }
    }
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

impl fmt::Display for GroupVerdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotNeeded => out.write_str("no pod waits for a node"),
            Self::Upcoming { nodes, pods } => {
                write!(out, "{} on the way, for which {} waiting", are(*nodes, "machine"), are(*pods, "pod"))
            }
            Self::Grows { resize, pods } => {
                write!(out, "size set to {} instead of {} for {}", resize.to, resize.from, counted(*pods, "pod"))
            }
            Self::GrowsToMin(resize) => write!(out, "size set to {} instead of {}: its least size", resize.to, resize.from),
            Self::NotChosen { chosen, by } => write!(out, "{chosen} was chosen, by expander {}", by.name()),
            Self::Refused { refusal, pods } => write!(out, "{} without a node: {refusal}", counted(*pods, "pod")),
            Self::ClusterUnhealthy => out.write_str("too many nodes of the cluster are not ready: nothing grows or shrinks"),
        }
    }
}

fn are(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun} is") } else { format!("{count} {noun}s are") }
}

/// Why a pod keeps its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocking {
    /// It has no controller that would make another.
    NotReplicated,
    /// It is of the system, and no budget says how much of it may be missing.
    SystemPod,
    /// It has storage of its node.
    LocalStorage,
    /// Its annotation forbids it.
    NotSafeToEvict,
    /// Its budget allows no disruption.
    Budget(String),
}

impl fmt::Display for Blocking {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReplicated => out.write_str("is not replicated"),
            Self::SystemPod => out.write_str("is a pod of kube-system without a PodDisruptionBudget"),
            Self::LocalStorage => out.write_str("has local storage"),
            Self::NotSafeToEvict => out.write_str("is annotated as not safe to evict"),
            Self::Budget(name) => write!(out, "is covered by PodDisruptionBudget {name}, which allows no disruption"),
        }
    }
}

/// Why nothing is removed for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// A set has grown.
    AfterAdd,
    /// A node was removed.
    AfterDelete,
    /// A removal failed.
    AfterFailure,
}

impl Delay {
    /// Returns the field of the setting.
    pub fn field(self) -> &'static str {
        match self {
            Self::AfterAdd => "delayAfterAdd",
            Self::AfterDelete => "delayAfterDelete",
            Self::AfterFailure => "delayAfterFailure",
        }
    }
}

/// Why a node stays.
#[derive(Clone, Debug, PartialEq)]
pub enum Kept {
    /// Removal is not enabled.
    Disabled,
    /// Its owner forbids it.
    Annotated,
    /// Its machine is being deleted already.
    BeingDeleted,
    /// It is used enough.
    Used {
        /// The greatest requested share, 0 to 1 and above.
        share: f64,
        /// Of what.
        of: Resource,
        /// The threshold.
        threshold: f64,
    },
    /// A pod keeps it.
    BlockedBy {
        /// The pod.
        pod: String,
        /// Why.
        why: Blocking,
    },
    /// A pod has no other place.
    NoPlace {
        /// The pod.
        pod: String,
        /// The scheduler's reasons.
        why: Vec<String>,
    },
    /// It has not been unneeded for long enough.
    NotLongEnough {
        /// Since when it is unneeded.
        since: Timestamp,
        /// The time that it must be.
        wanted: Duration,
    },
    /// Its set has its least size.
    MinSize {
        /// That size.
        min: usize,
    },
    /// The cluster would fall below a least amount.
    MinResource(Resource),
    /// Nothing is removed for a time.
    Delayed {
        /// Why.
        delay: Delay,
        /// Until when.
        until: Timestamp,
    },
    /// Another node is being drained.
    Draining {
        /// That node.
        node: String,
    },
    /// As many nodes as one pass removes are removed.
    Pass,
    /// Pods wait for a node.
    Growing,
}

impl Kept {
    /// Returns the reason in one word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Disabled => "ScaleDownDisabled",
            Self::Annotated => "ScaleDownDisabledAnnotation",
            Self::BeingDeleted => "CurrentlyBeingDeleted",
            Self::Used { .. } => "NotUnderutilized",
            Self::BlockedBy { .. } => "BlockedByPod",
            Self::NoPlace { .. } => "NoPlaceToMovePods",
            Self::NotLongEnough { .. } => "NotUnneededLongEnough",
            Self::MinSize { .. } => "NodeGroupMinSizeReached",
            Self::MinResource(_) => "MinimalResourceLimitExceeded",
            Self::Delayed { .. } => "ScaleDownDelayed",
            Self::Draining { .. } => "OtherNodeDraining",
            Self::Pass => "NextPass",
            Self::Growing => "ScaleUpInProgress",
        }
    }

    /// Returns whether the node is unneeded and only waits.
    pub fn is_candidate(&self) -> bool {
        matches!(
            self,
            Self::NotLongEnough { .. }
                | Self::MinSize { .. }
                | Self::MinResource(_)
                | Self::Delayed { .. }
                | Self::Draining { .. }
                | Self::Pass
                | Self::Growing
        )
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => out.write_str("removal of nodes is not enabled"),
            Self::Annotated => write!(out, "annotation {} forbids its removal", crate::node::SCALE_DOWN_DISABLED),
            Self::BeingDeleted => out.write_str("its machine is being deleted"),
            Self::Used { share, of, threshold } => {
                write!(out, "{:.0}% of its {of} is requested, which is not below {:.0}%", share * 100.0, threshold * 100.0)
            }
            Self::BlockedBy { pod, why } => write!(out, "pod {pod} {why}"),
            Self::NoPlace { pod, why } => write!(out, "pod {pod} has no other place: {}", why.join(", ")),
            Self::NotLongEnough { since, wanted } => {
                write!(out, "unneeded since {since:.0}; it is removed after {}", duration_text(*wanted))
            }
            Self::MinSize { min } => write!(out, "its set has its least size, {min}"),
            Self::MinResource(resource) => write!(out, "the cluster would fall below its least {resource}"),
            Self::Delayed { delay, until } => write!(out, "unneeded; nothing is removed until {until:.0} ({})", delay.field()),
            Self::Draining { node } => write!(out, "unneeded; node {node} is drained first"),
            Self::Pass => out.write_str("unneeded; it is removed in a later pass"),
            Self::Growing => out.write_str("unneeded; nothing is removed while a set grows"),
        }
    }
}
