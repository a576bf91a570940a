//! The facts of a snapshot other than live objects, with the revision of each (MS-PLAN-02).

use mainstay_lifecycle::preview::FactRevision;
use mainstay_rbac::{UserInfo, compact_string, rules_for};
use sha2::{Digest, Sha256};

use super::super::account_name;
use super::super::facts::Snapshot;

/// The facts of a snapshot other than live objects: install records, the account, and its permissions.
pub fn revisions(snapshot: &Snapshot) -> Vec<FactRevision> {
    let mut all = Vec::new();
    let records = match &snapshot.history {
        Err(problem) => format!("not readable: {problem}"),
        Ok(history) => history.latest().map_or_else(
            || "none".to_owned(),
            |latest| {
                let bundle = &latest.record.bundle;
                format!(
                    "revision {} ({}), {} {}, {}",
                    latest.number,
                    latest.state.as_str(),
                    bundle.name,
                    bundle.version,
                    latest.record.digest()
                )
            },
        ),
    };
    all.push(FactRevision::of("install records", records));
    let (account, namespace) = (account_name(&snapshot.extension), &snapshot.extension.spec.namespace);
    if let Some(known) = &snapshot.known.account {
        let was = match known {
            Ok(true) => "exists".to_owned(),
            Ok(false) => "absent".to_owned(),
            Err(problem) => format!("not known: {problem}"),
        };
        all.push(FactRevision::of(format!("service account {namespace}/{account}"), was));
    }
    if let Some(policy) = &snapshot.known.policy {
        let user = UserInfo::service_account(namespace, account);
        let mut rules: Vec<String> = ["", namespace]
            .iter()
            .flat_map(|space| rules_for(&**policy, &user, space).rules.iter().map(compact_string).collect::<Vec<_>>())
            .collect();
        rules.sort();
        rules.dedup();
        all.push(FactRevision::of(
            format!("permissions of service account {namespace}/{account}"),
            format!("{} rules, {}", rules.len(), digest(&rules.join("\n"))),
        ));
    }
    all
}

fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(8).fold(String::from("sha256:"), |text, byte| text + &format!("{byte:02x}"))
}
