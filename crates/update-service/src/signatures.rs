//! Signatures of releases from a directory, so that the service can be a signature store (CVO-GD-07).

use std::path::Path;

use bytes::Bytes;
use mainstay_update_graph::AnswerError;

/// The largest signature; clusters read no larger one.
const MAX_BYTES: u64 = 50 << 10;

/// Reads `<algorithm>=<hex>/signature-<N>` below a directory. `<algorithm>/<hex>/signature-<N>`, as other tools lay them out, is found, too.
pub(crate) fn read(root: &Path, digest: &str, name: &str) -> Result<Bytes, AnswerError> {
    let invalid = |text: String| Err(AnswerError::InvalidParams(text));
    let Some((algorithm, hex)) = digest.split_once('=') else {
        return invalid(format!("provided digest is in incorrect format: {digest}"));
    };
    if algorithm != "sha256" {
        return invalid(format!("algo not supported: {algorithm}"));
    }
    // Nothing of a path can be in either name.
    let number = name.strip_prefix("signature-").filter(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
    if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) || number.is_none() {
        return invalid(format!("provided digest is in incorrect format: {digest}"));
    }
    for folder in [format!("{algorithm}={hex}"), format!("{algorithm}/{hex}")] {
        let path = root.join(folder).join(name);
        let Ok(facts) = std::fs::metadata(&path) else { continue };
        if !facts.is_file() || facts.len() > MAX_BYTES {
            continue;
        }
        return match std::fs::read(&path) {
            Ok(bytes) => Ok(bytes.into()),
            Err(error) => Err(AnswerError::FileOpen(error.to_string())),
        };
    }
    Err(AnswerError::DoesNotExist(format!("signature {digest}/{name}")))
}
