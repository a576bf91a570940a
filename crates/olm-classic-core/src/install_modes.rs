//! Install modes of a CSV against the targets of its OperatorGroup (OLM0-OG-03 to OLM0-OG-05).

use std::collections::BTreeMap;

use mainstay_bundle::InstallMode;

/// Why a CSV cannot be a member of a group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// A mode is listed twice.
    #[error("InstallMode list contains duplicates, cannot make set: [{0}]")]
    Duplicates(String),
    /// There are no targets.
    #[error("operatorgroup has invalid selected namespaces, cannot configure to watch zero namespaces")]
    NoTargets,
    /// Every namespace is among named ones.
    #[error("operatorgroup has invalid selected namespaces, NamespaceAll found when |selected namespaces| > 1")]
    AllAndNamed,
    /// A mode that is needed is not supported.
    #[error("{mode} InstallModeType not supported, cannot configure to watch {watched}")]
    Mode {
        /// The mode.
        mode: &'static str,
        /// The targets in words.
        watched: String,
    },
}

/// The modes of a CSV, each once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstallModes(BTreeMap<String, bool>);

impl InstallModes {
    /// Reads a list, in which no mode may stand twice.
    pub fn new(modes: &[InstallMode]) -> Result<Self, Unsupported> {
        let mut set = BTreeMap::new();
        for mode in modes {
            if set.insert(mode.mode.clone(), mode.supported).is_some() {
                let shown: Vec<String> = modes.iter().map(|mode| format!("{{{} {}}}", mode.mode, mode.supported)).collect();
                return Err(Unsupported::Duplicates(shown.join(" ")));
            }
        }
        Ok(Self(set))
    }

    /// Checks that an operator in a namespace can have these targets. A mode that is not listed is not supported.
    pub fn supports(&self, operator_namespace: &str, targets: &[String]) -> Result<(), Unsupported> {
        let need = |mode: &'static str, watched: &str| {
            if self.0.get(mode).copied().unwrap_or_default() {
                return Ok(());
            }
            Err(Unsupported::Mode { mode, watched: watched.to_owned() })
        };
        match targets {
            [] => Err(Unsupported::NoTargets),
            [one] if one == operator_namespace => need("OwnNamespace", "own namespace"),
            [one] if one.is_empty() => need("AllNamespaces", "all namespaces"),
            [_] => need("SingleNamespace", "one namespace"),
            several => {
                need("MultiNamespace", &format!("{} namespaces", several.len()))?;
                for namespace in several {
                    if namespace == operator_namespace {
                        need("OwnNamespace", "own namespace")?;
                    }
                    if namespace.is_empty() {
                        return Err(Unsupported::AllAndNamed);
                    }
                }
                Ok(())
            }
        }
    }
}
