//! The order in which manifests are applied (CVO-GRAPH-02 to CVO-GRAPH-06).
//!
//! A graph begins as one node with every task. It is split at each Job, and then each node is cut into groups by the names of files:
//! ```text
//!   Updating       runlevel 10 ─┬─ a ─┬─ runlevel 20 ─┬─ c ─┬─ ...     levels in sequence, components in parallel
//!                               └─ b ─┘               └─ d ─┘
//!   Initializing   all groups in parallel
//!   Reconciling    all groups in parallel, begun in another order each time
//! ```
//! Nodes without tasks join groups, so that n groups before m groups need n + m edges.

use std::borrow::Borrow;

use std::fmt;

use crate::file_name::FileName;
use crate::manifest::Manifest;

/// The reason for which a payload is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The first release of the cluster.
    Initializing,
    /// From one release to another.
    Updating,
    /// The same release again.
    Reconciling(Reconcile),
}

/// Which repetition of a reconciliation this is; it decides the order in which groups begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reconcile {
    /// The number of failed attempts before.
    pub attempt: u32,
}

/// The number of orders that one permutation is rotated through.
const STRIDE: u32 = 8;

impl Mode {
    /// Returns the number of nodes that are worked on at once.
    pub fn workers(self, nodes: usize) -> usize {
        match self {
            Self::Initializing => nodes,
            Self::Updating => 16,
            Self::Reconciling(_) => 2,
        }
    }
}

/// One manifest to be applied.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// Its number, counted from 1.
    pub index: usize,
    /// The number of all tasks.
    pub total: usize,
    /// The manifest.
    pub manifest: &'a Manifest,
}

impl Task<'_> {
    /// Returns one task per manifest.
    pub fn of(manifests: &[Manifest]) -> Vec<Task<'_>> {
        (1..).zip(manifests).map(|(index, manifest)| Task { index, total: manifests.len(), manifest }).collect()
    }
}

impl fmt::Display for Task<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({} of {})", self.manifest.short(), self.index, self.total)
    }
}

/// Tasks that are done one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The nodes that come before.
    pub before: Vec<usize>,
    /// The tasks, by their place in the list.
    pub tasks: Vec<usize>,
    /// The nodes that come after.
    pub after: Vec<usize>,
}

/// Nodes by number; none comes before itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskGraph {
    nodes: Vec<Node>,
}

/// The groups of one node: steps in sequence, the groups of a step in parallel.
type Steps = Vec<Vec<Vec<usize>>>;

/// The way in which the tasks of one node are cut into groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Runlevels in sequence, the components of each in parallel.
    Levels,
    /// All groups in parallel.
    Flat {
        /// The seed of the order in which they begin; none for that of their files.
        seed: Option<u64>,
        /// The part of all groups, in eighths, that begin last.
        rotated: u32,
    },
}

impl From<Mode> for Cut {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Updating => Self::Levels,
            Mode::Initializing => Self::Flat { seed: None, rotated: 0 },
            Mode::Reconciling(Reconcile { attempt }) => Self::Flat { seed: Some(u64::from(attempt / STRIDE)), rotated: attempt % STRIDE },
        }
    }
}

impl Cut {
    fn steps(self, names: &[&str], tasks: &[usize]) -> Steps {
        match self {
            Self::Levels => by_level_and_component(names, tasks),
            Self::Flat { seed, rotated } => {
                let mut groups = flat(names, tasks);
                if let Some(seed) = seed {
                    shuffle(&mut groups, seed);
                }
                rotate(&mut groups, rotated);
                vec![groups]
            }
        }
    }
}

impl TaskGraph {
    /// Returns the graph of some manifests.
    pub fn new(manifests: &[impl Borrow<Manifest>], mode: Mode) -> Self {
        let names: Vec<&str> = manifests.iter().map(|manifest| manifest.borrow().file()).collect();
        Self::of(&names, |task| manifests[task].borrow().is_barrier(), Some(mode.into()))
    }

    /// Returns the graph of tasks by the names of their files, split around those that are barriers.
    pub fn of(files: &[&str], is_barrier: impl Fn(usize) -> bool, cut: Option<Cut>) -> Self {
        let mut graph = Self::serial(files.len());
        graph.split(is_barrier);
        if let Some(cut) = cut {
            graph.parallelize(|tasks| cut.steps(files, tasks));
        }
        graph
    }

    /// Returns the graph of tasks that are done one after the other.
    pub fn serial(tasks: usize) -> Self {
        Self { nodes: vec![Node { tasks: (0..tasks).collect(), ..Node::default() }] }
    }

    /// Returns the nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the tasks of each node, with the step in which it begins at the earliest, counted from 1; in the order of steps and files.
    pub fn groups(&self) -> Vec<(usize, Vec<usize>)> {
        let mut steps = vec![None::<usize>; self.nodes.len()];
        // Every pass finds a node, since no node waits for itself.
        while let Some(at) =
            (0..self.nodes.len()).find(|&at| steps[at].is_none() && self.nodes[at].before.iter().all(|&other| steps[other].is_some()))
        {
            let before = self.nodes[at].before.iter().filter_map(|&other| steps[other]).max().unwrap_or_default();
            steps[at] = Some(before + usize::from(!self.nodes[at].tasks.is_empty()));
        }
        let mut groups: Vec<(usize, Vec<usize>)> = self
            .nodes
            .iter()
            .zip(steps)
            .filter(|(node, _)| !node.tasks.is_empty())
            .map(|(node, step)| (step.unwrap_or_default(), node.tasks.clone()))
            .collect();
        groups.sort_by_key(|(step, tasks)| (*step, tasks.first().copied()));
        groups
    }

    /// Gives each task for which `alone` holds a node of its own, between those before and those after it (CVO-GRAPH-04).
    pub fn split(&mut self, alone: impl Fn(usize) -> bool) {
        let mut at = 0;
        while at < self.nodes.len() {
            let tasks = std::mem::take(&mut self.nodes[at].tasks);
            let found = if tasks.len() > 1 { tasks.iter().position(|task| alone(*task)) } else { None };
            let Some(place) = found else {
                self.nodes[at].tasks = tasks;
                at += 1;
                continue;
            };
            if place > 0 {
                let new = self.nodes.len();
                let before = std::mem::replace(&mut self.nodes[at].before, vec![new]);
                for &node in &before {
                    replace(&mut self.nodes[node].after, at, new);
                }
                self.nodes.push(Node { before, tasks: tasks[..place].to_vec(), after: vec![at] });
            }
            if place + 1 < tasks.len() {
                let new = self.nodes.len();
                let after = std::mem::replace(&mut self.nodes[at].after, vec![new]);
                for &node in &after {
                    replace(&mut self.nodes[node].before, at, new);
                }
                self.nodes.push(Node { before: vec![at], tasks: tasks[place + 1..].to_vec(), after });
            }
            self.nodes[at].tasks = vec![tasks[place]];
            at += 1;
        }
    }

    /// Replaces each node by the groups that `cut` makes of its tasks.
    fn parallelize(&mut self, cut: impl Fn(&[usize]) -> Steps) {
        let mut at = 0;
        while at < self.nodes.len() {
            let tasks = std::mem::take(&mut self.nodes[at].tasks);
            let steps = if tasks.len() > 1 { cut(&tasks) } else { Vec::new() };
            if steps.is_empty() || steps.len() == 1 && steps[0].len() == 1 {
                self.nodes[at].tasks = tasks;
                at += 1;
                continue;
            }
            // The node stays as the one before all groups.
            let after = std::mem::take(&mut self.nodes[at].after);
            let mut last = vec![at];
            for groups in steps.into_iter().filter(|groups| !groups.is_empty()) {
                if last.len() > 1 && groups.len() > 1 {
                    last = self.add(vec![Vec::new()], &last);
                }
                last = self.add(groups, &last);
            }
            if !after.is_empty() {
                let new = self.nodes.len();
                for &node in &after {
                    replace(&mut self.nodes[node].before, at, new);
                }
                for &node in &last {
                    self.nodes[node].after = vec![new];
                }
                self.nodes.push(Node { before: last, tasks: Vec::new(), after });
            }
            at += 1;
        }
    }

    /// Adds nodes after others, and returns their numbers.
    fn add(&mut self, groups: Vec<Vec<usize>>, before: &[usize]) -> Vec<usize> {
        let added: Vec<usize> = (self.nodes.len()..).take(groups.len()).collect();
        self.nodes.extend(groups.into_iter().map(|tasks| Node { before: before.to_vec(), tasks, after: Vec::new() }));
        for &node in before {
            self.nodes[node].after.extend(&added);
        }
        added
    }
}

fn replace(nodes: &mut [usize], from: usize, to: usize) {
    for node in nodes.iter_mut().filter(|node| **node == from) {
        *node = to;
    }
}

/// A run of neighbours: the components of one runlevel, or files that no rule lets change places.
enum Run {
    /// Two or more components of one runlevel, in the order of their files.
    Level(Vec<Vec<usize>>),
    /// Files of one component, or one file whose name does not match (CVO-GRAPH-03).
    Alone(Vec<usize>),
}

fn runs(names: &[&str], tasks: &[usize]) -> Vec<Run> {
    let parsed: Vec<Option<FileName<'_>>> = tasks.iter().map(|&task| FileName::parse(names[task])).collect();
    let mut runs = Vec::new();
    let mut at = 0;
    while at < tasks.len() {
        let (mut groups, mut start, mut end) = (Vec::new(), at, at + 1);
        while end < tasks.len() {
            let (Some(last), Some(next)) = (parsed[end - 1], parsed[end]) else { break };
            if last.level != next.level {
                break;
            }
            if last.component != next.component {
                groups.push(tasks[start..end].to_vec());
                start = end;
            }
            end += 1;
        }
        let rest = tasks[start..end].to_vec();
        runs.push(if groups.is_empty() {
            Run::Alone(rest)
        } else {
            groups.push(rest);
            Run::Level(groups)
        });
        at = end;
    }
    runs
}

/// Runlevels in sequence, the components of each in parallel. Neighbours that stand alone are one step.
fn by_level_and_component(names: &[&str], tasks: &[usize]) -> Steps {
    let mut steps = Steps::new();
    let mut open = false;
    for run in runs(names, tasks) {
        match (run, steps.last_mut()) {
            (Run::Level(groups), _) => {
                steps.push(groups);
                open = false;
            }
            (Run::Alone(more), Some(step)) if open => step[0].extend(more),
            (Run::Alone(more), _) => {
                steps.push(vec![more]);
                open = true;
            }
        }
    }
    steps
}

/// All groups in parallel.
fn flat(names: &[&str], tasks: &[usize]) -> Vec<Vec<usize>> {
    let groups = |run| match run {
        Run::Level(groups) => groups,
        Run::Alone(tasks) => vec![tasks],
    };
    runs(names, tasks).into_iter().flat_map(groups).collect()
}

/// Begins `step` groups later, or with that part of all groups if there are many.
fn rotate(groups: &mut [Vec<usize>], step: u32) {
    let (count, step, stride) = (groups.len(), step as usize, STRIDE as usize);
    if count > 0 {
        let shift = if count < stride { step } else { step * count / stride };
        groups.rotate_left(shift % count);
    }
}

/// Fisher and Yates, with the generator SplitMix64: the same seed gives the same order everywhere.
fn shuffle(groups: &mut [Vec<usize>], seed: u64) {
    let mut state = seed;
    for last in (1..groups.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        groups.swap(last, (mixed % (last as u64 + 1)) as usize);
    }
}
