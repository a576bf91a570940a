//! Which of several sets grows (COP-CAS-03).

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use crate::group::{Group, GroupId};
use crate::settings::Expander;
use crate::size::Size;

/// The ConfigMap of priorities.
pub const PRIORITIES: &str = "cluster-autoscaler-priority-expander";
const KEY: &str = "priorities";

/// The use of a set for the pods.
#[derive(Clone, Debug, PartialEq)]
pub struct GrowthOption<'a> {
    /// The set.
    pub group: &'a Group,
    /// The number of nodes that it would get.
    pub nodes: usize,
    /// The pods that they would take, by UID.
    pub pods: Vec<String>,
    /// The resources that these pods ask for.
    pub requested: Size,
}

impl GrowthOption<'_> {
    /// Idle shares of processors and memory afterwards.
    fn waste(&self) -> (f64, f64) {
        let share = |has: i128, used: i128| if has > 0 { (has - used) as f64 / has as f64 } else { 0.0 };
        let nodes = i128::try_from(self.nodes).unwrap_or(i128::MAX);
        let size = self.group.size;
        (share(size.cpu * nodes, self.requested.cpu), share(size.memory * nodes, self.requested.memory))
    }
}

/// The priorities that an administrator gave: expressions over names of sets, the highest number first.
#[derive(Clone, Debug)]
pub struct Priorities(Vec<(i64, Vec<Regex>)>);

/// Why priorities cannot be used, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrioritiesError {
    /// There is no ConfigMap.
    #[error("Priority expander config map {PRIORITIES} not found")]
    Missing,
    /// It has no such key.
    #[error("Wrong configmap for priority expander, doesn't contain {KEY} key. Ignoring update.")]
    NoKey,
    /// It is no map of numbers to lists.
    #[error("Wrong configuration for priority expander: Can't parse YAML with priorities in the configmap: {0}. Ignoring update.")]
    Form(String),
    /// An expression is none.
    #[error(
        "Wrong configuration for priority expander: Can't compile regexp rule for priority {priority} and rule {rule}. Ignoring update."
    )]
    Rule {
        /// The priority.
        priority: i64,
        /// The expression.
        rule: String,
    },
}

impl Priorities {
    /// Reads the ConfigMap.
    ///
    /// # Errors
    /// It is absent or wrong.
    pub fn of(config_map: Option<&Value>) -> Result<Self, PrioritiesError> {
        let config_map = config_map.ok_or(PrioritiesError::Missing)?;
        let text = config_map.pointer("/data").and_then(|data| data[KEY].as_str()).ok_or(PrioritiesError::NoKey)?;
        let read = mainstay_yaml::parse(text).map_err(|error| PrioritiesError::Form(error.to_string()))?;
        let form = |what: &str| PrioritiesError::Form(what.to_owned());
        let map = read.as_object().ok_or_else(|| form("it is no map of priorities to expressions"))?;
        let mut all = Vec::new();
        for (priority, rules) in map {
            let number = priority.parse::<i64>().map_err(|_| form(&format!("{priority} is no number")))?;
            let rules = rules.as_array().ok_or_else(|| form(&format!("{priority} has no list of expressions")))?;
            let mut compiled = Vec::new();
            for rule in rules {
                let rule = rule.as_str().ok_or_else(|| form(&format!("an expression of {priority} is no text")))?;
                let wrong = |_| PrioritiesError::Rule { priority: number, rule: rule.to_owned() };
                compiled.push(Regex::new(rule).map_err(wrong)?);
            }
            all.push((number, compiled));
        }
        all.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
        Ok(Self(all))
    }

    /// Returns the highest priority of a set.
    pub fn of_group(&self, group: &GroupId) -> Option<i64> {
        let name = group.to_string();
        self.0.iter().find(|(_, rules)| rules.iter().any(|rule| rule.is_match(&name))).map(|(number, _)| *number)
    }
}

/// Leaves those options that a chooser prefers; never none of some.
fn filter(expander: Expander, options: &[usize], all: &[GrowthOption<'_>], priorities: Option<&Priorities>) -> Vec<usize> {
    match expander {
        Expander::Random => options.to_vec(),
        Expander::LeastWaste => {
            let mut best: Vec<usize> = Vec::new();
            for index in options {
                let (cpu, memory) = all[*index].waste();
                let order = best.first().map(|first| {
                    let (least_cpu, least_memory) = all[*first].waste();
                    cpu.total_cmp(&least_cpu).then(memory.total_cmp(&least_memory))
                });
                match order {
                    None | Some(std::cmp::Ordering::Equal) => best.push(*index),
                    Some(std::cmp::Ordering::Less) => best = vec![*index],
                    Some(std::cmp::Ordering::Greater) => {}
                }
            }
            best
        }
        Expander::Priority => {
            let mut by_priority: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
            for index in options {
                if let Some(priority) = priorities.and_then(|priorities| priorities.of_group(&all[*index].group.id)) {
                    by_priority.entry(priority).or_default().push(*index);
                }
            }
            // Without any priority the next chooser has them all.
            by_priority.pop_last().map_or_else(|| options.to_vec(), |(_, highest)| highest)
        }
    }
}

/// Chooses one of the options by the choosers in their order, the rest by `pick`, which is given the number of those that remain. Returns its index
/// and who decided; `None` if there are no options.
pub fn choose(
    expanders: &[Expander],
    options: &[GrowthOption<'_>],
    priorities: Option<&Priorities>,
    pick: &mut dyn FnMut(usize) -> usize,
) -> Option<(usize, Expander)> {
    let mut left: Vec<usize> = (0..options.len()).collect();
    let mut by = Expander::Random;
    for expander in expanders {
        let kept = filter(*expander, &left, options, priorities);
        if kept.len() < left.len() {
            by = *expander;
        }
        left = kept;
        if left.len() < 2 {
            break;
        }
    }
    if left.len() > 1 {
        by = Expander::Random;
    }
    let index = if left.len() > 1 { pick(left.len()).min(left.len() - 1) } else { 0 };
    left.get(index).map(|index| (*index, by))
}
