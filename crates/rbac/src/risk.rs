//! The risks of a permission: what its holder can do beyond the evident (OLM0-ADMIN-30).

use std::fmt;

use crate::{ALL, PolicyRule, RBAC_GROUP};

/// The verbs that change objects.
const WRITES: [&str; 4] = ["create", "update", "patch", "delete"];
/// The verbs that read objects.
const READS: [&str; 3] = ["get", "list", "watch"];

/// A risk of a permission, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Risk {
    /// Every verb on every resource.
    Everything,
    /// The verbs `escalate` and `bind`, by which permissions are granted that the holder does not have.
    Escalates,
    /// The verb `impersonate`.
    Impersonates,
    /// Writes of CustomResourceDefinitions.
    WritesCrds,
    /// Writes of APIServices.
    WritesApiServices,
    /// Writes of webhook configurations and admission policies.
    WritesAdmission,
    /// Writes of roles and bindings.
    WritesRoles,
    /// Tokens of service accounts of all namespaces.
    IssuesTokens,
    /// Reads of the secrets of all namespaces.
    ReadsSecrets,
    /// Commands in the containers of all namespaces.
    RunsCommands,
    /// Writes of nodes, and the API of kubelets.
    WritesNodes,
    /// Approval and signature of certificates.
    SignsCertificates,
    /// The use of SecurityContextConstraints that lift limits of pods.
    PrivilegedPods,
    /// Resources or API groups by wildcard.
    Wildcard,
}

impl Risk {
    /// A stable name.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Everything => "everything",
            Self::Escalates => "escalates",
            Self::Impersonates => "impersonates",
            Self::WritesCrds => "writes-crds",
            Self::WritesApiServices => "writes-apiservices",
            Self::WritesAdmission => "writes-admission",
            Self::WritesRoles => "writes-roles",
            Self::IssuesTokens => "issues-tokens",
            Self::ReadsSecrets => "reads-secrets",
            Self::RunsCommands => "runs-commands",
            Self::WritesNodes => "writes-nodes",
            Self::SignsCertificates => "signs-certificates",
            Self::PrivilegedPods => "privileged-pods",
            Self::Wildcard => "wildcard",
        }
    }
}

/// The power of the holder, as the rest of a sentence.
impl fmt::Display for Risk {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Everything => "may do everything",
            Self::Escalates => "may grant permissions that it does not hold (escalate, bind)",
            Self::Impersonates => "may act as others (impersonate)",
            Self::WritesCrds => "may change APIs of the whole cluster (CustomResourceDefinitions)",
            Self::WritesApiServices => "may take over APIs of the whole cluster (APIServices)",
            Self::WritesAdmission => "may change or refuse writes of others (webhooks and admission policies)",
            Self::WritesRoles => "may grant its own permissions to others (roles and bindings)",
            Self::IssuesTokens => "may make tokens of service accounts of all namespaces",
            Self::ReadsSecrets => "may read the secrets of all namespaces",
            Self::RunsCommands => "may run commands in pods of all namespaces",
            Self::WritesNodes => "may change nodes, or call their kubelets",
            Self::SignsCertificates => "may approve or sign certificates of the cluster",
            Self::PrivilegedPods => "may lift the limits of pods (SecurityContextConstraints)",
            Self::Wildcard => "includes resources that do not exist yet (wildcard)",
        })
    }
}

/// The risks of a rule, the worst first. `everywhere` is true if it holds in all namespaces.
pub fn risks(rule: &PolicyRule, everywhere: bool) -> Vec<Risk> {
    let any = |list: &[String]| list.iter().any(|entry| entry == ALL);
    if any(&rule.verbs) && any(&rule.api_groups) && any(&rule.resources) && rule.resource_names.is_empty() {
        return vec![Risk::Everything];
    }
    let verbs = |wanted: &[&str]| wanted.iter().any(|verb| rule.matches_verb(verb));
    let on = |group: &str, resources: &[&str]| {
        rule.matches_api_group(group)
            && resources.iter().any(|resource| {
                let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                rule.matches_resource(resource, subresource)
            })
    };
    let roles = ["roles", "clusterroles", "rolebindings", "clusterrolebindings"];
    let admission = [
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
    ];
    let all_names = everywhere && rule.resource_names.is_empty();
    let persons = on("", &["users", "groups", "serviceaccounts"]) || on("authentication.k8s.io", &["uids", "userextras"]);
    let certificates = on("certificates.k8s.io", &["certificatesigningrequests/approval", "certificatesigningrequests/status"])
        && verbs(&["update", "patch"])
        || on("certificates.k8s.io", &["signers"]) && verbs(&["approve", "sign"]);
    let found = [
        (Risk::Escalates, on(RBAC_GROUP, &roles[..2]) && verbs(&["escalate", "bind"])),
        (Risk::Impersonates, persons && verbs(&["impersonate"])),
        (Risk::WritesCrds, on("apiextensions.k8s.io", &["customresourcedefinitions"]) && verbs(&WRITES)),
        (Risk::WritesApiServices, on("apiregistration.k8s.io", &["apiservices"]) && verbs(&WRITES)),
        (Risk::WritesAdmission, on("admissionregistration.k8s.io", &admission) && verbs(&WRITES)),
        (Risk::WritesRoles, on(RBAC_GROUP, &roles) && verbs(&["create", "update", "patch"])),
        (Risk::IssuesTokens, all_names && on("", &["serviceaccounts/token"]) && verbs(&["create"])),
        (Risk::ReadsSecrets, all_names && on("", &["secrets"]) && verbs(&READS)),
        (Risk::RunsCommands, all_names && on("", &["pods/exec", "pods/attach"]) && verbs(&["create", "get"])),
        (Risk::WritesNodes, on("", &["nodes"]) && verbs(&WRITES) || on("", &["nodes/proxy"])),
        (Risk::SignsCertificates, certificates),
        (Risk::PrivilegedPods, on("security.openshift.io", &["securitycontextconstraints"]) && verbs(&["use"]) && lifts_limits(rule)),
        (Risk::Wildcard, any(&rule.api_groups) || any(&rule.resources) || any(&rule.non_resource_urls)),
    ];
    found.into_iter().filter(|(_, holds)| *holds).map(|(risk, _)| risk).collect()
}

/// Returns whether a rule names other SecurityContextConstraints than the restricted ones.
fn lifts_limits(rule: &PolicyRule) -> bool {
    rule.resource_names.is_empty() || rule.resource_names.iter().any(|name| !name.starts_with("restricted"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OLM0-ADMIN-30: each risk, and the nearest rule that has none.
    #[test]
    fn rules_and_their_risks() {
        use Risk::{
            Escalates, Everything, Impersonates, IssuesTokens, PrivilegedPods, ReadsSecrets, RunsCommands, SignsCertificates, Wildcard,
            WritesAdmission, WritesApiServices, WritesCrds, WritesNodes, WritesRoles,
        };
        let rule = PolicyRule::resources;
        let crds = "apiextensions.k8s.io";
        let rows: &[(PolicyRule, bool, &[Risk])] = &[
            (rule(&["*"], &["*"], &["*"]), true, &[Everything]),
            (rule(&["*"], &["*"], &["*"]), false, &[Everything]),
            (rule(&["get", "list"], &["*"], &["*"]), true, &[ReadsSecrets, RunsCommands, WritesNodes, Wildcard]),
            (rule(&["*"], &["apps"], &["*"]), true, &[Wildcard]),
            (rule(&["*"], &["apps"], &["deployments"]), true, &[]),
            (rule(&["bind"], &[RBAC_GROUP], &["clusterroles"]), true, &[Escalates]),
            (rule(&["*"], &[RBAC_GROUP], &["roles"]), false, &[Escalates, WritesRoles]),
            (rule(&["create"], &[RBAC_GROUP], &["rolebindings"]), false, &[WritesRoles]),
            (rule(&["get", "list"], &[RBAC_GROUP], &["clusterroles"]), true, &[]),
            (rule(&["impersonate"], &[""], &["users"]), true, &[Impersonates]),
            (rule(&["create"], &[""], &["serviceaccounts"]), true, &[]),
            (rule(&["patch"], &[crds], &["customresourcedefinitions"]), true, &[WritesCrds]),
            (rule(&["patch"], &[crds], &["customresourcedefinitions"]).named(&["a.b"]), true, &[WritesCrds]),
            (rule(&["get", "watch"], &[crds], &["customresourcedefinitions"]), true, &[]),
            (rule(&["update"], &[crds], &["customresourcedefinitions/status"]), true, &[]),
            (rule(&["create"], &["apiregistration.k8s.io"], &["apiservices"]), true, &[WritesApiServices]),
            (rule(&["update"], &["admissionregistration.k8s.io"], &["mutatingwebhookconfigurations"]), true, &[WritesAdmission]),
            (rule(&["create"], &[""], &["serviceaccounts/token"]), true, &[IssuesTokens]),
            (rule(&["create"], &[""], &["serviceaccounts/token"]), false, &[]),
            (rule(&["get", "list", "watch"], &[""], &["secrets"]), true, &[ReadsSecrets]),
            (rule(&["get", "list", "watch"], &[""], &["secrets"]), false, &[]),
            (rule(&["get"], &[""], &["secrets"]).named(&["own"]), true, &[]),
            (rule(&["create"], &[""], &["secrets"]), true, &[]),
            (rule(&["create"], &[""], &["pods/exec"]), true, &[RunsCommands]),
            (rule(&["create"], &[""], &["pods"]), true, &[]),
            (rule(&["get"], &[""], &["nodes/proxy"]), true, &[WritesNodes]),
            (rule(&["patch"], &[""], &["nodes"]), true, &[WritesNodes]),
            (rule(&["get", "list"], &[""], &["nodes"]), true, &[]),
            (rule(&["update"], &["certificates.k8s.io"], &["certificatesigningrequests/approval"]), true, &[SignsCertificates]),
            (rule(&["create"], &["certificates.k8s.io"], &["certificatesigningrequests"]), true, &[]),
            (rule(&["use"], &["security.openshift.io"], &["securitycontextconstraints"]).named(&["privileged"]), true, &[PrivilegedPods]),
            (rule(&["use"], &["security.openshift.io"], &["securitycontextconstraints"]).named(&["restricted-v2"]), true, &[]),
            (PolicyRule::urls(&["get"], &["/metrics"]), true, &[]),
            (PolicyRule::urls(&["get"], &["*"]), true, &[Wildcard]),
        ];
        for (rule, everywhere, expected) in rows {
            assert_eq!(risks(rule, *everywhere), *expected, "{rule:?}, everywhere {everywhere}");
        }
    }
}
