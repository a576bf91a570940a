//! Facts of the CSV and the annotations, and CRDs.

use std::collections::HashSet;

use mainstay_schema::upgrade;
use serde_json::Value;

use super::{Change, Section, Sort, by_name};
use crate::bundle::{Bundle, Property};

pub(super) fn changes(old: &Bundle, new: &Bundle) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut text = |subject: &str, old: &str, new: &str| {
        let sort = match (old.is_empty(), new.is_empty()) {
            (true, true) => return,
            (true, false) => Sort::Added,
            (false, true) => Sort::Removed,
            (false, false) if old == new => return,
            (false, false) => Sort::Changed,
        };
        let value = |text: &str| (!text.is_empty()).then(|| Value::from(text));
        // For long texts, only the amount of the change is shown.
        let short = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
        let detail = if old.len().max(new.len()) > 120 || old.contains('\n') || new.contains('\n') {
            // As sets: a description may have many thousands of lines.
            let beside = |text: &str, other: &str| {
                let other: HashSet<&str> = other.lines().collect();
                text.lines().filter(|line| !other.contains(line)).count()
            };
            let (lost, gained) = (beside(old, new), beside(new, old));
            format!("{gained} lines added, {lost} removed")
        } else {
            format!("{} -> {}", short(old), short(new))
        };
        changes.push(Change::new(Section::Bundle, sort, subject, detail).values(value(old), value(new)));
    };
    let (a, b) = (&old.csv, &new.csv);
    let spec = |bundle: &Bundle, key: &str| bundle.csv.object["spec"][key].as_str().unwrap_or_default().to_owned();
    text("package", &old.package, &new.package);
    text("version", &a.version, &b.version);
    text("replaces", &a.replaces, &b.replaces);
    text("skips", &a.skips.join(", "), &b.skips.join(", "));
    text("minKubeVersion", &a.min_kube_version, &b.min_kube_version);
    for key in ["displayName", "maturity", "description"] {
        text(key, &spec(old, key), &spec(new, key));
    }
    let (x, y) = (old.facts(), new.facts());
    text("channels", &x.channels.join(", "), &y.channels.join(", "));
    text("default channel", x.default_channel.as_deref().unwrap_or_default(), y.default_channel.as_deref().unwrap_or_default());
    let told = ["alm-examples", "createdAt", "olm.properties"];
    let keys = a.annotations.keys().chain(b.annotations.keys()).filter(|key| !told.contains(&key.as_str()));
    let keys: std::collections::BTreeSet<&String> = keys.collect();
    for key in keys {
        let of = |csv: &crate::csv::Csv| csv.annotations.get(key).cloned().unwrap_or_default();
        text(&format!("annotation {key}"), &of(a), &of(b));
    }
    let listed = |properties: &[Property]| -> Vec<String> {
        properties.iter().map(|property| format!("{} {}", property.kind, property.value.get())).collect()
    };
    list("dependency", &listed(&old.dependencies), &listed(&new.dependencies), &mut changes);
    let all = |bundle: &Bundle| -> Vec<String> {
        let properties: Vec<Property> = bundle.properties.iter().chain(&bundle.csv_properties).cloned().collect();
        listed(&properties)
    };
    list("property", &all(old), &all(new), &mut changes);
    for mode in a.supported_modes().into_iter().filter(|mode| !b.supports(mode)) {
        changes.push(Change::new(Section::Bundle, Sort::Removed, format!("install mode {mode}"), "no longer supported").breaking());
    }
    for mode in b.supported_modes().into_iter().filter(|mode| !a.supports(mode)) {
        changes.push(Change::new(Section::Bundle, Sort::Added, format!("install mode {mode}"), "now supported"));
    }
    changes
}

fn list(what: &str, old: &[String], new: &[String], changes: &mut Vec<Change>) {
    for item in old.iter().filter(|item| !new.contains(item)) {
        changes.push(Change::new(Section::Bundle, Sort::Removed, what, item.clone()));
    }
    for item in new.iter().filter(|item| !old.contains(item)) {
        changes.push(Change::new(Section::Bundle, Sort::Added, what, item.clone()));
    }
}

pub(super) fn crds(old: &Bundle, new: &Bundle) -> Vec<Change> {
    let mut changes = Vec::new();
    let name = |crd: &Value| crd["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    by_name(&old.crds, &new.crds, name, |name, before, after| match (before, after) {
        (None, Some(crd)) => changes.push(Change::new(Section::Crds, Sort::Added, name, format!("versions {}", versions(crd).join(", ")))),
        (Some(_), None) => {
            let detail = "the API and its objects stay on the cluster, but nothing looks after them";
            changes.push(Change::new(Section::Crds, Sort::Removed, name, detail).breaking());
        }
        (Some(before), Some(after)) => crd(name, before, after, &mut changes),
        (None, None) => {}
    });
    let key = |crd: &crate::csv::CrdDescription| format!("required CRD {} {}", crd.name, crd.version);
    by_name(&old.csv.required_crds, &new.csv.required_crds, key, |name, before, after| match (before, after) {
        (None, Some(_)) => changes.push(Change::new(Section::Crds, Sort::Added, name, "another operator has to provide it").breaking()),
        (Some(_), None) => changes.push(Change::new(Section::Crds, Sort::Removed, name, "")),
        _ => {}
    });
    changes
}

fn versions(crd: &Value) -> Vec<String> {
    let listed = crd["spec"]["versions"].as_array().into_iter().flatten();
    listed.filter(|version| version["served"] == true).filter_map(|version| version["name"].as_str().map(str::to_owned)).collect()
}

fn crd(name: &str, old: &Value, new: &Value, changes: &mut Vec<Change>) {
    let (before, after) = (versions(old), versions(new));
    for version in before.iter().filter(|version| !after.contains(version)) {
        changes.push(Change::new(Section::Crds, Sort::Removed, format!("{name} {version}"), "no longer served").breaking());
    }
    for version in after.iter().filter(|version| !before.contains(version)) {
        changes.push(Change::new(Section::Crds, Sort::Added, format!("{name} {version}"), "now served"));
    }
    match upgrade::check(old, new) {
        Err(findings) => {
            let subject = name.to_owned();
            changes.extend(
                findings.iter().map(|finding| Change::new(Section::Crds, Sort::Changed, subject.clone(), finding.to_string()).breaking()),
            );
        }
        Ok(()) if old["spec"] != new["spec"] => {
            let count = super::fields::compare("", &old["spec"], &new["spec"]).count();
            changes.push(Change::new(Section::Crds, Sort::Changed, name, format!("{count} fields, safe for objects that exist")));
        }
        Ok(()) => {}
    }
}
