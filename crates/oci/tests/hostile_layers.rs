//! Layers that are small and mean a lot of work: each as large as the attack that was seen, made here.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use mainstay_oci::{Error, ErrorKind, Layer, Modes, UnpackLimits, UnpackOptions, Unpacked, read_files, unpack};
use tar::EntryType;

/// An archive on its way.
struct Archive(tar::Builder<Vec<u8>>);

impl Archive {
    fn new() -> Self {
        Self(tar::Builder::new(Vec::new()))
    }

    fn entry(&mut self, kind: EntryType, path: &str, target: &str, content: &[u8]) -> &mut Self {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o4755);
        header.set_size(content.len() as u64);
        if target.len() > 100 {
            self.long(EntryType::GNULongLink, target);
        }
        if path.len() > 100 {
            self.long(EntryType::GNULongName, path);
        }
        let cut = |text: &str| text.as_bytes()[..text.len().min(100)].to_vec();
        header.as_old_mut().name[..path.len().min(100)].copy_from_slice(&cut(path));
        header.as_old_mut().linkname[..target.len().min(100)].copy_from_slice(&cut(target));
        header.set_cksum();
        self.0.append(&header, content).unwrap();
        self
    }

    fn long(&mut self, kind: EntryType, text: &str) {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(text.len() as u64 + 1);
        header.as_old_mut().name[..13].copy_from_slice(b"././@LongLink");
        header.set_cksum();
        self.0.append(&header, [text.as_bytes(), b"\0"].concat().as_slice()).unwrap();
    }

    fn file(&mut self, path: &str, content: &[u8]) -> &mut Self {
        self.entry(EntryType::Regular, path, "", content)
    }

    fn link(&mut self, path: &str, target: &str) -> &mut Self {
        self.entry(EntryType::Symlink, path, target, b"")
    }

    /// A file of zeros of which the archive holds nothing but the size.
    fn sparse(&mut self, path: &str, size: u64) -> &mut Self {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(EntryType::GNUSparse);
        header.set_mode(0o644);
        header.set_size(0);
        let gnu = header.as_gnu_mut().unwrap();
        gnu.name[..path.len()].copy_from_slice(path.as_bytes());
        gnu.set_is_extended(false);
        let octal = |field: &mut [u8], value: u64| field[..12].copy_from_slice(format!("{value:011o}\0").as_bytes());
        octal(&mut gnu.realsize, size);
        octal(&mut gnu.sparse[0].offset, size);
        octal(&mut gnu.sparse[0].numbytes, 0);
        header.set_cksum();
        self.0.append(&header, &b""[..]).unwrap();
        self
    }

    fn done(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Unpacks blobs, one a layer; what is outside of the root stays as it was.
fn unpacked(blobs: &[Vec<u8>], options: &UnpackOptions) -> Result<Unpacked, Error> {
    let folder = tempfile::tempdir().unwrap();
    let layers: Vec<Layer> = blobs
        .iter()
        .enumerate()
        .map(|(number, blob)| {
            let path = folder.path().join(format!("layer{number}"));
            std::fs::write(&path, blob).unwrap();
            Layer { name: format!("layer {number}"), path }
        })
        .collect();
    let done = unpack(&layers, &folder.path().join("out/root"), options);
    assert_eq!(std::fs::read_dir(folder.path().join("out")).unwrap().count(), 1);
    done
}

fn refused(blobs: &[Vec<u8>], what: &str) {
    let error = unpacked(blobs, &UnpackOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    assert!(error.to_string().contains(what), "{error}");
}

/// A4: 1.4 KB that wrote 17 GiB: sparse entries that rewrite one file. What is written is what counts.
#[test]
fn sparse_files_that_rewrite_one_place() {
    let mut archive = Archive::new();
    for _ in 0..34 {
        archive.sparse("a", 511 << 20);
    }
    let blob = gzip(&archive.done());
    assert!(blob.len() < 2000, "{}", blob.len());
    refused(&[blob], "growth of the content over its compressed size");

    // Within what is free, each writing counts.
    let mut archive = Archive::new();
    for _ in 0..34 {
        archive.sparse("a", 1 << 20);
    }
    let limits = UnpackLimits { written_bytes: 20 << 20, ..UnpackLimits::default() };
    let error = unpacked(&[archive.done()], &UnpackOptions { limits, ..UnpackOptions::default() }).unwrap_err();
    assert_eq!(error.to_string(), "layer 0: number of bytes written is over the limit of 20971520");

    // So do copies for hard links, and they take what they copy.
    let mut archive = Archive::new();
    archive.file("big", &vec![7; 1 << 20]);
    for number in 0..40 {
        archive.entry(EntryType::Link, &format!("l{number}"), "big", b"");
    }
    let limits = UnpackLimits { free_bytes: 20 << 20, ..UnpackLimits::default() };
    let error = unpacked(&[gzip(&archive.done())], &UnpackOptions { limits, ..UnpackOptions::default() }).unwrap_err();
    assert!(error.to_string().contains("growth of the content"), "{error}");
}

/// A4: 20,000 links, each to the next, that are made from their end, from their beginning, and with targets as long as they may be; the
/// work grows with their number.
#[test]
fn chains_of_links_are_linear() {
    let chain = |count: usize, forwards: bool| {
        let mut archive = Archive::new();
        for number in 0..count {
            let number = if forwards { number } else { count - number };
            archive.link(&format!("d/l{number}"), &format!("l{}", number + 1));
        }
        gzip(&archive.done())
    };
    let steps = |count| unpacked(&[chain(count, true)], &UnpackOptions::default()).unwrap().steps;
    let (few, many) = (steps(2_000), steps(20_000));
    assert!(many < few * 12, "{few} steps for 2,000 and {many} for 20,000");
    // From the end each leads through forty others, which Linux would not follow.
    let error = unpacked(&[chain(20_000, false)], &UnpackOptions::default()).unwrap_err();
    assert!(error.to_string().ends_with("goes through too many links"), "{error}");

    let mut archive = Archive::new();
    let detour = "x/../".repeat(800);
    for number in 0..2_000 {
        archive.link(&format!("l{number}"), &format!("{detour}l{}", number + 1));
    }
    refused(&[gzip(&archive.done())], "work of following paths and links");
}

/// A whiteout of a folder with many entries, again and again.
#[test]
fn whiteouts_are_linear() {
    let whiteouts = |count: usize| {
        let (mut below, mut above) = (Archive::new(), Archive::new());
        for number in 0..count {
            below.file(&format!("d/old{number}"), b"");
            above.file(&format!("d/new{number}"), b"");
            above.file("d/.wh..wh..opq", b"").file(".wh.d", b"");
        }
        unpacked(&[gzip(&below.done()), gzip(&above.done())], &UnpackOptions::default()).unwrap()
    };
    let (few, many) = (whiteouts(100), whiteouts(1_000));
    assert_eq!((few.files, many.files), (100, 1_000));
    assert!(many.steps < few.steps * 12, "{few:?} {many:?}");
}

/// Many entries and many links, paths that imply thousands of folders, and names that no system takes.
#[test]
fn counts_and_names() {
    let options = |limits| UnpackOptions { limits, ..UnpackOptions::default() };
    let mut archive = Archive::new();
    for number in 0..50 {
        archive.link("l", &format!("t{number}"));
    }
    let few = options(UnpackLimits { links: 49, ..UnpackLimits::default() });
    let error = unpacked(&[archive.done()], &few).unwrap_err();
    assert_eq!(error.to_string(), "layer 0: number of links is over the limit of 49");

    for (path, problem) in [
        ("a/".repeat(1000) + "x", "is too long or too deep"),
        ("n".repeat(300), "is too long or too deep"),
        ("a/".repeat(2000) + "x", "is no usable path"),
    ] {
        let mut archive = Archive::new();
        archive.file(&path, b"");
        let error = unpacked(&[archive.done()], &UnpackOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsafePath, "{error}");
        assert!(error.to_string().ends_with(problem) && error.to_string().len() < 400, "{error}");
    }
    // A link leads deeper with each round than any path may be.
    let mut archive = Archive::new();
    archive.link("l0", &"a/".repeat(200));
    archive.file("l0/x", b"");
    archive.link("l1", &format!("l0/{}", "b/".repeat(200)));
    let error = unpacked(&[archive.done()], &UnpackOptions::default()).unwrap_err();
    assert!(error.to_string().ends_with("is too long or too deep"), "{error}");
    let mut archive = Archive::new();
    archive.link("l", &"t".repeat(5000));
    let error = unpacked(&[archive.done()], &UnpackOptions::default()).unwrap_err();
    assert!(error.to_string().ends_with("is a link to no usable path"), "{error}");
    // Names may have what terminals act on; errors show it escaped.
    let mut archive = Archive::new();
    archive.file("../\u{1b}[2J\r\n", b"");
    let error = unpacked(&[archive.done()], &UnpackOptions::default()).unwrap_err().to_string();
    assert!(!error.contains(['\u{1b}', '\r', '\n']), "{error:?}");
}

/// Zeros that are passed over, by each algorithm, and a window of two gigabytes.
#[test]
fn ratios_and_windows() {
    let mut archive = Archive::new();
    archive.file("z", &vec![0; 48 << 20]);
    let plain = archive.done();
    let (keep, limits) = (vec!["configs".to_owned()], UnpackLimits { free_bytes: 16 << 20, ratio: 50, ..UnpackLimits::default() });
    for blob in [gzip(&plain), zstd::encode_all(plain.as_slice(), 1).unwrap()] {
        let error = unpacked(&[blob], &UnpackOptions { keep: keep.clone(), limits, ..UnpackOptions::default() }).unwrap_err();
        assert!(error.to_string().contains("growth of the content"), "{error}");
    }
    // The head of a frame: no checksum, no size, a window of 2 GiB.
    let frame = [&[0x28, 0xb5, 0x2f, 0xfd, 0, 21 << 3][..], &[1, 0, 0]].concat();
    let error = unpacked(&[frame], &UnpackOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Content, "{error}");
}

/// Whatever an archive says of modes: for this user alone, unless it is for whoever the umask lets; devices and pipes are passed over.
#[test]
fn modes_are_ours() {
    let mut archive = Archive::new();
    archive.file("bin/tool", b"x").entry(EntryType::Block, "dev/sda", "", b"").entry(EntryType::Fifo, "pipe", "", b"");
    archive.entry(EntryType::Link, "bin/same", "bin/tool", b"");
    let blob = archive.done();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("layer");
    std::fs::write(&path, blob).unwrap();
    let layer = [Layer { name: "layer".to_owned(), path }];
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let private = folder.path().join("private");
    unpack(&layer, &private, &UnpackOptions::default()).unwrap();
    for (name, expected) in [("", 0o700), ("bin", 0o700), ("bin/tool", 0o700), ("bin/same", 0o700)] {
        assert_eq!(mode(&private.join(name)), expected, "{name}");
    }
    assert_eq!(std::fs::read_dir(&private).unwrap().count(), 1);
    let shared = folder.path().join("shared");
    unpack(&layer, &shared, &UnpackOptions { modes: Modes::Umask, ..UnpackOptions::default() }).unwrap();
    assert_eq!(mode(&shared.join("bin/tool")) & 0o4700, 0o700);
    assert_eq!(read_files(&layer, &UnpackOptions::default()).unwrap().len(), 2);
}
