//! Comparison of a bundle's blob with the rendering of its image or directory.

use std::collections::BTreeSet;

use super::{Finding, Placed, Report, Rule, Subject};
use crate::diff::{Change, compare_bundles};
use crate::model::Bundle;

/// Compares a bundle of the catalog with the rendering of its image or directory, or reports why that cannot be rendered.
pub fn compare_bundle(placed: &Placed, said: &Bundle, rendered: Result<&Bundle, &str>) -> Option<Finding> {
    let mut report = Report { places: &placed.places, findings: Vec::new() };
    let subject = Subject::bundle(said.package.as_str(), said.name.as_str());
    match rendered {
        Err(problem) => report.add(Rule::BundleUnread, subject, problem),
        Ok(rendered) => {
            let problems = differences(said, rendered);
            if !problems.is_empty() {
                report.add(Rule::BundleMismatch, subject, problems.join("; "));
            }
        }
    }
    report.findings.pop()
}

fn differences(said: &Bundle, rendered: &Bundle) -> Vec<String> {
    let mut problems = Vec::new();
    if said.package != rendered.package {
        problems.push(format!("it renders to package {}", rendered.package));
    }
    if said.name != rendered.name {
        problems.push(format!("it renders to name {}", rendered.name));
    }
    // A catalog may hold the manifests, or the metadata made from them, and a curator may add further properties (OLM1-FBC-19).
    let kinds: BTreeSet<&str> = said.properties.iter().map(|property| property.kind.as_str()).collect();
    let comparable = |kind: &str| !matches!(kind, "olm.bundle.object" | "olm.csv.metadata");
    let of = |bundle: &Bundle, keep: &dyn Fn(&str) -> bool| Bundle {
        properties: bundle.properties.iter().filter(|property| keep(&property.kind)).cloned().collect(),
        ..bundle.clone()
    };
    let rendered_kinds: BTreeSet<&str> = rendered.properties.iter().map(|property| property.kind.as_str()).collect();
    let left = of(said, &|kind| comparable(kind) && rendered_kinds.contains(kind));
    let mut right = of(rendered, &comparable);
    right.image.clone_from(&said.image);
    right.name = said.name.clone();
    // The list begins with the bundle's own image, which a directory does not know.
    let own = |bundle: &mut Bundle| bundle.related_images.retain(|image| image.image != said.image && !image.image.is_empty());
    let mut left = left;
    own(&mut left);
    own(&mut right);
    if let Some(difference) = compare_bundles(&right, &left).filter(|difference| difference.change == Change::Changed) {
        for (what, set) in [("property", &difference.properties), ("related image", &difference.related_images)] {
            problems.extend(set.added.iter().map(|value| format!("the catalog alone has {what} {value}")));
            problems.extend(set.removed.iter().map(|value| format!("the catalog lacks {what} {value}")));
        }
    }
    if kinds.is_empty() && !rendered.properties.is_empty() {
        problems.push("the catalog has no property of it".to_owned());
    }
    problems
}
