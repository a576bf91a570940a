//! The images that a bundle names, and the places that name them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::bundle::Bundle;

/// A place that names an image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Named {
    /// The bundle's own image.
    Bundle,
    /// A container of a deployment.
    Container {
        /// The deployment.
        deployment: String,
        /// The container.
        container: String,
    },
    /// A container that runs before the others.
    InitContainer {
        /// The deployment.
        deployment: String,
        /// The container.
        container: String,
    },
    /// A variable `RELATED_IMAGE_...` of a container.
    Variable {
        /// The deployment.
        deployment: String,
        /// The variable.
        variable: String,
    },
    /// An entry of `spec.relatedImages`.
    Related {
        /// The author's name for it; may be empty.
        name: String,
    },
    /// The annotation `containerImage`, which consoles show.
    Annotation,
}

impl std::fmt::Display for Named {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bundle => out.write_str("the bundle itself"),
            Self::Container { deployment, container } => write!(out, "deployment {deployment}, container {container}"),
            Self::InitContainer { deployment, container } => write!(out, "deployment {deployment}, init container {container}"),
            Self::Variable { deployment, variable } => write!(out, "deployment {deployment}, variable {variable}"),
            Self::Related { name } if name.is_empty() => out.write_str("relatedImages"),
            Self::Related { name } => write!(out, "relatedImages {name}"),
            Self::Annotation => out.write_str("annotation containerImage"),
        }
    }
}

/// An image and every place that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageUse {
    /// The reference as written.
    pub image: String,
    /// The places, each once.
    pub named: Vec<Named>,
    /// True if the image is listed where mirroring tools look, as a disconnected cluster needs it.
    pub mirrored: bool,
}

impl ImageUse {
    /// The tag, if there is one.
    pub fn tag(&self) -> Option<&str> {
        let name = self.image.split('@').next().unwrap_or_default();
        let last = name.rsplit('/').next().unwrap_or_default();
        last.split_once(':').map(|(_, tag)| tag)
    }

    /// The digest, if there is one.
    pub fn digest(&self) -> Option<&str> {
        self.image.split_once('@').map(|(_, digest)| digest)
    }

    /// The image without tag and digest.
    pub fn repository(&self) -> &str {
        repository(&self.image)
    }

    /// The image in its JSON form: `{image, repository, tag, digest, mirrored, named}`.
    pub fn to_json(&self) -> Value {
        let named: Vec<String> = self.named.iter().map(ToString::to_string).collect();
        json!({
            "image": self.image,
            "repository": self.repository(),
            "tag": self.tag(),
            "digest": self.digest(),
            "mirrored": self.mirrored,
            "named": named,
        })
    }
}

/// An image without tag and digest.
pub(crate) fn repository(image: &str) -> &str {
    let name = image.split('@').next().unwrap_or_default();
    let last = name.rfind('/').map_or(0, |slash| slash + 1);
    name[last..].find(':').map_or(name, |colon| &name[..last + colon])
}

impl Bundle {
    /// Every image that the bundle names, sorted; `own` is the bundle's own image, if it has one. The entries of a catalog list the
    /// containers' images beside `spec.relatedImages`; variables are listed only if the author listed them, too.
    pub fn images(&self, own: Option<&str>) -> Vec<ImageUse> {
        let mut found: BTreeMap<String, Vec<Named>> = BTreeMap::new();
        let mut add = |image: &str, named: Named| {
            let places = found.entry(image.to_owned()).or_default();
            if !image.is_empty() && !places.contains(&named) {
                places.push(named);
            }
        };
        if let Some(own) = own {
            add(own, Named::Bundle);
        }
        for deployment in &self.csv.deployments {
            let pod = &deployment.spec["template"]["spec"];
            for (list, init) in [("containers", false), ("initContainers", true)] {
                for container in pod[list].as_array().into_iter().flatten() {
                    let (deployment, name) = (deployment.name.clone(), text(&container["name"]));
                    for variable in container["env"].as_array().into_iter().flatten() {
                        let key = text(&variable["name"]);
                        if key.starts_with("RELATED_IMAGE_") {
                            add(&text(&variable["value"]), Named::Variable { deployment: deployment.clone(), variable: key });
                        }
                    }
                    let named = if init {
                        Named::InitContainer { deployment, container: name }
                    } else {
                        Named::Container { deployment, container: name }
                    };
                    add(&text(&container["image"]), named);
                }
            }
        }
        for related in &self.csv.related_images {
            add(&related.image, Named::Related { name: related.name.clone() });
        }
        if let Some(image) = self.csv.annotations.get("containerImage") {
            add(image.trim(), Named::Annotation);
        }
        let listed = |named: &Named| !matches!(named, Named::Variable { .. } | Named::Annotation);
        let used = found.into_iter().filter(|(image, named)| !image.is_empty() && !named.is_empty());
        used.map(|(image, named)| ImageUse { mirrored: named.iter().any(listed), image, named }).collect()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_references() {
        for (image, repository, tag, digest) in [
            ("quay.io/a/b:v1", "quay.io/a/b", Some("v1"), None),
            ("host:5000/a", "host:5000/a", None, None),
            ("host:5000/a:t@sha256:12", "host:5000/a", Some("t"), Some("sha256:12")),
            ("a@sha256:12", "a", None, Some("sha256:12")),
        ] {
            let used = ImageUse { image: image.to_owned(), named: Vec::new(), mirrored: true };
            assert_eq!((used.repository(), used.tag(), used.digest()), (repository, tag, digest), "{image}");
        }
    }
}
