//! Every cause in words: what happened, why, and the one thing to do.

use jiff::Timestamp;
use mainstay_api::lifecycle::ChangePlanSpec;
use mainstay_apply::{NotOurs, ObjectRef};
use mainstay_bundle::rights::{Grant, Scope};
use mainstay_bundle::{Bundle, Refusal, RenderError};
use mainstay_schema::upgrade::UpgradeFinding;
use serde_json::json;

use super::super::facts::PullFailure;
use super::super::object;
use super::super::permissions::Report;
use super::super::plan::{ContentError, account_name};
use super::conditions::Conditions;
use super::{Action, Cause, Explanation, Facts, State, extension_subject, installed, listed, name, package, patch, refusal};

impl Explanation {
    /// Adds a reason.
    #[must_use]
    pub(super) fn because(mut self, why: impl Into<String>) -> Self {
        self.why.push(why.into());
        self
    }

    /// With the one thing to do.
    #[must_use]
    pub(super) fn then(self, next: Action) -> Self {
        Self { next: Some(next), ..self }
    }

    /// Adds what would help as well.
    #[must_use]
    pub(super) fn or(mut self, action: Action) -> Self {
        self.alternatives.push(action);
        self
    }
}

/// A change that does not come to pass: nothing is installed, or what was installed stays.
pub(super) fn held(facts: &Facts, situation: &'static str, summary: String) -> Explanation {
    let subject = extension_subject(name(&facts.snapshot.extension));
    let state = if installed(facts).is_some() { State::Held } else { State::NotInstalled };
    Explanation { waits_for: Some(waits_for(situation).to_owned()), ..Explanation::new(subject, situation, state, summary) }
}

/// What has to come, by situation.
fn waits_for(situation: &str) -> &'static str {
    match situation {
        "unknown-package" | "no-catalog" => "a catalog that has the package",
        "unknown-version" => "a version that matches",
        "unknown-channel" => "a channel of this name",
        "no-update-edge" => "an update in the catalogs",
        "catalog-not-serving" => "the catalog",
        "dependency" | "dependencies" => "what it needs",
        "account-missing" | "no-account-named" => "the account",
        "rights-missing" => "the rights",
        "role-missing" => "the role",
        "object-owned" | "object-unowned" => "the object to be free",
        "crd-unsafe" => "a version that keeps what exists",
        "image-unavailable" => "the image",
        "kind-not-served" => "the kind",
        "namespace-missing" => "the namespace",
        "approval" => "somebody's approval",
        "quota" => "room in the quota",
        "admission" => "the rule to allow it",
        "webhook-unreachable" => "the webhook",
        "rolled-back" => "another version, or another wish",
        "server-slow" | "failed" | "unreadable-object" | "cleared" => "the next attempt, which is made by itself",
        _ => "a change of the extension",
    }
}

pub(super) fn of(facts: &Facts, cause: &Cause) -> Explanation {
    match cause {
        Cause::Account(account) => no_account(facts, account),
        Cause::Record(problem) => record(facts, problem),
        Cause::Refused(refused) => refusal::explain(facts, refused),
        Cause::Pull { image, failure } => pull(facts, image, failure),
        Cause::Content { error, bundle } => content(facts, error, bundle),
        Cause::Rights { report, granting } => rights(facts, report, *granting),
        Cause::Owned(refusal) => owned(facts, refusal),
        Cause::Crds(crds) => unsafe_crds(facts, crds),
        Cause::NotServed(target) => not_served(facts, target),
        Cause::Unreadable(target, problem) => held(facts, "unreadable-object", format!("{target} could not be read"))
            .because(first_line(problem).to_owned())
            .then(grant_rights(facts, "If it is a right that is missing, grant the account what this package needs:")),
        Cause::Other(text) => other(facts, text),
    }
}

/// What only the planner's words tell: what is needed first, what was rolled back, wishes that contradict each other.
fn other(facts: &Facts, text: &str) -> Explanation {
    let name = name(&facts.snapshot.extension);
    let advice: Vec<&str> =
        facts.plan.iter().flat_map(|plan| &plan.warnings).filter_map(|line| line.strip_prefix("would work: ")).collect();
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    if let Some(needed) = text.strip_prefix("waits for ") {
        return held(facts, "dependencies", format!("it needs {}", first_line(needed)))
            .then(Action::new("See how the other extension comes along; this one goes on by itself after it:").command("mainstay list"));
    }
    if text.contains("rolled back") || text.contains("rolling back") {
        let mut answer = held(facts, "rolled-back", "the newest version did not become healthy, and was rolled back".to_owned());
        answer.why.extend(lines().map(str::to_owned));
        return answer.then(
            Action::new("See what happened; the version is tried again when the extension is changed, or a newer one comes:")
                .command(format!("mainstay history {name}")),
        );
    }
    if !advice.is_empty() {
        let mut answer = held(facts, "dependencies", "there is no set of versions that fits together".to_owned());
        answer.why.extend(lines().map(str::to_owned));
        let mut actions = advice.into_iter().map(|line| Action::new(format!("This would work: {line}")));
        answer.next = actions.next();
        answer.alternatives.extend(actions);
        return answer;
    }
    tried(facts, text)
}

fn no_account(facts: &Facts, account: &str) -> Explanation {
    let extension = &*facts.snapshot.extension;
    let (name, namespace) = (name(extension), &extension.spec.namespace);
    let why = "an extension is installed with the rights of this account, and with no others";
    if account.is_empty() {
        let made = format!("{name}-installer");
        let patch = json!({"spec": {"serviceAccount": {"name": made}}});
        return held(facts, "no-account-named", "it names no ServiceAccount to install with".to_owned()).because(why).then(
            Action::new("Name an account, and make it with the rights that this package needs:")
                .command(format!("kubectl patch clusterextension {name} --type merge -p '{patch}'"))
                .command(format!("mainstay rbac {name} | kubectl apply -f -")),
        );
    }
    let mut action = Action::new("Make the account, with the rights that this package needs:");
    let mut answer =
        held(facts, "account-missing", format!("the ServiceAccount {account} does not exist in namespace {namespace}")).because(why);
    if facts.namespace_exists == Some(false) {
        answer = answer.because(format!("namespace {namespace} does not exist either"));
        action = Action::new("Make the namespace, and the account with the rights that this package needs:")
            .command(format!("kubectl create namespace {namespace}"));
    }
    answer.then(action.command(format!("mainstay rbac {name} | kubectl apply -f -")))
}

fn record(facts: &Facts, problem: &str) -> Explanation {
    let name = name(&facts.snapshot.extension);
    let answer = Explanation {
        waits_for: Some("a record that can be read; until then nothing is changed".to_owned()),
        ..Explanation::new(
            extension_subject(name),
            "record-unreadable",
            State::Held,
            "what is installed is not known: its record cannot be read",
        )
    };
    let answer = answer.because(first_line(problem).to_owned());
    let secret = problem.strip_prefix("install record ").and_then(|rest| rest.split([':', ' ']).next());
    match secret {
        Some(secret) => answer.then(Action::new(format!("Restore the Secret {secret} from a backup."))).or(Action::new(
            "If there is no backup: pin the version that runs, and drop the record. The objects are found again as its own",
        )
        .command(patch(name, &json!({"version": "VERSION"})))
        .command(format!("kubectl delete secret {secret} --namespace olmv1-system"))
        .warns("without the pin the newest version is installed, whatever ran before")),
        None => answer.then(
            Action::new("See whether the controller may read its records, and whether they are there:")
                .command("kubectl get secrets --namespace olmv1-system"),
        ),
    }
}

fn pull(facts: &Facts, image: &str, failure: &PullFailure) -> Explanation {
    let text = failure.message.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let registry = image.split('/').next().unwrap_or_default();
    let answer =
        held(facts, "image-unavailable", format!("the image {image} cannot be pulled")).because(first_line(&failure.message).to_owned());
    answer.then(if has(&["401", "403", "unauthorized", "denied", "authentication"]) {
        Action::new(format!(
            "The registry {registry} wants credentials: put them into the controller's pull secret, and it is tried again."
        ))
    } else if has(&["404", "not found", "manifest unknown", "name unknown"]) {
        Action::new(format!("The image is not at {registry}: push or mirror it there, or use a catalog that names the right place:"))
            .command("mainstay catalog mirror --help")
    } else if has(&["certificate", "tls", "ssl"]) {
        Action::new(format!("The certificate of {registry} is not trusted: give the controller the authority that signed it."))
    } else if failure.terminal {
        Action::new(
            "Trying again does not help: the bundle itself is at fault. Ask for another version, and tell whoever makes the catalog.",
        )
    } else {
        Action::new(format!("See whether {registry} can be reached from the cluster; it is tried again by itself."))
    })
}

fn content(facts: &Facts, error: &ContentError, bundle: &Bundle) -> Explanation {
    let extension = &*facts.snapshot.extension;
    let (name, bundle_name) = (name(extension), &bundle.csv.name);
    let other =
        || Action::new("Ask for a version that does without, if there is one:").command(format!("mainstay graph {}", package(extension)));
    let gate = |gate: &str| {
        Action::new("Turn the feature on where the controller is started:").command(format!("mainstay up --feature-gates={gate}=true"))
    };
    let unsupported = |summary: String| held(facts, "unsupported-bundle", summary);
    match error {
        ContentError::Refused(Refusal::ApiServices) => {
            unsupported(format!("{bundle_name} brings an aggregated API server, which extensions cannot have")).then(other())
        }
        ContentError::Refused(Refusal::Webhooks) => {
            unsupported(format!("{bundle_name} has webhooks, and nothing here issues their certificates"))
                .then(gate("WebhookProviderOpenshiftServiceCA"))
        }
        ContentError::Refused(Refusal::NotAllNamespaces) => {
            unsupported(format!("{bundle_name} cannot watch all namespaces, and watching one is switched off"))
                .then(gate("SingleOwnNamespaceInstallSupport"))
        }
        ContentError::Refused(Refusal::NoInstallMode) => {
            unsupported(format!("{bundle_name} can only watch several chosen namespaces, which extensions cannot ask for")).then(other())
        }
        ContentError::Refused(Refusal::WatchNamespace { namespace, reasons }) => {
            held(facts, "watch-namespace", format!("{namespace:?} is no name of a namespace"))
                .because(reasons.clone())
                .then(watch(name, &extension.spec.namespace))
        }
        ContentError::Render(RenderError::TargetNamespaces { problem, .. }) => {
            let answer = held(facts, "watch-namespace", format!("{bundle_name} cannot watch the namespaces it is asked to"));
            let answer = answer.because(problem.clone());
            if bundle.csv.supports("OwnNamespace") {
                answer.then(watch(name, &extension.spec.namespace))
            } else if bundle.csv.supports("AllNamespaces") {
                answer.then(
                    Action::new("Let it watch all namespaces:")
                        .command(format!("kubectl annotate clusterextension {name} olm.operatorframework.io/watch-namespace-")),
                )
            } else {
                answer.then(watch(name, "ANOTHER-NAMESPACE"))
            }
        }
        ContentError::Refused(refusal @ Refusal::Dependency { .. }) => unsupported(refusal.to_string()).then(other()),
        ContentError::Render(error) => held(facts, "invalid-bundle", format!("the content of {bundle_name} is not in order"))
            .because(first_line(&error.to_string()).to_owned())
            .then(
                Action::new("The bundle is at fault: ask for another version, and tell whoever makes it.")
                    .command(format!("mainstay graph {}", package(extension))),
            ),
    }
}

fn watch(name: &str, namespace: &str) -> Action {
    Action::new("Let it watch one namespace:")
        .command(format!("kubectl annotate clusterextension {name} olm.operatorframework.io/watch-namespace={namespace} --overwrite"))
}

/// OLM1-PERM-14: missing verbs, escalation and missing roles.
fn rights(facts: &Facts, report: &Report, granting: bool) -> Explanation {
    let extension = &*facts.snapshot.extension;
    let account = format!("{}/{}", extension.spec.namespace, account_name(extension));
    let grants: Vec<String> = grants(report).iter().map(Grant::to_string).collect();
    let unknown: Vec<&str> = report.errors.iter().map(String::as_str).collect();
    if grants.is_empty() {
        let mut answer = held(facts, "role-missing", "a role that a binding refers to does not exist".to_owned());
        answer.why.extend(unknown.iter().map(|error| (*error).to_owned()));
        return answer.then(Action::new("Make the role, or delete the binding that refers to it; the check is made again by itself."));
    }
    let rights = if grants.len() == 1 { "a right".to_owned() } else { format!("{} rights", grants.len()) };
    let mut answer = held(facts, "rights-missing", format!("the account {account} lacks {rights} that this version needs"));
    answer.why.extend(grants);
    answer.why.extend(unknown.iter().map(|error| format!("and perhaps more, since {error}")));
    answer.notes.extend(
        granting.then(|| "some of these are what the operator's own roles grant: nobody may grant what he does not hold".to_owned()),
    );
    answer.then(grant_rights(facts, "Grant the account what this version needs, and no more:"))
}

fn grant_rights(facts: &Facts, text: &str) -> Action {
    Action::new(text).command(format!("mainstay rbac {} | kubectl apply -f -", name(&facts.snapshot.extension)))
}

/// The missing rights, as grants.
fn grants(report: &Report) -> Vec<Grant> {
    let grants: Vec<Grant> = report
        .missing
        .iter()
        .flat_map(|(namespace, rules)| {
            let scope = if namespace.is_empty() { Scope::Cluster } else { Scope::Namespace(namespace.clone()) };
            rules.iter().map(move |rule| Grant { scope: scope.clone(), rule: rule.clone() })
        })
        .collect();
    mainstay_bundle::rights::missing(&[], &grants)
}

/// OLM1-OWN-04.
fn owned(facts: &Facts, refusal: &NotOurs) -> Explanation {
    let extension = &*facts.snapshot.extension;
    let (name, target) = (name(extension), &*refusal.object);
    let namespaced = if target.namespace.is_empty() { String::new() } else { format!(" --namespace {}", target.namespace) };
    let resource = resource(target);
    match &refusal.owner {
        Some((kind, owner)) if kind == "ClusterExtension" && owner == name => {
            held(facts, "object-owned", format!("{target} belongs to an earlier extension of the same name that is still being removed"))
                .then(Action::new("Wait until it is gone; it goes on by itself."))
        }
        Some((kind, owner)) if kind == "ClusterExtension" => {
            let answer = held(facts, "object-owned", format!("{target} belongs to clusterextension {owner}"));
            let answer = answer.because("two extensions cannot share an object, and a CRD can be installed once on a cluster");
            match installed(facts) {
                None => answer
                    .then(
                        Action::new(format!("Keep one of the two. {owner} has it, so remove {name}:"))
                            .command(format!("mainstay uninstall {name}")),
                    )
                    .or(Action::new(format!("Keep {name} instead: remove {owner}"))
                        .command(format!("mainstay uninstall {owner}"))
                        .warns("CRDs of the removed extension go with all their custom resources")),
                Some((_, version)) => answer
                    .then(
                        Action::new("Stay with the present version, which does without the object:")
                            .command(patch(name, &json!({"version": version}))),
                    )
                    .or(Action::new(format!("Remove {owner}"))
                        .command(format!("mainstay uninstall {owner}"))
                        .warns("CRDs of the removed extension go with all their custom resources")),
            }
        }
        Some((kind, owner)) => held(facts, "object-owned", format!("{target} belongs to {kind} {owner}"))
            .because("what has an owner is not taken over")
            .then(Action::new(format!("Remove {kind} {owner}, if {name} is to take its place; otherwise remove {name}.")))
            .or(Action::new("See who made it:").command(format!("kubectl get {resource} {}{namespaced} -o yaml", target.name))),
        None => {
            let owner = object::owner(extension);
            let labels: Vec<String> = owner.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            held(facts, "object-unowned", format!("{target} exists already, and belongs to nobody"))
                .because("an object that somebody else made is not taken over without being told to")
                .then(
                    Action::new("Hand the object over to the extension:")
                        .command(format!("kubectl label {resource} {}{namespaced} {}", target.name, labels.join(" ")))
                        .warns("it is changed to what the package holds, and goes when the extension is removed"),
                )
                .or(Action::new("Or delete it, if nobody needs it")
                    .command(format!("kubectl delete {resource} {}{namespaced}", target.name))
                    .warns(if target.kind == "CustomResourceDefinition" {
                        "all its custom resources go with it"
                    } else {
                        "what it holds is lost"
                    }))
        }
    }
}

/// What kubectl calls the kind.
fn resource(target: &ObjectRef) -> String {
    let kind = target.kind.to_lowercase();
    match target.group() {
        "" => kind,
        group => format!("{kind}.{group}"),
    }
}

/// OLM1-CRD-01, OLM1-CRD-02, OLM1-CRD-07.
fn unsafe_crds(facts: &Facts, crds: &[(String, Vec<UpgradeFinding>)]) -> Explanation {
    let name = name(&facts.snapshot.extension);
    let names = listed(crds.iter().map(|(name, _)| name.as_str()), 3);
    let mut answer =
        held(facts, "crd-unsafe", format!("the new version would change the CRD {names} in a way that may break existing objects"));
    for (crd, findings) in crds {
        let prefix = if crds.len() > 1 { format!("{crd}: ") } else { String::new() };
        answer.why.extend(findings.iter().map(|finding| format!("{prefix}{}", finding_in_words(finding))));
    }
    let answer = match (installed(facts), &facts.plan) {
        (Some((_, version)), _) => answer.then(
            Action::new(format!("Stay with {version} until a version comes that keeps what exists:"))
                .command(patch(name, &json!({"version": version}))),
        ),
        (None, Ok(plan)) => {
            let version = plan.resolution.as_ref().map(|resolution| resolution.choice.version.clone()).unwrap_or_default();
            answer.then(
                Action::new("The CRD is left from an earlier install. Ask for a version that fits it, for example one below this one:")
                    .command(patch(name, &json!({"version": format!("<{version}")}))),
            )
        }
        (None, Err(_)) => answer,
    };
    let off = json!({"spec": {"install": {"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}}}});
    answer.or(Action::new("Change the CRD all the same: switch the check off for this extension")
        .command(format!("kubectl patch clusterextension {name} --type merge -p '{off}'"))
        .warns("objects that exist may become invalid, and what they hold in removed fields is lost"))
}

/// A finding, with the check that made it.
fn finding_in_words(finding: &UpgradeFinding) -> String {
    let place = match (&finding.version, finding.path.trim_start_matches(['^', '.'])) {
        (Some(version), "") => format!("{version}: "),
        (Some(version), path) => format!("{version} {path}: "),
        (None, _) => String::new(),
    };
    format!("{place}{} (check {})", finding.message, finding.rule)
}

fn not_served(facts: &Facts, target: &ObjectRef) -> Explanation {
    held(
        facts,
        "kind-not-served",
        format!("it brings the {} {}, and this cluster has no {} {}", target.kind, target.name, target.api_version, target.kind),
    )
    .because("the kind belongs to another operator, or to another version of Kubernetes")
    .then(
        Action::new(format!("Install what serves {} first; then it goes on by itself.", target.api_version))
            .command(format!("kubectl api-resources --api-group={}", target.group())),
    )
}

/// A change that waits for somebody's approval, as the plan says, or as it was kept.
pub(super) fn approval(facts: &Facts, plan: &str, spec: &ChangePlanSpec, since: Option<Timestamp>) -> Explanation {
    let what = match &spec.from {
        Some(from) => format!("the upgrade from {} to {} waits for approval", from.version, spec.to.version),
        None => format!("the install of {} waits for approval", spec.to.version),
    };
    let mut answer = held(facts, "approval", what);
    answer.since = since;
    let summary = &spec.summary;
    let along: Vec<String> = summary.dependencies.iter().map(|bundle| format!("{} ({})", bundle.name, bundle.version)).collect();
    let sections = [
        ("installed along with it:", &along),
        ("custom resource definitions:", &summary.custom_resource_definitions),
        ("rights that the operator gains:", &summary.rights_gained),
        ("rights that the operator loses:", &summary.rights_lost),
        ("warnings:", &summary.warnings),
    ];
    for (title, lines) in sections.into_iter().filter(|(_, lines)| !lines.is_empty()) {
        answer.why.push(title.to_owned());
        answer.why.extend(lines.iter().map(|line| format!("  {line}")));
    }
    answer.then(Action::new("This shows the change once more, asks, and lets it happen:").command(format!("mainstay approve {plan}")))
}

/// What went wrong when the change was tried: the API's own words, sorted by what helps.
pub(super) fn tried(facts: &Facts, text: &str) -> Explanation {
    let extension = &*facts.snapshot.extension;
    let namespace = &extension.spec.namespace;
    let lower = text.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let said = |situation, summary: &str| held(facts, situation, summary.to_owned()).because(first_line(text).to_owned());
    if has(&[
        "pre-authorization failed",
        "already exists in namespace",
        "validating upgrade for crd",
        "no bundles found for package",
        "not found in namespace",
    ]) {
        return said("cleared", "what was in the way seems to be gone");
    }
    if has(&["exceeded quota"]) {
        return said("quota", "a quota does not allow it").then(
            Action::new("Raise the quota, or free what uses it up:")
                .command(format!("kubectl describe resourcequota --namespace {namespace}")),
        );
    }
    if has(&["failed calling webhook"]) {
        return said("webhook-unreachable", "an admission webhook could not be asked").then(
            Action::new("Bring the webhook's service back; nothing that it looks after can be changed until then.")
                .command("kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"),
        );
    }
    if has(&["admission webhook", "validatingadmissionpolicy", "violates podsecurity"]) {
        return said("admission", "a rule of this cluster refuses an object of the package").then(Action::new(
            "Change the rule, or ask whoever keeps it for an exception for this namespace; it is tried again by itself.",
        ));
    }
    if has(&["namespaces \"", "namespace not found"]) && has(&["not found"]) {
        return said("namespace-missing", &format!("namespace {namespace} does not exist"))
            .then(Action::new("Make the namespace:").command(format!("kubectl create namespace {namespace}")));
    }
    if has(&["is forbidden", "cannot be created", "escalat"]) {
        return said("rights-missing", "the account may not make a change that this version needs")
            .then(grant_rights(facts, "Grant the account what this version needs, and no more:"));
    }
    if has(&["timed out", "connection refused", "deadline"]) {
        return said("server-slow", "the API server did not answer in time")
            .then(Action::new("Nothing, unless it lasts: it is tried again by itself."));
    }
    said("failed", "the last attempt failed").then(
        Action::new("The message says what the API server minds. It is tried again by itself; see what happened in the attempts:")
            .command(format!("mainstay describe {}", name(extension))),
    )
}

/// The newest wish has not been looked at yet.
pub(super) fn being_looked_at(facts: &Facts) -> Explanation {
    let mut answer = held(facts, "working", "a change is on its way".to_owned());
    answer.state = State::Working;
    answer.waits_for = Some("the controller, which has not looked at the newest change yet".to_owned());
    answer.then(Action::new("This takes a second or two. If it stays so, see whether the controller runs:").command("mainstay status"))
}

/// Where the facts could not be gathered, the conditions have to do.
pub(super) fn only_conditions(facts: &Facts, conditions: &Conditions<'_>, problem: &str) -> Explanation {
    let mut answer = match conditions.problem() {
        Some(text) => tried(facts, text),
        None => Explanation::new(
            extension_subject(name(&facts.snapshot.extension)),
            "not-checked",
            State::Healthy,
            "its conditions report no problem",
        ),
    };
    answer.notes.push(format!("what it waits for could not be looked at more closely: {problem}"));
    answer
}

/// The first line that says something.
pub(super) fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
}
