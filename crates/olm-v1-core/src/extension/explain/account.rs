//! The account with which an extension is installed, its permissions, and the install records (OLM1-CTRL-03, OLM1-PERM-14).

use mainstay_bundle::permissions::{Grant, Scope, missing};
use mainstay_lifecycle::preflight::Report;
use serde_json::json;

use super::super::account_name;
use super::super::facts::UnreadableHistory;
use super::super::permissions::default_account;
use super::remedy::ByRemedy as _;
use super::words::{first_line, held};
use super::{Action, Explanation, Facts, Remedy, State, extension_subject, name};

pub(super) fn no_account(facts: &Facts, account: &str) -> Explanation {
    let extension = &*facts.snapshot.extension;
    let (name, namespace) = (name(extension), &extension.spec.namespace);
    let why = "an extension is installed with the permissions of this account, and with no others";
    if account.is_empty() {
        let made = default_account(name);
        return held(facts, "no-account-named", "it names no ServiceAccount to install with".to_owned()).because(why).then(
            Action::new("Name an account, and make it with the permissions that this package needs:").by(
                extension,
                Remedy::All(vec![Remedy::Account(made), Remedy::Grant { namespace: facts.namespace_exists == Some(false) }]),
            ),
        );
    }
    let mut action = Action::new("Make the account, with the permissions that this package needs:");
    let mut answer =
        held(facts, "account-missing", format!("the ServiceAccount {account} does not exist in namespace {namespace}")).because(why);
    let makes = facts.plan.as_ref().is_ok_and(|plan| plan.namespace.is_some());
    if facts.namespace_exists == Some(false) && makes {
        answer = answer.because(format!("namespace {namespace} does not exist either; the controller makes it, as the extension asks"));
    } else if facts.namespace_exists == Some(false) {
        answer = answer.because(format!("namespace {namespace} does not exist either"));
        action = Action::new("Make the namespace, and the account with the permissions that this package needs:");
    }
    answer.then(action.by(extension, Remedy::Grant { namespace: facts.namespace_exists == Some(false) }))
}

/// The explanation if the controller cannot create a token for the account, so that it cannot act for the extension (OLM1-PERM-01).
pub(super) fn not_lent(facts: &Facts) -> Explanation {
    let extension = &*facts.snapshot.extension;
    let (namespace, account) = (&extension.spec.namespace, account_name(extension));
    held(facts, "account-not-lent", format!("operator-controller may not act as the ServiceAccount {account} in namespace {namespace}"))
        .because(format!("it lacks the permission to create serviceaccounts/token of {account} in namespace {namespace}"))
        .because("it acts as the account of each extension, and is granted that account by account")
        .then(grant_permissions(facts, "Grant it this account, with what the package needs of the account itself:"))
}

/// The explanation of missing permissions: verbs, escalation and roles (OLM1-PERM-14).
pub(super) fn permissions(facts: &Facts, report: &Report, granting: bool) -> Explanation {
    let extension = &*facts.snapshot.extension;
    let account = format!("{}/{}", extension.spec.namespace, account_name(extension));
    let grants: Vec<String> = grants(report).iter().map(Grant::to_string).collect();
    let unknown: Vec<&str> = report.errors.iter().map(String::as_str).collect();
    if grants.is_empty() {
        let mut answer = held(facts, "role-missing", "a role that a binding refers to does not exist".to_owned());
        answer.why.extend(unknown.iter().map(|error| (*error).to_owned()));
        return answer.then(Action::new("Make the role, or delete the binding that refers to it; the check is made again by itself."));
    }
    let lacking = if grants.len() == 1 { "a permission".to_owned() } else { format!("{} permissions", grants.len()) };
    let mut answer = held(facts, "rights-missing", format!("the account {account} lacks {lacking} that this version needs"));
    answer.why.extend(grants);
    answer.why.extend(unknown.iter().map(|error| format!("and perhaps more, since {error}")));
    answer.notes.extend(granting.then(|| {
        "some of these are what the operator's own roles grant: no user may grant permissions that they do not have themselves".to_owned()
    }));
    answer.then(grant_permissions(facts, "Grant the account what this version needs, and no more:"))
}

pub(super) fn grant_permissions(facts: &Facts, text: &str) -> Action {
    Action::new(text).by(&facts.snapshot.extension, Remedy::Grant { namespace: false })
}

/// The missing permissions, as grants.
fn grants(report: &Report) -> Vec<Grant> {
    let grants: Vec<Grant> = report
        .missing
        .iter()
        .flat_map(|(namespace, rules)| {
            let scope = if namespace.is_empty() { Scope::Cluster } else { Scope::Namespace(namespace.clone()) };
            rules.iter().map(move |rule| Grant { scope: scope.clone(), rule: rule.clone() })
        })
        .collect();
    missing(&[], &grants)
}

pub(super) fn record(facts: &Facts, unreadable: &UnreadableHistory) -> Explanation {
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
    let answer = answer.because(first_line(&unreadable.to_string()).to_owned());
    let runs = facts.snapshot.extension.status.as_ref().and_then(|status| status.install.as_ref()).map(|install| &install.bundle.version);
    let pinned = Remedy::Request(json!({"version": runs.map_or("VERSION", String::as_str)})).commands(&facts.snapshot.extension);
    match &unreadable.secret {
        Some(secret) => answer.then(Action::new(format!("Restore the Secret {secret} from a backup."))).or(Action::new(
            "If there is no backup: pin the version that runs, and drop the record. The objects are found again as its own",
        )
        .commands(pinned)
        .command(format!("kubectl delete secret {secret} --namespace olmv1-system"))
        .warns("without the pin the newest version is installed, whatever ran before")),
        None => answer.then(
            Action::new("See whether the controller may read its records, and whether they are there:")
                .command("kubectl get secrets --namespace olmv1-system"),
        ),
    }
}
