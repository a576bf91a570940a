//! The cache that upstream's `opm serve --cache-dir` reads, made without it (CATLG-31, CATLG-45).
//!
//! ```text
//!   <cache-dir>/cache/packages.json                        packages, channels, heads and edges
//!               cache/<package>_<channel>_<bundle>.json    each bundle as the registry sends it
//!               digest                                     FNV-1a of two archives: the catalog's files, and cache/
//! ```
//!
//! An image built with opm's own Dockerfile holds such a cache, and opm refuses to start when the digest does not match. So the
//! archives are hashed as Go's `archive/tar` writes them, byte for byte, for files with the modes in our images: 0755 for
//! folders, 0644 for files.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_catalog_store::StoredCatalog;
use serde_json::{Map, Value, json};

use crate::ServeError;
use crate::grpc::{api, whole};

const BLOCK: usize = 512;
const NAME: usize = 100;
const PREFIX: usize = 155;

/// Returns the files of the cache by path, for a catalog and its files by path.
pub fn opm_cache(catalog: &StoredCatalog, files: &BTreeMap<String, Vec<u8>>) -> Result<BTreeMap<String, Vec<u8>>, ServeError> {
    let mut cache = BTreeMap::new();
    let mut packages = Map::new();
    for package in catalog.index().packages() {
        let mut channels = Map::new();
        for channel in package.channels() {
            let mut bundles = Map::new();
            for entry in channel.entries() {
                let Some(bundle) = whole(catalog, entry)? else { continue };
                let skips: Vec<&str> = entry.skips().collect();
                let edges = json!({"package": package.name(), "channel": channel.name(), "name": entry.name(),
                    "replaces": entry.replaces().unwrap_or_default(), "skips": if skips.is_empty() { Value::Null } else { skips.into() }});
                bundles.insert(entry.name().to_owned(), edges);
                let name = format!("{}_{}_{}.json", package.name(), channel.name(), entry.name());
                cache.insert(name, written(&bundle).to_string().into_bytes());
            }
            let head = channel.head().map(|head| head.name().to_owned()).unwrap_or_default();
            let mut object = json!({"Name": channel.name(), "Head": head, "Bundles": bundles});
            if let Some(message) = channel.deprecation() {
                object["deprecation"] = json!({"message": message});
            }
            channels.insert(channel.name().to_owned(), object);
        }
        let mut object = json!({"name": package.name(), "description": "", "icon": null,
            "defaultChannel": package.default_channel().unwrap_or_default(), "Channels": channels});
        if let Some(message) = package.deprecation() {
            object["deprecation"] = json!({"message": message});
        }
        packages.insert(package.name().to_owned(), object);
    }
    cache.insert("packages.json".to_owned(), Value::Object(packages).to_string().into_bytes());
    let mut hash = Fnv::default();
    archive(files, &mut hash);
    archive(&cache, &mut hash);
    let mut all: BTreeMap<String, Vec<u8>> = cache.into_iter().map(|(name, bytes)| (format!("cache/{name}"), bytes)).collect();
    all.insert("digest".to_owned(), format!("{:x}", hash.0).into_bytes());
    Ok(all)
}

/// Returns a bundle as Go's encoder writes the type of the protocol: empty fields are left out.
fn written(bundle: &api::Bundle) -> Value {
    let kinds = |kinds: &[api::GroupVersionKind]| -> Value {
        kinds
            .iter()
            .map(|kind| filled([("group", &kind.group), ("version", &kind.version), ("kind", &kind.kind), ("plural", &kind.plural)]))
            .collect()
    };
    let mut object = json!({
        "csvName": bundle.csv_name,
        "packageName": bundle.package_name,
        "channelName": bundle.channel_name,
        "csvJson": bundle.csv_json,
        "object": bundle.object,
        "bundlePath": bundle.bundle_path,
        "providedApis": kinds(&bundle.provided_apis),
        "requiredApis": kinds(&bundle.required_apis),
        "version": bundle.version,
        "skipRange": bundle.skip_range,
        "dependencies": bundle.dependencies.iter().map(|one| filled([("type", &one.r#type), ("value", &one.value)])).collect::<Value>(),
        "properties": bundle.properties.iter().map(|one| filled([("type", &one.r#type), ("value", &one.value)])).collect::<Value>(),
        "replaces": bundle.replaces,
        "skips": bundle.skips,
    });
    if let Some(deprecation) = &bundle.deprecation {
        object["deprecation"] = filled([("message", &deprecation.message)]);
    }
    if let Some(members) = object.as_object_mut() {
        members.retain(|_, value| value.as_str() != Some("") && value.as_array().is_none_or(|list| !list.is_empty()));
    }
    object
}

fn filled<const N: usize>(members: [(&str, &String); N]) -> Value {
    members
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (name.to_owned(), value.as_str().into()))
        .collect::<Map<_, _>>()
        .into()
}

/// FNV-1a of 64 bits.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.update(bytes);
        self.update(&[0; BLOCK][..(BLOCK - bytes.len() % BLOCK) % BLOCK]);
    }
}

/// Hashes the archive of a folder: the folder itself, then everything below it in the order of a walk.
fn archive(files: &BTreeMap<String, Vec<u8>>, hash: &mut Fnv) {
    let mut paths: BTreeMap<Vec<&str>, Option<&Vec<u8>>> = BTreeMap::new();
    let mut folders: BTreeSet<Vec<&str>> = BTreeSet::new();
    for (path, bytes) in files {
        let parts: Vec<&str> = path.split('/').collect();
        folders.extend((1..parts.len()).map(|count| parts[..count].to_vec()));
        paths.insert(parts, Some(bytes));
    }
    paths.extend(folders.into_iter().map(|folder| (folder, None)));
    entry(".", None, hash);
    for (parts, bytes) in paths {
        entry(&parts.join("/"), bytes, hash);
    }
    hash.update(&[0; 2 * BLOCK]);
}

fn entry(path: &str, bytes: Option<&Vec<u8>>, hash: &mut Fnv) {
    let (kind, mode) = if bytes.is_some() { (b'0', 0o644) } else { (b'5', 0o755) };
    let content = bytes.map_or(&[][..], Vec::as_slice);
    if let Some((prefix, name)) = place(path) {
        hash.update(&Header { prefix, name }.block(kind, mode, content.len(), Devices::Zero));
        hash.padded(content);
        return;
    }
    // A name that does not fit into the header precedes its entry in a record of its own.
    let record = pax_record("path", path);
    let (folder, file) = path.rsplit_once('/').map_or((String::new(), path), |(folder, file)| (format!("{folder}/"), file));
    let short: String = ascii(&format!("{folder}PaxHeaders.0/{file}")).chars().take(NAME).collect();
    hash.update(&Header { prefix: "", name: short.trim_end_matches('/') }.block(b'x', 0, record.len(), Devices::Unset));
    hash.padded(record.as_bytes());
    let plain: String = ascii(path).chars().take(NAME).collect();
    hash.update(&Header { prefix: "", name: &plain }.block(kind, mode, content.len(), Devices::Zero));
    hash.padded(content);
}

fn ascii(text: &str) -> String {
    text.chars().filter(char::is_ascii).collect()
}

/// Returns the path as prefix and name of a header; `None` when it does not fit.
fn place(path: &str) -> Option<(&str, &str)> {
    if !path.is_ascii() {
        return None;
    }
    if path.len() <= NAME {
        return Some(("", path));
    }
    let length = if path.len() > PREFIX + 1 { PREFIX + 1 } else { path.len() };
    let at = path[..length].rfind('/').filter(|at| *at > 0)?;
    let (prefix, name) = (&path[..at], &path[at + 1..]);
    (!name.is_empty() && name.len() <= NAME && prefix.len() <= PREFIX).then_some((prefix, name))
}

/// Returns `length key=value`; the length counts itself.
fn pax_record(key: &str, value: &str) -> String {
    let rest = key.len() + value.len() + 3;
    let mut size = rest + rest.to_string().len();
    if rest + size.to_string().len() != size {
        size = rest + size.to_string().len();
    }
    format!("{size} {key}={value}\n")
}

/// Decides if the device numbers are written, which Go does for entries and not for records.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Devices {
    Zero,
    Unset,
}

struct Header<'a> {
    prefix: &'a str,
    name: &'a str,
}

impl Header<'_> {
    fn block(&self, kind: u8, mode: u32, size: usize, devices: Devices) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        let mut put = |at: usize, text: &str| block[at..at + text.len()].copy_from_slice(text.as_bytes());
        put(0, self.name);
        put(100, &format!("{mode:07o}"));
        put(108, "0000000");
        put(116, "0000000");
        put(124, &format!("{size:011o}"));
        put(136, "00000000000");
        put(257, "ustar");
        put(263, "00");
        if devices == Devices::Zero {
            put(329, "0000000");
            put(337, "0000000");
        }
        put(345, self.prefix);
        block[156] = kind;
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        let text = format!("{sum:06o}\0 ");
        block[148..156].copy_from_slice(text.as_bytes());
        block
    }
}
