//! The manifests with which a cluster begins (CVO-RUN-05): the operator's own, filled in, the policies that the first pulls need, and the pod that
//! applies everything else.
//!
//! Objects that must be there before the first image is pulled are taken from the release: its image policies. Everything else comes from the
//! operator itself, once its bootstrap pod runs.

use crate::capability::Capabilities;
use crate::files::{Files, Folder};
use crate::include::{Filter, Gates};
use crate::manifest;
use crate::payload::{LoadError, Problem, is_manifest};
use crate::template::{self, Values};

/// Own manifests that need kinds which no bootstrap has.
const LATER: [&str; 3] = [
    "0000_90_cluster-version-operator_00_prometheusrole.yaml",
    "0000_90_cluster-version-operator_01_prometheusrolebinding.yaml",
    "0000_90_cluster-version-operator_02_servicemonitor.yaml",
];
/// Feature sets in the names of files: their variants follow once the cluster runs.
const VARIANTS: [&str; 3] = ["CustomNoUpgrade", "TechPreviewNoUpgrade", "DevPreviewNoUpgrade"];
/// Kinds of the release that the first pulls need.
const POLICIES: [&str; 2] = ["ClusterImagePolicy", "ImagePolicy"];
/// The pod of a bootstrap.
const POD: &str = include_str!("bootstrap/pod.yaml");

/// The cluster that begins.
#[derive(Clone, Copy, Debug)]
pub struct Bootstrap<'a> {
    /// The pullspec of the release.
    pub image: &'a str,
    /// Its profile.
    pub profile: &'a str,
    /// Its feature set; empty for the default one.
    pub feature_set: &'a str,
    /// Its capabilities; `None` leaves out nothing.
    pub capabilities: Option<&'a Capabilities>,
}

impl Bootstrap<'_> {
    /// Renders the files, by their paths in the output folder.
    ///
    /// # Errors
    /// A template or a manifest of the release cannot be read.
    pub fn render(&self, files: &Files, place: &str) -> Result<Vec<(String, String)>, LoadError> {
        let values = Values { release_image: self.image, cluster_profile: self.profile };
        let filter = Filter {
            exclude_identifier: None,
            feature_set: Some(self.feature_set),
            profile: Some(self.profile),
            capabilities: self.capabilities,
            allow_unknown_capabilities: false,
            overrides: &[],
            gates: Gates::default(),
        };
        let (mut out, mut problems) = (Vec::new(), Vec::new());
        let begins = |name: &str| is_manifest(name) && !VARIANTS.iter().any(|variant| name.contains(variant));
        for (name, content) in files.in_folder(Folder::Operator).filter(|(name, _)| begins(name) && !LATER.contains(name)) {
            let text = String::from_utf8_lossy(content);
            match template::render(&text, values) {
                Ok(text) => out.push((format!("manifests/{name}"), text)),
                Err(error) => problems.push(Problem::Template { file: name.to_owned(), error }),
            }
        }
        for (name, content) in files.in_folder(Folder::Release).filter(|(name, _)| begins(name)) {
            let manifests = match manifest::parse(name, content) {
                Ok(manifests) => manifests,
                Err(error) => {
                    problems.push(Problem::Manifest { file: name.to_owned(), error });
                    continue;
                }
            };
            let needed = manifests.iter().filter(|manifest| {
                let id = manifest.id();
                id.group == "config.openshift.io" && POLICIES.contains(&&*id.kind) && filter.exclusion(manifest).is_none()
            });
            let documents: Vec<_> = needed.map(manifest::Manifest::raw).collect();
            if !documents.is_empty() {
                out.push((format!("manifests/{name}"), documents.join("\n---\n")));
            }
        }
        match template::render(POD, values) {
            Ok(text) => out.push(("bootstrap/bootstrap-pod.yaml".to_owned(), text)),
            Err(error) => problems.push(Problem::Template { file: "bootstrap-pod.yaml".to_owned(), error }),
        }
        if problems.is_empty() { Ok(out) } else { Err(LoadError::Manifests { place: place.to_owned(), problems, more: 0 }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(all: &[(&str, &str)]) -> Files {
        let mut files = Files::default();
        for (path, content) in all {
            files.add(path, content.as_bytes().to_vec()).unwrap_or_else(|error| panic!("{error}"));
        }
        files
    }

    fn policy(name: &str, annotations: &str) -> String {
        format!(
            r#"{{"apiVersion": "config.openshift.io/v1", "kind": "ClusterImagePolicy", "metadata": {{"name": "{name}", "annotations": {{{annotations}}}}}}}"#
        )
    }

    const PROFILE: &str = r#""include.release.openshift.io/self-managed-high-availability": "true""#;

    /// CVO-RUN-05: own manifests are filled in, monitoring and variants come later, of the release only policies that belong to the cluster are
    /// needed, and the pod starts the operator of this release.
    #[test]
    fn what_a_cluster_begins_with() {
        let preview = format!(r#"{PROFILE}, "release.openshift.io/feature-set": "TechPreviewNoUpgrade""#);
        let build = format!(r#"{PROFILE}, "capability.openshift.io/name": "Build""#);
        let (plain, preview, build) = (policy("plain", PROFILE), policy("preview", &preview), policy("build", &build));
        let files = files(&[
            ("manifests/0000_00_cluster-version-operator_03_deployment.yaml", "image: {{.ReleaseImage}}\nprofile: {{ .ClusterProfile }}\n"),
            ("manifests/0000_90_cluster-version-operator_02_servicemonitor.yaml", "kind: ServiceMonitor\n"),
            ("release-manifests/0000_10_policies.yaml", &format!("{plain}\n---\n{preview}\n---\n{build}\n")),
            ("release-manifests/0000_10_policies-TechPreviewNoUpgrade.yaml", &plain),
            ("release-manifests/0000_10_other.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"),
        ]);
        let none = Capabilities { enabled: std::iter::empty().collect(), ..Capabilities::all() };
        let bootstrap = Bootstrap {
            image: "registry.example/release@sha256:1",
            profile: "self-managed-high-availability",
            feature_set: "",
            capabilities: Some(&none),
        };
        let names = |bootstrap: &Bootstrap<'_>| -> Vec<(String, String)> {
            bootstrap.render(&files, "x").unwrap_or_else(|error| panic!("{error}"))
        };
        let rendered = names(&bootstrap);
        let paths: Vec<&str> = rendered.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "manifests/0000_00_cluster-version-operator_03_deployment.yaml",
                "manifests/0000_10_policies.yaml",
                "bootstrap/bootstrap-pod.yaml"
            ]
        );
        assert_eq!(rendered[0].1, "image: registry.example/release@sha256:1\nprofile: self-managed-high-availability\n");
        assert!(rendered[1].1.contains("\"plain\"") && !rendered[1].1.contains("preview") && !rendered[1].1.contains("\"build\""));
        assert!(rendered[2].1.contains("--release-image=registry.example/release@sha256:1"));
        let all = names(&Bootstrap { feature_set: "TechPreviewNoUpgrade", capabilities: None, ..bootstrap });
        assert!(["plain", "preview", "build"].iter().all(|name| all[1].1.contains(name)), "{}", all[1].1);
    }
}
