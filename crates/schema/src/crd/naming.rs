//! Resolution of name conflicts between CRDs: a name belongs to the one that was accepted first.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{KindNames, list, text};
use mainstay_golang::quote;

/// A condition of a CRD's status, without its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The condition's `type`.
    pub kind: &'static str,
    /// True or False.
    pub status: bool,
    /// The reason in one word.
    pub reason: &'static str,
    /// The reason in words.
    pub message: String,
}

/// The result for a CRD's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// `status.acceptedNames`: each name that is free, or was accepted before.
    pub accepted: KindNames,
    /// `NamesAccepted`.
    pub names_accepted: Condition,
    /// `Established`. Once true it stays, even if later names are refused.
    pub established: Condition,
}

/// Weighs the names of a CRD against those accepted for the other CRDs of its group.
pub fn names_accepted<'a>(crd: &Value, others: impl IntoIterator<Item = &'a Value>) -> Names {
    let group = text(&crd["spec"], "group");
    let own_name = text(&crd["metadata"], "name");
    let mut resources = BTreeSet::new();
    let mut kinds = BTreeSet::new();
    for other in others {
        if text(&other["spec"], "group") != group || text(&other["metadata"], "name") == own_name {
            continue;
        }
        let names = KindNames::read(&other["status"]["acceptedNames"]);
        resources.extend([names.plural, names.singular]);
        resources.extend(names.short_names);
        kinds.extend([names.kind, names.list_kind]);
    }
    let wanted = KindNames::read(&crd["spec"]["names"]);
    let before = KindNames::read(&crd["status"]["acceptedNames"]);
    let mut accepted = before.clone();
    let mut refusal: Option<(&'static str, String)> = None;

    let in_use = |name: &str| format!("{} is already in use", quote(name));
    let mut weigh = |wanted: &String, before: &String, taken: &BTreeSet<String>, place: &mut String, reason: &'static str| {
        if wanted == before || !taken.contains(wanted) {
            place.clone_from(wanted);
        } else {
            refusal = Some((reason, in_use(wanted)));
        }
    };
    weigh(&wanted.plural, &before.plural, &resources, &mut accepted.plural, "PluralConflict");
    weigh(&wanted.singular, &before.singular, &resources, &mut accepted.singular, "SingularConflict");
    if wanted.short_names != before.short_names {
        let clashes: Vec<String> = wanted
            .short_names
            .iter()
            .filter(|name| !before.short_names.contains(name) && resources.contains(*name))
            .map(|name| in_use(name))
            .collect();
        match clashes.len() {
            0 => accepted.short_names.clone_from(&wanted.short_names),
            1 => refusal = Some(("ShortNamesConflict", clashes.concat())),
            _ => refusal = Some(("ShortNamesConflict", format!("[{}]", clashes.join(", ")))),
        }
    }
    let mut weigh = |wanted: &String, before: &String, taken: &BTreeSet<String>, place: &mut String, reason: &'static str| {
        if wanted == before || !taken.contains(wanted) {
            place.clone_from(wanted);
        } else {
            refusal = Some((reason, in_use(wanted)));
        }
    };
    weigh(&wanted.kind, &before.kind, &kinds, &mut accepted.kind, "KindConflict");
    weigh(&wanted.list_kind, &before.list_kind, &kinds, &mut accepted.list_kind, "ListKindConflict");
    accepted.categories.clone_from(&wanted.categories);

    let was_established =
        list(&crd["status"], "conditions").iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True");
    let good = refusal.is_none();
    let names_accepted = match refusal {
        None => Condition { kind: "NamesAccepted", status: true, reason: "NoConflicts", message: "no conflicts found".to_owned() },
        Some((reason, message)) => Condition { kind: "NamesAccepted", status: false, reason, message },
    };
    let established = if good || was_established {
        Condition {
            kind: "Established",
            status: true,
            reason: "InitialNamesAccepted",
            message: "the initial names have been accepted".to_owned(),
        }
    } else {
        Condition { kind: "Established", status: false, reason: "NotAccepted", message: "not all names are accepted".to_owned() }
    };
    Names { accepted, names_accepted, established }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn crd(plural: &str, kind: &str, accepted: bool) -> Value {
        let names = json!({"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List"), "shortNames": ["w"]});
        let status = if accepted { json!({"acceptedNames": names}) } else { json!({}) };
        json!({"metadata": {"name": format!("{plural}.a.b")}, "spec": {"group": "a.b", "names": names}, "status": status})
    }

    /// KAPI-CRD-01: the first CRD keeps its names, a later one is told which are taken.
    #[test]
    fn names_go_to_the_first() {
        let first = crd("widgets", "Widget", true);
        let fine = names_accepted(&first, []);
        assert!(fine.names_accepted.status && fine.established.status);
        assert_eq!(fine.accepted, KindNames::read(&first["spec"]["names"]));

        let second = crd("gadgets", "Widget", false);
        let refused = names_accepted(&second, [&first]);
        assert_eq!(refused.names_accepted.reason, "ListKindConflict");
        assert_eq!(refused.names_accepted.message, "\"WidgetList\" is already in use");
        assert_eq!(refused.established.reason, "NotAccepted");
        assert_eq!(refused.accepted.plural, "gadgets");
        assert_eq!(refused.accepted.kind, "");
        assert!(refused.accepted.short_names.is_empty());
    }
}
