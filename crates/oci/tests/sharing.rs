//! The cache of blobs, credentials that programs keep, and authorities of single registries.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::{Duration, SystemTime};

use crate::common::{self, Running, client, image};
use mainstay_oci::registry::Access;
use mainstay_oci::{BlobCache, BlobStore, ClientConfig, Digest, ImageBuilder, Workspace};

fn put(workspace: &Workspace, bytes: &[u8]) -> Digest {
    workspace.store().write(bytes).unwrap()
}

/// Makes a blob look as if it was last used so long ago.
fn age(cache: &std::path::Path, digest: &Digest, seconds: u64) {
    let file = std::fs::OpenOptions::new().append(true).open(cache.join("blobs/sha256").join(digest.hex())).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
}

fn kept(cache: &std::path::Path, digest: &Digest) -> bool {
    cache.join("blobs/sha256").join(digest.hex()).is_file()
}

/// What was not used for longest goes first; what somebody uses, in this process or another, never.
#[test]
fn the_cache_stays_below_its_limit() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let cache = BlobCache::open(root, 250).unwrap();
    let blobs: Vec<Digest> = {
        let workspace = cache.workspace().unwrap();
        (0..2_u8).map(|number| put(&workspace, &[number; 100])).collect()
    };
    age(root, &blobs[0], 300);
    age(root, &blobs[1], 200);
    let new = put(&cache.workspace().unwrap(), &[9; 100]);
    assert!(!kept(root, &blobs[0]) && kept(root, &blobs[1]) && kept(root, &new), "the oldest went");
    assert_eq!(cache.size().unwrap(), 200);

    // Another handle stands for another process.
    let other = BlobCache::open(root, 250).unwrap();
    let user = other.workspace().unwrap();
    age(root, &blobs[1], 200);
    let (_unused, third) =
        (std::fs::hard_link(root.join("blobs/sha256").join(blobs[1].hex()), user.store().path(&blobs[1])), put(&user, &[7; 100]));
    age(root, &blobs[1], 200);
    cache.evict().unwrap();
    assert!(kept(root, &blobs[1]) && kept(root, &third) && !kept(root, &new), "only what nobody uses goes");
    assert_eq!(user.store().read(&blobs[1], 1000).unwrap(), [1; 100]);
    drop(user);
    let huge = put(&cache.workspace().unwrap(), &[5; 1000]);
    assert!(!kept(root, &huge) && cache.size().unwrap() <= 250, "larger than the cache is not kept");
}

/// A second pull asks for no blob; a damaged blob is noticed and fetched anew; what a dead process left behind goes.
#[tokio::test]
async fn blobs_are_fetched_once() {
    let server = Running::start(Access::Open).await;
    let target = server.reference("org/widget:v1");
    let from = tempfile::tempdir().unwrap();
    let from = BlobStore::open(from.path()).unwrap();
    let built = image(&from);
    client(ClientConfig::default()).push(&built, &from, &target).await.unwrap();

    let folder = tempfile::tempdir().unwrap();
    let cached = || client(ClientConfig { cache: Some(BlobCache::open(folder.path(), 1 << 20).unwrap()), ..ClientConfig::default() });
    for turn in 0..2 {
        let (client, before) = (cached(), server.registry.counts().blob_reads);
        let workspace = client.workspace().unwrap();
        assert_eq!(client.pull(&target, workspace.store()).await.unwrap(), built);
        assert_eq!(server.registry.counts().blob_reads - before, if turn == 0 { 2 } else { 0 });
    }
    let layer = folder.path().join("blobs/sha256").join(built.manifest.layers[0].digest.hex());
    let bytes = std::fs::read(&layer).unwrap();
    std::fs::write(&layer, vec![0; bytes.len()]).unwrap();
    let (client, before) = (cached(), server.registry.counts().blob_reads);
    let workspace = client.workspace().unwrap();
    client.pull(&target, workspace.store()).await.unwrap();
    assert_eq!(server.registry.counts().blob_reads - before, 1);
    assert_eq!(std::fs::read(&layer).unwrap(), bytes);

    // A live workspace stays when the cache is opened again, one of a dead process does not.
    let dead = folder.path().join("work/dead");
    std::fs::create_dir_all(dead.join("blobs")).unwrap();
    std::fs::write(folder.path().join("work/dead.lock"), b"").unwrap();
    BlobCache::open(folder.path(), 1 << 20).unwrap();
    assert!(!dead.exists() && workspace.directory().is_dir());
    let directory = workspace.directory().to_owned();
    drop(workspace);
    assert!(!directory.exists());
}

/// Several at once take and leave blobs while others evict: every pull is whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_share_one_small_cache() {
    let server = Running::start(Access::Open).await;
    let from = tempfile::tempdir().unwrap();
    let from = BlobStore::open(from.path()).unwrap();
    let plain = client(ClientConfig::default());
    let mut targets = Vec::new();
    for number in 0..6_u8 {
        let built = ImageBuilder::new().file("a", vec![number; 3000]).file("b", vec![number; 10]).build(&from).unwrap();
        let target = server.reference(&format!("org/a{number}:v1"));
        plain.push(&built, &from, &target).await.unwrap();
        targets.push((target, built));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut tasks = Vec::new();
    for worker in 0..8 {
        let (root, targets) = (folder.path().to_owned(), targets.clone());
        tasks.push(tokio::spawn(async move {
            let client = client(ClientConfig { cache: Some(BlobCache::open(root, 600).unwrap()), ..ClientConfig::default() });
            for turn in 0..12 {
                let (target, built) = &targets[(worker + turn) % targets.len()];
                let workspace = client.workspace().unwrap();
                assert_eq!(client.pull(target, workspace.store()).await.unwrap(), *built);
                let layer = &built.manifest.layers[0];
                assert_eq!(workspace.store().read(&layer.digest, 1 << 20).unwrap().len() as u64, layer.size);
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert!(BlobCache::open(folder.path(), 600).unwrap().size().unwrap() <= 600);
}

/// A1: what a cache, a layout, a workspace and unpacked content hold is for this user alone, whatever the umask. (A test cannot change the
/// umask of its process; the usual one lets everybody read.)
#[cfg(unix)]
#[test]
fn everything_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    fn open_to_others(folder: &std::path::Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            if !metadata.is_symlink() && metadata.permissions().mode() & 0o077 != 0 {
                found.push(format!("{} {:o}", path.display(), metadata.permissions().mode()));
            }
            if metadata.is_dir() {
                open_to_others(&path, found);
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let cache = mainstay_oci::BlobCache::open(root.join("blobs"), 1 << 30).unwrap();
    let workspace = cache.workspace().unwrap();
    let image = common::image(workspace.store());
    let layout = mainstay_oci::Layout::create(root.join("layout")).unwrap();
    layout.take(&image.descriptor, workspace.store()).unwrap();
    layout.add("a", &image).unwrap();
    layout.write_archive(&root.join("archive.tar")).unwrap();
    mainstay_oci::Layout::read_archive(&root.join("archive.tar"), &root.join("read")).unwrap();
    let unpacked = mainstay_oci::Cache::open(root.join("unpack")).unwrap();
    let layers = mainstay_oci::Layer::of(&image, workspace.store());
    let fill = |place: &std::path::Path| mainstay_oci::unpack(&layers, place, &mainstay_oci::UnpackOptions::default()).map(drop);
    unpacked.fill("extension", &image.digest, fill).unwrap();
    let mut found = Vec::new();
    open_to_others(root, &mut found);
    // The lock that evictions take, and the folders of the cache itself, are seen to where the cache is opened.
    assert_eq!(found, [""; 0]);
}
