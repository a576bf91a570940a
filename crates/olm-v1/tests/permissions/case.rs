//! A bundle as it is installed, the permissions for it, and the ways to take them away.

use mainstay_api::olm_v1::ClusterExtension;
use mainstay_bundle::permissions::Grant;
use mainstay_bundle::{Bundle, CertificateProvider, RenderOptions, render};
use mainstay_lifecycle::object;
use mainstay_lifecycle::preflight::Report;
use mainstay_objects::{Owner, install_order};
use mainstay_olm_v1_core::extension;
use mainstay_olm_v1_core::extension::permissions::{self, Installer};
use mainstay_olm_v1_core::extension::plan::lacking;
use mainstay_rbac::{PolicyIndex, PolicyRule, RBAC_GROUP, UserInfo};
use mainstay_testing::bundles;
use serde_json::{Value, json};

use super::requests::{address, concerns, has, is_role};
use crate::support::extension_object;

/// A bundle as it is installed, and the permissions for it.
pub struct Case {
    pub name: String,
    pub extension: String,
    pub work: String,
    pub watched: String,
    pub objects: Vec<Value>,
    pub grants: Vec<Grant>,
}

impl Case {
    /// Renders a bundle in the first mode that it supports; `None` where it cannot be read or rendered.
    pub fn of(name: &str, files: &bundles::Files, number: usize, uid: &str) -> Option<Self> {
        let bundle = Bundle::read(files).ok()?;
        let (extension, work, watched) = (format!("e{number}"), format!("work-{number}"), format!("watched-{number}"));
        let targets = if bundle.csv.supports("AllNamespaces") {
            None
        } else if bundle.csv.supports("SingleNamespace") {
            Some(vec![watched.clone()])
        } else {
            Some(vec![work.clone()])
        };
        let options = RenderOptions {
            install_namespace: work.clone(),
            target_namespaces: targets,
            certificates: CertificateProvider::OpenshiftServiceCa,
            deployment: None,
        };
        let rendered = render(&bundle, &options).ok()?;
        let mut definition = extension_object(&extension, "p", &work);
        definition["metadata"]["uid"] = json!(uid);
        let owner: Owner = extension::owner(&serde_json::from_value::<ClusterExtension>(definition).unwrap());
        let mut objects: Vec<Value> = rendered.into_iter().map(|object| object::owned(object, &owner)).collect();
        install_order(&mut objects);
        let grants = permissions::needed(&objects, &extension);
        Some(Self { name: name.to_owned(), extension, work, watched, objects, grants })
    }

    pub fn installer(&self) -> Installer {
        Installer { extension: self.extension.clone(), service_account: "installer".to_owned(), namespace: self.work.clone() }
    }

    pub fn user(&self) -> UserInfo {
        UserInfo::service_account(&self.work, "installer")
    }

    /// What the preflight says when these permissions are granted in a cluster with this policy.
    pub fn preflight(&self, grants: &[Grant], cluster: &PolicyIndex) -> Report {
        let mut policy = cluster.clone();
        for object in permissions::manifests(grants, &self.installer()).iter().filter(|object| object["kind"] != "ServiceAccount") {
            policy.apply(object).unwrap();
        }
        lacking(&policy, &self.user(), &self.extension, &self.objects)
    }

    /// What every account may do in a cluster with this policy.
    pub fn held_anyway(&self, cluster: &PolicyIndex) -> Vec<PolicyRule> {
        mainstay_rbac::rules_for(cluster, &self.user(), &self.work).rules
    }

    /// Whether the account writes a role by the right to escalate it.
    pub fn escalates(&self, role: &Value) -> bool {
        let name = role["metadata"]["name"].as_str().unwrap();
        let by_name =
            |rule: &PolicyRule| rule.verbs.iter().any(|verb| verb == "escalate") && rule.resource_names.iter().any(|each| each == name);
        is_role(role) && self.grants.iter().any(|grant| by_name(&grant.rule))
    }

    /// Every way to take one verb of one rule away: which rule of what scope, and what is left.
    pub fn reductions(&self) -> impl Iterator<Item = (Grant, Vec<Grant>)> + '_ {
        self.grants.iter().enumerate().flat_map(move |(index, grant)| {
            grant.rule.verbs.iter().map(move |verb| {
                let mut left = self.grants.clone();
                left[index].rule.verbs.retain(|each| each != verb);
                if left[index].rule.verbs.is_empty() {
                    left.remove(index);
                }
                let taken = PolicyRule { verbs: vec![verb.clone()], ..grant.rule.clone() };
                (Grant { scope: grant.scope.clone(), rule: taken }, left)
            })
        })
    }

    /// All of [`Case::reductions`] in few steps: permissions that no request needs together are taken away together, so that each refusal has
    /// one cause. Rights on roles go apart from what the roles grant, which the server looks at only after them; a right with a wildcard,
    /// and one that stands for others, goes alone.
    pub fn batches(&self) -> Vec<(Vec<Grant>, Vec<Grant>)> {
        let (mut alone, mut on_roles, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for (taken, _) in self.reductions() {
            let on_role = has(&taken.rule.api_groups, RBAC_GROUP) && self.writes(&taken.rule);
            let granted = self.objects.iter().any(|object| is_role(object) && concerns(object, &taken.rule));
            if is_wild(&taken.rule) || stands_for_rules(&taken.rule) || on_role && granted {
                alone.push(vec![taken]);
            } else if on_role {
                on_roles.push(taken);
            } else {
                others.push(taken);
            }
        }
        let batches = [on_roles, others].into_iter().filter(|batch| !batch.is_empty()).chain(alone);
        batches.map(|taken| (self.without(&taken), taken)).map(|(left, taken)| (taken, left)).collect()
    }

    /// Whether the rule is about an object that is installed.
    fn writes(&self, rule: &PolicyRule) -> bool {
        self.objects.iter().map(address).any(|at| {
            has(&rule.api_groups, &at.group)
                && has(&rule.resources, &at.resource)
                && (rule.resource_names.is_empty() || rule.resource_names.contains(&at.name))
        })
    }

    /// The grants without these single verbs.
    fn without(&self, taken: &[Grant]) -> Vec<Grant> {
        let mut left = self.grants.clone();
        for grant in &mut left {
            let same = |taken: &&Grant| {
                let whole = PolicyRule { verbs: grant.rule.verbs.clone(), ..taken.rule.clone() };
                taken.scope == grant.scope && whole == grant.rule
            };
            let verbs: Vec<String> = taken.iter().filter(same).flat_map(|taken| taken.rule.verbs.clone()).collect();
            grant.rule.verbs.retain(|verb| !verbs.contains(verb));
        }
        left.retain(|grant| !grant.rule.verbs.is_empty());
        left
    }
}

/// Without these, what they stand for is reported: whoever may not `bind` or `escalate` must hold the rules.
pub fn stands_for_rules(taken: &PolicyRule) -> bool {
    taken.verbs.iter().any(|verb| verb == "bind" || verb == "escalate")
}

/// Whether a rule says more than can be listed.
pub fn is_wild(rule: &PolicyRule) -> bool {
    let wild = |list: &[String]| list.iter().any(|each| each.contains('*'));
    wild(&rule.verbs) || wild(&rule.resources) || wild(&rule.api_groups) || wild(&rule.non_resource_urls)
}

/// All recorded bundles, those in the older layout too. Numbers are theirs alone.
pub fn every() -> Option<Vec<(String, &'static bundles::Files)>> {
    let (new, old) = (bundles::bundles()?, bundles::legacy()?);
    Some(new.iter().chain(old).map(|(name, files)| (name.clone(), files)).collect())
}

pub fn cases() -> Option<Vec<Case>> {
    Some(every()?.into_iter().enumerate().filter_map(|(number, (name, files))| Case::of(&name, files, number, "uid")).collect())
}
