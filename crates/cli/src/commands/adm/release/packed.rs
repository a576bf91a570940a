//! Programs as files and in archives: compressed tar, and ZIP for Windows.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use flate2::write::{DeflateEncoder, GzEncoder};
use flate2::{Compression, Crc};
use mainstay_release::tools::{Archive, Mark, MarkError, Tool, copy};
use sha2::{Digest as _, Sha256};

/// The file that is written.
pub(super) struct Facts<'a> {
    pub tool: &'a Tool,
    pub marks: &'a [Mark],
    /// The time of files in archives, in seconds since 1970.
    pub created: u64,
}

/// Writes a program to a file. The places that it lacks are returned, and the checksum if it is an archive. The file appears as a whole.
pub(super) fn program(path: &Path, from: File, facts: &Facts<'_>) -> Result<(Vec<&'static str>, Option<String>), MarkError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut whole = tempfile::NamedTempFile::new_in(folder)?;
    let mut missing = Vec::new();
    match facts.tool.archive {
        None => {
            missing = copy(from, BufWriter::new(whole.as_file_mut()), facts.marks)?;
            finish(whole, path, 0o755)?;
            return Ok((missing, None));
        }
        Some(archive) => {
            // The length of a program is known only when it is filled in.
            let mut filled = tempfile::tempfile_in(folder)?;
            missing.extend(copy(from, BufWriter::new(&mut filled), facts.marks)?);
            let size = filled.seek(SeekFrom::End(0))?;
            filled.rewind()?;
            if archive.is_zip {
                zip(whole.as_file_mut(), &mut filled, archive, facts)?;
            } else {
                tar(whole.as_file_mut(), &mut filled, size, archive, facts)?;
            }
        }
    }
    let sum = sum(whole.as_file_mut())?;
    finish(whole, path, 0o644)?;
    Ok((missing, Some(sum)))
}

/// Writes a file as a whole, and returns its checksum.
pub(super) fn write(path: &Path, content: &[u8]) -> io::Result<String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut whole = tempfile::NamedTempFile::new_in(folder)?;
    whole.write_all(content)?;
    finish(whole, path, 0o644)?;
    Ok(hex(&Sha256::digest(content)))
}

fn finish(whole: tempfile::NamedTempFile, path: &Path, mode: u32) -> io::Result<()> {
    std::fs::set_permissions(whole.path(), std::os::unix::fs::PermissionsExt::from_mode(mode))?;
    whole.persist(path).map(drop).map_err(|error| error.error)
}

fn sum(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(hex(&hasher.finalize()));
        }
        hasher.update(&buffer[..read]);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

fn tar(to: &mut File, from: &mut File, size: u64, archive: Archive, facts: &Facts<'_>) -> io::Result<()> {
    let mut tar = tar::Builder::new(GzEncoder::new(BufWriter::new(to), Compression::new(3)));
    let header = |size: u64, mode: u32, kind: tar::EntryType| {
        let mut header = tar::Header::new_gnu();
        header.set_size(size);
        header.set_mode(mode);
        header.set_mtime(facts.created);
        header.set_entry_type(kind);
        header
    };
    let readme = archive.readme.text();
    tar.append_data(&mut header(readme.len() as u64, 0o644, tar::EntryType::Regular), "README.md", readme.as_bytes())?;
    tar.append_data(&mut header(size, 0o755, tar::EntryType::Regular), facts.tool.command, from)?;
    if let Some(link) = archive.link {
        tar.append_link(&mut header(0, 0o755, tar::EntryType::Link), link, facts.tool.command)?;
    }
    tar.into_inner()?.finish()?.flush()
}

/// One file of a ZIP archive.
struct Entry {
    name: String,
    mode: u32,
    crc: u32,
    compressed: u32,
    size: u32,
    offset: u32,
}

fn zip(to: &mut File, from: &mut File, archive: Archive, facts: &Facts<'_>) -> io::Result<()> {
    let readme = archive.readme.text().replace('\n', "\r\n");
    let program = format!("{}.exe", facts.tool.command);
    let entries = [entry(to, "README.md", 0o644, readme.as_bytes())?, entry(to, &program, 0o755, from)?];
    let start = short(to.stream_position()?)?;
    for entry in &entries {
        // Made by Unix, so that the mode counts.
        to.write_all(&0x0201_4b50_u32.to_le_bytes())?;
        to.write_all(&0x0314_u16.to_le_bytes())?;
        entry.common(to)?;
        // No comment, the first disk, no attributes of Windows.
        to.write_all(&[0; 6])?;
        to.write_all(&((0o100_000 | entry.mode).rotate_left(16)).to_le_bytes())?;
        to.write_all(&entry.offset.to_le_bytes())?;
        to.write_all(entry.name.as_bytes())?;
    }
    let size = short(to.stream_position()?)? - start;
    let count = 2_u16;
    to.write_all(&0x0605_4b50_u32.to_le_bytes())?;
    to.write_all(&[0; 4])?;
    to.write_all(&[count.to_le_bytes(), count.to_le_bytes()].concat())?;
    to.write_all(&size.to_le_bytes())?;
    to.write_all(&start.to_le_bytes())?;
    to.write_all(&[0; 2])?;
    to.flush()
}

/// Writes a compressed file; its sizes are written when they are known.
fn entry(to: &mut File, name: &str, mode: u32, mut from: impl Read) -> io::Result<Entry> {
    let offset = short(to.stream_position()?)?;
    let mut entry = Entry { name: name.to_owned(), mode, crc: 0, compressed: 0, size: 0, offset };
    let head = |to: &mut File, entry: &Entry| {
        to.write_all(&0x0403_4b50_u32.to_le_bytes())?;
        entry.common(to)?;
        to.write_all(entry.name.as_bytes())
    };
    head(to, &entry)?;
    let begin = to.stream_position()?;
    let mut encoder = DeflateEncoder::new(BufWriter::new(&mut *to), Compression::default());
    let (mut crc, mut size, mut buffer) = (Crc::new(), 0, vec![0; 256 << 10]);
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        crc.update(&buffer[..read]);
        size += read as u64;
        encoder.write_all(&buffer[..read])?;
    }
    encoder.finish()?.flush()?;
    let end = to.stream_position()?;
    (entry.crc, entry.compressed) = (crc.sum(), short(end - begin)?);
    entry.size = short(size)?;
    to.seek(SeekFrom::Start(u64::from(offset)))?;
    head(to, &entry)?;
    to.seek(SeekFrom::Start(end))?;
    Ok(entry)
}

impl Entry {
    /// The fields that both heads of a file have. The time is that of 1980, the first one.
    fn common(&self, to: &mut File) -> io::Result<()> {
        let (version, flags, method, time, date) = (20_u16, 0_u16, 8_u16, 0_u16, 0x21_u16);
        for field in [version, flags, method, time, date] {
            to.write_all(&field.to_le_bytes())?;
        }
        for field in [self.crc, self.compressed, self.size] {
            to.write_all(&field.to_le_bytes())?;
        }
        let name = u16::try_from(self.name.len()).map_err(io::Error::other)?;
        to.write_all(&name.to_le_bytes())?;
        to.write_all(&0_u16.to_le_bytes())
    }
}

/// A length that a plain ZIP archive can have.
fn short(length: u64) -> io::Result<u32> {
    u32::try_from(length).map_err(|_| io::Error::other("a ZIP archive has at most 4 GiB"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use mainstay_release::tools::{Marks, Readme};

    use super::*;

    fn extracted(archive: Option<Archive>) -> (tempfile::TempDir, std::path::PathBuf, Option<String>) {
        let place = tempfile::tempdir().unwrap();
        let program_file = place.path().join("program");
        std::fs::write(&program_file, format!("\0_RELEASE_VERSION_LOCATION_\0{}\0end", "X".repeat(64))).unwrap();
        let marks = Marks { version: true, ..Marks::default() };
        let tool = Tool { image: "cli-artifacts", path: "oc", command: "oc", file: "out".to_owned(), archive, marks, is_optional: false };
        let marks = marks.with("", "4.19.1", "").unwrap();
        let path = place.path().join("out");
        let (missing, sum) =
            program(&path, File::open(program_file).unwrap(), &Facts { tool: &tool, marks: &marks, created: 1_700_000_000 }).unwrap();
        assert!(missing.is_empty());
        (place, path, sum)
    }

    /// CVO-RELX-02: a program as a file knows its release; in a tar archive there are a description and its other name.
    #[test]
    fn programs() {
        let (_place, path, sum) = extracted(None);
        assert!(std::fs::read(&path).unwrap().starts_with(b"4.19.1\0"));
        assert_eq!((sum, std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions()) & 0o777), (None, 0o755));

        let (_place, path, sum) = extracted(Some(Archive { is_zip: false, link: Some("kubectl"), readme: Readme::Client }));
        assert_eq!(sum.unwrap(), hex(&Sha256::digest(std::fs::read(&path).unwrap())));
        let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(File::open(&path).unwrap()));
        let entries: Vec<String> = tar
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                format!("{} {:o} {:?}", entry.path().unwrap().display(), entry.header().mode().unwrap(), entry.link_name().unwrap())
            })
            .collect();
        assert_eq!(entries, ["README.md 644 None", "oc 755 None", "kubectl 755 Some(\"oc\")"]);
    }

    /// CVO-RELX-02: a ZIP archive that others can read: sizes, checksums and content by its directory.
    #[test]
    fn zip_archives() {
        let (_place, path, _) = extracted(Some(Archive { is_zip: true, link: None, readme: Readme::WindowsClient }));
        let bytes = std::fs::read(path).unwrap();
        let number = |at: usize, count: usize| bytes[at..at + count].iter().rev().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte));
        let end = bytes.len() - 22;
        assert_eq!((number(end, 4), number(end + 10, 2)), (0x0605_4b50, 2));
        let (mut at, mut found) = (number(end + 16, 4), Vec::new());
        assert_eq!(at + number(end + 12, 4), end);
        for _ in 0..2 {
            assert_eq!(number(at, 4), 0x0201_4b50);
            let (crc, compressed, size, name) = (number(at + 16, 4), number(at + 20, 4), number(at + 24, 4), number(at + 28, 2));
            let local = number(at + 42, 4);
            assert_eq!((number(local, 4), number(local + 14, 4)), (0x0403_4b50, crc));
            let data = &bytes[local + 30 + name..][..compressed];
            let mut content = Vec::new();
            flate2::read::DeflateDecoder::new(data).read_to_end(&mut content).unwrap();
            let mut check = Crc::new();
            check.update(&content);
            assert_eq!((check.sum() as usize, content.len()), (crc, size));
            found.push((String::from_utf8_lossy(&bytes[at + 46..at + 46 + name]).into_owned(), content.starts_with(b"4.19.1\0")));
            at += 46 + name;
        }
        assert_eq!(found, [("README.md".to_owned(), false), ("oc.exe".to_owned(), true)]);
    }
}
