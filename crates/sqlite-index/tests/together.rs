//! Several programs that change one database, and links to it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::common;
use mainstay_sqlite_index::{AddOptions, Editor, Error, IndexDatabase};

fn packages(path: &std::path::Path) -> Vec<String> {
    IndexDatabase::open(path).unwrap().packages().unwrap()
}

fn edited(path: &std::path::Path, bundle: &str) -> Editor {
    let mut editor = Editor::open(path).unwrap();
    editor.add(&[common::bundle(bundle)], AddOptions::default()).unwrap();
    editor
}

/// CATLG-54: of two changes that begin with the same database only the first is kept, and the second says so; nothing is lost unseen.
#[test]
fn the_second_change_does_not_undo_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index.db");
    for rest in ["foo-1.0.0", "bar-1.0.0"] {
        let (first, second) = (edited(&path, rest), edited(&path, "sub-1.0.0"));
        first.commit().unwrap();
        let before = std::fs::read(&path).unwrap();
        assert!(matches!(second.commit(), Err(Error::Changed { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
    assert_eq!(packages(&path), ["bar", "foo"]);
    let left = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(left, 1, "copies are removed");
}

/// CATLG-54: whoever tries again as long as there was another change gets in; all changes are there in the end.
#[test]
fn many_changes_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index.db");
    std::thread::scope(|scope| {
        for bundle in ["foo-1.0.0", "bar-1.0.0", "sub-1.0.0"] {
            let path = &path;
            scope.spawn(move || {
                while let Err(error) = common::add(path, &[bundle], &[]) {
                    assert!(matches!(error, Error::Changed { .. }), "{error}");
                }
            });
        }
    });
    assert_eq!(packages(&path), ["bar", "foo", "sub"]);
}

/// CATLG-54: a link stays a link, and what it leads to is changed.
#[cfg(unix)]
#[test]
fn links_are_followed() {
    let directory = tempfile::tempdir().unwrap();
    let (real, link) = (directory.path().join("real.db"), directory.path().join("link.db"));
    common::add(&real, &["foo-1.0.0"], &[]).unwrap();
    std::os::unix::fs::symlink("real.db", &link).unwrap();
    common::add(&link, &["bar-1.0.0"], &[]).unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(packages(&real), ["bar", "foo"]);
}
