//! Reading objects of any kind by the name of their resource, as discovery tells it.

use std::collections::HashMap;

use http::Request;
use mainstay_diagnostics::Failure;
use serde_json::Value;

use super::layout::Target;
use crate::failure::refused;
use crate::session::Session;

/// The objects of one page.
const PAGE: u32 = 500;
/// The most objects of one list.
const MOST: usize = 20_000;

/// What the cluster serves, as far as it was asked for.
#[derive(Default)]
pub struct Served {
    groups: HashMap<String, Option<Resources>>,
    names: Option<Vec<String>>,
}

/// The resources of a group in its preferred version.
#[derive(Clone)]
struct Resources {
    root: String,
    version: String,
    all: Vec<Value>,
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

    /// Returns the resources of a group; `None` if it is not served.
    async fn group(&mut self, session: &Session, group: &str) -> Result<Option<Resources>, Failure> {
        if let Some(known) = self.groups.get(group) {
            return Ok(known.clone());
        }
        let found = self.read_group(session, group).await?;
        self.groups.insert(group.to_owned(), found.clone());
        Ok(found)
    }

    async fn read_group(&self, session: &Session, group: &str) -> Result<Option<Resources>, Failure> {
        let version = if group.is_empty() {
            "v1".to_owned()
        } else {
            match self.raw(session, &format!("/apis/{group}")).await {
                Ok(told) => told.pointer("/preferredVersion/version").and_then(Value::as_str).unwrap_or("v1").to_owned(),
                Err(failure) if failure.kind() == mainstay_diagnostics::FailureKind::NotFound => return Ok(None),
                Err(failure) => return Err(failure),
            }
        };
        let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let told = self.raw(session, &root).await?;
        let all = told["resources"].as_array().into_iter().flatten();
        let all = all.filter(|one| one["name"].as_str().is_some_and(|name| !name.contains('/'))).cloned().collect();
        let version = if group.is_empty() { version } else { format!("{group}/{version}") };
        Ok(Some(Resources { root, version, all }))
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
        let found = self.group(session, group).await?;
        let all = found.map(|found| found.all).unwrap_or_default();
        let lists = |one: &&Value| one["namespaced"] == true && one["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|verb| verb == "list"));
        Ok(all.iter().filter(lists).filter_map(|one| one["name"].as_str().map(str::to_owned)).collect())
    }

    /// Lists the objects of a resource, in a namespace or everywhere; `None` if it is not served.
    pub async fn list(&mut self, session: &Session, group: &str, resource: &str, namespace: &str) -> Result<Option<Vec<Value>>, Failure> {
        let Some(found) = self.group(session, group).await? else { return Ok(None) };
        let Some(told) = found.all.iter().find(|one| one["name"] == resource) else { return Ok(None) };
        let root = &found.root;
        let base = if namespace.is_empty() { format!("{root}/{resource}") } else { format!("{root}/namespaces/{namespace}/{resource}") };
        let (mut all, mut token) = (Vec::new(), String::new());
        loop {
            let page = self.raw(session, &format!("{base}?limit={PAGE}{token}")).await?;
            for item in page["items"].as_array().into_iter().flatten() {
                let mut item = item.clone();
                // The items of a list do not say what they are.
                item["apiVersion"] = Value::String(found.version.clone());
                item["kind"] = told["kind"].clone();
                all.push(item);
            }
            match page.pointer("/metadata/continue").and_then(Value::as_str).filter(|token| !token.is_empty()) {
                Some(next) if all.len() < MOST => token = format!("&continue={}", next.replace('%', "%25").replace('+', "%2B").replace('=', "%3D")),
                _ => return Ok(Some(all)),
            }
        }
    }

    /// Reads the objects of a target, with its resource as the cluster names it. `None` if there is none.
    pub async fn get(&mut self, session: &Session, target: &Target) -> Result<Option<(Target, Vec<Value>)>, Failure> {
        let groups = match &target.group {
            Some(group) => vec![group.clone()],
            None => self.group_names(session).await?,
        };
        for group in groups {
            let Some(found) = self.group(session, &group).await? else { continue };
            let is = |one: &&Value| {
                let matches = |field: &str| one[field].as_str().is_some_and(|name| name.eq_ignore_ascii_case(&target.resource));
                let short = one["shortNames"].as_array().into_iter().flatten().any(|name| *name == target.resource.as_str());
                matches("name") || matches("singularName") || matches("kind") || short
            };
            let Some(told) = found.all.iter().find(is) else { continue };
            let resource = told["name"].as_str().unwrap_or_default().to_owned();
            let namespace = if told["namespaced"] == true { target.namespace.clone() } else { String::new() };
            let exact = Target { group: Some(group.clone()), resource: resource.clone(), namespace: namespace.clone(), name: target.name.clone() };
            if target.name.is_empty() {
                let all = self.list(session, &group, &resource, &namespace).await?.unwrap_or_default();
                return Ok(Some((exact, all)));
            }
            let root = &found.root;
            let base = if namespace.is_empty() { format!("{root}/{resource}") } else { format!("{root}/namespaces/{namespace}/{resource}") };
            return match self.raw(session, &format!("{base}/{}", target.name)).await {
                Ok(object) => Ok(Some((exact, vec![object]))),
                Err(failure) if failure.kind() == mainstay_diagnostics::FailureKind::NotFound => Ok(None),
                Err(failure) => Err(failure),
            };
        }
        Ok(None)
    }
}
