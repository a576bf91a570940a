//! Payloads of folders.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use mainstay_release::{Files, Folder};

use crate::error::ReadError;

/// The most bytes that are read of one file; more are refused by [`Files`].
pub(crate) const MAX_FILE: u64 = (16 << 20) + 1;
/// The most entries of one folder that are looked at.
pub(crate) const MAX_ENTRIES: usize = 100_000;

/// Reads the folder of a payload, with `release-manifests` and perhaps `manifests` below it. A folder without either is taken for
/// `release-manifests` itself, as `oc adm release extract --to` leaves it.
pub fn folder(path: &Path) -> Result<Files, ReadError> {
    let mut files = Files::default();
    let mut found = false;
    for folder in [Folder::Operator, Folder::Release] {
        let below = path.join(folder.name());
        if below.is_dir() {
            found = true;
            read(&below, folder, &mut files)?;
        }
    }
    if !found {
        read(path, Folder::Release, &mut files)?;
    }
    Ok(files)
}

fn read(path: &Path, folder: Folder, files: &mut Files) -> Result<(), ReadError> {
    files.seen(folder);
    for (number, entry) in std::fs::read_dir(path).map_err(ReadError::io(path))?.enumerate() {
        if number == MAX_ENTRIES {
            return Err(ReadError::Entries(path.to_owned()));
        }
        let entry = entry.map_err(ReadError::io(path))?;
        let (file, name) = (entry.path(), entry.file_name());
        // A name that is no text is none of a payload's.
        let Some(name) = name.to_str().map(|name| format!("{}/{name}", folder.name())).filter(|name| Files::wants(name)) else { continue };
        // Pipes and devices would hold the reader.
        if !std::fs::metadata(&file).map_err(ReadError::io(&file))?.is_file() {
            continue;
        }
        let mut content = Vec::new();
        File::open(&file).and_then(|opened| opened.take(MAX_FILE).read_to_end(&mut content)).map_err(ReadError::io(&file))?;
        files.add(&name, content)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// CVO-REL-08: both folders, one folder, and the files themselves.
    #[test]
    fn folders() {
        let place = tempfile::tempdir().unwrap();
        for name in
            ["whole/manifests/a.yaml", "whole/release-manifests/b.yaml", "whole/release-manifests/more/c.yaml", "bare/release-metadata"]
        {
            let path = place.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, name).unwrap();
        }
        let whole = folder(&place.path().join("whole")).unwrap();
        let names: Vec<_> = whole.ordered().map(|(folder, name, _)| (folder, name.to_owned())).collect();
        assert_eq!(names, [(Folder::Operator, "a.yaml".to_owned()), (Folder::Release, "b.yaml".to_owned())]);
        let bare = folder(&place.path().join("bare")).unwrap();
        assert_eq!(bare.release("release-metadata"), Some(b"bare/release-metadata".as_slice()));
        assert!(folder(&place.path().join("none")).unwrap_err().to_string().contains("none"));
    }
}
