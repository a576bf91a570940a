//! Images, webhooks, deployments and the other objects.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::compare;
use super::{Change, Section, Sort, by_name};
use crate::bundle::Bundle;
use crate::images::repository;

pub(super) fn changes(old: &Bundle, new: &Bundle) -> Vec<Change> {
    let mut changes = images(old, new);
    let webhook = |webhook: &crate::csv::WebhookDefinition| format!("{} {}", webhook.kind.as_str(), webhook.name);
    by_name(&old.csv.webhooks, &new.csv.webhooks, webhook, |name, before, after| {
        changes.extend(tree(Section::Webhooks, name, before.map(|it| &it.entry), after.map(|it| &it.entry)));
    });
    let deployment = |deployment: &crate::csv::Deployment| deployment.name.clone();
    by_name(&old.csv.deployments, &new.csv.deployments, deployment, |name, before, after| {
        changes.extend(tree(Section::Deployments, name, before.map(|it| &it.spec), after.map(|it| &it.spec)));
    });
    let object = |object: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]))
    };
    by_name(&old.others, &new.others, object, |name, before, after| {
        changes.extend(tree(Section::Objects, name, before, after));
    });
    changes
}

/// An object as a whole, or its fields.
fn tree(section: Section, name: &str, before: Option<&Value>, after: Option<&Value>) -> Vec<Change> {
    match (before, after) {
        (None, Some(_)) => vec![Change::new(section, Sort::Added, name, "")],
        (Some(_), None) => vec![Change::new(section, Sort::Removed, name, "")],
        (Some(before), Some(after)) => {
            let fields = compare("", before, after);
            let change =
                |field: super::fields::Field| Change::new(section, Sort::Changed, name, field.words()).values(field.old, field.new);
            let mut changes: Vec<Change> = fields.listed.into_iter().map(change).collect();
            if fields.more > 0 {
                changes.push(Change::new(section, Sort::Changed, name, format!("and {} more fields", fields.more)));
            }
            changes
        }
        (None, None) => Vec::new(),
    }
}

/// Images by repository, so that another tag of the same image is one change.
fn images(old: &Bundle, new: &Bundle) -> Vec<Change> {
    let by_repository = |bundle: &Bundle| {
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for used in bundle.images(None) {
            found.entry(repository(&used.image).to_owned()).or_default().push(used.image);
        }
        found
    };
    let (before, after) = (by_repository(old), by_repository(new));
    let text = |images: &[String]| Some(Value::from(images.join(", ")));
    let mut changes = Vec::new();
    for (name, images) in &before {
        match after.get(name) {
            None => {
                changes.push(Change::new(Section::Images, Sort::Removed, name, images.join(", ")).values(text(images), None));
            }
            Some(now) if now != images => {
                let part = |images: &[String]| {
                    let parts: Vec<&str> = images.iter().map(|image| image.strip_prefix(name.as_str()).unwrap_or(image)).collect();
                    parts.join(", ")
                };
                let detail = format!("{} -> {}", part(images), part(now));
                changes.push(Change::new(Section::Images, Sort::Changed, name, detail).values(text(images), text(now)));
            }
            Some(_) => {}
        }
    }
    for (name, images) in after.iter().filter(|(name, _)| !before.contains_key(*name)) {
        changes.push(Change::new(Section::Images, Sort::Added, name, images.join(", ")).values(None, text(images)));
    }
    changes
}
