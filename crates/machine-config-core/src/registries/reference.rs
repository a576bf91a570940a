//! References of images that name their registry.

use std::sync::LazyLock;

use regex::Regex;

const LONGEST_NAME: usize = 255;

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
    /// Whether it has a digest.
    pub digested: bool,
}

impl<'a> Reference<'a> {
    /// Reads a reference. What Docker would complete (a registry, `library/`) is not in its full form.
    pub fn full(text: &'a str) -> Option<Self> {
        let found = REFERENCE.as_ref()?.captures(text)?;
        let part = |index: usize| found.get(index).map(|part| part.as_str());
        let (name, domain, path) = (part(1)?, part(2)?, part(3)?);
        let is_registry = domain.contains(['.', ':']) || domain == "localhost";
        let is_completed = domain == "index.docker.io" || (domain == "docker.io" && !path.contains('/'));
        let digest = part(4);
        if !is_registry || is_completed || path.len() > LONGEST_NAME || !digest.is_none_or(is_digest) {
            return None;
        }
        Some(Self { text, name, digested: digest.is_some() })
    }
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
