//! The files of a bundle in a folder.

use std::path::Path;

use crate::folder::{Folder, FolderError, FolderLimits, Found, Links};

/// Limits of a bundle: those of `mainstay_bundle::Limits`, met before a file is read.
const LIMITS: FolderLimits = FolderLimits { entries: 10_000, depth: 20, file_bytes: 32 << 20, total_bytes: 256 << 20 };
/// Folders of a bundle; the rest of an image or of a tree (licences, tests) is not part of it.
const PARTS: [&str; 2] = ["manifests", "metadata"];

/// Returns the files below `manifests` and `metadata` by path.
pub fn bundle_files(root: &Path, links: Links) -> Result<Vec<(String, Vec<u8>)>, FolderError> {
    let folder = Folder::open(root, links, LIMITS)?;
    let mut paths = Vec::new();
    for part in PARTS {
        paths.extend(folder.walk_below(part)?.into_iter().filter(|(path, found)| counts(path, *found)).map(|(path, _)| path));
    }
    folder.read_all(paths)
}

/// Returns all files including those beside these folders, since validators count them too. Files of version control systems are left out.
pub fn whole_bundle(root: &Path, links: Links) -> Result<Vec<(String, Vec<u8>)>, FolderError> {
    let folder = Folder::open(root, links, LIMITS)?.without(|name| name.starts_with('.'));
    let mut found = folder.walk()?;
    // Folders of the bundle are walked as above, even if they are links.
    let linked = |part: &&str| found.iter().any(|(path, kind)| path == *part && *kind == Found::FolderLink);
    let linked: Vec<&str> = PARTS.into_iter().filter(|part| linked(part)).collect();
    for part in linked {
        found.extend(folder.walk_below(part)?);
    }
    folder.read_all(found.into_iter().filter(|(path, found)| counts(path, *found)).map(|(path, _)| path))
}

/// Returns true if upstream would read the file: of links to folders only those among the manifests, where reading fails.
fn counts(path: &str, found: Found) -> bool {
    found == Found::File || path.starts_with("manifests/")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs::{self, File};
    use std::os::unix::fs::symlink;

    use super::*;

    /// OLM1-INST-06: what an image's content can do to whoever reads it: links of folders to themselves, which are 2^40 folders to a walk that goes
    /// through links, and links to one large file.
    #[test]
    fn poisoned_content_is_refused_at_once() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for folder in ["manifests", "metadata", "x"] {
            fs::create_dir(at(folder)).unwrap();
            symlink(".", at(folder).join("a")).unwrap();
            symlink(".", at(folder).join("b")).unwrap();
        }
        fs::write(at("manifests/csv.yaml"), "kind: ClusterServiceVersion\n").unwrap();
        // A link to a folder among the manifests cannot be read, as upstream finds; elsewhere it is passed over.
        let refused = |links| bundle_files(root.path(), links).unwrap_err().to_string();
        assert!(refused(Links::Inside).starts_with("manifests/a: Is a directory"), "{}", refused(Links::Inside));
        for link in ["manifests/a", "manifests/b"] {
            fs::remove_file(at(link)).unwrap();
        }
        let paths = |files: Vec<(String, Vec<u8>)>| files.into_iter().map(|(path, _)| path).collect::<Vec<_>>();
        assert_eq!(paths(bundle_files(root.path(), Links::Inside).unwrap()), ["manifests/csv.yaml"]);
        assert_eq!(paths(whole_bundle(root.path(), Links::Anywhere).unwrap()), ["manifests/csv.yaml"]);

        File::create(at("x/large")).unwrap().set_len(300 << 20).unwrap();
        for number in 0..500 {
            symlink("../x/large", at(&format!("manifests/l{number}"))).unwrap();
        }
        assert_eq!(refused(Links::Inside), "manifests/l0: size in bytes: 314572800, and the limit is 33554432");
        // Smaller ones add up.
        File::create(at("x/large")).unwrap().set_len(30 << 20).unwrap();
        assert!(refused(Links::Inside).ends_with("size of this and the files before it in bytes: 283115548, and the limit is 268435456"));
        symlink("/etc/passwd", at("metadata/annotations.yaml")).unwrap();
        assert_eq!(refused(Links::Inside), "metadata/annotations.yaml: symbolic link leads out of the folder that it came with");
    }

    /// A bundle whose parts are links, as build tools make them.
    #[test]
    fn linked_parts() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("store/metadata")).unwrap();
        fs::create_dir_all(at("bundle")).unwrap();
        fs::write(at("store/metadata/annotations.yaml"), "annotations: {}\n").unwrap();
        symlink("../store/metadata", at("bundle/metadata")).unwrap();
        assert_eq!(bundle_files(&at("bundle"), Links::Anywhere).unwrap().len(), 1);
        assert_eq!(whole_bundle(&at("bundle"), Links::Anywhere).unwrap().len(), 1);
        let refused = bundle_files(&at("bundle"), Links::Inside).unwrap_err().to_string();
        assert_eq!(refused, "metadata: symbolic link leads out of the folder that it came with");
    }
}
