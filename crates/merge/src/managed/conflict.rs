//! Conflicts between an applier and the owners of the fields that it would change.

use std::collections::BTreeMap;
use std::fmt;

use super::{Manager, Operation};
use crate::fieldset::Path;

/// A field that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Its owner.
    pub manager: Manager,
    /// The field.
    pub path: Path,
}

/// All conflicts of an apply; shown as the message of the 409 Status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts(pub Vec<Conflict>);

impl Conflicts {
    /// The causes of the Status (reason `FieldManagerConflict`): message and field, sorted by field.
    pub fn causes(&self) -> Vec<(String, String)> {
        let mut causes: Vec<_> =
            self.0.iter().map(|conflict| (format!("conflict with {}", name(&conflict.manager)), conflict.path.to_string())).collect();
        causes.sort_by(|(a, x), (b, y)| (x, a).cmp(&(y, b)));
        causes
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(out, "Apply failed with 1 conflict: conflict with {}: {}", name(&only.manager), only.path);
        }
        write!(out, "Apply failed with {} conflicts: ", self.0.len())?;
        let mut by_manager: BTreeMap<&Manager, Vec<&Path>> = BTreeMap::new();
        for conflict in &self.0 {
            by_manager.entry(&conflict.manager).or_default().push(&conflict.path);
        }
        for (index, (manager, paths)) in by_manager.into_iter().enumerate() {
            write!(out, "{}conflicts with {}:", if index == 0 { "" } else { "\n" }, name(manager))?;
            paths.into_iter().try_for_each(|path| write!(out, "\n- {path}"))?;
        }
        Ok(())
    }
}

fn name(manager: &Manager) -> String {
    let mut text = mainstay_golang::quote(&manager.manager);
    if !manager.subresource.is_empty() {
        text = format!("{text} with subresource {}", mainstay_golang::quote(&manager.subresource));
    }
    if manager.operation == Operation::Update {
        text = format!("{text} using {}", manager.api_version);
    }
    text
}
