//! Operators beside each other: of one namespace, and several instances of one operator (OLM0-TENANT-02, OLM0-TENANT-05, OLM0-TENANT-07).

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Action, string, subject};
use crate::csv::Group;
use crate::overview::{is_copy, place};
use crate::properties;
use crate::subscription::GENERATED_BY;

/// Subscriptions that share the update policy of a Subscription without being related to it: both were made by people, in a namespace whose
/// group watches all namespaces, as the console places every operator. The note, and the remedy.
pub(super) fn placement(subscription: &Value, siblings: &[Value], groups: &[Value]) -> Option<(String, Action)> {
    let [group] = groups else { return None };
    if !Group::read(group).is_global() || is_dependency(subscription) {
        return None;
    }
    let strangers: Vec<&Value> = siblings.iter().filter(|other| !is_dependency(other)).collect();
    if strangers.is_empty() {
        return None;
    }
    let (namespace, name) = place(subscription);
    let names: Vec<String> = strangers.iter().map(|other| place(other).1).collect();
    let is_manual = |each: &Value| each["spec"]["installPlanApproval"] == "Manual";
    let manual: Vec<String> =
        std::iter::once(subscription).chain(strangers.iter().copied()).filter(|each| is_manual(each)).map(|each| place(each).1).collect();
    let policy = if manual.is_empty() {
        "one that is set to Manual makes the updates of all wait for an approval".to_owned()
    } else {
        format!("all updates wait for an approval, because subscription {} is Manual", manual.join(", "))
    };
    let note = format!(
        "namespace {namespace} is where operators for all namespaces are placed together: {name} shares its update policy with subscription {} \
         ({policy}), and their dependencies come here, too",
        names.join(", ")
    );
    let spec = &subscription["spec"];
    let package = string(spec, "/name");
    let own = if namespace == package { format!("{package}-operator") } else { package.clone() };
    let mut install = format!("mainstay install {package} --classic -n {own} --create-namespace --all-namespaces");
    let own_name = if name == package { String::new() } else { name.clone() };
    for (flag, value) in [("--channel", string(spec, "/channel")), ("--name", own_name), ("--catalog", catalog(spec))] {
        if !value.is_empty() {
            install = format!("{install} {flag} {value}");
        }
    }
    let action = Action::new(format!("Give {name} a namespace of its own, with a group that watches all namespaces:"))
        .commands(vec![format!("mainstay uninstall {name} --classic -n {namespace}"), install])
        .warns("the operator does not run in between; its custom resources stay");
    Some((note, action))
}

/// The catalog as the command line takes it.
fn catalog(spec: &Value) -> String {
    match (string(spec, "/source"), string(spec, "/sourceNamespace")) {
        (source, _) if source.is_empty() => source,
        (source, namespace) if namespace.is_empty() => source,
        (source, namespace) => format!("{source}/{namespace}"),
    }
}

fn is_dependency(subscription: &Value) -> bool {
    subscription["metadata"]["annotations"][GENERATED_BY].is_string()
}

/// Facts about instances of an operator beside this one, and what is not supported about them. The remedies stand in the second part.
pub(super) fn instances(csv: &Value, csvs: &[Value]) -> (Vec<String>, Vec<Action>) {
    let own = owned(csv);
    let here = place(csv);
    let is_instance = |other: &&Value| {
        let there = place(other);
        !is_copy(other) && there.0 != here.0 && is_same_operator(csv, other, &own)
    };
    let others: Vec<&Value> = csvs.iter().filter(is_instance).collect();
    if is_copy(csv) || others.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let mut notes = Vec::new();
    let mut actions = Vec::new();
    for other in &others {
        let differs = string(other, "/spec/version") != string(csv, "/spec/version") || place(other).1 != here.1;
        if differs && let Some(problem) = unsupported_mix(csv, other) {
            notes.push(problem);
            let (older, newer) = by_version(csv, other);
            let (namespace, name) = place(older);
            actions.push(
                Action::new(format!("Bring {name} in namespace {namespace} to version {}:", string(newer, "/spec/version")))
                    .commands(vec![format!("mainstay explain csv {name} -n {namespace}")])
                    .warns("the older instance is blocked as soon as objects use what its CRDs lack"),
            );
        }
    }
    let places: Vec<String> = others.iter().map(|other| subject("csv", other)).collect();
    let needs = dependencies(csv);
    if !needs.is_empty() {
        notes.push(format!(
            "it is installed several times (also {}), and needs {}: instances beside each other are supported only for an operator without dependencies",
            places.join(", "),
            needs.join(", ")
        ));
    }
    let conversions = csv["spec"]["webhookdefinitions"].as_array().into_iter().flatten();
    let conversions: Vec<String> =
        conversions.filter(|webhook| webhook["type"] == "ConversionWebhook").map(|webhook| string(webhook, "/generateName")).collect();
    if !conversions.is_empty() {
        notes.push(format!(
            "it is installed several times (also {}), and converts its custom resources by webhook {}: a CRD calls one webhook, that of the instance \
             which was installed last, in every namespace",
            places.join(", "),
            conversions.join(", ")
        ));
    }
    if !needs.is_empty() || !conversions.is_empty() {
        actions.push(one_for_all(csv));
    }
    (notes, actions)
}

/// One instance in place of several.
fn one_for_all(csv: &Value) -> Action {
    let (namespace, name) = place(csv);
    Action::new("Keep one instance, whose group watches all namespaces that need it, and remove the others:")
        // The other instances provide the same APIs, which a removal otherwise respects.
        .command(format!("mainstay uninstall {name} --classic -n {namespace} --even-if-needed"))
        .warns("custom resources of its namespaces stay, and are served again by the instance that is kept once its group watches them")
}

/// Returns whether two CSVs are of one operator: they own a CRD in common, or they have one package by name.
fn is_same_operator(csv: &Value, other: &Value, own: &BTreeSet<(String, String)>) -> bool {
    let names = |set: &BTreeSet<(String, String)>| set.iter().map(|(name, _)| name.clone()).collect::<BTreeSet<_>>();
    !names(own).is_disjoint(&names(&owned(other))) || base(csv) == base(other)
}

/// A CSV's name without its version.
fn base(csv: &Value) -> String {
    let (_, name) = place(csv);
    name.split_once(".v").map_or(name.clone(), |(base, _)| base.to_owned())
}

/// The CRDs that a CSV owns, each with its version.
fn owned(csv: &Value) -> BTreeSet<(String, String)> {
    let crds = csv["spec"]["customresourcedefinitions"]["owned"].as_array().into_iter().flatten();
    crds.map(|crd| (string(crd, "/name"), string(crd, "/version"))).collect()
}

/// The reason why two versions of an operator are not supported beside each other: they own CRDs, and not exactly the same ones.
fn unsupported_mix(csv: &Value, other: &Value) -> Option<String> {
    let (own, others) = (owned(csv), owned(other));
    if own == others {
        return None;
    }
    let listed = |from: &BTreeSet<(String, String)>, without: &BTreeSet<(String, String)>| {
        from.difference(without).map(|(name, version)| format!("{name} {version}")).collect::<Vec<_>>().join(", ")
    };
    let mut differences = Vec::new();
    for (whose, list) in [(csv, listed(&own, &others)), (other, listed(&others, &own))] {
        if !list.is_empty() {
            differences.push(format!("only {} has {list}", subject("csv", whose)));
        }
    }
    Some(format!(
        "{} is of version {}, and its CRDs are not the same ones ({}): different versions beside each other are supported only with exactly the \
         same CRDs, or none",
        subject("csv", other),
        string(other, "/spec/version"),
        differences.join("; ")
    ))
}

/// Two CSVs, the older one first.
fn by_version<'a>(csv: &'a Value, other: &'a Value) -> (&'a Value, &'a Value) {
    let version = |csv: &Value| mainstay_versions::Version::parse(&string(csv, "/spec/version")).ok();
    if version(csv) <= version(other) { (csv, other) } else { (other, csv) }
}

/// The dependencies of a CSV: the APIs that it requires, and those in its properties.
fn dependencies(csv: &Value) -> Vec<String> {
    let required = ["customresourcedefinitions", "apiservicedefinitions"].into_iter().flat_map(|field| {
        let list = csv["spec"][field]["required"].as_array().into_iter().flatten();
        list.map(|api| format!("API {} {}", string(api, "/name"), string(api, "/version"))).collect::<Vec<_>>()
    });
    let mut needs: Vec<String> = required.collect();
    let annotation = csv["metadata"]["annotations"][properties::ANNOTATION].as_str().unwrap_or_default();
    // An annotation that cannot be read has a finding of its own, where it is used.
    for property in properties::read(annotation).unwrap_or_default() {
        let value: Value = serde_json::from_str(&property.value).unwrap_or_default();
        match property.kind.as_str() {
            "olm.package.required" => needs.push(format!("package {}", string(&value, "/packageName"))),
            "olm.gvk.required" => {
                let (group, version, kind) = (string(&value, "/group"), string(&value, "/version"), string(&value, "/kind"));
                // The APIs that the CSV requires are among these.
                if !needs.iter().any(|need| need.ends_with(&format!(".{group} {version}"))) {
                    needs.push(format!("API {kind}.{group}/{version}"));
                }
            }
            "olm.constraint" => needs.push("what a constraint asks for".to_owned()),
            _ => {}
        }
    }
    needs
}
