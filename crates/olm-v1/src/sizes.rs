//! The sizes of the caches on disk, for the page of metrics (MS-OPS-01).

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use mainstay_catalog_store::CatalogStore;
use mainstay_runtime::metrics::{Metrics, Size};

/// The deepest level of folders inside an image that is measured; deeper folders count as empty.
const DEPTH: usize = 64;

/// Adds the stored catalogs and the bundles unpacked below `unpacked` to the metrics.
pub(crate) fn show(metrics: &Metrics, store: &Arc<CatalogStore>, unpacked: PathBuf) {
    let of = |store: &Arc<CatalogStore>, bytes: fn(&mainstay_catalog_store::Sizes) -> u64| {
        let store = Arc::downgrade(store);
        move || {
            // An unreadable size counts as zero; the store itself reports errors when they matter.
            let sizes = store.upgrade()?.sizes().unwrap_or_default();
            Some(Size { objects: sizes.catalogs, bytes: Some(bytes(&sizes)) })
        }
    };
    metrics.show_size("catalogs", "content", of(store, |sizes| sizes.content_bytes));
    metrics.show_size("catalogs", "index", of(store, |sizes| sizes.index_bytes));
    let (bundles, owner) = (Unpacked::default(), Arc::downgrade(store));
    metrics.show_size("images", "bundles", move || owner.upgrade().map(|_| bundles.size(&unpacked)));
}

/// The sizes of unpacked images by their folders. The content of a digest does not change, so it is measured once.
#[derive(Default)]
struct Unpacked(Mutex<HashMap<PathBuf, u64>>);

impl Unpacked {
    /// Returns the size of the complete entries below a root: `NAME/DIGEST` beside `NAME/DIGEST.complete`.
    fn size(&self, root: &Path) -> Size {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let complete = |path: &Path| path.extension().is_some_and(|extension| extension == "complete");
        let entries = folders(root).flat_map(|name| files(&name).filter(|path| complete(path)).collect::<Vec<_>>());
        let mut now = HashMap::new();
        for entry in entries.map(|mark| mark.with_extension("")) {
            // An entry that is removed meanwhile is counted the next time, or not at all.
            if let Some(bytes) = known.remove(&entry).or_else(|| bytes_below(&entry, DEPTH).ok()) {
                now.insert(entry, bytes);
            }
        }
        *known = now;
        Size { objects: known.len() as u64, bytes: Some(known.values().sum()) }
    }
}

fn files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()))
}

fn folders(folder: &Path) -> impl Iterator<Item = PathBuf> {
    files(folder).filter(|path| path.is_dir())
}

fn bytes_below(folder: &Path, depth: usize) -> io::Result<u64> {
    let mut total = 0_u64;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // Links are not followed.
        let meta = entry.metadata()?;
        total += match depth.checked_sub(1) {
            Some(depth) if meta.is_dir() => bytes_below(&entry.path(), depth)?,
            _ if meta.is_file() => meta.len(),
            _ => 0,
        };
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// MS-OPS-01: complete images count with all their files, once; those that go are counted no more.
    #[test]
    fn unpacked_images_are_counted() {
        let root = tempfile::tempdir().unwrap();
        let entry = root.path().join("widgets/sha256-1");
        fs::create_dir_all(entry.join("manifests")).unwrap();
        fs::write(entry.join("manifests/a.yaml"), "12345").unwrap();
        fs::write(entry.join("b"), "123").unwrap();
        let unpacked = Unpacked::default();
        assert_eq!(unpacked.size(root.path()), Size { objects: 0, bytes: Some(0) }, "it is not complete");
        fs::write(root.path().join("widgets/sha256-1.complete"), "{}").unwrap();
        assert_eq!(unpacked.size(root.path()), Size { objects: 1, bytes: Some(8) });
        assert_eq!(unpacked.size(root.path()), Size { objects: 1, bytes: Some(8) });
        fs::remove_file(root.path().join("widgets/sha256-1.complete")).unwrap();
        assert_eq!(unpacked.size(root.path()), Size { objects: 0, bytes: Some(0) });
        assert_eq!(unpacked.size(&root.path().join("nowhere")), Size { objects: 0, bytes: Some(0) });
    }
}
