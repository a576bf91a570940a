//! Where pods fit, tried without effect.

use serde_json::Value;

/// A copy of the cluster in which pods are placed by the scheduler's own rules, without effect.
pub trait Rehearsal: Sized {
    /// Returns a copy that goes its own way.
    #[must_use]
    fn fork(&self) -> Self;

    /// Adds an imagined node, with the pods that DaemonSets would give it.
    fn add_node(&mut self, node: &Value);

    /// Puts a pod on the first of these nodes that takes it.
    ///
    /// # Errors
    /// None takes it: the scheduler's reasons, each once.
    fn place(&mut self, pod: &str, among: &mut dyn Iterator<Item = &str>) -> Result<String, Vec<String>>;

    /// Takes a pod off its node.
    fn remove(&mut self, pod: &str);

    /// Puts a pod on a node without a question: what was tried is taken back.
    fn put(&mut self, pod: &str, node: &str);
}
