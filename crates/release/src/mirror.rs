//! Mirrors of releases: targets of the images, and what a cluster must be told to use them (CVO-RELM-01, CVO-RELM-02, CVO-RELM-06).
//!
//! ```text
//!   image-references ── plan(Destination, version, architecture) ── Plan { release, images, repositories }
//!   repositories, mirrors ── instructions ── install-config section, ImageDigestMirrorSet or ImageContentSourcePolicy
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::metadata::ImageReferences;
use crate::signature::ReleaseDigest;

const COMPONENT: &str = "${component}";
const VERSION: &str = "${version}";
/// The most characters of a hash in the name of a signature's file.
const MAX_HASH: usize = 16;

/// A mirror that cannot be planned, in `oc`'s words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MirrorError {
    /// The destination names an image instead of a repository.
    #[error("--to must be to an image repository and may not contain a tag or digest")]
    Versioned,
    /// The destination spreads images over repositories, so that their pull specs would change.
    #[error("when mirroring to multiple repositories, use the new release command with --from-release and --mirror")]
    Repositories,
    /// An image of the release is not named by digest.
    #[error("image-references should only contain pointers to images by digest: {0}")]
    NoDigest(String),
}

/// The repository that images are mirrored to, or a pattern with `${component}` and `${version}` in its tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    text: String,
}

/// One image to copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its name in the release; none for the release itself.
    pub component: Option<String>,
    /// Its pull spec by digest.
    pub source: String,
    /// The digest, which stays the same.
    pub digest: String,
    /// Its target with a tag.
    pub target: String,
}

/// The copies of a mirror, in the order of the release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The release; none if it is not to be copied.
    pub release: Option<Mapping>,
    /// The images that it names.
    pub images: Vec<Mapping>,
    /// The repositories that the images come from.
    pub repositories: BTreeSet<String>,
    /// The pull spec of the mirrored release.
    pub update_image: String,
}

/// The release that is mirrored.
#[derive(Clone, Copy, Debug)]
pub struct Mirrored<'a> {
    /// Its pull spec by digest, or its name in a directory.
    pub source: &'a str,
    /// Its digest.
    pub digest: &'a str,
    /// Its processors as Go names them, `multi` for a list of platforms that is kept, none if they are not known.
    pub architecture: Option<&'a str>,
}

/// The target of the release itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseTarget<'a> {
    /// The destination, as for the other images.
    Destination,
    /// Another image.
    Image(&'a str),
    /// None: it is not copied.
    Skipped,
}

/// The configuration of clusters that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instructions {
    /// An `ImageContentSourcePolicy`, which older clusters need.
    Icsp,
    /// An `ImageDigestMirrorSet`.
    Idms,
}

impl Destination {
    /// Reads a destination.
    ///
    /// # Errors
    /// It has a tag or digest of its own, or a pattern that leads to several repositories.
    pub fn parse(text: &str) -> Result<Self, MirrorError> {
        let name = text.rsplit_once('/').map_or(text, |(_, name)| name);
        match text.matches(COMPONENT).count() {
            // The first part of a path may have a port.
            0 if text.contains('@') || text.contains('/') && name.contains(':') => Err(MirrorError::Versioned),
            0 => Ok(Self { text: text.to_owned() }),
            1 if name.split_once(':').is_some_and(|(_, tag)| tag.contains(COMPONENT)) => Ok(Self { text: text.to_owned() }),
            _ => Err(MirrorError::Repositories),
        }
    }

    /// Returns true if it is a repository, and no pattern.
    pub fn is_repository(&self) -> bool {
        !self.text.contains(COMPONENT)
    }

    /// The target of an image of the release; of the release itself without a component.
    fn of(&self, version: &str, suffix: &str, component: Option<&str>) -> String {
        if self.is_repository() {
            let component = component.map(|component| format!("-{component}")).unwrap_or_default();
            return format!("{}:{version}{suffix}{component}", self.text);
        }
        self.text.replace(COMPONENT, component.unwrap_or("release")).replace(VERSION, version) + suffix
    }
}

/// Plans the copies of a release.
///
/// # Errors
/// An image of the release is not named by digest.
pub fn plan(
    references: &ImageReferences,
    mirrored: Mirrored<'_>,
    destination: &Destination,
    release: ReleaseTarget<'_>,
) -> Result<Plan, MirrorError> {
    let suffix = mirrored.architecture.map(|name| format!("-{}", architecture(name))).unwrap_or_default();
    let target = |component| destination.of(&references.name, &suffix, component);
    let mut plan = Plan { release: None, images: Vec::new(), repositories: BTreeSet::new(), update_image: target(None) };
    let own = match release {
        ReleaseTarget::Destination => Some(target(None)),
        ReleaseTarget::Image(image) => Some(image.to_owned()),
        ReleaseTarget::Skipped => None,
    };
    if let Some(target) = own {
        plan.update_image.clone_from(&target);
        let (source, digest) = (mirrored.source.to_owned(), mirrored.digest.to_owned());
        plan.release = Some(Mapping { component: None, source, digest, target });
    }
    for image in references.images.iter().filter(|image| !image.image.is_empty()) {
        let parts = image.image.split_once('@').filter(|(name, _)| repository(name) == *name);
        let (name, digest) = parts.ok_or_else(|| MirrorError::NoDigest(image.image.clone()))?;
        plan.repositories.insert(name.to_owned());
        plan.images.push(Mapping {
            component: Some(image.name.clone()),
            source: image.image.clone(),
            digest: digest.to_owned(),
            target: target(Some(&image.name)),
        });
    }
    Ok(plan)
}

/// Returns an image's repository: its pull spec without tag and digest.
pub fn repository(image: &str) -> &str {
    let image = image.split_once('@').map_or(image, |(name, _)| name);
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
}

/// The name that a release's tags have for processors.
fn architecture(go: &str) -> &str {
    match go {
        "amd64" => "x86_64",
        "arm64" => "aarch64",
        other => other,
    }
}

/// The name of the file with the signatures of a release.
pub fn signature_file(digest: &ReleaseDigest) -> String {
    let (algorithm, hash) = digest.as_str().split_once(':').unwrap_or((digest.as_str(), ""));
    // A hash is ASCII, by the syntax of digests.
    format!("signature-{algorithm}-{}.json", &hash[..hash.len().min(MAX_HASH)])
}

/// Returns what is to be added to an install-config and created on a cluster so that both use the mirrors; empty if nothing is mirrored.
pub fn instructions(kind: Instructions, repositories: &BTreeSet<String>, mirrors: &[String]) -> String {
    let mut sets: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for source in repositories {
        let all = sets.entry(source).or_default();
        for mirror in mirrors.iter().map(|mirror| repository(mirror)) {
            if !all.contains(&mirror) {
                all.push(mirror);
            }
        }
    }
    if sets.is_empty() {
        return String::new();
    }
    let (section, api_version, name, field) = match kind {
        Instructions::Icsp => {
            ("imageContentSources", "operator.openshift.io/v1alpha1", "ImageContentSourcePolicy", "repositoryDigestMirrors")
        }
        Instructions::Idms => ("imageDigestSources", "config.openshift.io/v1", "ImageDigestMirrorSet", "imageDigestMirrors"),
    };
    format!(
        "\nTo use the new mirrored repository to install, add the following section to the install-config.yaml:\n\n\
         {section}:\n{}\n\n\
         To use the new mirrored repository for upgrades, use the following to create an {name}:\n\n\
         apiVersion: {api_version}\nkind: {name}\nmetadata:\n  name: example\nspec:\n  {field}:\n{}",
        entries(&sets, ""),
        entries(&sets, "  "),
    )
}

/// The mirrors as a YAML list. Names of repositories hold nothing that YAML would have to quote.
fn entries(sets: &BTreeMap<&str, Vec<&str>>, indent: &str) -> String {
    let mut text = String::new();
    for (source, mirrors) in sets {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{indent}- mirrors:");
        for mirror in mirrors {
            let _ = writeln!(text, "{indent}  - {mirror}");
        }
        let _ = writeln!(text, "{indent}  source: {source}");
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::metadata::ImageReference;

    fn references(images: &[(&str, &str)]) -> ImageReferences {
        let image = |(name, image): &(&str, &str)| ImageReference {
            name: (*name).to_owned(),
            image: (*image).to_owned(),
            annotations: BTreeMap::new(),
        };
        ImageReferences { name: "4.19.1".to_owned(), created: None, images: images.iter().map(image).collect() }
    }

    fn targets(destination: &str, architecture: Option<&str>, release: ReleaseTarget<'_>) -> Vec<String> {
        let references = references(&[("cli", "q.test:5000/o/art@sha256:aa"), ("none", "")]);
        let mirrored = Mirrored { source: "q.test/o/release@sha256:ff", digest: "sha256:ff", architecture };
        let plan = plan(&references, mirrored, &Destination::parse(destination).unwrap(), release).unwrap();
        assert_eq!(plan.repositories, BTreeSet::from(["q.test:5000/o/art".to_owned()]));
        let all = plan.release.into_iter().chain(plan.images).map(|mapping| format!("{} {}", mapping.digest, mapping.target));
        all.chain([plan.update_image]).collect()
    }

    /// CVO-RELM-01: tags of the release and its images, by architecture, by pattern, and with another place for the release.
    #[test]
    fn tags() {
        let all = ReleaseTarget::Destination;
        for (destination, architecture, release, expected) in [
            ("m.test/o/r", Some("amd64"), all, ["sha256:ff m.test/o/r:4.19.1-x86_64", "sha256:aa m.test/o/r:4.19.1-x86_64-cli"]),
            ("m.test/o/r", Some("arm64"), all, ["sha256:ff m.test/o/r:4.19.1-aarch64", "sha256:aa m.test/o/r:4.19.1-aarch64-cli"]),
            ("m.test:5000/r", Some("multi"), all, ["sha256:ff m.test:5000/r:4.19.1-multi", "sha256:aa m.test:5000/r:4.19.1-multi-cli"]),
            ("m.test/r", None, all, ["sha256:ff m.test/r:4.19.1", "sha256:aa m.test/r:4.19.1-cli"]),
            ("m.test/r:v${version}-${component}", None, all, ["sha256:ff m.test/r:v4.19.1-release", "sha256:aa m.test/r:v4.19.1-cli"]),
            (
                "m.test/r",
                Some("s390x"),
                ReleaseTarget::Image("m.test/x:1"),
                ["sha256:ff m.test/x:1", "sha256:aa m.test/r:4.19.1-s390x-cli"],
            ),
        ] {
            assert_eq!(targets(destination, architecture, release)[..2], expected, "{destination}");
        }
        assert_eq!(
            targets("m.test/r", Some("ppc64le"), ReleaseTarget::Skipped),
            ["sha256:aa m.test/r:4.19.1-ppc64le-cli", "m.test/r:4.19.1-ppc64le"]
        );
    }

    /// CVO-RELM-01: destinations and releases that are refused.
    #[test]
    fn refusals() {
        for (text, expected) in [
            ("m.test/o/r:1", MirrorError::Versioned),
            ("m.test/o/r@sha256:aa", MirrorError::Versioned),
            ("m.test/o/${component}", MirrorError::Repositories),
            ("m.test/o/${component}:${component}", MirrorError::Repositories),
        ] {
            assert_eq!(Destination::parse(text), Err(expected), "{text}");
        }
        let mirrored = Mirrored { source: "a@sha256:ff", digest: "sha256:ff", architecture: None };
        for image in ["q.test/a:1", "q.test/a:1@sha256:aa", "q.test/a"] {
            let refused = plan(&references(&[("a", image)]), mirrored, &Destination::parse("m.test/r").unwrap(), ReleaseTarget::Skipped);
            assert_eq!(refused, Err(MirrorError::NoDigest(image.to_owned())));
        }
    }

    /// CVO-RELM-06: the name of the file with the signatures.
    #[test]
    fn signature_files() {
        for (digest, expected) in
            [("sha256:0123456789abcdef0123", "signature-sha256-0123456789abcdef.json"), ("sha256:ab", "signature-sha256-ab.json")]
        {
            assert_eq!(signature_file(&ReleaseDigest::parse(digest).unwrap()), expected);
        }
    }

    /// CVO-RELM-02: what clusters and installers are to be told; several mirrors of one repository, each once.
    #[test]
    fn what_clusters_are_told() {
        let repositories = BTreeSet::from(["q.test/o/release".to_owned(), "q.test/o/art".to_owned()]);
        let mirrors = ["m.test:5000/o/r".to_owned(), "m.test:5000/o/r".to_owned(), "m.test/x:1".to_owned()];
        let list = |indent: &str| {
            let one = |source: &str| {
                format!("{indent}- mirrors:\n{indent}  - m.test:5000/o/r\n{indent}  - m.test/x\n{indent}  source: q.test/o/{source}\n")
            };
            one("art") + &one("release")
        };
        let expected = |section: &str, group: &str, kind: &str, field: &str| {
            let (install, cluster) = (list(""), list("  "));
            format!(
                "\nTo use the new mirrored repository to install, add the following section to the install-config.yaml:\n\n\
                 {section}:\n{install}\n\nTo use the new mirrored repository for upgrades, use the following to create an {kind}:\n\n\
                 apiVersion: {group}\nkind: {kind}\nmetadata:\n  name: example\nspec:\n  {field}:\n{cluster}"
            )
        };
        let idms = expected("imageDigestSources", "config.openshift.io/v1", "ImageDigestMirrorSet", "imageDigestMirrors");
        assert_eq!(instructions(Instructions::Idms, &repositories, &mirrors), idms);
        let group = "operator.openshift.io/v1alpha1";
        let icsp = expected("imageContentSources", group, "ImageContentSourcePolicy", "repositoryDigestMirrors");
        assert_eq!(instructions(Instructions::Icsp, &repositories, &mirrors), icsp);
        assert_eq!(instructions(Instructions::Idms, &BTreeSet::new(), &mirrors), "");
    }
}
