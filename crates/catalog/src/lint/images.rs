//! Rules about images: references by digest, listed images, one image for each bundle.

use std::collections::BTreeMap;

use super::{Report, Rule, Subject, Subjects};
use crate::model::Bundle;

pub(super) fn check(package: &Subjects<'_>, report: &mut Report<'_>) {
    let bundles = &package.parts.bundles;
    let tagged = |image: &str| !image.is_empty() && !image.contains('@');
    let by_tag: Vec<&Bundle> = bundles.iter().copied().filter(|bundle| tagged(&bundle.image)).collect();
    several(package, &by_tag, report, Rule::ImageByTag, |bundle| format!("image {} has no digest", bundle.image));

    let listed = |bundle: &Bundle| bundle.related_images.iter().any(|related| related.image != bundle.image && !related.image.is_empty());
    let unlisted: Vec<&Bundle> = bundles.iter().copied().filter(|bundle| !listed(bundle)).collect();
    several(package, &unlisted, report, Rule::RelatedImagesMissing, |_| "relatedImages names no image beside the bundle's own".to_owned());

    let first = |bundle: &Bundle| {
        let images = bundle.related_images.iter().filter(|related| tagged(&related.image) && related.image != bundle.image);
        images.map(|related| related.image.clone()).next()
    };
    let related: Vec<&Bundle> = bundles.iter().copied().filter(|bundle| first(bundle).is_some()).collect();
    several(package, &related, report, Rule::RelatedImageByTag, |bundle| {
        format!("related image {} has no digest", first(bundle).unwrap_or_default())
    });

    let mut by_image: BTreeMap<&str, Vec<&Bundle>> = BTreeMap::new();
    for bundle in bundles.iter().filter(|bundle| !bundle.image.is_empty()) {
        by_image.entry(&bundle.image).or_default().push(bundle);
    }
    for (image, sharing) in by_image.into_iter().filter(|(_, sharing)| sharing.len() > 1) {
        let names: Vec<&str> = sharing.iter().map(|bundle| bundle.name.as_str()).collect();
        report.add(Rule::ImageShared, Subject::bundle(package.name, names[0]), format!("{} have the same image {image}", names.join(", ")));
    }
}

/// Makes one finding for all bundles of a package with a problem, at the newest one: such problems come by the dozen.
fn several(package: &Subjects<'_>, bundles: &[&Bundle], report: &mut Report<'_>, rule: Rule, problem: impl Fn(&Bundle) -> String) {
    let version = |bundle: &Bundle| package.versions.get(bundle.name.as_str()).cloned().flatten();
    let Some(newest) = bundles.iter().max_by(|a, b| version(a).cmp(&version(b)).then_with(|| a.name.cmp(&b.name))) else { return };
    let mut message = problem(newest);
    if bundles.len() > 1 {
        message = format!("{message} (so it is in {} of {} bundles; this is the newest)", bundles.len(), package.parts.bundles.len());
    }
    report.add(rule, Subject::bundle(package.name, newest.name.as_str()), message);
}
