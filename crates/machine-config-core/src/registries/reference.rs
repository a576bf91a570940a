//! References of images that name their registry.

use std::sync::LazyLock;

use regex::Regex;

const LONGEST_NAME: usize = 255;
const DOCKER: &str = "docker.io";

static REFERENCE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let label = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])";
    let component = "[a-z0-9]+(?:(?:[._]|__|[-]*)[a-z0-9]+)*";
    let name = format!("({label}(?:\\.{label})*(?::[0-9]+)?)/({component}(?:/{component})*)");
    let digest = "[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}";
    Regex::new(&format!("^({name})(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?:@({digest}))?$")).ok()
});

/// A reference in its full form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference<'a> {
    /// The whole text.
    pub text: &'a str,
    /// Registry and repository.
    pub name: &'a str,
    /// True if it has a digest.
    pub digested: bool,
}

/// Why a text is no reference in its full form, in upstream's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// It has another form.
    #[error("invalid reference format")]
    Format,
    /// The repository has capital letters.
    #[error("invalid reference format: repository name must be lowercase")]
    Lowercase,
    /// The repository is too long.
    #[error("repository name must not be more than 255 characters")]
    TooLong,
    /// It leaves something out that Docker would complete: a registry, or `library/`.
    #[error("repository name must be canonical")]
    NotCanonical,
}

impl<'a> Reference<'a> {
    /// Reads a reference.
    ///
    /// # Errors
    /// It has another form, or is not in its full form.
    pub fn full(text: &'a str) -> Result<Self, ReferenceError> {
        let completed = completed(text);
        let rest = completed.split_once('/').map_or("", |(_, rest)| rest);
        if rest.split(':').next().is_some_and(|path| path.chars().any(char::is_uppercase)) {
            return Err(ReferenceError::Lowercase);
        }
        let matched = |text: &'_ str| {
            let found = REFERENCE.as_ref()?.captures(text)?;
            let digest = found.get(4).map(|digest| digest.as_str());
            digest.is_none_or(is_digest).then(|| (found.get(1).map_or(0, |name| name.end()), digest.is_some()))
        };
        let (name, digested) = matched(&completed).ok_or(ReferenceError::Format)?;
        if name > LONGEST_NAME {
            return Err(ReferenceError::TooLong);
        }
        if completed != text {
            return Err(ReferenceError::NotCanonical);
        }
        Ok(Self { text, name: &text[..name], digested })
    }
}

/// The text with what Docker completes.
fn completed(text: &str) -> String {
    let is_registry = |host: &str| host.contains(['.', ':']) || host == "localhost";
    let (registry, rest) = match text.split_once('/') {
        Some((host, rest)) if is_registry(host) => (host, rest),
        _ => (DOCKER, text),
    };
    let registry = if registry == "index.docker.io" { DOCKER } else { registry };
    let library = if registry == DOCKER && !rest.contains('/') { "library/" } else { "" };
    format!("{registry}/{library}{rest}")
}

/// Returns whether a digest is of a known algorithm, and as long as its digests are.
fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else { return false };
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    hex.len() == length && hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}
