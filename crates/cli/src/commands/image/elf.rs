//! The requirements of a Linux program on its system: architecture, loader, libraries.

use std::collections::BTreeSet;

/// Why a file is no program whose requirements can be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidProgram(String);

/// The requirements of a program.
#[derive(Debug, PartialEq, Eq)]
pub struct Needs {
    /// The architecture, as images name it.
    pub architecture: &'static str,
    /// The loader; none for a static program.
    loader: Option<String>,
    libraries: BTreeSet<String>,
    /// The newest version of glibc that is required.
    glibc: Option<(u32, u32)>,
}

impl Needs {
    /// The requirements on a base image; `None` for a static program.
    pub fn base(&self) -> Option<String> {
        let loader = self.loader.as_ref()?;
        let glibc = self.glibc.map(|(major, minor)| format!(", glibc {major}.{minor} or newer")).unwrap_or_default();
        let libraries: Vec<&str> = self.libraries.iter().map(String::as_str).collect();
        Some(format!("{loader} with {}{glibc}", libraries.join(", ")))
    }
}

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_VERNEED: u64 = 0x6fff_fffe;
const DT_VERNEEDNUM: u64 = 0x6fff_ffff;
/// The largest accepted number of libraries and versions.
const MOST: usize = 4096;

struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    size: u64,
}

/// Reads a 64-bit little-endian ELF file, which programs for amd64 and arm64 are.
pub fn read(file: &[u8]) -> Result<Needs, InvalidProgram> {
    if file.get(..6) != Some(b"\x7fELF\x02\x01".as_slice()) {
        return Err(InvalidProgram("it is no program for 64-bit Linux".to_owned()));
    }
    let architecture = match number::<2>(file, 18)? {
        62 => "amd64",
        183 => "arm64",
        243 => "riscv64",
        21 => "ppc64le",
        other => return Err(InvalidProgram(format!("it is for a machine that is not known here (ELF machine {other})"))),
    };
    let segments = segments(file)?;
    let find = |kind| segments.iter().find(move |segment| segment.kind == kind);
    let loader = find(PT_INTERP).map(|segment| text(file, segment.offset)).transpose()?;
    let (mut libraries, mut glibc) = (BTreeSet::new(), None);
    if let (Some(dynamic), Some(_)) = (find(PT_DYNAMIC), &loader) {
        let entries = dynamic_entries(file, dynamic)?;
        let value = |tag| entries.iter().find(|(known, _)| *known == tag).map(|(_, value)| *value);
        let strings = located(&segments, value(DT_STRTAB).ok_or_else(|| InvalidProgram("it has no table of names".to_owned()))?)?;
        for (_, name) in entries.iter().filter(|(tag, _)| *tag == DT_NEEDED) {
            libraries.insert(text(file, at(strings, *name)?)?);
        }
        if let (Some(table), Some(count)) = (value(DT_VERNEED), value(DT_VERNEEDNUM)) {
            for version in versions(file, located(&segments, table)?, count, strings)? {
                let Some(numbers) = version.strip_prefix("GLIBC_") else { continue };
                let mut parts = numbers.split('.').map_while(|part| part.parse().ok());
                if let (Some(major), Some(minor)) = (parts.next(), parts.next()) {
                    glibc = glibc.max(Some((major, minor)));
                }
            }
        }
    }
    Ok(Needs { architecture, loader, libraries, glibc })
}

fn segments(file: &[u8]) -> Result<Vec<Segment>, InvalidProgram> {
    let (table, size, count) = (number::<8>(file, 32)?, number::<2>(file, 54)?, number::<2>(file, 56)?);
    (0..count)
        .map(|index| {
            let begin = at(table, index * size)?;
            Ok(Segment {
                kind: u32::try_from(number::<4>(file, begin)?).map_err(|_| damaged())?,
                offset: number::<8>(file, at(begin, 8)?)?,
                address: number::<8>(file, at(begin, 16)?)?,
                size: number::<8>(file, at(begin, 32)?)?,
            })
        })
        .collect()
}

fn dynamic_entries(file: &[u8], dynamic: &Segment) -> Result<Vec<(u64, u64)>, InvalidProgram> {
    let mut entries = Vec::new();
    for index in 0..(dynamic.size / 16).min(MOST as u64) {
        let begin = at(dynamic.offset, index * 16)?;
        match (number::<8>(file, begin)?, number::<8>(file, at(begin, 8)?)?) {
            (0, _) => break,
            entry => entries.push(entry),
        }
    }
    Ok(entries)
}

/// The versions of libraries that are required.
fn versions(file: &[u8], table: u64, count: u64, strings: u64) -> Result<Vec<String>, InvalidProgram> {
    let mut found = Vec::new();
    let mut library = table;
    for _ in 0..count.min(MOST as u64) {
        let (of_it, mut version) = (number::<2>(file, at(library, 2)?)?, at(library, number::<4>(file, at(library, 8)?)?)?);
        for _ in 0..of_it {
            if found.len() >= MOST {
                return Err(damaged());
            }
            found.push(text(file, at(strings, number::<4>(file, at(version, 8)?)?)?)?);
            version = at(version, number::<4>(file, at(version, 12)?)?)?;
        }
        library = at(library, number::<4>(file, at(library, 12)?)?)?;
    }
    Ok(found)
}

/// The offset in the file of an address in memory.
fn located(segments: &[Segment], address: u64) -> Result<u64, InvalidProgram> {
    let holder =
        segments.iter().find(|segment| segment.kind == PT_LOAD && address >= segment.address && address - segment.address < segment.size);
    let holder = holder.ok_or_else(damaged)?;
    at(holder.offset, address - holder.address)
}

fn at(base: u64, more: u64) -> Result<u64, InvalidProgram> {
    base.checked_add(more).ok_or_else(damaged)
}

fn number<const BYTES: usize>(file: &[u8], offset: u64) -> Result<u64, InvalidProgram> {
    let begin = usize::try_from(offset).map_err(|_| damaged())?;
    let end = begin.checked_add(BYTES).ok_or_else(damaged)?;
    let bytes = file.get(begin..end).ok_or_else(damaged)?;
    Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn text(file: &[u8], offset: u64) -> Result<String, InvalidProgram> {
    let begin = usize::try_from(offset).map_err(|_| damaged())?;
    let rest = file.get(begin..).ok_or_else(damaged)?;
    let end = rest.iter().take(MOST).position(|byte| *byte == 0).ok_or_else(damaged)?;
    Ok(String::from_utf8_lossy(&rest[..end]).into_owned())
}

fn damaged() -> InvalidProgram {
    InvalidProgram("it is damaged: a table of it points outside of the file".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// MS-CLI-04: what this test itself needs, by its own file; bytes that are none or end early are refused and do no harm.
    #[test]
    fn what_a_program_needs() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let needs = read(&own).unwrap();
        assert_eq!(needs.architecture, mainstay_oci::Platform::default().architecture);
        if let Some(base) = needs.base() {
            assert!(needs.libraries.iter().any(|library| library.starts_with("libc.")), "{base}");
            assert_eq!(needs.glibc.is_some(), base.contains("glibc"), "{base}");
        }
        assert!(read(b"#!/bin/sh").is_err());
        for length in (0..4096.min(own.len())).step_by(7) {
            let _ = read(&own[..length]);
        }
    }
}
