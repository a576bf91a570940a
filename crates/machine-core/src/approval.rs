//! The verdict about a node's certificate request (MACH-CSR-02 to MACH-CSR-05). Requests are approved or left alone, never denied.

use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};

use crate::machine::Machine;

/// Signer of the certificates by which kubelets speak to the API.
pub const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// Signer of the certificates that kubelets serve with.
pub const SERVING_SIGNER: &str = "kubernetes.io/kubelet-serving";
/// Reason and message of an approval.
pub const APPROVED: (&str, &str) = ("NodeCSRApprove", "This CSR was approved by the Node CSR Approver (cluster-machine-approver)");

const NODE_PREFIX: &str = "system:node:";
const NODE_GROUP: &str = "system:nodes";
const AUTHENTICATED: &str = "system:authenticated";
const BOOTSTRAPPER: &str = "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper";
const BOOTSTRAPPER_GROUPS: [&str; 3] =
    ["system:authenticated", "system:serviceaccounts", "system:serviceaccounts:openshift-machine-config-operator"];
const CLOCK_SKEW: SignedDuration = SignedDuration::from_secs(10);
const LATEST: SignedDuration = SignedDuration::from_hours(2);
/// Requests that are younger count as recent.
const RECENT: SignedDuration = SignedDuration::from_hours(1);
/// Recent requests that may wait beyond one for each machine or node.
const SPARE: usize = 100;

/// A CertificateSigningRequest, as far as its approval looks at it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Its maker.
    pub username: String,
    /// The groups of who made it.
    pub groups: Vec<String>,
    /// The signer.
    pub signer: String,
    /// The usages of the certificate.
    pub usages: Vec<String>,
    /// Common name of the subject.
    pub common_name: String,
    /// Organizations of the subject.
    pub organizations: Vec<String>,
    /// DNS names.
    pub dns_names: Vec<String>,
    /// IP addresses.
    pub ip_addresses: Vec<IpAddr>,
    /// True if it has e-mail addresses.
    pub has_email: bool,
}

/// The verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is approved.
    Approve,
    /// It is left alone for good: it may be another approver's.
    LeaveAlone(Unfit),
    /// It is looked at again: what it needs may come.
    Retry(Missing),
}

/// Why a request is no node's, or cannot be approved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the sentences say it")]
pub enum Unfit {
    #[error("it is not by the account of nodes that start")]
    NotBootstrapper,
    #[error("node {0} exists already")]
    NodeExists(String),
    #[error("machine {0} has a node already")]
    HasNode(String),
    #[error("it was not made when machine {0} was")]
    Untimely(String),
    #[error("it is not by a node")]
    NotByNode,
    #[error("its groups lack {NODE_GROUP} or {AUTHENTICATED}")]
    Groups,
    #[error("its usages are not those of a serving certificate")]
    Usages,
    #[error("its common name {0} is not its user")]
    CommonName(String),
    #[error("its organizations lack {NODE_GROUP}")]
    Organizations,
}

/// Objects that a request needs and does not find, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the sentences say it")]
pub enum Missing {
    #[error("CSR for node client cert rejected as the flow is disabled")]
    Disabled,
    #[error("failed to find machine for node {0}")]
    Machine(String),
    #[error("could not authorize CSR: exhausted all authorization methods: unable to find machine for node")]
    MachineOfNode,
    #[error("could not authorize CSR: exhausted all authorization methods: DNS name '{name}' not in machine names: {known}")]
    Name { name: String, known: String },
    #[error("could not authorize CSR: exhausted all authorization methods: IP address '{address}' not in machine addresses: {known}")]
    Address { address: IpAddr, known: String },
}

/// Returns whether a request is one that is looked at: by the account of nodes that start, or by a node.
pub fn is_considered(request: &Request) -> bool {
    match &*request.signer {
        SERVING_SIGNER => request.groups.iter().any(|group| group == NODE_GROUP),
        CLIENT_SIGNER => request.username == BOOTSTRAPPER,
        _ => false,
    }
}

/// Returns the most recent requests that may wait; if more do, none is approved (MACH-CSR-05).
pub fn most_pending(machines: usize, nodes: usize) -> usize {
    machines.max(nodes) + SPARE
}

/// Returns whether a request that waits is recent.
pub fn is_recent(created: Option<Timestamp>, now: Timestamp) -> bool {
    created.is_some_and(|created| now.duration_since(created) < RECENT && created.duration_since(now) < CLOCK_SKEW)
}

/// Decides about a request. `exists` says whether a node exists; `clients` is false if client certificates are switched off (MACH-CSR-06).
pub fn verdict(request: &Request, machines: &[Machine], exists: impl Fn(&str) -> bool, clients: bool) -> Verdict {
    let is_client = request.organizations == [NODE_GROUP]
        && request.dns_names.is_empty()
        && request.ip_addresses.is_empty()
        && !request.has_email
        && has_exactly(&request.usages, "client auth")
        && request.common_name.starts_with(NODE_PREFIX);
    match (is_client, clients) {
        (true, false) => Verdict::Retry(Missing::Disabled),
        (true, true) => client(request, machines, exists),
        (false, _) => serving(request, machines),
    }
}

/// The usages of kubelets' certificates, with or without encipherment of keys.
fn has_exactly(usages: &[String], own: &str) -> bool {
    let full = ["key encipherment", "digital signature", own];
    let is_of = |allowed: &[&str]| usages.len() == allowed.len() && usages.iter().all(|usage| allowed.contains(&&**usage));
    is_of(&full) || is_of(&full[1..])
}

fn client(request: &Request, machines: &[Machine], exists: impl Fn(&str) -> bool) -> Verdict {
    let groups: std::collections::BTreeSet<&str> = request.groups.iter().map(String::as_str).collect();
    if request.username != BOOTSTRAPPER || !groups.iter().eq(&BOOTSTRAPPER_GROUPS) {
        return Verdict::LeaveAlone(Unfit::NotBootstrapper);
    }
    let node = request.common_name.strip_prefix(NODE_PREFIX).unwrap_or_default();
    if node.is_empty() {
        return Verdict::LeaveAlone(Unfit::NotByNode);
    }
    if exists(node) {
        return Verdict::LeaveAlone(Unfit::NodeExists(node.to_owned()));
    }
    let is_named = |machine: &&Machine| {
        let mut names = machine.addresses.iter().filter(|address| address.kind == "InternalDNS");
        names.any(|address| address.address.strip_suffix('.').unwrap_or(&address.address).eq_ignore_ascii_case(node))
    };
    let Some(machine) = machines.iter().find(is_named) else { return Verdict::Retry(Missing::Machine(node.to_owned())) };
    if machine.node.is_some() {
        return Verdict::LeaveAlone(Unfit::HasNode(machine.name.clone()));
    }
    let is_timely = request.created.zip(machine.created).is_some_and(|(asked, made)| {
        let after = asked.duration_since(made);
        -CLOCK_SKEW < after && after < LATEST
    });
    if is_timely { Verdict::Approve } else { Verdict::LeaveAlone(Unfit::Untimely(machine.name.clone())) }
}

fn serving(request: &Request, machines: &[Machine]) -> Verdict {
    let node = request.username.strip_prefix(NODE_PREFIX).unwrap_or_default();
    let has = |group: &str| request.groups.iter().any(|one| one == group);
    let unfit = if node.is_empty() {
        Some(Unfit::NotByNode)
    } else if !has(NODE_GROUP) || !has(AUTHENTICATED) {
        Some(Unfit::Groups)
    } else if !has_exactly(&request.usages, "server auth") {
        Some(Unfit::Usages)
    } else if request.common_name != request.username {
        Some(Unfit::CommonName(request.common_name.clone()))
    } else if !request.organizations.iter().any(|one| one == NODE_GROUP) {
        Some(Unfit::Organizations)
    } else {
        None
    };
    if let Some(unfit) = unfit {
        return Verdict::LeaveAlone(unfit);
    }
    let Some(machine) = machines.iter().find(|machine| machine.node.as_deref() == Some(node)) else {
        return Verdict::Retry(Missing::MachineOfNode);
    };
    let of = |kinds: &[&str]| -> Vec<&str> {
        machine.addresses.iter().filter(|address| kinds.contains(&&*address.kind)).map(|address| &*address.address).collect()
    };
    let names = of(&["InternalDNS", "ExternalDNS", "Hostname"]);
    let is_known = |name: &str| names.iter().any(|known| known.strip_suffix('.').unwrap_or(known).eq_ignore_ascii_case(name));
    if let Some(name) = request.dns_names.iter().find(|name| !name.is_empty() && !is_known(name)) {
        return Verdict::Retry(Missing::Name { name: name.clone(), known: names.join(" ") });
    }
    let addresses = of(&["InternalIP", "ExternalIP"]);
    if let Some(address) = request.ip_addresses.iter().find(|address| !addresses.contains(&&*address.to_string())) {
        return Verdict::Retry(Missing::Address { address: *address, known: addresses.join(" ") });
    }
    Verdict::Approve
}
