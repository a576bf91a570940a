//! Images of catalogs that follow the version of Kubernetes (OLM0-CAT-25 to OLM0-CAT-28).

use jiff::Timestamp;
use mainstay_objects::{Condition, set_condition};
use serde_json::{Value, json};

use super::time;

/// The annotation with the template.
pub const ANNOTATION: &str = "olm.catalogImageTemplate";
/// The conditions that are there while the annotation is.
const CONDITIONS: [&str; 2] = ["TemplatesHaveResolved", "ResolvedImage"];
const VARIABLES: [&str; 3] = ["{kube_major_version}", "{kube_minor_version}", "{kube_patch_version}"];

/// The version of the API server, as it reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubernetesVersion {
    /// Major, minor and patch.
    pub numbers: [u64; 3],
}

impl KubernetesVersion {
    /// Reads `gitVersion`, such as `v1.34.2+k3s1`.
    pub fn parse(git_version: &str) -> Option<Self> {
        let text = git_version.strip_prefix('v').unwrap_or(git_version);
        let core = text.split(['-', '+']).next()?;
        let mut numbers = core.split('.').map(|number| number.parse().ok());
        let mut next = || numbers.next().flatten();
        Some(Self { numbers: [next()?, next()?, next()?] })
    }
}

/// A filled template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filled {
    /// The image; curly braces and unknown versions stay in it.
    pub image: String,
    /// Why it cannot be used.
    pub problem: Option<String>,
}

/// Fills the template of a source; none if it has none.
pub fn image(source: &Value, version: Option<&KubernetesVersion>) -> Option<Filled> {
    let template = source["metadata"]["annotations"][ANNOTATION].as_str().filter(|template| !template.is_empty())?;
    let mut image = template.to_owned();
    let mut unresolved: Vec<(usize, &str)> = Vec::new();
    for (at, variable) in VARIABLES.into_iter().enumerate() {
        if let Some(version) = version {
            image = image.replace(variable, &version.numbers[at].to_string());
        } else {
            unresolved.extend(template.match_indices(variable).map(|(place, _)| (place, variable)));
            image = image.replace(variable, "missing");
        }
    }
    unresolved.sort_unstable();
    let names: Vec<String> = unresolved.into_iter().map(|(_, variable)| format!("\"{variable}\"")).collect();
    let subject = "cannot construct catalog image reference, because";
    let improper = "one or more template(s) has improper syntax";
    let problem = match (names.is_empty(), is_reference(&image)) {
        (true, true) => None,
        (true, false) => Some(format!("{subject} {improper}")),
        (false, true) => Some(format!("{subject} variable(s) {} could not be resolved", names.join(", "))),
        (false, false) => Some(format!("{subject} variable(s) {} could not be resolved and {improper}", names.join(", "))),
    };
    Some(Filled { image, problem })
}

/// Returns whether a text has the form of an image reference: no template is left in it.
fn is_reference(text: &str) -> bool {
    let (name, digest) = text.split_once('@').map_or((text, None), |(name, digest)| (name, Some(digest)));
    let slash = name.rfind('/').map_or(0, |at| at + 1);
    let (path, tag) = match name[slash..].split_once(':') {
        Some((last, tag)) => (format!("{}{last}", &name[..slash]), Some(tag)),
        None => (name.to_owned(), None),
    };
    let word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    let mut parts = path.split('/');
    let domain = parts.next().is_some_and(|first| first.split(':').all(|part| word(part.trim_matches(['[', ']']))));
    domain
        && parts.all(|part| word(part) && part.bytes().all(|byte| !byte.is_ascii_uppercase()))
        && tag.is_none_or(|tag| word(tag) && tag.len() <= 128)
        && digest.is_none_or(|digest| digest.split_once(':').is_some_and(|(kind, hex)| word(kind) && hex.len() >= 32))
}

/// The status of a source with the conditions about its template, or without them if it has none.
pub fn status(source: &Value, filled: Option<&Filled>, now: Timestamp) -> Value {
    let mut object = json!({"status": source["status"]});
    match filled {
        Some(Filled { image, problem }) => {
            let reason = if problem.is_none() { "AllTemplatesResolved" } else { "UnableToResolve" };
            let message = problem.as_deref().unwrap_or("catalog image reference was successfully resolved");
            for (kind, message) in CONDITIONS.into_iter().zip([message, image]) {
                set_condition(&mut object, &Condition { kind, status: problem.is_none(), reason, message }, &time(now));
            }
        }
        None => {
            if let Some(conditions) = object["status"]["conditions"].as_array_mut() {
                conditions.retain(|condition| !CONDITIONS.iter().any(|kind| condition["type"] == *kind));
            }
        }
    }
    object["status"].take()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn filled(template: &str, version: Option<&str>) -> Filled {
        let version = version.map(|version| KubernetesVersion::parse(version).unwrap());
        image(&json!({"metadata": {"annotations": {ANNOTATION: template}}}), version.as_ref()).unwrap()
    }

    /// OLM0-CAT-25 to OLM0-CAT-28: filled templates, and what is wrong with others.
    #[test]
    fn templates_are_filled_with_the_servers_version() {
        let good = filled("r.test/a/c:v{kube_major_version}.{kube_minor_version}", Some("v1.32.5+abc"));
        assert_eq!(good, Filled { image: "r.test/a/c:v1.32".into(), problem: None });
        assert_eq!(filled("r.test:5000/c:{kube_patch_version}", Some("v1.32.5")).image, "r.test:5000/c:5");
        let unknown = filled("r.test/c:v{kube_minor_version}.{kube_major_version}", None);
        assert_eq!(
            unknown.problem.as_deref(),
            Some(
                "cannot construct catalog image reference, because variable(s) \"{kube_minor_version}\", \"{kube_major_version}\" could not be resolved"
            )
        );
        let odd = filled("r.test/c:v{kube}", Some("v1.32.5"));
        assert_eq!(
            odd.problem.as_deref(),
            Some("cannot construct catalog image reference, because one or more template(s) has improper syntax")
        );
        let both = filled("r.test/c:v{kube}{kube_major_version}", None);
        assert_eq!(
            both.problem.as_deref(),
            Some(
                "cannot construct catalog image reference, because variable(s) \"{kube_major_version}\" could not be resolved and one or more template(s) has improper syntax"
            )
        );
        assert_eq!(image(&json!({"metadata": {}}), None), None);
    }

    /// OLM0-CAT-27: the conditions are there only while the annotation is.
    #[test]
    fn conditions_come_and_go_with_the_annotation() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let good = filled("r.test/c:v{kube_major_version}", Some("v1.32.5"));
        let with = status(&json!({}), Some(&good), now);
        assert_eq!(with["conditions"][0]["message"], "catalog image reference was successfully resolved");
        assert_eq!((&with["conditions"][1]["type"], &with["conditions"][1]["message"]), (&json!("ResolvedImage"), &json!("r.test/c:v1")));
        let without = status(&json!({"status": with}), None, now);
        assert_eq!(without["conditions"], json!([]));
    }
}
