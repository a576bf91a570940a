//! The operators of OLM classic in `mainstay list` (MS-CLI-05, OLM0-ADMIN-20).

use mainstay_olm_classic_core::overview::Overview;
use mainstay_operations::classic::listing::Operators;
use mainstay_terminal::output::{Format, Table};
use serde_json::Value;

/// Keeps the operators with these names (Subscription, package or CSV) or these labels.
pub fn narrowed(mut all: Operators, names: &[String], selector: Option<&str>) -> Operators {
    let chosen = |object: &Value| selector.is_none_or(|selector| has_labels(object, selector));
    all.subscriptions.retain(|object| chosen(object));
    all.csvs.retain(|object| chosen(object));
    let is_there = |kind: &[Value], namespace: &str, name: &str| {
        kind.iter().any(|object| object["metadata"]["namespace"] == *namespace && object["metadata"]["name"] == *name)
    };
    let (subscriptions, csvs) = (&all.subscriptions, &all.csvs);
    all.operators.retain(|each| {
        let labelled = match &each.subscription {
            Some(name) => is_there(subscriptions, &each.namespace, name),
            None => is_there(csvs, &each.namespace, &each.installed),
        };
        labelled && (names.is_empty() || names.iter().any(|name| is_named(each, name)))
    });
    let operators = &all.operators;
    let is_shown = |object: &Value, of: &dyn Fn(&Overview) -> Vec<String>| {
        operators.iter().any(|each| {
            object["metadata"]["namespace"] == *each.namespace && of(each).iter().any(|name| object["metadata"]["name"] == *name.as_str())
        })
    };
    all.subscriptions.retain(|object| is_shown(object, &|each| each.subscription.iter().cloned().collect()));
    all.csvs.retain(|object| is_shown(object, &|each| vec![each.installed.clone(), each.current.clone()]));
    all
}

/// Returns whether a name stands for an operator.
pub fn is_named(operator: &Overview, name: &str) -> bool {
    operator.subscription.as_deref() == Some(name)
        || [&operator.package, &operator.installed, &operator.current].into_iter().any(|each| each == name)
}

/// Reads `key=value`, `key!=value`, `key`, `!key`, joined by commas, as the API does for extensions.
fn has_labels(object: &Value, selector: &str) -> bool {
    selector.split(',').map(str::trim).all(|part| {
        let label = |key: &str| object["metadata"]["labels"][key].as_str();
        if let Some((key, value)) = part.split_once("!=") {
            label(key.trim()) != Some(value.trim())
        } else if let Some((key, value)) = part.split_once('=') {
            label(key.trim()) == Some(value.trim_start_matches('=').trim())
        } else if let Some(key) = part.strip_prefix('!') {
            label(key.trim()).is_none()
        } else {
            label(part).is_some()
        }
    })
}

/// The operators whose rows differ from what was seen; one that is gone has the phase `removed`.
pub fn news(format: &Format, seen: &[Overview], now: &[Overview]) -> Vec<Overview> {
    let is_same = |one: &Overview, other: &Overview| {
        one.namespace == other.namespace
            && one.subscription == other.subscription
            && (one.subscription.is_some() || one.installed == other.installed)
    };
    let is_shown = |one: &Overview| seen.iter().any(|other| is_same(one, other) && row(format, one) == row(format, other));
    let changed = now.iter().filter(|one| !is_shown(one)).cloned();
    let gone = seen.iter().filter(|one| !now.iter().any(|other| is_same(one, other)));
    let gone = gone.map(|one| Overview { phase: "removed".to_owned(), awaits_approval: None, problem: None, ..one.clone() });
    changed.chain(gone).collect()
}

/// The operators as a table.
pub fn table(format: &Format, all: &[Overview]) -> Table {
    let mut titles = vec!["NAMESPACE", "SUBSCRIPTION", "PACKAGE", "CHANNEL", "INSTALLED", "VERSION", "PHASE", "WAITS FOR"];
    if *format == Format::Wide {
        titles.extend(["CATALOG", "CURRENT", "REASON"]);
    }
    let mut table = Table::new(&titles);
    for each in all {
        table.row(row(format, each));
    }
    table
}

fn row(format: &Format, each: &Overview) -> Vec<String> {
    let mut row = vec![
        each.namespace.clone(),
        each.subscription.clone().unwrap_or_default(),
        each.package.clone(),
        each.channel.clone(),
        each.installed.clone(),
        if each.installed.is_empty() { String::new() } else { each.version.clone() },
        each.phase.clone(),
        waits(each),
    ];
    if *format == Format::Wide {
        row.extend([each.catalog.clone(), each.current.clone(), each.reason.clone()]);
    }
    row
}

fn waits(operator: &Overview) -> String {
    match (&operator.awaits_approval, &operator.problem) {
        (Some(plan), _) => format!("approval of {plan}"),
        (None, Some(problem)) => problem.clone(),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MS-CLI-05: a watch shows an operator when its row changes, once, and when it is gone; a CSV that loses its Subscription is another row.
    #[test]
    fn changes_are_shown_once() {
        let operator = |subscription: Option<&str>, installed: &str, phase: &str| Overview {
            namespace: "lights".to_owned(),
            subscription: subscription.map(str::to_owned),
            installed: installed.to_owned(),
            phase: phase.to_owned(),
            ..Overview::default()
        };
        let rows = |seen: &[Overview], now: &[Overview]| {
            let text = |one: Overview| format!("{} {} {}", one.subscription.unwrap_or_default(), one.installed, one.phase);
            news(&Format::Table, seen, now).into_iter().map(text).collect::<Vec<_>>()
        };
        let pending = [operator(Some("gadget"), "", "")];
        let installing = [operator(Some("gadget"), "gadget.v1", "Installing")];
        let installed = [operator(Some("gadget"), "gadget.v1", "Succeeded")];
        let pending_otherwise = [Overview { current: "gadget.v1".to_owned(), ..pending[0].clone() }];
        let alone = [operator(None, "gadget.v1", "Succeeded")];
        for (seen, now, expected) in [
            (&[][..], &pending[..], &["gadget  "][..]),
            (&pending, &pending, &[]),
            (&pending, &pending_otherwise, &[]),
            (&pending, &installing, &["gadget gadget.v1 Installing"]),
            (&installing, &installed, &["gadget gadget.v1 Succeeded"]),
            (&installed, &alone, &[" gadget.v1 Succeeded", "gadget gadget.v1 removed"]),
            (&alone, &[], &[" gadget.v1 removed"]),
        ] {
            assert_eq!(rows(seen, now), expected);
        }
    }
}
