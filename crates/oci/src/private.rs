//! Folders and files for this user alone, whatever the umask: caches and temporary folders hold content of private registries, too.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use tempfile::TempDir;

/// Makes a folder and its parents if they are absent.
pub fn folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Makes a new folder in `parent` with that prefix; it is removed with the value.
pub fn temporary(parent: &Path, prefix: &str) -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir_in(parent)
}

/// Writes a file, which is made if it is absent.
pub(crate) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    options().truncate(true).open(path)?.write_all(content)
}

/// Makes a file that must not exist yet.
pub(crate) fn new_file(path: &Path) -> io::Result<fs::File> {
    options().create_new(true).open(path)
}

fn options() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}
