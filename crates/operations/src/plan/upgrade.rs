//! A plan of another version or channel, and the parts that every change of an existing extension shares.

use mainstay_api::lifecycle::CRD_UPGRADE_SAFETY;
use mainstay_bundle::permissions::{Grant, missing};
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_objects::ObjectRef;
use mainstay_olm_v1_core::extension::account_name;
use mainstay_olm_v1_core::extension::permissions::{Installer, manifests};
use mainstay_olm_v1_core::extension::plan::WARN;
use serde_json::{Value, json};

use super::installer::{Granted, administrator, labelled};
use super::{Planned, Planner, apply_step, merged, patch_step, read};
use crate::change::{Change, CrdSafety, InstallerPermissions};
use crate::view::{AssumedPermissions, Depth, PlannedBundle};

/// The request of an upgrade.
pub(super) struct UpgradeRequest<'a> {
    pub version: Option<&'a str>,
    pub channels: &'a [String],
    pub grant: Option<InstallerPermissions>,
    pub crd_safety: Option<CrdSafety>,
}

impl Planner<'_, '_> {
    pub(super) async fn upgrade(&mut self, change: &Change, name: &str, request: UpgradeRequest<'_>) -> Result<Planned, Failure> {
        let UpgradeRequest { version, channels, grant, crd_safety } = request;
        let live = self.existing(name).await?;
        if live.pointer("/spec/source/catalog").is_none() {
            return Err(Failure::new(FailureKind::Impossible, format!("clusterextension {name}"), "has no catalog as its source"));
        }
        let kept = live.pointer("/spec/source/catalog/channels").cloned().unwrap_or_default();
        let channels = if channels.is_empty() { kept } else { Value::from(channels.to_vec()) };
        let mut patch = json!({"spec": {"source": {"catalog": {"version": version, "channels": channels}}}});
        let mut choices = Vec::new();
        match crd_safety {
            None => {}
            Some(CrdSafety::Strict) => patch["metadata"] = json!({"annotations": {CRD_UPGRADE_SAFETY: null}}),
            Some(CrdSafety::Warn) => {
                let accepted = self.unsafe_bundles(&live, &patch).await?;
                if accepted.is_empty() {
                    choices.push("the check of CRDs stays as it is: it finds nothing to accept".to_owned());
                } else {
                    patch["metadata"] = json!({"annotations": {CRD_UPGRADE_SAFETY: format!("{WARN}:{}", accepted.join(","))}});
                    choices.push(format!("unsafe changes of CRDs are accepted for {}, and for no other bundle", accepted.join(", ")));
                }
            }
        }
        let mut planned = self.patched(change, live, patch, grant).await?;
        planned.choices.extend(choices);
        Ok(planned)
    }

    /// Returns the bundles of the path that change CRDs in a way that the check refuses.
    async fn unsafe_bundles(&mut self, live: &Value, patch: &Value) -> Result<Vec<String>, Failure> {
        let mut wanted = merged(live.clone(), patch);
        wanted["metadata"]["annotations"][CRD_UPGRADE_SAFETY] = WARN.into();
        let path = self.view.path(&read(&wanted)?, &AssumedPermissions::All, Depth::Plan, self.progress).await?;
        let finds = |bundle: &&PlannedBundle| bundle.step.custom_resource_definitions.iter().any(|crd| !crd.findings.is_empty());
        Ok(path.iter().filter(finds).filter_map(|bundle| Some(bundle.step.bundle.as_ref()?.name.clone())).collect())
    }

    pub(super) async fn patched(
        &mut self,
        change: &Change,
        live: Value,
        patch: Value,
        grant: Option<InstallerPermissions>,
    ) -> Result<Planned, Failure> {
        let name = change.extension().to_owned();
        let wanted = read(&merged(live, &patch))?;
        let (mut writes, mut permissions) = (Vec::new(), Vec::new());
        let granted = Granted::read(self.view.session, &wanted).await?;
        let installer = || Installer {
            extension: name.clone(),
            service_account: account_name(&wanted).to_owned(),
            namespace: wanted.spec.namespace.clone(),
        };
        // An account that install did not create gets permissions only if the request says so.
        let granted = granted
            .or_else(|| (grant == Some(InstallerPermissions::Minimal)).then(|| Granted { installer: installer(), grants: Vec::new() }));
        let assumed = match granted {
            _ if grant == Some(InstallerPermissions::Admin) => {
                permissions.push("everything (cluster-admin)".to_owned());
                let mut made: Vec<Value> = administrator(&installer()).into_iter().map(|object| labelled(object, &name)).collect();
                // An existing binding is to another role, and keeps it.
                made.retain(|object| object["kind"] != "ServiceAccount");
                for binding in &mut made {
                    binding["metadata"]["name"] = format!("{name}-installer-admin").into();
                }
                writes.extend(made.iter().cloned().map(apply_step));
                AssumedPermissions::With(made)
            }
            None => AssumedPermissions::Live,
            Some(granted) => {
                let needed = self.needed(&wanted).await?;
                let beyond = needed.as_deref().map(|needed| missing(&granted.grants, needed)).unwrap_or_default();
                permissions = beyond.iter().map(ToString::to_string).collect();
                if needed.is_none() {
                    AssumedPermissions::All
                } else if beyond.is_empty() {
                    AssumedPermissions::Live
                } else {
                    let all: Vec<Grant> = granted.grants.into_iter().chain(beyond).collect();
                    let mut made: Vec<Value> =
                        manifests(&all, &granted.installer).into_iter().map(|object| labelled(object, &name)).collect();
                    // The account exists; if it is the user's own, an uninstall must not take it for ours.
                    made.retain(|object| object["kind"] != "ServiceAccount");
                    self.check_bindings(&name, &made).await?;
                    writes.extend(made.iter().cloned().map(apply_step));
                    AssumedPermissions::With(made)
                }
            }
        };
        let account = (wanted.spec.namespace.as_str(), account_name(&wanted));
        if self.view.may_act_as(account).await == Some(false) {
            let access = self.view.token_access(&name, account).await;
            writes.extend(access.into_iter().map(|object| apply_step(labelled(object, &name))));
        }
        writes.push(patch_step(&name, patch));
        let path = self.view.path(&wanted, &assumed, self.depth, self.progress).await?;
        self.planned(change, &wanted, writes, permissions, path).await
    }

    /// Refuses to bind an account to a role if a binding of the name leads to another role, for example because the account was made an
    /// administrator: the API does not let the role of a binding change.
    async fn check_bindings(&mut self, name: &str, made: &[Value]) -> Result<(), Failure> {
        for binding in made.iter().filter(|object| object["kind"].as_str().is_some_and(|kind| kind.ends_with("RoleBinding"))) {
            let target = ObjectRef::of(binding).map_err(|error| Failure::failed("binding", &error))?;
            let Some(live) = self.view.look(&target).await? else { continue };
            if live["roleRef"]["kind"] == binding["roleRef"]["kind"] && live["roleRef"]["name"] == binding["roleRef"]["name"] {
                continue;
            }
            let (kind, role) = (target.kind.to_lowercase(), live["roleRef"]["name"].as_str().unwrap_or_default());
            let place = if target.namespace.is_empty() { String::new() } else { format!(" -n {}", target.namespace) };
            let message = format!("binds the account of extension {name} to {role}, and the role of a binding cannot be changed");
            return Err(Failure::new(FailureKind::Impossible, format!("{kind} {}", target.name), message)
                .because(format!("the least permissions are granted by a {} of this name", target.kind))
                .hint(format!("kubectl delete {kind} {}{place} && mainstay upgrade {name} --grant minimal", target.name)));
        }
        Ok(())
    }
}
