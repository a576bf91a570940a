//! The admission plugins of kube-apiserver by name: their order, which of them are on, and `--enable-admission-plugins` and
//! `--disable-admission-plugins`.

use std::collections::BTreeSet;

/// The presence of a plugin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// On unless it is disabled.
    On,
    /// Off unless it is enabled.
    Off,
    /// kube-apiserver has it, this server has not.
    Missing,
}

/// Every plugin that kube-apiserver knows, and the one of OpenShift's API server that this server has, in the order in which they run.
const ORDER: [(&str, State); 37] = [
    ("AlwaysAdmit", State::Missing),
    ("NamespaceAutoProvision", State::Missing),
    ("NamespaceLifecycle", State::On),
    ("NamespaceExists", State::Missing),
    ("LimitPodHardAntiAffinityTopology", State::Missing),
    ("LimitRanger", State::On),
    ("ServiceAccount", State::On),
    ("NodeRestriction", State::Missing),
    ("TaintNodesByCondition", State::On),
    ("AlwaysPullImages", State::Off),
    ("ImagePolicyWebhook", State::Missing),
    ("PodSecurity", State::On),
    ("PodNodeSelector", State::Missing),
    ("ProjectNodeEnv", State::On),
    ("Priority", State::On),
    ("DefaultTolerationSeconds", State::On),
    ("PodTolerationRestriction", State::Missing),
    ("EventRateLimit", State::Missing),
    ("ExtendedResourceToleration", State::Missing),
    ("DefaultStorageClass", State::On),
    ("StorageObjectInUseProtection", State::On),
    ("OwnerReferencesPermissionEnforcement", State::Off),
    ("PersistentVolumeClaimResize", State::On),
    ("RuntimeClass", State::On),
    ("CertificateApproval", State::On),
    ("CertificateSigning", State::On),
    ("ClusterTrustBundleAttest", State::Missing),
    ("CertificateSubjectRestriction", State::On),
    ("DefaultIngressClass", State::On),
    ("DenyServiceExternalIPs", State::Off),
    ("PodTopologyLabels", State::Missing),
    ("MutatingAdmissionPolicy", State::Missing),
    ("MutatingAdmissionWebhook", State::On),
    ("ValidatingAdmissionPolicy", State::On),
    ("ValidatingAdmissionWebhook", State::On),
    ("ResourceQuota", State::On),
    ("AlwaysDeny", State::Missing),
];

/// The first plugin of those that others configure; steps that are no plugins stand before it.
const FIRST_CONFIGURED: &str = "MutatingAdmissionPolicy";

/// Why a choice of plugins cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    /// Nobody knows the name.
    #[error("{option} plugin {name:?} is unknown")]
    Unknown {
        /// `enable-admission-plugins` or `disable-admission-plugins`.
        option: &'static str,
        /// The name.
        name: String,
    },
    /// Both options name it.
    #[error("[{}] in enable-admission-plugins and disable-admission-plugins overlapped", .0.join(" "))]
    Overlapped(Vec<String>),
    /// kube-apiserver has it, this server has not.
    #[error("enable-admission-plugins plugin {0:?} is not part of this version of mainstay")]
    Missing(String),
}

/// The plugins that are on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugins(BTreeSet<&'static str>);

impl Default for Plugins {
    /// Those that kube-apiserver has on.
    fn default() -> Self {
        Self(ORDER.iter().filter(|(_, state)| *state == State::On).map(|(name, _)| *name).collect())
    }
}

impl Plugins {
    /// The default plugins, those that are enabled besides, and without those that are disabled.
    pub fn choose(enabled: &[String], disabled: &[String]) -> Result<Self, PluginError> {
        let known = |option: &'static str, name: &String| {
            let found = ORDER.iter().find(|(known, _)| known == name);
            found.copied().ok_or_else(|| PluginError::Unknown { option, name: name.clone() })
        };
        let both: Vec<String> = enabled.iter().filter(|name| disabled.contains(name)).cloned().collect();
        if !both.is_empty() {
            return Err(PluginError::Overlapped(both));
        }
        let mut chosen = Self::default();
        for name in enabled {
            match known("enable-admission-plugins", name)? {
                (name, State::Missing) => return Err(PluginError::Missing(name.to_owned())),
                (name, _) => chosen.0.insert(name),
            };
        }
        for name in disabled {
            chosen.0.remove(known("disable-admission-plugins", name)?.0);
        }
        Ok(chosen)
    }

    /// Returns whether a plugin is on.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// The names that can be enabled or disabled, in order; whether each is on by itself.
    pub fn known() -> impl Iterator<Item = (&'static str, bool)> {
        ORDER.iter().filter(|(_, state)| *state != State::Missing).map(|(name, state)| (*name, *state == State::On))
    }
}

/// The place of a plugin among all steps; those of an unknown name stand before all that others configure.
pub(super) fn place(name: &str) -> usize {
    let at = |name: &str| ORDER.iter().position(|(known, _)| *known == name);
    // Odd places are left for steps that are no plugins.
    at(name).map_or_else(|| 2 * at(FIRST_CONFIGURED).unwrap_or_default() - 1, |at| 2 * at)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn choose(enabled: &[&str], disabled: &[&str]) -> Result<Plugins, String> {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        Plugins::choose(&owned(enabled), &owned(disabled)).map_err(|error| error.to_string())
    }

    /// KAPI-ADM-03: plugins are enabled and disabled as kube-apiserver's options do it.
    #[test]
    fn choices() {
        let plugins = choose(&[], &[]).unwrap();
        assert!(plugins.has("ResourceQuota") && !plugins.has("OwnerReferencesPermissionEnforcement") && !plugins.has("NodeRestriction"));
        let plugins = choose(&["OwnerReferencesPermissionEnforcement", "LimitRanger"], &["ResourceQuota", "NodeRestriction"]).unwrap();
        assert!(plugins.has("OwnerReferencesPermissionEnforcement") && plugins.has("LimitRanger") && !plugins.has("ResourceQuota"));
        for (enabled, disabled, expected) in [
            (&["Priorty"][..], &[][..], "enable-admission-plugins plugin \"Priorty\" is unknown"),
            (&[], &["quota"], "disable-admission-plugins plugin \"quota\" is unknown"),
            (
                &["Priority", "LimitRanger"],
                &["LimitRanger"],
                "[LimitRanger] in enable-admission-plugins and disable-admission-plugins overlapped",
            ),
            (&["NodeRestriction"], &[], "enable-admission-plugins plugin \"NodeRestriction\" is not part of this version of mainstay"),
        ] {
            assert_eq!(choose(enabled, disabled).unwrap_err(), expected);
        }
    }

    #[test]
    fn quotas_are_last_and_steps_of_our_own_come_before_webhooks() {
        assert!(place("ResourceQuota") > place("ValidatingAdmissionWebhook"));
        assert!(place("our own") < place("MutatingAdmissionWebhook") && place("our own") > place("DefaultIngressClass"));
        assert!(place("LimitRanger") < place("ServiceAccount"));
    }
}
