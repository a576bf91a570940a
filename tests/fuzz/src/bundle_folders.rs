//! Folders by their structure: trees of files, links to anywhere, loops and holes, as an image or an author may have made them, read by
//! those who read bundles and catalogs.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use mainstay_bundle::Bundle;
use mainstay_catalog::Source as _;
use mainstay_catalog_store::{DirectorySource, Links, bundle_files, whole_bundle};

use crate::choices::Choices;

/// Entries of a tree.
const MOST_ENTRIES: usize = 200;
/// What lies beside the folder, and what nobody may learn who only made what is in it.
const SECRET: &[u8] = b"kept from strangers";
/// Parts of names; some lead up, mean something, or are none.
const PARTS: [&[u8]; 14] =
    [b"manifests", b"metadata", b"x", b"a", b"b", b"..", b".", b"e e", b"\xc3\xa9", b"-", b".git", b"\x1b[2J", b"csv.yaml", b"\xff\xfe"];

/// Reading ends, no content of an image tells anything of its host, what is read lies in the folder, and both readers of bundles agree.
pub(crate) fn folders(data: &[u8]) {
    let Ok(folder) = tempfile::tempdir() else { return };
    let root = folder.path().join("inside");
    if fs::create_dir(&root).is_err() || fs::write(folder.path().join("secret"), SECRET).is_err() {
        return;
    }
    let entries = make(&root, data);
    for links in [Links::Inside, Links::Anywhere] {
        let of_bundle = bundle_files(&root, links);
        let whole = whole_bundle(&root, links);
        for files in [&of_bundle, &whole].into_iter().flatten() {
            check(&root, files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice())), links, entries);
            let _ = Bundle::read_for_catalog(files.iter().map(|(path, bytes)| (path.clone(), bytes.clone())));
        }
        if let (Ok(files), Ok(whole)) = (&of_bundle, &whole) {
            let paths: BTreeSet<&str> = whole.iter().map(|(path, _)| path.as_str()).collect();
            let hidden = |path: &str| path.split('/').any(|part| part.starts_with('.'));
            assert!(
                files.iter().all(|(path, _)| paths.contains(path.as_str()) || hidden(path)),
                "a part of a bundle that the whole has not"
            );
        }
        let source = match links {
            Links::Inside => DirectorySource::of_image(&root),
            Links::Anywhere => DirectorySource::of_user(&root),
        };
        let Ok(source) = source else { continue };
        let Ok(paths) = source.paths() else { continue };
        let read: Vec<_> = paths.iter().filter_map(|path| Some((path.as_str(), source.read(path).ok()?))).collect();
        check(&root, read.iter().map(|(path, bytes)| (*path, &**bytes)), links, entries);
    }
}

fn check<'f>(root: &Path, files: impl Iterator<Item = (&'f str, &'f [u8])>, links: Links, entries: usize) {
    let mut seen = BTreeSet::new();
    for (path, bytes) in files {
        assert!(seen.insert(path), "{path:?} twice");
        assert!(path.split('/').all(|part| !["", ".", ".."].contains(&part)), "{path:?}");
        if links == Links::Inside {
            assert!(bytes != SECRET, "{path:?} tells what lies beside the folder");
            let leads = root.join(path).canonicalize().ok();
            assert!(leads.is_some_and(|leads| leads.starts_with(root.canonicalize().unwrap_or_default())), "{path:?} leads out");
        }
    }
    // A part of a bundle that is a link is gone through once more under its own name.
    assert!(seen.len() <= 3 * entries, "{} files of {entries} entries", seen.len());
}

/// Makes the tree, and says how many entries it was told to make.
fn make(root: &Path, data: &[u8]) -> usize {
    let mut choices = Choices(data);
    let mut entries = 0;
    while let Some(what) = choices.next() {
        if entries == MOST_ENTRIES {
            break;
        }
        entries += 1;
        let path = root.join(inner(&mut choices));
        // What would lie outside is not made; the entry is one that fails.
        if is_outside(root, &path) {
            continue;
        }
        let _ = match what % 8 {
            0 | 1 => fs::create_dir_all(&path),
            2 | 3 => fs::write(&path, content(&mut choices)),
            // A hole takes no room on the disk, and is far too large for every reader.
            4 => File::create_new(&path).and_then(|file| file.set_len(300 << 30)),
            5 | 6 => symlink(target(&mut choices), &path),
            _ => {
                let other = root.join(inner(&mut choices));
                if is_outside(root, &other) {
                    continue;
                }
                fs::hard_link(other, &path)
            }
        };
    }
    entries
}

/// Whether a path leads, or may lead, out of the folder: upwards, or through a link.
fn is_outside(root: &Path, path: &Path) -> bool {
    let within = |path: &Path| path.canonicalize().is_ok_and(|real| root.canonicalize().is_ok_and(|root| real.starts_with(root)));
    let there = path.ancestors().find(|part| part.symlink_metadata().is_ok());
    path.components().any(|part| part.as_os_str() == "..") || !there.is_some_and(within)
}

/// A path in the folder, a few of them deep.
fn inner(choices: &mut Choices<'_>) -> PathBuf {
    let count = choices.number();
    if count >= 250 {
        return PathBuf::from("x/".repeat(count - 230));
    }
    (0..=count % 4).map(|_| OsStr::from_bytes(choices.of(&PARTS))).collect()
}

fn target(choices: &mut Choices<'_>) -> PathBuf {
    match choices.number() % 10 {
        0 => PathBuf::from("."),
        1 => PathBuf::from(".."),
        2 => PathBuf::from("../secret"),
        3 => PathBuf::from("../../secret"),
        4 => PathBuf::from("/dev/null"),
        5 => PathBuf::from("/nowhere"),
        _ => inner(choices),
    }
}

fn content(choices: &mut Choices<'_>) -> Vec<u8> {
    let texts: [&[u8]; 6] = [
        b"",
        b"{\"apiVersion\":\"operators.coreos.com/v1alpha1\",\"kind\":\"ClusterServiceVersion\",\"metadata\":{\"name\":\"a.v1.0.0\"},\"spec\":{\"version\":\"1.0.0\"}}",
        b"annotations:\n  operators.operatorframework.io.bundle.package.v1: a\n",
        b"a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n",
        b"schema: olm.package\nname: a\n",
        b"\xff\0\x01",
    ];
    choices.of(&texts).repeat(choices.of(&[1, 1, 1, 50]))
}

pub(crate) fn folder_seeds() -> Vec<Vec<u8>> {
    vec![
        // A bundle.
        vec![0, 0, 0, 0, 0, 1, 2, 1, 0, 12, 1, 0, 2, 1, 1, 3, 2, 0],
        // Links of a folder to itself, beside a file.
        vec![0, 0, 2, 5, 1, 2, 3, 0, 5, 1, 2, 4, 0, 2, 1, 2, 12, 1, 0],
        // Links out of the folder, and a hole with links to it.
        vec![0, 0, 0, 5, 1, 0, 3, 3, 5, 1, 0, 4, 2, 4, 0, 2, 5, 1, 0, 7, 8, 0, 2, 7, 1, 0, 8, 0, 2],
        // Parts of a bundle that are links to folders of it.
        vec![0, 1, 2, 3, 2, 2, 2, 3, 12, 1, 0, 5, 0, 0, 9, 1, 2, 3, 5, 0, 1, 9, 0, 2],
        // Deep, hidden and odd names.
        vec![0, 255, 0, 1, 10, 3, 2, 1, 10, 12, 1, 0, 2, 0, 11, 2, 0, 2, 0, 13, 2, 0],
    ]
}
