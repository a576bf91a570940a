//! The version of Kubernetes that `/version` reports (CVO-SIM-05).

use std::str::FromStr;

use serde_json::{Value, json};

/// The version whose behaviour this server has.
const OWN: ReportedVersion = ReportedVersion { major: 1, minor: 34, patch: 0 };

/// A version that `/version` reports. It changes nothing that the server does: catalog templates and `minKubeVersion` follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedVersion {
    major: u16,
    minor: u16,
    patch: u16,
}

/// A text that is no version of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no version of Kubernetes; one is written as 1.33 or 1.33.4")]
pub struct InvalidVersion(String);

impl Default for ReportedVersion {
    fn default() -> Self {
        OWN
    }
}

impl FromStr for ReportedVersion {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, InvalidVersion> {
        let number = |part: &str| {
            let is_plain = part.bytes().all(|byte| byte.is_ascii_digit()) && (part == "0" || !part.starts_with('0'));
            is_plain.then(|| part.parse::<u16>().ok()).flatten()
        };
        let parts: Option<Vec<u16>> = text.strip_prefix('v').unwrap_or(text).split('.').map(number).collect();
        match parts.as_deref() {
            Some([major, minor]) => Ok(Self { major: *major, minor: *minor, patch: 0 }),
            Some([major, minor, patch]) => Ok(Self { major: *major, minor: *minor, patch: *patch }),
            _ => Err(InvalidVersion(text.to_owned())),
        }
    }
}

impl ReportedVersion {
    /// The answer of `/version`.
    pub(crate) fn document(self) -> Value {
        let Self { major, minor, patch } = self;
        json!({
            "major": major.to_string(),
            "minor": minor.to_string(),
            "emulationMajor": major.to_string(),
            "emulationMinor": minor.to_string(),
            "minCompatibilityMajor": major.to_string(),
            "minCompatibilityMinor": minor.saturating_sub(1).to_string(),
            "gitVersion": format!("v{major}.{minor}.{patch}+mainstay-{}", env!("CARGO_PKG_VERSION")),
            "gitCommit": "",
            "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "",
            "compiler": "rustc",
            "platform": format!("{}/{}", std::env::consts::OS, match std::env::consts::ARCH { "x86_64" => "amd64", "aarch64" => "arm64", other => other }),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// CVO-SIM-05, MS-CLI-11: a version in three or two numbers, with or without `v`; what is none is refused with an example.
    #[test]
    fn versions_are_read() {
        for (text, shown) in [("1.33.4", "v1.33.4+"), ("v1.27", "v1.27.0+"), ("2.0.0", "v2.0.0+")] {
            let document = text.parse::<ReportedVersion>().unwrap().document();
            assert!(document["gitVersion"].as_str().unwrap().starts_with(shown), "{text}: {document}");
        }
        assert_eq!(ReportedVersion::default().document()["minCompatibilityMinor"], "33");
        for bad in ["", "1", "1.", "1.2.3.4", "1.02", "one.two", "1.34.0-rc1", "1.99999", "-1.2", "+1.2"] {
            let refused = bad.parse::<ReportedVersion>().unwrap_err().to_string();
            assert!(refused.ends_with("is no version of Kubernetes; one is written as 1.33 or 1.33.4"), "{bad}: {refused}");
        }
    }
}
