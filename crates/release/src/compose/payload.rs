//! The files of a new release: manifests of all operators under names of their own, `image-references`, `release-metadata`
//! (CVO-RELN-02, CVO-RELN-03).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::description::Description;
use super::error::{ComposeError, ManifestProblem, ReferencesProblem};
use super::inputs::{DISPLAY_NAMES, Inputs, VERSIONS};
use super::rewrite::{Images, Versions};
use crate::files::{Files, Folder};
use crate::info::{FileError, Tag, parse_versions, read_references};
use crate::manifest;
use crate::metadata::Metadata;
use crate::payload::is_manifest;

const REFERENCES: &str = "image-references";
const METADATA: &str = "release-metadata";
/// The beginning of a file name that has its place among those of all operators.
const ORDERED: &str = "0000_";
/// Many images carry this component; those that are published decide.
const KUBECTL: &str = "kubectl";
const KUBECTL_IMAGES: [&str; 2] = ["cli", "cli-artifacts"];
/// The component of which a release may have several versions.
const SEVERAL: &str = "machine-os";
/// The longest beginning of a file that a message repeats, in characters.
const SHOWN: usize = 30;

/// The manifests that one image or folder brings, by file name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operator {
    /// The name of the image.
    pub name: String,
    /// The files.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// The strictness of the checks of a new release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Images that stay although no manifest mentions them.
    pub include: BTreeSet<String>,
    /// An operator may mention images that the release does not have.
    pub allow_missing_images: bool,
    /// Manifests are not read.
    pub skip_manifest_check: bool,
}

/// A release that was made.
#[derive(Clone, Debug)]
pub struct Composed {
    /// Its files.
    pub files: Files,
    /// Operators that brought files.
    pub operators: usize,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Reads the versions of `--component-versions`, and those names that people see.
///
/// # Errors
/// They have another form.
pub fn check_component_versions(versions: &str, display_names: &str) -> Result<(), ComposeError> {
    parse_versions(versions, display_names).map(drop).map_err(ComposeError::ComponentVersions)
}

/// Forgets the images that no operator mentions, and returns what the user should know (CVO-RELN-03).
///
/// # Errors
/// The list of images of an operator cannot be read.
pub fn prune(inputs: &mut Inputs, operators: &[Operator], rules: &Rules) -> Result<Option<String>, ComposeError> {
    let lists = lists(operators)?;
    let mentioned: BTreeSet<&str> =
        lists.values().flat_map(|list| list["spec"]["tags"].as_array().into_iter().flatten()).map(|tag| Tag(tag).name()).collect();
    let own: BTreeSet<&str> = operators.iter().map(|operator| operator.name.as_str()).collect();
    let before = inputs.count();
    inputs.keep(|name| mentioned.contains(name) || own.contains(name) || rules.include.contains(name));
    let (kept, operators) = (inputs.count(), operators.len());
    Ok((kept != before).then(|| format!("info: Included {kept} images from {operators} input operators into the release")))
}

/// The lists of images that operators mention, by operator.
fn lists(operators: &[Operator]) -> Result<BTreeMap<&str, Value>, ComposeError> {
    let mut lists = BTreeMap::new();
    for operator in operators {
        if let Some(content) = operator.files.get(REFERENCES) {
            let problem = |error: FileError| ComposeError::References { operator: operator.name.clone(), cause: Box::new(error.into()) };
            lists.insert(operator.name.as_str(), read_references(content).map_err(problem)?);
        }
    }
    Ok(lists)
}

/// Makes the files of a release of the images that it is to have. The same inputs give the same files.
///
/// # Errors
/// A manifest or a list of images cannot be used, or clusters would refuse the release.
pub fn compose(inputs: &Inputs, mut operators: Vec<Operator>, description: &Description, rules: &Rules) -> Result<Composed, ComposeError> {
    operators.sort_by(|one, other| one.name.cmp(&other.name));
    let mut notes = Vec::new();
    let lists = lists(&operators)?;
    let text = description.text();
    Metadata::parse(text.as_bytes())?;
    let mut files = Files::default();
    let mut put = |name: &str, content: Vec<u8>| files.add(&format!("{}/{name}", Folder::Release.name()), content);
    put(REFERENCES, inputs.references_text(&description.version).into_bytes())?;
    put(METADATA, text.into_bytes())?;
    let expression = Versions::expression();
    let release = Versions::of_release(&description.version);
    let mut names = BTreeMap::<String, usize>::new();
    let mut count = 0;
    for operator in operators.iter().filter(|operator| !operator.files.is_empty()) {
        let rewriting = match lists.get(operator.name.as_str()) {
            None => Ok(Rewriting { images: None, versions: Versions { release: release.clone(), ..Versions::default() } }),
            Some(list) => Rewriting::new(inputs, list, release.clone(), rules, &mut notes),
        };
        let rewriting = rewriting.map_err(|cause| ComposeError::References { operator: operator.name.clone(), cause: Box::new(cause) })?;
        for (file, content) in operator.files.iter().filter(|(file, _)| *file != REFERENCES) {
            let place = || (operator.name.clone(), file.clone());
            if !rules.skip_manifest_check {
                check(file, content).map_err(|problem| {
                    let (operator, file) = place();
                    ComposeError::Manifest { operator, file, problem: Box::new(problem) }
                })?;
            }
            let failed = |error| {
                let (operator, file) = place();
                ComposeError::Rewrite { operator, file, error: Box::new(error) }
            };
            let images = rewriting.images.as_ref().map_or_else(|| content.as_slice().into(), |images| images.rewrite(content));
            let expression = expression.as_ref().map_err(|error| failed(error.clone()))?;
            let rewritten = rewriting.versions.rewrite(expression, &images).map_err(failed)?.into_owned();
            put(&unique(&mut names, &operator.name, file), rewritten)?;
        }
        count += 1;
    }
    if count == 0 {
        notes.push("warning: No operator metadata was found, no operators will be part of the release.".to_owned());
    }
    Ok(Composed { files, operators: count, notes })
}

/// The name of an operator's file in the release.
fn unique(names: &mut BTreeMap<String, usize>, operator: &str, file: &str) -> String {
    let mut name = if file.starts_with(ORDERED) { file.to_owned() } else { format!("{ORDERED}50_{operator}_{file}") };
    while let Some(count) = names.get_mut(&name) {
        *count += 1;
        let (stem, extension) = name.rfind('.').map_or((name.as_str(), ""), |at| name.split_at(at));
        name = format!("{stem}_{count}{extension}");
    }
    names.insert(name.clone(), 1);
    name
}

/// Refuses a manifest that no cluster can apply.
fn check(file: &str, content: &[u8]) -> Result<(), ManifestProblem> {
    if !is_manifest(file) {
        return Ok(());
    }
    let text = std::str::from_utf8(content).map_err(|error| ManifestProblem::Syntax(error.to_string()))?;
    for document in mainstay_yaml::stream(text) {
        let document = document.map_err(|error| ManifestProblem::Syntax(error.to_string()))?;
        match &document.value {
            Value::Null => {}
            Value::Object(object) => {
                let is_set = |field: &str| object.get(field).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
                if !is_set("kind") || !is_set("apiVersion") {
                    return Err(ManifestProblem::NoKind(document.line));
                }
            }
            _ => {
                let shown: String = text.chars().take(SHOWN).collect();
                let more = if shown.len() < text.len() { "..." } else { "" };
                return Err(ManifestProblem::NoObject(shown + more));
            }
        }
    }
    manifest::parse(file, content).map(drop).map_err(ManifestProblem::Refused)
}

/// The replacements in the manifests of one operator.
struct Rewriting {
    images: Option<Images>,
    versions: Versions,
}

impl Rewriting {
    /// Takes the list of images of an operator.
    fn new(
        inputs: &Inputs,
        list: &Value,
        release: Option<String>,
        rules: &Rules,
        notes: &mut Vec<String>,
    ) -> Result<Self, ReferencesProblem> {
        let mut images = BTreeMap::new();
        for tag in list["spec"]["tags"].as_array().into_iter().flatten().map(Tag) {
            let Some(source) = tag.image() else { continue };
            if source.is_empty() {
                return Err(ReferencesProblem::NoName(tag.name().to_owned()));
            }
            match inputs.image(tag.name()) {
                Some(target) => drop(images.insert(tag.name().to_owned(), (source.to_owned(), target.to_owned()))),
                None if rules.allow_missing_images => {}
                None => return Err(ReferencesProblem::NoImage(tag.name().to_owned())),
            }
        }
        let mut versions = Versions { release, ..Versions::default() };
        read_versions(&mut versions, inputs, |name| images.contains_key(name), notes)?;
        Ok(Self { images: Some(Images::new(&images)?), versions })
    }
}

/// Reads the versions of the images that an operator mentions.
fn read_versions(
    versions: &mut Versions,
    inputs: &Inputs,
    is_mentioned: impl Fn(&str) -> bool,
    notes: &mut Vec<String>,
) -> Result<(), ReferencesProblem> {
    let mut kubectl = BTreeSet::new();
    let mut found_in = BTreeMap::<String, (BTreeSet<String>, BTreeSet<String>)>::new();
    for tag in inputs.tags().filter(|tag| is_mentioned(tag.name())) {
        let label = tag.annotation(VERSIONS);
        let invalid = |error| ReferencesProblem::Label { tag: tag.name().to_owned(), label: label.to_owned(), error };
        for (component, found) in parse_versions(label, tag.annotation(DISPLAY_NAMES)).map_err(invalid)? {
            if component == KUBECTL {
                kubectl.insert(found.version.clone());
                if !KUBECTL_IMAGES.contains(&tag.name()) {
                    continue;
                }
            }
            let (values, holders) = found_in.entry(component.clone()).or_default();
            let known = versions.components.entry(component.clone()).or_insert_with(|| found.version.clone());
            if *known != found.version && component != SEVERAL {
                let (tag, known) = (tag.name().to_owned(), known.clone());
                let others = holders.iter().cloned().collect::<Vec<_>>().join(", ");
                return Err(ReferencesProblem::Versions { component, tag, version: found.version, known, others });
            }
            values.insert(found.version);
            holders.insert(tag.name().to_owned());
        }
    }
    // Images with the same version leave no doubt about it.
    let doubtful = found_in.into_iter().filter(|(_, (values, _))| values.len() > 1);
    versions.images = doubtful.map(|(component, (_, holders))| (component, holders)).collect();
    if kubectl.len() > 2 {
        let all = kubectl.into_iter().collect::<Vec<_>>().join(",");
        notes.push(format!("warning: input image stream has multiple versions defined for version kubectl for all the tags {all}"));
    }
    let defaults = parse_versions(inputs.annotation(VERSIONS), inputs.annotation(DISPLAY_NAMES)).map_err(ReferencesProblem::Defaults)?;
    for (component, found) in defaults {
        versions.components.entry(component).or_insert(found.version);
    }
    Ok(())
}
