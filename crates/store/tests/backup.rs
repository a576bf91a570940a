//! Backups: made while others write, whole or refused.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::sync::Arc;

use bytes::Bytes;
use mainstay_store::backup::{self, Backup};
use mainstay_store::{Embedded, Error, Expect, KeyValue, Options, Range, Store};
use proptest::prelude::*;

async fn backup_of(store: &dyn Store, files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    backup::write(store, files, |piece| {
        out.extend_from_slice(&piece);
        std::future::ready(Ok(()))
    })
    .await
    .unwrap();
    out
}

async fn everything(store: &Embedded, revision: Option<u64>) -> Vec<KeyValue> {
    store.list(Range { prefix: "/".into(), revision, ..Range::default() }).await.unwrap().items
}

/// KAPI-STORE-02: a backup made under write load shows one revision, and comes back as it was; revisions go on after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_shows_one_revision_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Embedded::open(&dir.path().join("store"), &Options::default()).unwrap());
    for number in 0..1_200 {
        store.put(&format!("/k/{number:05}"), Bytes::from(vec![b'v'; number % 300]), Expect::Absent).await.unwrap();
    }
    let writer = {
        let store = store.clone();
        tokio::spawn(async move {
            for number in 0..600 {
                store.put(&format!("/k/{:05}", number * 2), Bytes::from_static(b"changed"), Expect::Any).await.unwrap();
                let _ = store.delete(&format!("/k/{:05}", number * 2 + 1), Expect::Any).await.unwrap();
            }
        })
    };
    let files = vec![("pki/ca.key".to_owned(), b"secret".to_vec())];
    let bytes = backup_of(&*store, &files).await;
    writer.await.unwrap();
    let path = dir.path().join("backup");
    std::fs::write(&path, &bytes).unwrap();
    let backup = Backup::open(&path).unwrap();
    let contents = backup.verify().unwrap();
    assert_eq!((contents.bytes, contents.files.as_slice()), (bytes.len() as u64, &["pki/ca.key".to_owned()][..]));
    let mut found = Vec::new();
    backup
        .files(|name, content| {
            found.push((name.to_owned(), content.to_vec()));
            Ok(())
        })
        .unwrap();
    assert_eq!(found, files);

    let folder = dir.path().join("restored");
    backup.restore(&folder, contents.revision + 1_000).unwrap();
    let restored = Embedded::open(&folder, &Options::default()).unwrap();
    assert_eq!(everything(&restored, None).await, everything(&store, Some(contents.revision)).await);
    assert!(matches!(restored.watch("/", contents.revision).await.err(), Some(Error::Compacted { .. })), "old watches begin anew");
    let written = restored.put("/k/new", Bytes::new(), Expect::Absent).await.unwrap();
    assert_eq!(written.modified, contents.revision + 1_001);
    assert!(backup.restore(&folder, contents.revision).is_err(), "a store is not written over");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// KAPI-STORE-02: a backup that was changed or cut off anywhere is refused.
    #[test]
    fn a_damaged_backup_is_refused(at in any::<prop::sample::Index>(), bit in 0..8u8, cut in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let mut bytes = runtime.block_on(async {
            let store = Embedded::open(&dir.path().join("store"), &Options::default()).unwrap();
            for number in 0..5 {
                store.put(&format!("/k/{number}"), Bytes::from(vec![number; 40]), Expect::Absent).await.unwrap();
            }
            backup_of(&store, &[("about".to_owned(), b"text".to_vec())]).await
        });
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] ^= 1 << bit }
        let path = dir.path().join("backup");
        std::fs::write(&path, &bytes).unwrap();
        let outcome = Backup::open(&path).unwrap().verify();
        prop_assert!(matches!(outcome, Err(Error::Backup { .. } | Error::Format { .. })), "byte {at}: {outcome:?}");
        prop_assert!(Backup::open(&path).unwrap().restore(&dir.path().join("restored"), 100).is_err());
        prop_assert!(!Embedded::is_at(&dir.path().join("restored")), "nothing is left of it");
    }
}
