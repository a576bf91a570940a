//! Bytes of the index: header, sections, rows.

use crate::error::IndexError;

/// No row, or no text.
pub(super) const NONE: u32 = u32::MAX;

const MAGIC: [u8; 8] = *b"MSTCATIX";
/// Format number. Raise it when the meaning of any word changes; old files are then rebuilt.
const FORMAT: u32 = 3;
/// magic 8, format 4, checksum 4, content length 8, then (offset, rows) for each section.
const HEADER: usize = 24 + SECTIONS * 8;
const SECTIONS: usize = 18;

/// The tables of the index.
#[derive(Debug, Clone, Copy)]
pub(super) enum Section {
    StringOffsets,
    StringBytes,
    Blobs,
    Packages,
    Channels,
    Entries,
    Skips,
    Bundles,
    Apis,
    /// Apis and the entries that provide them, by group, version, kind.
    Providers,
    /// Names and the entries that replace or skip them, by name.
    Replacers,
    /// Entries in the order in which a registry lists bundles.
    Listing,
    /// Rows of blobs, by text and then in the order of the content.
    BlobsBySchema,
    BlobsByPackage,
    BlobsByName,
    /// Rows of entries, by name inside of each channel.
    EntriesByName,
    /// Rows of bundles, by name inside of each package.
    BundlesByName,
    /// Properties of bundles: type and value.
    Properties,
}

/// Words per row; the string bytes count as rows of one byte.
const WIDTHS: [u32; SECTIONS] = [1, 0, 6, 12, 7, 7, 1, 13, 3, 2, 2, 1, 1, 1, 1, 1, 1, 2];

impl Section {
    /// Words of one of its rows.
    pub(super) fn width(self) -> u32 {
        WIDTHS[self as usize]
    }
}

pub(super) mod blob {
    pub(crate) const SCHEMA: u32 = 0;
    pub(crate) const PACKAGE: u32 = 1;
    pub(crate) const NAME: u32 = 2;
    pub(crate) const START_LOW: u32 = 3;
    pub(crate) const START_HIGH: u32 = 4;
    pub(crate) const LENGTH: u32 = 5;
}

pub(super) mod package {
    pub(crate) const NAME: u32 = 0;
    pub(crate) const DEFAULT_CHANNEL: u32 = 1;
    pub(crate) const SUMMARY: u32 = 2;
    pub(crate) const DISPLAY_NAME: u32 = 3;
    pub(crate) const PROVIDER: u32 = 4;
    pub(crate) const SEARCH: u32 = 5;
    pub(crate) const BLOB: u32 = 6;
    pub(crate) const CHANNELS: u32 = 7;
    pub(crate) const CHANNELS_COUNT: u32 = 8;
    pub(crate) const BUNDLES: u32 = 9;
    pub(crate) const BUNDLES_COUNT: u32 = 10;
    pub(crate) const DEPRECATION: u32 = 11;
}

pub(super) mod channel {
    pub(crate) const NAME: u32 = 0;
    pub(crate) const BLOB: u32 = 1;
    pub(crate) const ENTRIES: u32 = 2;
    pub(crate) const ENTRIES_COUNT: u32 = 3;
    pub(crate) const HEAD: u32 = 4;
    pub(crate) const DEPRECATION: u32 = 5;
    pub(crate) const PACKAGE: u32 = 6;
}

pub(super) mod entry {
    pub(crate) const NAME: u32 = 0;
    pub(crate) const REPLACES: u32 = 1;
    pub(crate) const SKIPS: u32 = 2;
    pub(crate) const SKIPS_COUNT: u32 = 3;
    pub(crate) const SKIP_RANGE: u32 = 4;
    pub(crate) const BUNDLE: u32 = 5;
    pub(crate) const CHANNEL: u32 = 6;
}

pub(super) mod bundle {
    pub(crate) const NAME: u32 = 0;
    pub(crate) const VERSION: u32 = 1;
    pub(crate) const IMAGE: u32 = 2;
    pub(crate) const BLOB: u32 = 3;
    pub(crate) const DEPRECATION: u32 = 4;
    pub(crate) const DEPENDENCY: u32 = 5;
    pub(crate) const DISPLAY_NAME: u32 = 6;
    pub(crate) const INSTALL_MODES: u32 = 7;
    pub(crate) const APIS: u32 = 8;
    pub(crate) const PROVIDED_COUNT: u32 = 9;
    pub(crate) const REQUIRED_COUNT: u32 = 10;
    pub(crate) const PROPERTIES: u32 = 11;
    pub(crate) const PROPERTIES_COUNT: u32 = 12;
}

pub(super) mod property {
    pub(crate) const KIND: u32 = 0;
    pub(crate) const VALUE: u32 = 1;
}

pub(super) mod api {
    pub(crate) const GROUP: u32 = 0;
    pub(crate) const VERSION: u32 = 1;
    pub(crate) const KIND: u32 = 2;
}

/// Rows of two words: the search key, and the entry that it finds.
pub(super) mod found {
    pub(crate) const KEY: u32 = 0;
    pub(crate) const ENTRY: u32 = 1;
}

/// Positions of the sections. All offsets were checked against the length of the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    sections: [(usize, u32); SECTIONS],
}

impl Layout {
    pub(super) fn read(bytes: &[u8], content_len: u64) -> Result<Self, IndexError> {
        if bytes.get(..8) != Some(&MAGIC[..]) {
            return Err(IndexError::Magic);
        }
        if bytes.len() < HEADER {
            return Err(IndexError::Bounds);
        }
        let format = read_word(bytes, 8);
        if format != FORMAT {
            return Err(IndexError::Version { found: format, expected: FORMAT });
        }
        if crc32fast::hash(&bytes[16..]) != read_word(bytes, 12) {
            return Err(IndexError::Checksum);
        }
        let indexed = u64::from(read_word(bytes, 16)) | u64::from(read_word(bytes, 20)) << 32;
        if indexed != content_len {
            return Err(IndexError::Content { indexed, actual: content_len });
        }
        let mut sections = [(0, 0); SECTIONS];
        for (i, section) in sections.iter_mut().enumerate() {
            let (offset, rows) = (read_word(bytes, 24 + i * 8) as usize, read_word(bytes, 28 + i * 8));
            let length = if WIDTHS[i] == 0 { rows as usize } else { rows as usize * WIDTHS[i] as usize * 4 };
            if offset.checked_add(length).is_none_or(|end| end > bytes.len()) {
                return Err(IndexError::Bounds);
            }
            *section = (offset, rows);
        }
        let layout = Self { sections };
        let string_bytes = &bytes[sections[1].0..sections[1].0 + sections[1].1 as usize];
        if std::str::from_utf8(string_bytes).is_err() {
            return Err(IndexError::Bounds);
        }
        Ok(layout)
    }

    pub(super) fn rows(&self, section: Section) -> u32 {
        let rows = self.sections[section as usize].1;
        if matches!(section, Section::StringOffsets) { rows.saturating_sub(1) } else { rows }
    }

    /// A word of a row; rows beyond the end read as `NONE`, so that a wrong number cannot reach outside of its section.
    pub(super) fn word(&self, bytes: &[u8], section: Section, row: u32, column: u32) -> u32 {
        let (offset, rows) = self.sections[section as usize];
        if row >= rows {
            return NONE;
        }
        read_word(bytes, offset + (row as usize * WIDTHS[section as usize] as usize + column as usize) * 4)
    }

    /// The text with a number; unknown numbers are the empty text.
    pub(super) fn text<'b>(&self, bytes: &'b [u8], id: u32) -> &'b str {
        if id == NONE {
            return "";
        }
        let start = self.word(bytes, Section::StringOffsets, id, 0) as usize;
        let end = self.word(bytes, Section::StringOffsets, id + 1, 0) as usize;
        let (offset, length) = self.sections[Section::StringBytes as usize];
        let all = &bytes[offset..offset + length as usize];
        all.get(start..end).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or("")
    }
}

fn read_word(bytes: &[u8], at: usize) -> u32 {
    match bytes.get(at..at + 4) {
        Some(&[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]),
        _ => NONE,
    }
}

/// Joins header and sections. Each section is a list of words; the string bytes are copied unchanged.
pub(super) fn assemble(content_len: u64, strings: (&[u32], &[u8]), tables: &[&[u32]]) -> Vec<u8> {
    debug_assert_eq!(tables.len(), SECTIONS - 2);
    let mut out = vec![0; HEADER];
    let mut header: Vec<(u32, u32)> = Vec::with_capacity(SECTIONS);
    let mut put_words = |out: &mut Vec<u8>, words: &[u32], width: u32| {
        header.push((out.len() as u32, words.len() as u32 / width));
        out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    };
    put_words(&mut out, strings.0, 1);
    for (words, width) in tables.iter().zip(&WIDTHS[2..]) {
        put_words(&mut out, words, *width);
    }
    header.insert(1, (out.len() as u32, strings.1.len() as u32));
    out.extend_from_slice(strings.1);
    out[..8].copy_from_slice(&MAGIC);
    out[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    out[16..24].copy_from_slice(&content_len.to_le_bytes());
    for (i, (offset, rows)) in header.into_iter().enumerate() {
        out[24 + i * 8..28 + i * 8].copy_from_slice(&offset.to_le_bytes());
        out[28 + i * 8..32 + i * 8].copy_from_slice(&rows.to_le_bytes());
    }
    let checksum = crc32fast::hash(&out[16..]);
    out[12..16].copy_from_slice(&checksum.to_le_bytes());
    out
}
