//! The permissions that another version would need in addition, and those that it would no longer need.

use std::fmt::Write as _;

use mainstay_bundle::permissions::Grant;
use mainstay_diagnostics::counted;
use mainstay_operations::permissions::InstallerNeeds;
use mainstay_terminal::errors::Failure;
use mainstay_terminal::output::{self, Format};
use serde_json::{Value, json};

use super::as_json;

pub(super) fn show(format: Option<&Format>, from: &InstallerNeeds, to: &InstallerNeeds) -> Result<(), Failure> {
    let (more, less) = (from.missing_for(to), to.missing_for(from));
    match format {
        None | Some(Format::Table | Format::Wide) => output::print(&text(&from.bundle, &to.bundle, &more, &less)),
        Some(Format::Yaml) => output::yaml(&to.manifests()),
        Some(other) => {
            let list = |grants: &[Grant]| grants.iter().map(|grant| as_json(grant, None)).collect::<Vec<Value>>();
            let permissions = json!({"from": list(&from.grants), "to": list(&to.grants)});
            output::value(
                other,
                &json!({"from": from.bundle, "to": to.bundle, "more": list(&more), "less": list(&less), "rights": permissions}),
            )
        }
    }
}

fn text(from: &str, to: &str, more: &[Grant], less: &[Grant]) -> String {
    let count = |grants: &[Grant], word: &str| match grants.len() {
        0 => format!("nothing {word}"),
        several => format!("{} {word}", counted(several, "permission")),
    };
    if more.is_empty() && less.is_empty() {
        return format!("from {from} to {to} the installer needs the same permissions\n");
    }
    let mut out = format!("from {from} to {to} the installer needs {} and {}\n", count(more, "more"), count(less, "less"));
    for (sign, grants) in [("+", more), ("-", less)] {
        for grant in grants {
            // Writing to a string does not fail.
            let _written = writeln!(out, "  {sign} {grant}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use mainstay_bundle::permissions::{Scope, missing};
    use mainstay_rbac::PolicyRule;

    use super::*;

    /// MS-RBAC-01: what an upgrade would need more and less, in words.
    #[test]
    fn comparisons_in_words() {
        let grant = |verbs: &[&str]| Grant { scope: Scope::Cluster, rule: PolicyRule::resources(verbs, &[""], &["secrets"]) };
        let (old, new) = ([grant(&["get", "list"])], [grant(&["get", "watch"])]);
        let (more, less) = (missing(&old, &new), missing(&new, &old));
        assert_eq!(
            text("a.v1", "a.v2", &more, &less),
            "from a.v1 to a.v2 the installer needs 1 permission more and 1 permission less\n  + watch on secrets\n  - list on secrets\n"
        );
        assert_eq!(text("a.v1", "a.v2", &[], &[]), "from a.v1 to a.v2 the installer needs the same permissions\n");
    }
}
