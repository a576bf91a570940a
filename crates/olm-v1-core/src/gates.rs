//! Feature gates of both controllers (OLM1-GEN-08).

use std::collections::BTreeMap;
use std::fmt;

use mainstay_bundle::CertificateProvider;

/// A gate: its name, its defaults for `mainstay run` (upstream's) and for `mainstay up`, and whether this program implements it.
struct Gate {
    name: &'static str,
    run: bool,
    up: bool,
    implemented: bool,
}

const fn gate(name: &'static str, run: bool, up: bool, implemented: bool) -> Gate {
    Gate { name, run, up, implemented }
}

const GATES: [Gate; 11] = [
    gate("APIV1MetasHandler", false, true, true),
    gate("BoxcutterRuntime", false, false, false),
    gate("BundleReleaseSupport", false, false, false),
    gate("DeploymentConfig", false, true, true),
    gate("GraphQLCatalogQueries", false, false, false),
    gate("HelmChartSupport", false, false, false),
    gate("PreflightPermissions", false, true, true),
    gate("SingleOwnNamespaceInstallSupport", false, true, true),
    gate("SyntheticPermissions", false, false, false),
    gate("WebhookProviderCertManager", true, false, true),
    gate("WebhookProviderOpenshiftServiceCA", true, true, true),
];

/// The profile whose defaults apply to gates that are not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// `mainstay run`: upstream's.
    Run,
    /// `mainstay up`.
    Up,
}

/// The state of every gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureGates {
    states: BTreeMap<&'static str, (bool, bool)>,
}

/// A `--feature-gates` value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// No such gate.
    #[error("unrecognized feature gate: {name}; known: {known}", known = GATES.map(|gate| gate.name).join(", "))]
    Unknown {
        /// The name as given.
        name: String,
    },
    /// Neither `true` nor `false`.
    #[error("invalid value of {name}={value}: expected true or false")]
    Value {
        /// The gate.
        name: String,
        /// The value as given.
        value: String,
    },
    /// No `=`.
    #[error("missing bool value for {name}: write {name}=true or {name}=false")]
    NoValue {
        /// The text as given.
        name: String,
    },
}

impl FeatureGates {
    /// The defaults of a profile.
    pub fn defaults(profile: Profile) -> Self {
        let state = |gate: &Gate| if profile == Profile::Up { gate.up } else { gate.run };
        Self { states: GATES.iter().map(|gate| (gate.name, (state(gate), false))).collect() }
    }

    /// The defaults, changed by `NAME=true|false,...`.
    pub fn parse(profile: Profile, given: &str) -> Result<Self, GateError> {
        let mut gates = Self::defaults(profile);
        for part in given.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let Some((name, value)) = part.split_once('=') else {
                return Err(GateError::NoValue { name: part.to_owned() });
            };
            let known = GATES.iter().find(|gate| gate.name == name.trim()).ok_or_else(|| GateError::Unknown { name: name.to_owned() })?;
            let on = match value.trim() {
                "true" => true,
                "false" => false,
                _ => return Err(GateError::Value { name: name.to_owned(), value: value.to_owned() }),
            };
            gates.states.insert(known.name, (on, true));
        }
        Ok(gates)
    }

    /// Returns a copy with a gate turned on.
    pub fn with(&self, name: &str) -> Result<Self, GateError> {
        let known = GATES.iter().find(|gate| gate.name == name).ok_or_else(|| GateError::Unknown { name: name.to_owned() })?;
        let mut gates = self.clone();
        gates.states.insert(known.name, (true, true));
        Ok(gates)
    }

    /// Returns true if a gate is on.
    pub fn on(&self, name: &str) -> bool {
        self.states.get(name).is_some_and(|(on, _)| *on)
    }

    /// The gates in order: name, state, and whether it was set.
    pub fn states(&self) -> impl Iterator<Item = (&'static str, bool, bool)> + '_ {
        self.states.iter().map(|(name, (on, set))| (*name, *on, *set))
    }

    /// Gates that are on although this program does not implement them.
    pub fn unimplemented(&self) -> Vec<&'static str> {
        GATES.iter().filter(|gate| !gate.implemented && self.on(gate.name)).map(|gate| gate.name).collect()
    }

    /// The provider of certificates for webhooks: cert-manager if both gates are on.
    pub fn certificates(&self) -> CertificateProvider {
        if self.on("WebhookProviderCertManager") {
            CertificateProvider::CertManager
        } else if self.on("WebhookProviderOpenshiftServiceCA") {
            CertificateProvider::OpenshiftServiceCa
        } else {
            CertificateProvider::None
        }
    }
}

impl fmt::Display for FeatureGates {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, on, _)) in self.states().enumerate() {
            write!(out, "{}{name}={on}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OLM1-GEN-08: defaults of both ways to live, and what a flag changes.
    #[test]
    fn gates_have_two_sets_of_defaults() {
        let run = FeatureGates::defaults(Profile::Run);
        let up = FeatureGates::defaults(Profile::Up);
        assert_eq!((run.on("PreflightPermissions"), up.on("PreflightPermissions")), (false, true));
        assert_eq!((run.certificates(), up.certificates()), (CertificateProvider::CertManager, CertificateProvider::OpenshiftServiceCa));
        let off = FeatureGates::parse(Profile::Up, "WebhookProviderOpenshiftServiceCA=false").map(|gates| gates.certificates());
        assert_eq!(off, Ok(CertificateProvider::None));
        assert_eq!(FeatureGates::parse(Profile::Up, "Nonsense=true"), Err(GateError::Unknown { name: "Nonsense".into() }));
        let odd = FeatureGates::parse(Profile::Up, "HelmChartSupport=true").map(|gates| gates.unimplemented());
        assert_eq!(odd, Ok(vec!["HelmChartSupport"]));
    }
}
