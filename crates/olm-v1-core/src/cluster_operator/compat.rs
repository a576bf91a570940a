//! Support of installed bundles for the platform's next version (OLM1-COMPAT-01 to OLM1-COMPAT-06).

use std::fmt;

use mainstay_api::cluster_operator::{AS_EXPECTED, Problem};
use mainstay_api::condition::{Condition, Status};
use mainstay_diagnostics::SharedError;
use mainstay_versions::Version;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The bundle property with the newest platform version that the bundle supports.
pub const PROPERTY: &str = "olm.maxOpenShiftVersion";
/// The annotation of a ClusterServiceVersion with a bundle's properties.
pub const ANNOTATION: &str = "olm.properties";
/// The condition of `olms.operator.openshift.io/cluster`.
pub const CONDITION: &str = "InstalledOLMOperatorsUpgradeable";
/// The suffix of the conditions that are aggregated.
const UPGRADEABLE: &str = "Upgradeable";
/// Maximum length of the properties, in bytes; no bundle comes near it.
const LONGEST: usize = 4 << 20;

/// A minor version of the platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Platform {
    /// The major version.
    pub major: u64,
    /// The minor version.
    pub minor: u64,
}

impl Platform {
    /// Reads the minor version of a full version; patch, pre-release and build do not count.
    pub fn parse(text: &str) -> Result<Self, CompatError> {
        let version = Version::parse(text).map_err(|source| CompatError::Platform { text: text.to_owned(), source })?;
        Ok(Self { major: version.major(), minor: version.minor() })
    }

    /// The next minor version.
    #[must_use]
    pub fn next(self) -> Self {
        Self { minor: self.minor + 1, ..self }
    }

    /// The minor version of the platform according to a ClusterVersion.
    pub fn of(cluster_version: &Value) -> Result<Option<Self>, CompatError> {
        platform_version(cluster_version).map(Self::parse).transpose()
    }
}

/// The version of the platform according to a ClusterVersion: the newest that was reached, or the first desired one.
pub fn platform_version(cluster_version: &Value) -> Option<&str> {
    let history = cluster_version.pointer("/status/history").and_then(Value::as_array).into_iter().flatten();
    let reached = history.filter(|entry| entry["state"] == "Completed").find_map(|entry| entry["version"].as_str());
    let wanted = || cluster_version.pointer("/status/desired/version").and_then(Value::as_str);
    reached.or_else(wanted).filter(|text| !text.is_empty())
}

impl fmt::Display for Platform {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.major, self.minor)
    }
}

/// Causes for which the platform versions that a bundle supports are unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompatError {
    /// The platform's version is invalid.
    #[error("the platform version {text:?} cannot be read: {source}")]
    Platform {
        /// The version as found.
        text: String,
        /// The cause.
        source: mainstay_versions::Error,
    },
    /// The properties cannot be read.
    #[error("failed to read the annotation {ANNOTATION}: {problem}")]
    Properties {
        /// The problem.
        problem: String,
    },
    /// There is more than one [`PROPERTY`] property.
    #[error("defining more than one {PROPERTY:?} property is not allowed, there are {count}")]
    Several {
        /// Their number.
        count: usize,
    },
    /// The property's value is not a version.
    #[error("invalid {PROPERTY:?} property {value}: expected <major>.<minor>, as text or number")]
    Value {
        /// The value, as JSON.
        value: String,
    },
}

/// A bundle that does not support the platform's next version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The newest version that the bundle supports.
    pub max: Platform,
    /// The platform's next version.
    pub next: Platform,
}

impl Blocked {
    /// The remedy (OLM1-COMPAT-06).
    pub fn remedy(&self) -> String {
        format!(
            "update the extension to a version that has a valid path and supports {}, or remove it; then retry the platform update",
            self.next
        )
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the bundle supports platform versions up to {}, so updating the platform to {} is blocked", self.max, self.next)
    }
}

/// The newest platform version that a bundle supports, from the text of its annotation `olm.properties`; `None` if it names none.
pub fn max_version(properties: Option<&str>) -> Result<Option<Platform>, CompatError> {
    #[derive(Deserialize)]
    struct Property<'a> {
        #[serde(default)]
        r#type: std::borrow::Cow<'a, str>,
        #[serde(borrow)]
        value: Option<&'a RawValue>,
    }
    let Some(text) = properties.filter(|text| !text.is_empty()) else { return Ok(None) };
    if text.len() > LONGEST {
        return Err(CompatError::Properties { problem: format!("it is longer than {LONGEST} bytes") });
    }
    let read: Option<Vec<Property<'_>>> =
        serde_json::from_str(text).map_err(|error| CompatError::Properties { problem: error.to_string() })?;
    let found: Vec<&str> =
        read.iter().flatten().filter(|each| each.r#type == PROPERTY).map(|each| each.value.map_or("null", RawValue::get)).collect();
    match found.as_slice() {
        [] => Ok(None),
        [one] => minor(one).map(Some).ok_or_else(|| CompatError::Value { value: brief(one) }),
        more => Err(CompatError::Several { count: more.len() }),
    }
}

/// Returns the limit if a bundle with these properties blocks the update of the platform to its next minor version.
pub fn blocks(properties: Option<&str>, platform: Platform) -> Result<Option<Blocked>, CompatError> {
    let max = max_version(properties)?;
    Ok(max.filter(|max| *max <= platform).map(|max| Blocked { max, next: platform.next() }))
}

/// Reads a version from the value's text. Numbers count as they are written: `4.10` is minor version ten.
fn minor(json: &str) -> Option<Platform> {
    let text = if json.starts_with('"') { serde_json::from_str::<String>(json).ok()? } else { json.to_owned() };
    let (major, minor) = text.split_once('.')?;
    let number = |text: &str| {
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
        if plain { text.parse().ok() } else { None }
    };
    Some(Platform { major: number(major)?, minor: number(minor)? })
}

fn brief(json: &str) -> String {
    const MOST: usize = 80;
    if json.len() <= MOST { json.to_owned() } else { json.chars().take(MOST).chain("...".chars()).collect() }
}

/// An extension with an installed bundle. Extensions that are not installed yet do not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployed {
    /// The ClusterExtension.
    pub extension: String,
    /// The bundle and its properties, or the reason why they cannot be read.
    pub bundle: Result<(String, Option<String>), SharedError>,
}

/// Reason and message of the condition [`CONDITION`]; `None` if nothing blocks.
pub fn judge(deployed: &[Deployed], platform: Platform) -> Option<Problem> {
    let (mut blocked, mut failed) = (Vec::new(), Vec::new());
    for Deployed { extension, bundle } in deployed {
        let said = bundle.clone().and_then(|(name, properties)| {
            let blocks = blocks(properties.as_deref(), platform).map_err(|error| SharedError::from(format!("bundle {name:?}: {error}")))?;
            Ok(blocks.map(|_| name))
        });
        match said {
            Ok(Some(name)) => blocked.push(format!("bundle {name:?} for ClusterExtension {extension:?}")),
            Ok(None) => {}
            Err(problem) => failed.push(format!("ClusterExtension {extension:?}: {problem}")),
        }
    }
    blocked.sort();
    failed.sort();
    let found = (!blocked.is_empty()).then(|| {
        let next = platform.next();
        format!("Found ClusterExtensions that require upgrades prior to upgrading cluster to version {next}: {}", blocked.join(","))
    });
    let errors = failed.join("\n");
    match (found, failed.is_empty()) {
        (None, true) => None,
        (None, false) => Some(Problem::new("FailureGettingExtensionMetadata", errors)),
        (Some(found), true) => Some(Problem::new("IncompatibleOperatorsInstalled", found)),
        (Some(found), false) => {
            let also = "Additionally the following errors were encountered while getting extension metadata";
            Some(Problem::new("IncompatibleOperatorsInstalled", format!("{found}\n{also}: {errors}")))
        }
    }
}

/// The aggregate of all `*Upgradeable` conditions (OLM1-COMPAT-05): a problem if one of them is not true. Its reason names each of those
/// with its own reason; its message has their lines.
pub fn aggregate(conditions: &[Condition]) -> Option<Problem> {
    let mut bad: Vec<&Condition> =
        conditions.iter().filter(|each| each.kind.ends_with(UPGRADEABLE) && each.status != Status::True).collect();
    bad.sort_by(|one, other| one.kind.cmp(&other.kind));
    if bad.is_empty() {
        return None;
    }
    let reason = |each: &&Condition| match each.kind.trim_end_matches(UPGRADEABLE) {
        "" => each.reason.clone(),
        prefix => format!("{prefix}_{}", each.reason),
    };
    let lines = |each: &&Condition| each.message.lines().map(|line| format!("{}: {line}", each.kind)).collect::<Vec<_>>().join("\n");
    let join = |parts: Vec<String>, with: &str| parts.join(with);
    Some(Problem::new(join(bad.iter().map(reason).collect(), "::"), join(bad.iter().map(lines).collect(), "\n")))
}

/// The condition for the result of [`judge`].
pub fn condition(problem: Option<&Problem>, now: jiff::Timestamp) -> Condition {
    Condition {
        kind: CONDITION.to_owned(),
        status: if problem.is_some() { Status::False } else { Status::True },
        reason: problem.map_or(AS_EXPECTED, |problem| problem.reason.as_str()).to_owned(),
        message: problem.map_or("All is well", |problem| problem.message.as_str()).to_owned(),
        last_transition_time: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now),
        observed_generation: None,
    }
}
