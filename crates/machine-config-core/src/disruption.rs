//! The disruption by a change of MachineConfig: actions, a drain, and a reason for each (MACH-DISR-01 to MACH-DISR-09).

use mainstay_ignition::Config;

use crate::difference::{self, Difference, DifferenceError, between, ignition_of};
use crate::machine_config::MachineConfig;
use crate::policy::{Action, Policies, clean, paths};
use crate::registries_conf::{self, RegistriesError, Unsafe};

/// Something that changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The image of the operating system.
    OsImage,
    /// The kernel's arguments.
    KernelArguments,
    /// The type of the kernel.
    KernelType,
    /// Extensions.
    Extensions,
    /// FIPS.
    Fips,
    /// A file.
    File(String),
    /// A unit.
    Unit(String),
    /// SSH keys, password or groups.
    SshKeys,
}

impl std::fmt::Display for Subject {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Subject::OsImage => out.write_str("os image"),
            Subject::KernelArguments => out.write_str("kernel arguments"),
            Subject::KernelType => out.write_str("kernel type"),
            Subject::Extensions => out.write_str("extensions"),
            Subject::Fips => out.write_str("fips"),
            Subject::File(path) => write!(out, "file {path}"),
            Subject::Unit(name) => write!(out, "unit {name}"),
            Subject::SshKeys => out.write_str("ssh keys"),
        }
    }
}

/// Why a change has its actions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// It is one of those that always need a reboot.
    #[error("changes of it always need a reboot")]
    Always,
    /// A policy covers it.
    #[error("policy of {0}")]
    Policy(String),
    /// The policy of SSH keys covers it.
    #[error("policy of ssh keys")]
    SshPolicy,
    /// No policy covers it.
    #[error("no policy covers it")]
    NoPolicy,
}

/// A change, what is done after it, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The change.
    pub subject: Subject,
    /// The actions.
    pub actions: Vec<Action>,
    /// Why.
    pub reason: Reason,
}

/// The verdict about a drain, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drain {
    /// It is, because it is rebooted or a policy asks for it.
    Asked,
    /// It is, because of the registries.
    Registries(Unsafe),
    /// It is not, although registries change: the change is safe.
    SafeRegistries,
    /// It is not, although registries change: ConfigMap `image-registry-override-drain` says so (MACH-DISR-07).
    Overridden,
    /// It is not; nothing asks for it.
    NotNeeded,
}

impl Drain {
    /// Returns whether the node is drained.
    pub fn is_needed(&self) -> bool {
        matches!(self, Drain::Asked | Drain::Registries(_))
    }
}

impl std::fmt::Display for Drain {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Drain::Asked => out.write_str("an action asks for it"),
            Drain::Registries(change) => write!(out, "registries.conf: {change}"),
            Drain::SafeRegistries => out.write_str("the change of registries.conf is safe"),
            Drain::Overridden => out.write_str("ConfigMap image-registry-override-drain says that registries.conf never drains"),
            Drain::NotNeeded => out.write_str("no action asks for it"),
        }
    }
}

/// The ConfigMap that keeps changes of registries from draining nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistryDrain {
    /// It is not there: changes that are not safe drain.
    AsNeeded,
    /// It is there: they never drain.
    Overridden,
}

/// The disruption by a change of MachineConfig.
#[derive(Clone, Debug, PartialEq)]
pub struct Disruption {
    /// The parts that differ.
    pub difference: Difference,
    /// Each change by itself.
    pub effects: Vec<Effect>,
    /// The actions for all of them together.
    pub actions: Vec<Action>,
    /// The verdict about the drain of the node; or that its registries cannot be read.
    pub drain: Result<Drain, RegistriesError>,
}

/// Decides what the change from the old to the new MachineConfig disturbs, by a cluster's policies (MACH-DISR-09).
pub fn disruption(
    old: &MachineConfig,
    new: &MachineConfig,
    policies: &Policies,
    registries: RegistryDrain,
) -> Result<Disruption, DifferenceError> {
    let old_ignition = ignition_of(old).map_err(DifferenceError::Old)?;
    let new_ignition = ignition_of(new).map_err(DifferenceError::New)?;
    let difference = between(&old.spec, &old_ignition, &new.spec, &new_ignition);
    let (files, units) = (difference::files(&old_ignition, &new_ignition), difference::units(&old_ignition, &new_ignition));
    let effects = effects(difference, &files, &units, policies);
    let actions = actions(&difference, &files, &units, policies);
    let drain = drain(&actions, &old_ignition, &new_ignition, registries);
    Ok(Disruption { difference, effects, actions, drain })
}

/// Each change by itself.
fn effects(difference: Difference, files: &[String], units: &[String], policies: &Policies) -> Vec<Effect> {
    let always = [
        (difference.os_update, Subject::OsImage),
        (difference.kargs, Subject::KernelArguments),
        (difference.kernel_type, Subject::KernelType),
        (difference.extensions, Subject::Extensions),
        (difference.fips, Subject::Fips),
    ];
    let mut effects: Vec<Effect> = always
        .into_iter()
        .filter(|(differs, _)| *differs)
        .map(|(_, subject)| Effect { subject, actions: vec![Action::Reboot], reason: Reason::Always })
        .collect();
    let covered = |subject: Subject, policy: Option<(&str, &[Action])>| match policy {
        Some((name, actions)) => Effect { subject, actions: actions.to_vec(), reason: Reason::Policy(name.to_owned()) },
        None => Effect { subject, actions: vec![Action::Reboot], reason: Reason::NoPolicy },
    };
    effects.extend(files.iter().map(|path| {
        let policy = policies.of_file(path).map(|policy| (policy.path.as_str(), policy.actions.as_slice()));
        covered(Subject::File(path.clone()), policy)
    }));
    effects.extend(units.iter().map(|name| {
        let policy = policies.of_unit(name).map(|policy| (policy.name.as_str(), policy.actions.as_slice()));
        covered(Subject::Unit(name.clone()), policy)
    }));
    if difference.passwd {
        let actions = policies.sshkey.actions.clone();
        effects.push(Effect { subject: Subject::SshKeys, actions, reason: Reason::SshPolicy });
    }
    effects
}

/// The actions of all changes together, by a cluster's policies.
pub fn actions(difference: &Difference, files: &[String], units: &[String], policies: &Policies) -> Vec<Action> {
    if difference.os_update || difference.kargs || difference.fips || difference.kernel_type || difference.extensions {
        return vec![Action::Reboot];
    }
    if !difference.files && !difference.units && !difference.passwd {
        return vec![Action::None];
    }
    let mut actions = Vec::new();
    for path in files {
        let Some(policy) = policies.of_file(path) else { return vec![Action::Reboot] };
        actions.extend_from_slice(&policy.actions);
    }
    for name in units {
        let Some(policy) = policies.of_unit(name) else { return vec![Action::Reboot] };
        actions.extend_from_slice(&policy.actions);
    }
    if difference.passwd {
        actions.extend_from_slice(&policies.sshkey.actions);
    }
    if actions.contains(&Action::Reboot) {
        return vec![Action::Reboot];
    }
    if actions.contains(&Action::None) {
        actions.retain(|action| *action != Action::None);
        if actions.is_empty() {
            actions.push(Action::None);
        }
    }
    actions
}

/// Returns true if these actions need a drain.
pub fn drain(actions: &[Action], old: &Config, new: &Config, registries: RegistryDrain) -> Result<Drain, RegistriesError> {
    if actions.iter().any(|action| matches!(action, Action::Reboot | Action::Drain)) {
        return Ok(Drain::Asked);
    }
    if actions.contains(&Action::Special) { registries_drain(old, new, registries) } else { Ok(Drain::NotNeeded) }
}

fn registries_drain(old: &Config, new: &Config, registries: RegistryDrain) -> Result<Drain, RegistriesError> {
    if registries == RegistryDrain::Overridden {
        return Ok(Drain::Overridden);
    }
    Ok(registries_conf::check(old, new)?.map_or(Drain::SafeRegistries, Drain::Registries))
}

/// The action from before there were policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LegacyAction {
    /// Nothing.
    None,
    /// CRI-O reads its configuration again.
    ReloadCrio,
    /// CRI-O is restarted.
    RestartCrio,
    /// The node is rebooted.
    Reboot,
}

impl std::fmt::Display for LegacyAction {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            LegacyAction::None => "none",
            LegacyAction::ReloadCrio => "reload crio",
            LegacyAction::RestartCrio => "restart crio",
            LegacyAction::Reboot => "reboot",
        })
    }
}

/// The action of all changes together, without policies (MACH-DISR-01 to MACH-DISR-05).
pub fn legacy_action(difference: &Difference, files: &[String]) -> LegacyAction {
    let differs =
        difference.os_update || difference.kargs || difference.fips || difference.units || difference.kernel_type || difference.extensions;
    if differs {
        return LegacyAction::Reboot;
    }
    let mut action = LegacyAction::None;
    for path in files {
        let directory = directory_of(path);
        match path.as_str() {
            paths::KUBELET_CA | paths::KUBELET_AUTH => {}
            paths::REGISTRIES | paths::GPG_NO_REBOOT | paths::POLICY => action = reload_after(action),
            _ if directory == paths::SIGSTORE => action = reload_after(action),
            paths::USER_CA => action = LegacyAction::RestartCrio,
            _ if directory == paths::NMSTATE => {}
            _ => return LegacyAction::Reboot,
        }
    }
    action
}

/// A restart that was already asked for does more than a reload.
fn reload_after(action: LegacyAction) -> LegacyAction {
    if action == LegacyAction::RestartCrio { action } else { LegacyAction::ReloadCrio }
}

/// The directory of a path, as Go's `filepath.Dir` has it.
fn directory_of(path: &str) -> String {
    clean(path.rfind('/').map_or("", |slash| &path[..=slash]))
}

/// Returns true if the legacy action needs a drain.
pub fn legacy_drain(
    action: LegacyAction,
    files: &[String],
    old: &Config,
    new: &Config,
    registries: RegistryDrain,
) -> Result<Drain, RegistriesError> {
    match action {
        LegacyAction::Reboot => Ok(Drain::Asked),
        LegacyAction::ReloadCrio | LegacyAction::RestartCrio if files.iter().any(|path| path == paths::REGISTRIES) => {
            registries_drain(old, new, registries)
        }
        _ => Ok(Drain::NotNeeded),
    }
}
