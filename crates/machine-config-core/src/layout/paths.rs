//! Paths and names that configs may use.

/// The longest path, in bytes.
const LONGEST_PATH: usize = 4000;
/// The longest name of a folder or file, in bytes; what is kept of a file has a longer one.
const LONGEST_NAME: usize = 240;

/// The fault in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It does not begin at the root.
    #[error("is not absolute")]
    Relative,
    /// A part of it is `.`, `..` or empty.
    #[error("has a part that is empty, \".\" or \"..\"")]
    Dots,
    /// It has a control character.
    #[error("has a control character")]
    Control,
    /// It, or a part of it, is too long.
    #[error("is longer than {LONGEST_PATH} bytes, or has a part longer than {LONGEST_NAME}")]
    TooLong,
    /// It is one of the agent's own files.
    #[error("is below {}, which is the agent's own", super::OWN)]
    Own,
    /// It is a name that would be a path.
    #[error("is no name: it has a slash, or is empty, \".\" or \"..\"")]
    NotAName,
}

/// Checks the path of a file.
///
/// # Errors
/// See [`PathError`].
pub fn check_path(path: &str) -> Result<(), PathError> {
    let rest = path.strip_prefix('/').ok_or(PathError::Relative)?;
    if path.chars().any(char::is_control) {
        return Err(PathError::Control);
    }
    if path.len() > LONGEST_PATH || rest.split('/').any(|part| part.len() > LONGEST_NAME) {
        return Err(PathError::TooLong);
    }
    if rest.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(PathError::Dots);
    }
    let is_own = path == super::OWN || path.strip_prefix(super::OWN).is_some_and(|rest| rest.starts_with('/'));
    // The annotations of the first boot stand there by upstream's rules.
    if is_own && path != "/etc/machine-config-daemon/node-annotations.json" { Err(PathError::Own) } else { Ok(()) }
}

/// Checks the name of a unit or drop-in, which becomes a part of a path.
pub(super) fn check_name(name: &str) -> Result<(), PathError> {
    if name.chars().any(char::is_control) {
        return Err(PathError::Control);
    }
    if name.len() > LONGEST_NAME {
        return Err(PathError::TooLong);
    }
    if matches!(name, "" | "." | "..") || name.contains('/') { Err(PathError::NotAName) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    /// MACH-NODE-10: no path leads out of the root, and none into the agent's own folder.
    #[test]
    fn paths_that_are_refused() {
        for path in ["/etc/a", "/a", "/etc/machine-config-daemon/node-annotations.json", "/etc/machine-config-daemonette", "/a b/ü"] {
            assert_eq!(check_path(path), Ok(()), "{path}");
        }
        for (path, why) in [
            ("etc/a", PathError::Relative),
            ("", PathError::Relative),
            ("/", PathError::Dots),
            ("/etc/../../a", PathError::Dots),
            ("/etc//a", PathError::Dots),
            ("/etc/./a", PathError::Dots),
            ("/etc/a/", PathError::Dots),
            ("/etc/a\n", PathError::Control),
            ("/etc/\0", PathError::Control),
            ("/etc/machine-config-daemon", PathError::Own),
            ("/etc/machine-config-daemon/orig/etc/a.mcdorig", PathError::Own),
        ] {
            assert_eq!(check_path(path), Err(why), "{path:?}");
        }
        assert_eq!(check_path(&format!("/{}", "a".repeat(241))), Err(PathError::TooLong));
        assert_eq!(check_path(&"/a".repeat(3000)), Err(PathError::TooLong));
        for name in ["../a.service", "a/b.service", "..", ""] {
            assert_eq!(check_name(name), Err(PathError::NotAName), "{name}");
        }
    }
}
