//! Messages of other programs, classified by remedy. A condition of a catalog, or one that upstream's controller wrote, has only its text, and
//! so has an answer of the API server beyond its reason. Such texts are parsed here alone; everything else passes on values.

use super::facts::{CertificateProblem, PullProblem};
use super::webhooks;

/// A message in lower case, for a search for words.
struct Words(String);

impl Words {
    fn of(text: &str) -> Self {
        Self(text.to_lowercase())
    }

    fn has(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.0.contains(word))
    }
}

impl PullProblem {
    /// Classifies a message about a failed pull.
    pub fn told(text: &str) -> Self {
        let words = Words::of(text);
        if words.has(&["401", "403", "unauthorized", "denied", "authentication"]) {
            Self::Credentials
        } else if words.has(&["404", "not found", "manifest unknown", "name unknown"]) {
            Self::Missing
        } else if words.has(&["certificate", "tls", "ssl", "unknownissuer"]) {
            Self::Certificate(if words.has(&["expired"]) {
                CertificateProblem::Expired
            } else if words.has(&["not valid yet", "not yet valid"]) {
                CertificateProblem::NotYetValid
            } else if words.has(&["not valid for name"]) {
                CertificateProblem::OtherName
            } else {
                CertificateProblem::Untrusted
            })
        } else if words.has(&["parsing image reference"]) {
            Self::Reference
        } else {
            Self::Other
        }
    }
}

/// A problem of a catalog, classified by remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatalogProblem {
    /// The image is not a catalog.
    NoCatalog,
    /// The image cannot be pulled.
    Pull(PullProblem),
    /// The content is invalid.
    Content,
}

impl CatalogProblem {
    /// Classifies the message of a condition.
    pub fn told(text: &str) -> Self {
        let words = Words::of(text);
        if words.has(&["missing the required label"]) {
            return Self::NoCatalog;
        }
        match PullProblem::told(text) {
            PullProblem::Other if words.has(&["error storing fbc", ".json:", ".yaml:"]) => Self::Content,
            problem => Self::Pull(problem),
        }
    }
}

/// A failed attempt at a change, classified by remedy.
#[derive(Clone, Debug, PartialEq)]
pub enum AttemptProblem {
    /// A problem that a new plan would report, and does not: it is solved.
    Cleared,
    /// A quota is exceeded.
    Quota,
    /// A webhook whose pods are simulated.
    Simulated(webhooks::Refusal),
    /// A webhook does not answer.
    Webhook,
    /// An admission rule of the cluster refuses it.
    Admission,
    /// The namespace is missing.
    Namespace,
    /// The account lacks permissions.
    Permissions,
    /// The server did not answer in time.
    Slow,
    /// Something else; the message says what.
    Other,
}

impl AttemptProblem {
    /// Classifies the message of a condition.
    pub fn told(text: &str) -> Self {
        let words = Words::of(text);
        let cleared = [
            "pre-authorization failed",
            "already exists in namespace",
            "validating upgrade for crd",
            "no bundles found for package",
            "not found in namespace",
        ];
        if words.has(&cleared) {
            Self::Cleared
        } else if words.has(&["exceeded quota"]) {
            Self::Quota
        } else if let Some(refusal) = webhooks::Refusal::find(text) {
            Self::Simulated(refusal)
        } else if words.has(&["failed calling webhook"]) {
            Self::Webhook
        } else if words.has(&["admission webhook", "validatingadmissionpolicy", "violates podsecurity"]) {
            Self::Admission
        } else if words.has(&["namespaces \"", "namespace not found"]) && words.has(&["not found"]) {
            Self::Namespace
        } else if words.has(&["is forbidden", "cannot be created", "escalat"]) {
            Self::Permissions
        } else if words.has(&["timed out", "connection refused", "deadline"]) {
            Self::Slow
        } else {
            Self::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MS-EXPL-02: the words of registries, of Go's and of Rust's TLS.
    #[test]
    fn pulls_are_told_by_words_of_others() {
        let certificate = PullProblem::Certificate;
        for (text, problem) in [
            ("example.com/a:b: 401 Unauthorized", PullProblem::Credentials),
            ("example.com/a:b: manifest unknown", PullProblem::Missing),
            ("invalid peer certificate: certificate expired: verification time", certificate(CertificateProblem::Expired)),
            ("invalid peer certificate: certificate not valid yet", certificate(CertificateProblem::NotYetValid)),
            ("invalid peer certificate: certificate not valid for name \"a\"", certificate(CertificateProblem::OtherName)),
            ("x509: certificate signed by unknown authority", certificate(CertificateProblem::Untrusted)),
            ("error parsing image reference \"x\"", PullProblem::Reference),
            ("dial tcp: connection refused", PullProblem::Other),
        ] {
            assert_eq!(PullProblem::told(text), problem, "{text}");
        }
    }
}
