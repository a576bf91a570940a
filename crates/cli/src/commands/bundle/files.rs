//! All files of a bundle, those beside manifests and metadata too: validators count them.

use std::path::Path;

use crate::bundles::{self, Files};
use crate::errors::{Exit, Failure};

/// More files are no bundle.
const MOST: usize = 10_000;
/// Nor are deeper folders.
const DEPTH: usize = 20;
/// Nor are more bytes.
const BYTES: u64 = 256 << 20;

/// The files of a bundle directory or image, by path.
pub fn all(place: &str) -> Result<Files, Failure> {
    let path = Path::new(place);
    if path.is_dir() {
        return directory(path);
    }
    if path.exists() || mainstay_catalog_refs::looks_like_a_path(place) {
        let message = if path.exists() { "is not a directory" } else { "no such directory" };
        return Err(Failure::new(Exit::Failed, format!("bundle {place}"), message));
    }
    crate::runtime::block_on(bundles::pull(place))
}

/// The files of a bundle directory, by path.
pub fn directory(path: &Path) -> Result<Files, Failure> {
    let mut files = Files::new();
    let mut left = BYTES;
    walk(path, "", 0, &mut files, &mut left)?;
    Ok(files)
}

fn walk(folder: &Path, prefix: &str, depth: usize, files: &mut Files, left: &mut u64) -> Result<(), Failure> {
    let subject = format!("bundle {}", folder.display());
    let failed = |error: std::io::Error| Failure::failed(&subject, &error);
    if depth > DEPTH {
        return Err(Failure::new(Exit::Failed, subject, format!("more than {DEPTH} folders in one another")));
    }
    let mut entries = std::fs::read_dir(folder).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name();
        let name = name.to_str().ok_or_else(|| Failure::new(Exit::Failed, &subject, format!("{} is no UTF-8 name", name.display())))?;
        let path = format!("{prefix}{name}");
        // A link counts as what it leads to.
        let metadata = std::fs::metadata(entry.path()).map_err(failed)?;
        if metadata.is_dir() {
            // What a version control system keeps beside the files is no part of a bundle.
            if !name.starts_with('.') {
                walk(&entry.path(), &format!("{path}/"), depth + 1, files, left)?;
            }
        } else if metadata.is_file() {
            if files.len() >= MOST || metadata.len() > *left {
                return Err(Failure::new(Exit::Failed, subject, format!("more than {MOST} files or {} MiB", BYTES >> 20)));
            }
            *left -= metadata.len();
            files.push((path, std::fs::read(entry.path()).map_err(failed)?));
        }
    }
    Ok(())
}
