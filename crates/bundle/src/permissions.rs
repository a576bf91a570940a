//! The least permissions that an installer's service account needs for rendered objects (OLM1-PERM-05, MS-RBAC-01), whichever installer it is.
//!
//! ```text
//!   objects ── needs: watch the kinds, create in the namespaces, change by name, hold what their roles grant
//!           ── atoms: one verb, group, resource and name each
//!           ── drop what another atom covers ── join ── grants ── manifests
//! ```
//!
//! Nothing is granted twice: each verb of each rule is needed, and without any one of them the API refuses something.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_rbac::{PolicyRule, breakdown};
use serde_json::{Value, json};

use crate::kinds;

const RBAC: &str = "rbac.authorization.k8s.io";
const ANY: &str = "*";

/// The scope of a permission.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The whole cluster: a ClusterRole bound by a ClusterRoleBinding.
    Cluster,
    /// One namespace: a Role.
    Namespace(String),
}

/// One rule and its scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The scope.
    pub scope: Scope,
    /// The rule.
    pub rule: PolicyRule,
}

/// The account that installs, and the names of its roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account<'a> {
    /// The account's name.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// The prefix of the names of its roles and bindings.
    pub roles: &'a str,
}

/// Returns the permissions that an installer needs to create, watch, update and delete the objects, and those in `further`: its other needs,
/// such as the permission to name its owner in owner references.
pub fn derive(objects: &[Value], further: impl IntoIterator<Item = Grant>) -> Vec<Grant> {
    let mut needs: Vec<Grant> = further.into_iter().collect();
    let roles = Roles::of(objects);
    for object in objects {
        let target = Target::of(object);
        let (groups, resources) = ([target.group.as_str()], [target.resource.as_str()]);
        let scope = target.scope();
        needs.push(Grant { scope: Scope::Cluster, rule: PolicyRule::resources(&["list", "watch"], &groups, &resources) });
        needs.push(Grant { scope: scope.clone(), rule: PolicyRule::resources(&["create"], &groups, &resources) });
        let named = PolicyRule::resources(&["delete", "get", "patch", "update"], &groups, &resources).named(&[&target.name]);
        needs.push(Grant { scope: scope.clone(), rule: named });
        if target.group == RBAC {
            needs.extend(escalation(object, &target, &roles, &scope));
        }
    }
    join(&least(&atoms(&needs)))
}

/// Returns the permissions that `wanted` has beyond `held`.
pub fn missing(held: &[Grant], wanted: &[Grant]) -> Vec<Grant> {
    let held = atoms(held);
    let beyond = atoms(wanted).into_iter().filter(|atom| !held.contains(atom) && !atom.covered_by(&held)).collect();
    join(&least(&beyond))
}

/// Returns the account, its roles and their bindings as objects to apply.
pub fn manifests(grants: &[Grant], account: Account<'_>) -> Vec<Value> {
    let Account { name: account, namespace, roles } = account;
    let mut objects = vec![json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": namespace}})];
    let mut scopes: BTreeMap<&Scope, Vec<&PolicyRule>> = BTreeMap::new();
    for grant in grants {
        scopes.entry(&grant.scope).or_default().push(&grant.rule);
    }
    for (scope, rules) in scopes {
        let (kind, role, binding) = match scope {
            Scope::Cluster => ("ClusterRole", format!("{roles}-clusterrole"), format!("{roles}-binding")),
            Scope::Namespace(_) => ("Role", format!("{roles}-role"), format!("{roles}-rolebinding")),
        };
        let metadata = |name: &str| match scope {
            Scope::Cluster => json!({"name": name}),
            Scope::Namespace(namespace) => json!({"name": name, "namespace": namespace}),
        };
        objects.push(json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata(&role), "rules": rules}));
        objects.push(json!({
            "apiVersion": format!("{RBAC}/v1"),
            "kind": format!("{kind}Binding"),
            "metadata": metadata(&binding),
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        }));
    }
    objects
}

/// An object in the terms of the API: group, resource, kind, name and namespace.
struct Target {
    group: String,
    resource: String,
    kind: String,
    name: String,
    namespace: Option<String>,
}

impl Target {
    fn of(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kind = text(&object["kind"]);
        let row = kinds::rendered(&kind);
        // Kinds that no bundle may hold are not rendered; for objects from elsewhere the usual plural is the best guess.
        let resource = row.map_or_else(|| format!("{}s", kind.to_lowercase()), |row| row.resource.to_owned());
        let namespace = object["metadata"]["namespace"].as_str().filter(|name| !name.is_empty()).map(str::to_owned);
        Self {
            group: object["apiVersion"]
                .as_str()
                .and_then(|version| version.split_once('/'))
                .map_or_else(String::new, |(group, _)| group.to_owned()),
            resource,
            name: text(&object["metadata"]["name"]),
            // A webhook configuration carries a namespace in the rendering although its kind has none.
            namespace: namespace.filter(|_| row.is_none_or(|row| row.namespaced)),
            kind,
        }
    }

    fn scope(&self) -> Scope {
        self.namespace.clone().map_or(Scope::Cluster, Scope::Namespace)
    }
}

/// The roles among the objects, by kind, name and namespace.
struct Roles<'a>(BTreeMap<(String, String, Option<String>), &'a Value>);

impl<'a> Roles<'a> {
    fn of(objects: &'a [Value]) -> Self {
        let role = |object: &'a Value| {
            let target = Target::of(object);
            let is_role = target.group == RBAC && matches!(target.kind.as_str(), "Role" | "ClusterRole");
            is_role.then_some(((target.kind, target.name, target.namespace), object))
        };
        Self(objects.iter().filter_map(role).collect())
    }
}

/// Returns whether holding a role's rules is not enough to be allowed to write it: the rules of an aggregated role cannot be known in
/// advance, and a caller who holds the rules of a role that may itself `escalate` needs none of the others.
fn beyond_rules(role: &Value) -> bool {
    let escalates = |rule: &PolicyRule| {
        rule.matches_verb("escalate")
            && rule.matches_api_group(RBAC)
            && ["roles", "clusterroles"].iter().any(|resource| rule.matches_resource(resource, ""))
    };
    role["aggregationRule"].is_object() || rules(role).any(|rule| escalates(&rule))
}

fn rules(role: &Value) -> impl Iterator<Item = PolicyRule> + '_ {
    role["rules"].as_array().into_iter().flatten().filter_map(|rule| serde_json::from_value(rule.clone()).ok())
}

/// The permissions that escalation prevention demands for writing the role or binding.
fn escalation(object: &Value, target: &Target, roles: &Roles<'_>, scope: &Scope) -> Vec<Grant> {
    let grant = |rule| Grant { scope: scope.clone(), rule };
    match target.kind.as_str() {
        "Role" | "ClusterRole" if beyond_rules(object) => {
            vec![grant(PolicyRule::resources(&["escalate"], &[RBAC], &[&target.resource]).named(&[&target.name]))]
        }
        "Role" | "ClusterRole" => rules(object).map(grant).collect(),
        "RoleBinding" | "ClusterRoleBinding" => {
            let reference = &object["roleRef"];
            let text = |key: &str| reference[key].as_str().unwrap_or_default().to_owned();
            let (kind, name) = (text("kind"), text("name"));
            let namespace = (kind == "Role").then(|| target.namespace.clone()).flatten();
            let known = roles.0.get(&(kind.clone(), name.clone(), namespace)).is_some_and(|role| !beyond_rules(role));
            if known {
                // The role's own rules are held already, at the same scope or wider.
                return Vec::new();
            }
            let resource = if kind == "Role" { "roles" } else { "clusterroles" };
            vec![grant(PolicyRule::resources(&["bind"], &[RBAC], &[resource]).named(&[&name]))]
        }
        _ => Vec::new(),
    }
}

/// One verb on one resource of one group, of one name or of all; or one verb on one URL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Atom {
    scope: Scope,
    group: String,
    resource: String,
    name: Option<String>,
    url: Option<String>,
    verb: String,
}

fn atoms(grants: &[Grant]) -> BTreeSet<Atom> {
    let mut atoms = BTreeSet::new();
    for grant in grants {
        for mut rule in breakdown(&grant.rule) {
            let take = |list: &mut Vec<String>| list.pop();
            atoms.insert(Atom {
                scope: grant.scope.clone(),
                group: take(&mut rule.api_groups).unwrap_or_default(),
                resource: take(&mut rule.resources).unwrap_or_default(),
                name: take(&mut rule.resource_names),
                url: take(&mut rule.non_resource_urls),
                verb: take(&mut rule.verbs).unwrap_or_default(),
            });
        }
    }
    atoms
}

impl Atom {
    /// Returns whether another atom of the set grants this one too.
    fn covered_by(&self, atoms: &BTreeSet<Atom>) -> bool {
        self.wider(atoms).iter().any(|atom| atom != self && atoms.contains(atom))
    }

    /// Every atom that grants this one, itself included.
    fn wider(&self, atoms: &BTreeSet<Atom>) -> Vec<Atom> {
        let mut wider = vec![self.clone()];
        let mut generalise = |change: &dyn Fn(&Atom) -> Option<Atom>| {
            let more: Vec<_> = wider.iter().filter_map(change).collect();
            wider.extend(more);
        };
        generalise(&|atom| Some(Atom { scope: Scope::Cluster, ..atom.clone() }));
        generalise(&|atom| Some(Atom { verb: ANY.to_owned(), ..atom.clone() }));
        if self.url.is_some() {
            let patterns = atoms.iter().filter_map(|atom| atom.url.clone()).filter(|pattern| pattern.ends_with('*'));
            let matching = |pattern: &String| self.url.as_ref().is_some_and(|url| url.starts_with(pattern.trim_end_matches('*')));
            for pattern in patterns.filter(matching).collect::<BTreeSet<_>>() {
                generalise(&|atom| Some(Atom { url: Some(pattern.clone()), ..atom.clone() }));
            }
            return wider;
        }
        generalise(&|atom| Some(Atom { group: ANY.to_owned(), ..atom.clone() }));
        generalise(&|atom| Some(Atom { name: None, ..atom.clone() }));
        let sub = self.resource.split_once('/').map(|(_, sub)| format!("{ANY}/{sub}"));
        generalise(&|atom| (atom.resource == self.resource).then(|| Atom { resource: ANY.to_owned(), ..atom.clone() }));
        generalise(&|atom| (atom.resource == self.resource).then(|| Some(Atom { resource: sub.clone()?, ..atom.clone() })).flatten());
        wider
    }
}

/// The atoms without those that others grant.
fn least(atoms: &BTreeSet<Atom>) -> BTreeSet<Atom> {
    atoms.iter().filter(|atom| !atom.covered_by(atoms)).cloned().collect()
}

/// Atoms as rules: verbs of one name, then names with the same verbs, then resources with the same verbs and names.
fn join(atoms: &BTreeSet<Atom>) -> Vec<Grant> {
    type Names = BTreeSet<String>;
    type Key<'a> = (&'a Scope, &'a str, &'a str, Option<&'a str>, Option<&'a str>);
    let mut verbs: BTreeMap<Key<'_>, BTreeSet<String>> = BTreeMap::new();
    for atom in atoms {
        let key = (&atom.scope, atom.group.as_str(), atom.resource.as_str(), atom.name.as_deref(), atom.url.as_deref());
        verbs.entry(key).or_default().insert(atom.verb.clone());
    }
    let mut names: BTreeMap<(&Scope, &str, &str, bool, BTreeSet<String>), Names> = BTreeMap::new();
    let mut urls: BTreeMap<(&Scope, BTreeSet<String>), Names> = BTreeMap::new();
    for ((scope, group, resource, name, url), verbs) in verbs {
        if let Some(url) = url {
            urls.entry((scope, verbs)).or_default().insert(url.to_owned());
        } else {
            names.entry((scope, group, resource, name.is_some(), verbs)).or_default().extend(name.map(str::to_owned));
        }
    }
    let mut resources: BTreeMap<(&Scope, &str, Names, BTreeSet<String>), BTreeSet<String>> = BTreeMap::new();
    for ((scope, group, resource, _, verbs), names) in names {
        resources.entry((scope, group, names, verbs)).or_default().insert(resource.to_owned());
    }
    let list = |set: BTreeSet<String>| set.into_iter().collect::<Vec<_>>();
    let mut grants: Vec<Grant> = resources
        .into_iter()
        .map(|((scope, group, names, verbs), resources)| Grant {
            scope: scope.clone(),
            rule: PolicyRule {
                verbs: list(verbs),
                api_groups: vec![group.to_owned()],
                resources: list(resources),
                resource_names: list(names),
                non_resource_urls: Vec::new(),
            },
        })
        .collect();
    grants.extend(urls.into_iter().map(|((scope, verbs), urls)| Grant {
        scope: scope.clone(),
        rule: PolicyRule { verbs: list(verbs), non_resource_urls: list(urls), ..PolicyRule::default() },
    }));
    grants.sort_by(|left, right| left.scope.cmp(&right.scope));
    grants
}
