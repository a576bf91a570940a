//! Index files of catalogs: a store that is shared may hold what another program wrote.

use mainstay_catalog::{Index, IndexBuilder, Limits, MemorySource, MetaQuery, store};

const CATALOG: &str = concat!(
    r#"{"schema":"olm.package","name":"p","defaultChannel":"c"}"#,
    r#"{"schema":"olm.channel","package":"p","name":"c","entries":[{"name":"p.v2","replaces":"p.v1","skips":["p.v0"]},{"name":"p.v1"}]}"#,
    r#"{"schema":"olm.bundle","package":"p","name":"p.v1","image":"q.io/p:v1","properties":[{"type":"olm.gvk","value":{"group":"g","version":"v","kind":"K"}}]}"#,
    r#"{"schema":"olm.bundle","package":"p","name":"p.v2","image":"q.io/p:v2","properties":[{"type":"olm.package","value":{"packageName":"p","version":"2.0.0"}}]}"#,
);
/// Where the checksum is, and where that begins over which it is.
const CHECKSUM: std::ops::Range<usize> = 12..16;

/// The index of the catalog, and how long its content is.
fn index() -> (Vec<u8>, u64) {
    let mut content = Vec::new();
    match store(&MemorySource::of("c.json", CATALOG), &Limits::default(), &mut content) {
        Ok(index) => (index, content.len() as u64),
        Err(error) => panic!("{error}"),
    }
}

/// An index with any bytes changed and a checksum that agrees is refused, or answers every question and comes to an end.
pub fn indexes(data: &[u8]) {
    let (mut bytes, length) = index();
    for change in data.chunks_exact(3).take(64) {
        let at = CHECKSUM.end + usize::from(u16::from_le_bytes([change[0], change[1]])) % (bytes.len() - CHECKSUM.end);
        bytes[at] = change[2];
    }
    let checksum = crc32fast::hash(&bytes[CHECKSUM.end..]);
    bytes[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
    let Ok(index) = Index::open(bytes, length) else { return };
    let mut seen = 0;
    for package in index.packages() {
        seen += package.name().len() + package.display_name().len() + package.summary().len();
        for channel in package.channels() {
            seen += channel.head().map_or(0, |head| head.name().len()) + usize::from(channel.entry("p.v1").is_some());
            for entry in channel.entries() {
                seen += entry.skips().len() + entry.channel().package().name().len() + usize::from(entry.bundle().is_some());
            }
        }
        for bundle in package.bundles() {
            seen += bundle.provided_apis().chain(bundle.required_apis()).map(|api| api.kind.len()).sum::<usize>();
        }
        let _facts = index.package_facts(package.name());
    }
    for entry in index.providers("g", "v", "K").chain(index.replacers("p.v0")).chain(index.listing(0)) {
        seen += entry.name().len() + usize::from(entry.bundle().is_some());
    }
    let query = MetaQuery { package: Some("p".to_owned()), ..MetaQuery::default() };
    seen += index.metas(&query).count() + index.metas(&MetaQuery::default()).count() + index.search("p").len();
    assert!(seen < 1 << 30, "an index of some hundred bytes holds {seen}");
    let _empty = IndexBuilder::new().finish();
}

pub fn index_seeds() -> Vec<Vec<u8>> {
    vec![Vec::new(), vec![0, 1, 255, 40, 0, 7], (0..=255).collect()]
}
