//! Reading objects of any kind by the name of their resource, as discovery tells it.

use std::collections::HashMap;

use http::Request;
use mainstay_diagnostics::{Failure, FailureKind};
use serde_json::Value;

use super::layout::Target;
use crate::failure::refused;
use crate::session::Session;

/// The objects of one page.
const PAGE: u32 = 500;
/// The most objects of one list.
const MOST: usize = 20_000;

/// Kinds that the cluster serves, as far as it was asked for them.
#[derive(Default)]
pub struct Served {
    groups: HashMap<String, Vec<Resource>>,
    names: Option<Vec<String>>,
}

/// A resource of a group, in the preferred version that has it.
#[derive(Clone)]
struct Resource {
    /// The path of the version.
    root: String,
    /// `GROUP/VERSION`.
    version: String,
    /// The answer of discovery about it.
    told: Value,
}

impl Resource {
    fn name(&self) -> &str {
        self.told["name"].as_str().unwrap_or_default()
    }

    fn path(&self, namespace: &str) -> String {
        let (root, name) = (&self.root, self.name());
        if namespace.is_empty() { format!("{root}/{name}") } else { format!("{root}/namespaces/{namespace}/{name}") }
    }

    /// Returns true if users call it so: its name, its singular, its kind or a short name.
    fn is_called(&self, word: &str) -> bool {
        let matches = |field: &str| self.told[field].as_str().is_some_and(|name| name.eq_ignore_ascii_case(word));
        let short = self.told["shortNames"].as_array().into_iter().flatten().any(|name| *name == word);
        matches("name") || matches("singularName") || matches("kind") || short
    }

    fn is_listed(&self) -> bool {
        self.told["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|verb| verb == "list"))
    }
}

impl Served {
    /// Reads JSON at a path.
    pub async fn raw(&self, session: &Session, path: &str) -> Result<Value, Failure> {
        let request = Request::get(path).body(Vec::new()).map_err(|error| Failure::failed(path, &error))?;
        session.client.request(request).await.map_err(|error| refused(path, &error))
    }

    /// Reads text at a path.
    pub async fn text(&self, session: &Session, path: &str) -> Result<String, Failure> {
        let request = Request::get(path).body(Vec::new()).map_err(|error| Failure::failed(path, &error))?;
        let subject = path.split('?').next().unwrap_or_default();
        session.client.request_text(request).await.map_err(|error| refused(subject, &error))
    }

    /// Returns the resources of a group; none if it is not served.
    async fn group(&mut self, session: &Session, group: &str) -> Result<Vec<Resource>, Failure> {
        if let Some(known) = self.groups.get(group) {
            return Ok(known.clone());
        }
        let found = self.read_group(session, group).await?;
        self.groups.insert(group.to_owned(), found.clone());
        Ok(found)
    }

    /// Reads all versions of a group, the preferred one first: a resource need not be in each.
    async fn read_group(&self, session: &Session, group: &str) -> Result<Vec<Resource>, Failure> {
        let mut versions = vec![("/api/v1".to_owned(), "v1".to_owned())];
        if !group.is_empty() {
            let told = match self.raw(session, &format!("/apis/{group}")).await {
                Ok(told) => told,
                Err(failure) if failure.kind() == FailureKind::NotFound => return Ok(Vec::new()),
                Err(failure) => return Err(failure),
            };
            let preferred = told["preferredVersion"]["groupVersion"].as_str();
            let others = told["versions"].as_array().into_iter().flatten().filter_map(|version| version["groupVersion"].as_str());
            let others = others.filter(|version| Some(*version) != preferred);
            versions = preferred.into_iter().chain(others).map(|version| (format!("/apis/{version}"), version.to_owned())).collect();
        }
        let mut all: Vec<Resource> = Vec::new();
        for (root, version) in versions {
            let told = self.raw(session, &root).await?;
            for one in told["resources"].as_array().into_iter().flatten() {
                let name = one["name"].as_str().unwrap_or_default();
                if !name.contains('/') && !all.iter().any(|known| known.name() == name) {
                    all.push(Resource { root: root.clone(), version: version.clone(), told: one.clone() });
                }
            }
        }
        Ok(all)
    }

    async fn group_names(&mut self, session: &Session) -> Result<Vec<String>, Failure> {
        if let Some(known) = &self.names {
            return Ok(known.clone());
        }
        let told = self.raw(session, "/apis").await?;
        let groups = told["groups"].as_array().into_iter().flatten().filter_map(|group| group["name"].as_str());
        let names: Vec<String> = std::iter::once(String::new()).chain(groups.map(str::to_owned)).collect();
        self.names = Some(names.clone());
        Ok(names)
    }

    /// Returns the namespaced resources of a group that can be listed.
    pub async fn namespaced(&mut self, session: &Session, group: &str) -> Result<Vec<String>, Failure> {
        let all = self.group(session, group).await?;
        Ok(all.iter().filter(|one| one.told["namespaced"] == true && one.is_listed()).map(|one| one.name().to_owned()).collect())
    }

    /// Lists the objects of a resource, in a namespace or everywhere; none if it is not served.
    pub async fn list(&mut self, session: &Session, group: &str, resource: &str, namespace: &str) -> Result<Vec<Value>, Failure> {
        let found = self.group(session, group).await?;
        match found.iter().find(|one| one.name() == resource) {
            Some(resource) => self.pages(session, resource, namespace).await,
            None => Ok(Vec::new()),
        }
    }

    async fn pages(&self, session: &Session, resource: &Resource, namespace: &str) -> Result<Vec<Value>, Failure> {
        let base = resource.path(namespace);
        let (mut all, mut token) = (Vec::new(), String::new());
        loop {
            let page = self.raw(session, &format!("{base}?limit={PAGE}{token}")).await?;
            for item in page["items"].as_array().into_iter().flatten() {
                let mut item = item.clone();
                // The items of a list do not say what they are.
                item["apiVersion"] = Value::String(resource.version.clone());
                item["kind"] = resource.told["kind"].clone();
                all.push(item);
            }
            match page.pointer("/metadata/continue").and_then(Value::as_str).filter(|token| !token.is_empty()) {
                Some(next) if all.len() < MOST => {
                    token = format!("&continue={}", next.replace('%', "%25").replace('+', "%2B").replace('=', "%3D"));
                }
                _ => return Ok(all),
            }
        }
    }

    /// Reads the objects of a target, with its resource as the cluster names it.
    ///
    /// # Errors
    /// The cluster has no such resource or object, or does not hand it out.
    pub async fn get(&mut self, session: &Session, target: &Target) -> Result<(Target, Vec<Value>), Failure> {
        let groups = match &target.group {
            Some(group) => vec![group.clone()],
            None => self.group_names(session).await?,
        };
        for group in groups {
            let found = self.group(session, &group).await?;
            let Some(resource) = found.iter().find(|one| one.is_called(&target.resource)) else { continue };
            let namespace = if resource.told["namespaced"] == true { target.namespace.clone() } else { String::new() };
            let exact = Target {
                group: Some(group),
                resource: resource.name().to_owned(),
                namespace: namespace.clone(),
                name: target.name.clone(),
            };
            if target.name.is_empty() {
                let all = self.pages(session, resource, &namespace).await?;
                return Ok((exact, all));
            }
            return match self.raw(session, &format!("{}/{}", resource.path(&namespace), target.name)).await {
                Ok(object) => Ok((exact, vec![object])),
                Err(failure) if failure.kind() == FailureKind::NotFound => {
                    Err(Failure::new(FailureKind::NotFound, exact.to_string(), "not found"))
                }
                Err(failure) => Err(failure),
            };
        }
        Err(Failure::new(FailureKind::NotFound, format!("resource {}", target.resource), "the cluster has no such resource")
            .hint("kubectl api-resources lists them"))
    }
}
