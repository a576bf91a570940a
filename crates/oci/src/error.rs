//! Errors of image operations, sorted by what can be done about them.

use std::path::PathBuf;

use crate::digest::Digest;
use crate::signature::Rejection;

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The reference is invalid; trying again does not help.
    InvalidReference,
    /// The registry wants credentials, or does not accept those it got.
    Unauthorized,
    /// The credentials do not allow this.
    Forbidden,
    /// No such repository, tag, manifest or blob.
    NotFound,
    /// The registry does not answer.
    Unreachable,
    /// The connection broke off in the middle.
    Interrupted,
    /// The registry's certificate is not accepted.
    Certificate(CertificateProblem),
    /// The registry speaks no TLS, or none that this client accepts.
    Tls,
    /// The registry did not answer in time.
    Timeout,
    /// The registry wants fewer requests.
    RateLimited,
    /// The registry failed.
    Server,
    /// Content that is not what its digest says.
    DigestMismatch,
    /// More content than is allowed.
    Limit,
    /// A path or link of a layer that leads out of the root.
    UnsafePath,
    /// Invalid content, or content of a type that is not handled.
    Content,
    /// The configuration blocks the registry.
    Blocked,
    /// The policy about signatures does not let the image in.
    Rejected,
    /// A setting that cannot be read.
    Configuration,
    /// The local disk.
    Io,
}

/// The reason for which a certificate is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CertificateProblem {
    /// It has expired.
    Expired,
    /// It is not valid yet.
    NotYetValid,
    /// It is for another name.
    OtherName,
    /// No trusted authority signed it.
    Untrusted,
}

/// An image that cannot be read, written or unpacked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The reference is invalid.
    #[error("error parsing image reference \"{reference}\": {problem}")]
    InvalidReference {
        /// The text.
        reference: String,
        /// The reason.
        problem: String,
    },
    /// The registry answered with an error.
    #[error("{subject}: registry {registry} answered {status}{}", details(.message))]
    Status {
        /// The image, manifest or blob in question.
        subject: String,
        /// The registry's host.
        registry: String,
        /// The HTTP status.
        status: u16,
        /// The registry's own message.
        message: String,
        /// Time that the registry asks to wait before the next request.
        retry_after: Option<std::time::Duration>,
        /// The credentials that it refused, in words, if any were sent.
        refused: Option<String>,
    },
    /// A connection to the registry failed.
    #[error("{subject}: cannot reach registry {registry}: {problem}")]
    Connection {
        /// The image, manifest or blob in question.
        subject: String,
        /// The registry's host.
        registry: String,
        /// The kind of the failure: reaching, trusting or waiting.
        kind: ErrorKind,
        /// The problem.
        problem: String,
    },
    /// Content that is not what its digest says.
    #[error("{subject}: content has digest {found}, expected {expected}")]
    DigestMismatch {
        /// The source of the content.
        subject: String,
        /// The digest that was asked for.
        expected: Digest,
        /// The digest of the content that came.
        found: Digest,
    },
    /// More content than is allowed.
    #[error("{subject}: {what} is over the limit of {limit}")]
    Limit {
        /// The image, layer or file.
        subject: String,
        /// The quantity that is counted.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// A path or link that leads out of the root.
    #[error("{subject}: {path:?}: {problem}")]
    UnsafePath {
        /// The layer.
        subject: String,
        /// The path as written.
        path: String,
        /// The rule it breaks.
        problem: &'static str,
    },
    /// Invalid content.
    #[error("{subject}: {problem}")]
    Content {
        /// The source of the content.
        subject: String,
        /// The problem.
        problem: String,
    },
    /// A registry that registries.conf blocks.
    #[error("{subject}: registry {registry} is blocked by registries.conf")]
    Blocked {
        /// The image.
        subject: String,
        /// The registry's prefix.
        registry: String,
    },
    /// The policy about signatures does not let the image in.
    #[error("{subject}: Source image rejected: {problem}")]
    Rejected {
        /// The image.
        subject: String,
        /// The file with the policy.
        policy: String,
        /// The unmet requirement.
        #[source]
        problem: Rejection,
    },
    /// The policy about signatures cannot be evaluated for the image.
    #[error("{subject}: Source image rejected: {source}")]
    Unverifiable {
        /// The image.
        subject: String,
        /// The error of reading the policy, or a place of signatures.
        source: Box<Error>,
    },
    /// None of the places that hold the image could provide it.
    #[error("{subject}: {}", attempts.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Sources {
        /// The image.
        subject: String,
        /// The error of each, mirrors first.
        attempts: Vec<Error>,
    },
    /// A setting that cannot be read.
    #[error("{subject}: {problem}")]
    Configuration {
        /// The setting.
        subject: String,
        /// The problem.
        problem: String,
    },
    /// The local disk.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

fn details(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}

impl Error {
    /// Returns the kind of the failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::InvalidReference { .. } => ErrorKind::InvalidReference,
            Self::Status { status, .. } => match status {
                401 => ErrorKind::Unauthorized,
                403 => ErrorKind::Forbidden,
                404 | 410 => ErrorKind::NotFound,
                408 | 504 => ErrorKind::Timeout,
                429 => ErrorKind::RateLimited,
                500.. => ErrorKind::Server,
                _ => ErrorKind::Content,
            },
            Self::Connection { kind, .. } => *kind,
            Self::DigestMismatch { .. } => ErrorKind::DigestMismatch,
            Self::Limit { .. } => ErrorKind::Limit,
            Self::UnsafePath { .. } => ErrorKind::UnsafePath,
            Self::Content { .. } => ErrorKind::Content,
            Self::Blocked { .. } => ErrorKind::Blocked,
            Self::Rejected { .. } => ErrorKind::Rejected,
            Self::Unverifiable { source, .. } => source.kind(),
            // The last place is the image's own registry.
            Self::Sources { attempts, .. } => attempts.last().map_or(ErrorKind::NotFound, Self::kind),
            Self::Configuration { .. } => ErrorKind::Configuration,
            Self::Io { .. } => ErrorKind::Io,
        }
    }

    /// Returns true if trying again later may help without any change.
    pub fn is_transient(&self) -> bool {
        use ErrorKind as Kind;
        matches!(
            self.kind(),
            Kind::Unreachable | Kind::Interrupted | Kind::Timeout | Kind::RateLimited | Kind::Server | Kind::DigestMismatch | Kind::Io
        )
    }

    /// Returns a hint at what would help, in words.
    pub fn hint(&self) -> Option<String> {
        if let Self::Rejected { policy, .. } = self {
            return Some(format!(
                "{policy} decides which images are let in: have this image signed as it asks, or change what it asks of this repository"
            ));
        }
        let registry = self.registry().unwrap_or("the registry");
        Some(match self.kind() {
            ErrorKind::Unauthorized => match self.refused() {
                Some(what) => format!("{registry} does not take {what}: log in again, or mend them in the pull secret or the auth file"),
                None => format!("add credentials for {registry} to the pull secret or the auth file"),
            },
            ErrorKind::Forbidden => format!("ask the owner of the repository at {registry} to let these credentials read it"),
            ErrorKind::NotFound => {
                "check the repository's name and the tag or digest; a private repository may look absent without credentials".to_owned()
            }
            ErrorKind::Unreachable => format!(
                "check that {registry} can be reached from here, through the proxy if there is one; a mirror can be named in registries.conf"
            ),
            ErrorKind::Interrupted | ErrorKind::Timeout => {
                format!("try again; if {registry} or the network is slow, what was fetched is kept where the cache is on")
            }
            ErrorKind::Certificate(CertificateProblem::Expired) => {
                format!(
                    "renew the certificate of {registry}; or allow the registry without verified TLS with insecure = true in registries.conf"
                )
            }
            ErrorKind::Certificate(CertificateProblem::NotYetValid) => {
                format!("compare the clocks of {registry} and of this machine")
            }
            ErrorKind::Certificate(CertificateProblem::OtherName) => {
                format!("reach {registry} by a name that its certificate has; a mirror can be named in registries.conf")
            }
            ErrorKind::Tls | ErrorKind::Certificate(CertificateProblem::Untrusted) => format!(
                "trust the certificate authority of {registry}: put its PEM file into certs.d/{registry}/ca.crt, in /etc/containers or \
                 ~/.config/containers; or allow the registry without verified TLS with insecure = true in registries.conf"
            ),
            ErrorKind::RateLimited => match self.retry_after() {
                Some(wait) => format!("wait {} seconds, or use credentials with a higher limit at {registry}", wait.as_secs()),
                None => format!("wait, or use credentials with a higher limit at {registry}"),
            },
            ErrorKind::Server => format!("the registry {registry} itself failed; try again later, or ask who runs it"),
            ErrorKind::DigestMismatch => {
                "the content was changed or damaged on the way; pull again, and ask the registry's owner if it stays so".to_owned()
            }
            ErrorKind::Blocked => "remove blocked = true from registries.conf, or name a mirror there".to_owned(),
            _ => return None,
        })
    }

    /// Returns the time that the registry asks to wait before the next request.
    pub(crate) fn retry_after(&self) -> Option<std::time::Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            Self::Sources { attempts, .. } => attempts.last()?.retry_after(),
            Self::Unverifiable { source, .. } => source.retry_after(),
            _ => None,
        }
    }

    fn refused(&self) -> Option<&str> {
        match self {
            Self::Status { refused, .. } => refused.as_deref(),
            Self::Sources { attempts, .. } => attempts.last()?.refused(),
            _ => None,
        }
    }

    fn registry(&self) -> Option<&str> {
        match self {
            Self::Status { registry, .. } | Self::Connection { registry, .. } | Self::Blocked { registry, .. } => Some(registry),
            Self::Sources { attempts, .. } => attempts.last()?.registry(),
            Self::Unverifiable { source, .. } => source.registry(),
            _ => None,
        }
    }

    /// Makes an error for invalid content. Quoted parts are bounded and escaped.
    pub(crate) fn content(subject: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Content { subject: subject.into(), problem: quoted(&problem.into()) }
    }

    pub(crate) fn connection(subject: &str, registry: &str, kind: ErrorKind, problem: &str) -> Self {
        Self::Connection { subject: subject.to_owned(), registry: registry.to_owned(), kind, problem: quoted(problem) }
    }

    pub(crate) fn unsafe_path(subject: &str, path: &str, problem: &'static str) -> Self {
        let path = match path.char_indices().nth(MAX_SHOWN_PATH) {
            Some((end, _)) => format!("{}...", &path[..end]),
            None => path.to_owned(),
        };
        Self::UnsafePath { subject: subject.to_owned(), path, problem }
    }

    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}

/// Characters of text from outside that an error shows.
const MAX_QUOTED: usize = 1024;
const MAX_SHOWN_PATH: usize = 256;

/// Makes text from outside safe for conditions and terminals: bounded, on one line, with control characters escaped.
pub(crate) fn quoted(text: &str) -> String {
    let mut shown = String::new();
    for (number, character) in text.chars().enumerate() {
        if number == MAX_QUOTED {
            shown.push_str("...");
            break;
        }
        let steers = character.is_control()
            || matches!(character, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
            || matches!(character, '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
        if steers { shown.extend(character.escape_default()) } else { shown.push(character) }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What others wrote is bounded, and steers no terminal.
    #[test]
    fn quoted_text() {
        assert_eq!(quoted("plain, größer"), "plain, größer");
        assert_eq!(quoted("a\u{1b}[2Jb\r\nc\u{202e}d\u{9b}"), "a\\u{1b}[2Jb\\r\\nc\\u{202e}d\\u{9b}");
        assert_eq!(quoted(&"x".repeat(1 << 20)).len(), MAX_QUOTED + 3);
        let path = Error::unsafe_path("layer", &"é".repeat(4096), "is too long").to_string();
        assert!(path.len() < 700 && path.contains("..."), "{path}");
    }
}
