//! Images by their structure: whatever bytes come, they are layers of well-formed entries, so that what is tried is what entries may mean
//! together and not how an archive may be broken.
//!
//! A byte says what comes next: a file, a folder, a link, a hard link, a sparse file, a whiteout, an opaque folder, a device, an extended
//! header before it, the next layer. The bytes after it choose from a few names, so that entries meet often.

use std::io::Write as _;

use crate::choices::Choices;
use crate::images::hold;

/// Entries and layers of one image.
const MAX_ENTRIES: usize = 400;
const MAX_LAYERS: usize = 6;
/// Parts of names; some are longer than systems take, or mean something.
const PARTS: [&str; 14] = ["a", "b", "c", "d", "..", ".", "", "e e", "\u{e9}", "-", ".wh.a", ".wh..wh..opq", "\u{1b}[2J", "q\\q"];

/// Nothing gets out, budgets hold, the work is linear, and in memory an image holds what it holds on disk.
pub(crate) fn images(data: &[u8]) {
    hold(&layers(data));
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut chain = vec![0];
    for number in 0..40_u8 {
        chain.extend([2, 1, number % 4, 1, (number + 1) % 4]);
    }
    vec![
        b"\x00\x00\x02\x00\x01\x05\x02\x01\x00\x02\x00\x01\x03\x01\x02\x01\x00".to_vec(),
        b"\x01\x00\x02\x00\x01\xff\x06\x01\x00\x07\x01\x00\x00\x01\x02\x09\x08\x02\x01\x00\x03\x04\x04\x00".to_vec(),
        b"\x02\x04\x01\x00\xff\x04\x01\x00\xff\x04\x01\x00\xff\x03\x01\x01\x01\x00\x0a\x00\x01\x02\x05\xff\xff".to_vec(),
        chain,
    ]
}

/// A path of a few parts; some are long, or deep.
fn some_path(choices: &mut Choices<'_>) -> String {
    let count = choices.number();
    if count >= 250 {
        return format!("a/{}", PARTS[count % 4].repeat(count * 8));
    }
    if count >= 245 {
        return "b/".repeat(count);
    }
    let parts: Vec<&str> = (0..=(count % 5)).map(|_| choices.of(&PARTS)).collect();
    parts.join("/")
}

/// The blobs of the layers, each compressed in its way.
fn layers(data: &[u8]) -> Vec<Vec<u8>> {
    let mut choices = Choices(data);
    let mut blobs = Vec::new();
    let (mut archive, mut algorithm) = (tar::Builder::new(Vec::new()), choices.number());
    for _ in 0..MAX_ENTRIES {
        let Some(what) = choices.next() else { break };
        if what % 11 == 9 {
            blobs.push(compressed(archive.into_inner().unwrap_or_default(), algorithm));
            if blobs.len() == MAX_LAYERS {
                return blobs;
            }
            (archive, algorithm) = (tar::Builder::new(Vec::new()), choices.number());
        } else {
            append(&mut archive, what % 11, &mut choices);
        }
    }
    blobs.push(compressed(archive.into_inner().unwrap_or_default(), algorithm));
    blobs
}

fn append(archive: &mut tar::Builder<Vec<u8>>, what: u8, choices: &mut Choices<'_>) {
    let path = some_path(choices);
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o7777 & (choices.number() as u32 * 37));
    let (kind, target, size) = match what {
        0 => (tar::EntryType::Regular, String::new(), choices.number() << (choices.number() % 11)),
        1 => (tar::EntryType::Directory, String::new(), 0),
        2 => {
            let target = some_path(choices);
            (tar::EntryType::Symlink, if choices.number().is_multiple_of(3) { format!("/{target}") } else { target }, 0)
        }
        3 => (tar::EntryType::Link, some_path(choices), 0),
        4 => return sparse(archive, &path, (choices.number() as u64) << (choices.number() % 14)),
        5 => (tar::EntryType::Continuous, String::new(), choices.number()),
        6 => return append_named(archive, header, &format!("{path}/.wh.{}", PARTS[choices.number() % 4]), "", 0),
        7 => return append_named(archive, header, &format!("{path}/.wh..wh..opq"), "", 0),
        8 => ([tar::EntryType::Block, tar::EntryType::Char, tar::EntryType::Fifo][choices.number() % 3], String::new(), 0),
        _ => {
            // What an extended header says counts before the entry's own name and size.
            let size = choices.number();
            let _ = archive.append_pax_extensions([("path", path.as_bytes()), ("size", size.to_string().as_bytes())]);
            (tar::EntryType::Regular, String::new(), size)
        }
    };
    header.set_entry_type(kind);
    append_named(archive, header, &path, &target, size);
}

fn append_named(archive: &mut tar::Builder<Vec<u8>>, mut header: tar::Header, path: &str, target: &str, size: usize) {
    for (kind, text) in [(tar::EntryType::GNULongLink, target), (tar::EntryType::GNULongName, path)] {
        if text.len() > 100 {
            let mut long = tar::Header::new_gnu();
            long.set_entry_type(kind);
            long.set_size(text.len() as u64);
            long.set_cksum();
            let _ = archive.append(&long, text.as_bytes());
        }
    }
    // The crate's own setters refuse what an attacker would write.
    let old = header.as_old_mut();
    for (field, text) in [(&mut old.name, path), (&mut old.linkname, target)] {
        let length = text.len().min(100);
        field[..length].copy_from_slice(&text.as_bytes()[..length]);
    }
    header.set_size(size as u64);
    header.set_cksum();
    let _ = archive.append(&header, vec![b'x'; size].as_slice());
}

/// A file with a hole of that size, and a byte behind it.
fn sparse(archive: &mut tar::Builder<Vec<u8>>, path: &str, hole: u64) {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::GNUSparse);
    header.set_mode(0o644);
    header.set_size(1);
    if let Some(gnu) = header.as_gnu_mut() {
        let length = path.len().min(100);
        gnu.name[..length].copy_from_slice(&path.as_bytes()[..length]);
        let octal = |field: &mut [u8; 12], value: u64| field.copy_from_slice(format!("{value:011o}\0").as_bytes());
        octal(&mut gnu.realsize, hole + 1);
        octal(&mut gnu.sparse[0].offset, hole);
        octal(&mut gnu.sparse[0].numbytes, 1);
    }
    header.set_cksum();
    let _ = archive.append(&header, &b"x"[..]);
}

fn compressed(plain: Vec<u8>, algorithm: usize) -> Vec<u8> {
    match algorithm % 3 {
        0 => plain,
        1 => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            let written = encoder.write_all(&plain);
            encoder.finish().ok().filter(|_| written.is_ok()).unwrap_or(plain)
        }
        _ => zstd::encode_all(plain.as_slice(), 1).unwrap_or(plain),
    }
}
