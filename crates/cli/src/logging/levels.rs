//! Log levels, by component: one for everything, and others for selected components.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use mainstay_runtime::RECONCILE;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;

/// Why a text names no log levels.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidLevels(String);

/// The target of lines about changed levels.
pub const CHANGES: &str = "log_levels";

/// The longest text of levels, in bytes.
pub const MOST: usize = 1024;

/// The components, and the modules whose lines belong to them. If two match a line, the longer module decides.
const COMPONENTS: [(&str, &[&str]); 19] = [
    ("api", &["mainstay_apiserver"]),
    ("apply", &["mainstay_apply"]),
    ("autoscaler", &["mainstay_autoscaler", "mainstay_autoscaler_core"]),
    ("catalogd", &["mainstay_olm_v1::catalog", "mainstay_image_source::mirrors", "mainstay_olm_v1::serving"]),
    ("catalogs", &["mainstay_catalog", "mainstay_catalog_store", "mainstay_catalog_serve", "mainstay_catalog_refs"]),
    ("clients", &["hyper", "hyper_util", "reqwest", "h2", "rustls", "tower", "kube", "kube_client", "kube_runtime"]),
    ("cloud-credential", &["mainstay_cloud_credential", "mainstay_cloud_credential_core"]),
    ("cluster-operator", &["mainstay_olm_v1::cluster_operator"]),
    ("machine-api", &["mainstay_machine_api", "mainstay_machine_core"]),
    (
        "machine-config",
        &[
            "mainstay_machine_config",
            "mainstay_machine_config_core",
            "mainstay_machine_config_server",
            "mainstay_node_agent",
            "mainstay_drain",
        ],
    ),
    ("mainstay", &["mainstay"]),
    ("network-extras", &["mainstay_network_extras"]),
    ("oci", &["mainstay_oci", "mainstay_image_source::source", "mainstay_image_source::registries", "mainstay_olm_v1::images"]),
    ("olm-v1", &["mainstay_olm_v1", "mainstay_image_source"]),
    ("operator-controller", &["mainstay_olm_v1::extension"]),
    ("runtime", &["mainstay_runtime", "mainstay_serve"]),
    ("service-ca", &["mainstay_service_ca"]),
    ("store", &["mainstay_store"]),
    ("workloads", &["mainstay_workloads"]),
];

const NAMES: [(&str, LevelFilter); 6] = [
    ("off", LevelFilter::OFF),
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];

/// The log levels of the components.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels {
    default: LevelFilter,
    components: BTreeMap<&'static str, LevelFilter>,
}

/// A hint that describes valid levels.
pub fn hint() -> String {
    let components = COMPONENTS.map(|(name, _)| name).join(", ");
    format!("LEVEL or LEVEL,COMPONENT=LEVEL,...: levels are {}; components are {components}", NAMES.map(|(name, _)| name).join(", "))
}

impl FromStr for Levels {
    type Err = InvalidLevels;

    fn from_str(text: &str) -> Result<Self, InvalidLevels> {
        if text.len() > MOST {
            return Err(InvalidLevels(format!("log levels of {} bytes; at most {MOST} are read", text.len())));
        }
        let (mut default, mut components) = (None, BTreeMap::new());
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let twice = match part.split_once('=') {
                None => default.replace(level(part)?).is_some(),
                Some((component, wanted)) => {
                    let known = COMPONENTS.iter().find(|(name, _)| *name == component.trim());
                    let (name, _) = known.ok_or_else(|| InvalidLevels(format!("{:?} is no component of the log", component.trim())))?;
                    components.insert(*name, level(wanted.trim())?).is_some()
                }
            };
            if twice {
                return Err(InvalidLevels(format!("{part} is given twice")));
            }
        }
        if default.is_none() && components.is_empty() {
            return Err(InvalidLevels("no level is given".to_owned()));
        }
        Ok(Self { default: default.unwrap_or(LevelFilter::INFO), components })
    }
}

fn level(text: &str) -> Result<LevelFilter, InvalidLevels> {
    NAMES
        .iter()
        .find(|(name, _)| *name == text)
        .map(|(_, level)| *level)
        .ok_or_else(|| InvalidLevels(format!("{text:?} is no level of the log")))
}

impl fmt::Display for Levels {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.default)?;
        self.components.iter().try_for_each(|(name, level)| write!(out, ",{name}={level}"))
    }
}

impl Levels {
    /// The filter that lets exactly these lines through.
    pub fn targets(&self) -> Targets {
        let modules = COMPONENTS.iter().filter_map(|(name, modules)| Some((modules, *self.components.get(name)?)));
        let modules = modules.flat_map(|(modules, level)| modules.iter().map(move |module| (*module, level)));
        // A prefix stands for everything that begins with it, `mainstay` for every crate of this program: those have the level of everything, unless
        // they are named.
        let own = COMPONENTS.iter().filter(|(name, _)| *name != "mainstay").flat_map(|(_, modules)| modules.iter());
        let rest = own.filter(|module| !module.contains("::")).map(|module| (*module, self.default));
        let always = [(RECONCILE, LevelFilter::ERROR), (CHANGES, LevelFilter::INFO)];
        Targets::new().with_default(self.default).with_targets(rest).with_targets(modules).with_targets(always)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tracing::Level;

    use super::*;

    fn shows(text: &str, module: &str, level: Level) -> bool {
        text.parse::<Levels>().unwrap().targets().would_enable(module, &level)
    }

    /// MS-OPS-01: a level for everything and others for components; the closer name decides, and a reconcile has its id at any level.
    #[test]
    fn components_have_levels_of_their_own() {
        assert!(shows("info", "mainstay_oci::pull", Level::INFO) && !shows("info", "mainstay_oci::pull", Level::DEBUG));
        let mixed = "warn,olm-v1=debug,catalogd=error,oci=trace";
        for (module, level) in [
            ("mainstay_olm_v1::extension::controller", Level::DEBUG),
            ("mainstay_olm_v1::catalog::controller", Level::ERROR),
            ("mainstay_oci", Level::TRACE),
            ("mainstay_olm_v1::images", Level::TRACE),
            ("mainstay_image_source::source", Level::TRACE),
            ("mainstay_image_source::registries", Level::TRACE),
            ("mainstay_image_source::global_pull_secret", Level::DEBUG),
            ("mainstay_image_source::mirrors::watch", Level::ERROR),
            ("mainstay_apiserver", Level::WARN),
            ("somebody_else", Level::WARN),
            (RECONCILE, Level::ERROR),
            (CHANGES, Level::INFO),
        ] {
            assert!(shows(mixed, module, level), "{module} {level}");
        }
        for (module, level) in [
            ("mainstay_olm_v1::extension", Level::TRACE),
            ("mainstay_olm_v1::catalog", Level::WARN),
            ("mainstay_image_source::mirrors::watch", Level::WARN),
            ("mainstay_image_source::global_pull_secret", Level::TRACE),
            ("mainstay_apiserver", Level::INFO),
            ("hyper_util", Level::INFO),
        ] {
            assert!(!shows(mixed, module, level), "{module} {level}");
        }
        assert!(shows("error,mainstay=debug", "mainstay::up", Level::DEBUG));
        assert!(
            !shows("error,mainstay=debug", "mainstay_store::log", Level::DEBUG),
            "a crate is not the program because it begins like it"
        );
        assert!(shows("off", RECONCILE, Level::ERROR));
        assert!(shows("service-ca=trace", "mainstay_store", Level::INFO), "without a level for everything it is info");
    }

    /// MS-OPS-01: what is no level or component is refused, and the hint lists both.
    #[test]
    fn mistakes_are_told() {
        let refused = |text: &str| text.parse::<Levels>().unwrap_err().to_string();
        assert_eq!(refused("verbose"), "\"verbose\" is no level of the log");
        assert_eq!(refused("info,olm=debug"), "\"olm\" is no component of the log");
        assert_eq!(refused("oci=5"), "\"5\" is no level of the log");
        assert_eq!(refused("info,oci=warn,oci=debug"), "oci=debug is given twice");
        assert_eq!(refused("info,debug"), "debug is given twice");
        assert_eq!(refused(" , "), "no level is given");
        assert!(refused(&"info,".repeat(MOST)).contains("at most 1024"));
        assert!(hint().contains("operator-controller") && hint().contains("trace"));
        for text in ["info", "warn,oci=trace,olm-v1=debug", "off"] {
            assert_eq!(text.parse::<Levels>().unwrap().to_string(), text);
        }
    }
}
