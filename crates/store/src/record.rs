//! The encoding of changes in files: records, in frames that are valid as a whole or not at all.
//!
//! ```text
//!   frame    crc | magic | kind | first revision | count | length | records ... | padding to 8
//!   record   crc | deleted | key length | value length | created | version | key | value
//! ```
//!
//! Integers are little-endian. A frame's checksum covers its head, its place in the file and a random number of the file (its salt), so
//! that neither bytes left over from before nor a value that looks like a frame can be taken for one. A record's covers its revision
//! and everything that follows, so that it can be read alone. In frames of state each record is preceded by its revision; in frames of
//! a commit revisions count up from the first.

use crate::Revision;

/// The place where a frame's records contradict it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct InvalidFrame(String);

/// Bytes of a frame's head.
pub(crate) const FRAME_HEAD: usize = 32;
/// Frames begin at multiples of this.
pub(crate) const ALIGN: usize = 8;
/// The longest key, in bytes.
pub(crate) const KEY_LIMIT: usize = 4_096;
/// The largest value, in bytes.
pub(crate) const VALUE_LIMIT: usize = 16 << 20;

/// The most bytes of a frame's records; a larger length was not written by this program.
const FRAME_LIMIT: usize = 64 << 20;
const MAGIC: u32 = u32::from_le_bytes(*b"MSFR");
const RECORD_HEAD: usize = 28;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Writes that were committed together.
    Commit = 1,
    /// History up to the frame's revision was given up.
    Compacted = 2,
    /// The file was closed in order; nothing before it may be damaged.
    Seal = 3,
    /// Keys of a snapshot.
    State = 4,
    /// The end of a snapshot; `count` is the number of its keys, modulo 2^32.
    End = 5,
    /// A file beside the keys of a backup.
    File = 6,
}

impl Kind {
    fn of(number: u32) -> Option<Self> {
        [Self::Commit, Self::Compacted, Self::Seal, Self::State, Self::End, Self::File].into_iter().find(|kind| *kind as u32 == number)
    }
}

/// A frame's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub kind: Kind,
    pub first: Revision,
    pub count: u32,
    /// Bytes of the records, without padding.
    pub length: u32,
}

impl Head {
    /// Decodes the head in `bytes`; `None` unless it was written at `offset` of the file with this salt.
    pub fn decode(bytes: &[u8], salt: u64, offset: u64) -> Option<Self> {
        let head = bytes.first_chunk::<FRAME_HEAD>()?;
        if u32_at(head, 4) != MAGIC || u32_at(head, 0) != head_sum(head, salt, offset) {
            return None;
        }
        let head = Self { kind: Kind::of(u32_at(head, 8))?, count: u32_at(head, 12), first: u64_at(head, 16), length: u32_at(head, 24) };
        (head.length as usize <= FRAME_LIMIT).then_some(head)
    }

    /// Bytes of the whole frame.
    pub fn size(&self) -> u64 {
        (FRAME_HEAD + self.length as usize).next_multiple_of(ALIGN) as u64
    }
}

fn head_sum(head: &[u8; FRAME_HEAD], salt: u64, offset: u64) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&salt.to_le_bytes());
    sum.update(&offset.to_le_bytes());
    sum.update(&head[4..]);
    sum.finalize()
}

/// A record as encoded in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub deleted: bool,
    pub key: &'a str,
    pub value: &'a [u8],
    pub created: Revision,
    pub version: u64,
}

impl<'a> Record<'a> {
    fn encode(&self, revision: Revision, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&[u8::from(self.deleted), 0]);
        out.extend_from_slice(&(self.key.len() as u16).to_le_bytes());
        out.extend_from_slice(&(self.value.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.created.to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(self.key.as_bytes());
        out.extend_from_slice(self.value);
        let sum = record_sum(revision, &out[begin + 4..]);
        out[begin..begin + 4].copy_from_slice(&sum.to_le_bytes());
    }

    /// Decodes the record at the beginning of `bytes`; returns it with its length, or the problem.
    pub fn decode(revision: Revision, bytes: &'a [u8]) -> Result<(Self, usize), &'static str> {
        let head = bytes.first_chunk::<RECORD_HEAD>().ok_or("is cut off")?;
        let (key, value) = (usize::from(u16_at(head, 6)), u32_at(head, 8) as usize);
        let length = RECORD_HEAD + key + value;
        let whole = bytes.get(..length).ok_or("is cut off")?;
        if u32_at(head, 0) != record_sum(revision, &whole[4..]) {
            return Err("has a wrong checksum");
        }
        let (key, value) = whole[RECORD_HEAD..].split_at(key);
        let key = std::str::from_utf8(key).map_err(|_| "has a key that is not text")?;
        Ok((Self { deleted: head[4] == 1, key, value, created: u64_at(head, 12), version: u64_at(head, 20) }, length))
    }
}

fn record_sum(revision: Revision, bytes: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&revision.to_le_bytes());
    sum.update(bytes);
    sum.finalize()
}

/// A frame under construction.
pub(crate) struct Frame {
    kind: Kind,
    first: Revision,
    bytes: Vec<u8>,
    /// The offset of each record in the frame, and its length.
    pub spans: Vec<(u32, u32)>,
}

impl Frame {
    /// An empty frame.
    pub fn new(kind: Kind, first: Revision) -> Self {
        Self { kind, first, bytes: vec![0; FRAME_HEAD], spans: Vec::new() }
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a write of a commit.
    pub fn push(&mut self, revision: Revision, record: &Record<'_>) {
        let begin = self.bytes.len();
        record.encode(revision, &mut self.bytes);
        self.spans.push((begin as u32, (self.bytes.len() - begin) as u32));
    }

    /// Adds a key of a snapshot.
    pub fn push_state(&mut self, revision: Revision, record: &Record<'_>) {
        self.bytes.extend_from_slice(&revision.to_le_bytes());
        self.push(revision, record);
    }

    /// The bytes to be written at `offset` of the file with this salt.
    pub fn finish(&mut self, salt: u64, offset: u64) -> &[u8] {
        self.finish_counting(salt, offset, self.spans.len() as u32)
    }

    /// The same as [`Self::finish`] with another count.
    pub fn finish_counting(&mut self, salt: u64, offset: u64, count: u32) -> &[u8] {
        let length = (self.bytes.len() - FRAME_HEAD) as u32;
        let mut head = [0; FRAME_HEAD];
        head[4..8].copy_from_slice(&MAGIC.to_le_bytes());
        head[8..12].copy_from_slice(&(self.kind as u32).to_le_bytes());
        head[12..16].copy_from_slice(&count.to_le_bytes());
        head[16..24].copy_from_slice(&self.first.to_le_bytes());
        head[24..28].copy_from_slice(&length.to_le_bytes());
        let sum = head_sum(&head, salt, offset);
        head[..4].copy_from_slice(&sum.to_le_bytes());
        self.bytes[..FRAME_HEAD].copy_from_slice(&head);
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGN), 0);
        &self.bytes
    }
}

/// The records of a frame's body with their revisions and their offsets in the frame.
pub(crate) fn records<'a>(head: &Head, body: &'a [u8]) -> Result<Vec<(Revision, Record<'a>, u32, u32)>, InvalidFrame> {
    let mut found = Vec::with_capacity((head.count as usize).min(body.len() / RECORD_HEAD + 1));
    let mut at = 0;
    for number in 0..u64::from(head.count) {
        let mut revision = head.first + number;
        if matches!(head.kind, Kind::State | Kind::File) {
            let bytes =
                body.get(at..).and_then(|rest| rest.first_chunk::<8>()).ok_or_else(|| InvalidFrame("a record is cut off".to_owned()))?;
            revision = u64::from_le_bytes(*bytes);
            at += 8;
        }
        let rest = body.get(at..).unwrap_or_default();
        let (record, length) =
            Record::decode(revision, rest).map_err(|problem| InvalidFrame(format!("the record of revision {revision} {problem}")))?;
        found.push((revision, record, (FRAME_HEAD + at) as u32, length as u32));
        at += length;
    }
    if at == body.len() { Ok(found) } else { Err(InvalidFrame("a frame is longer than its records".into())) }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// KAPI-STORE-02: a frame reads back as written, and no changed byte goes unnoticed.
        #[test]
        fn frames_read_back_and_notice_damage(
            values in prop::collection::vec((any::<bool>(), "[a-z/]{1,40}", prop::collection::vec(any::<u8>(), 0..200)), 1..5),
            state in any::<bool>(), salt in any::<u64>(), at in any::<prop::sample::Index>(), bit in 0..8u8,
        ) {
            let mut frame = Frame::new(if state { Kind::State } else { Kind::Commit }, 7);
            for (number, (deleted, key, value)) in values.iter().enumerate() {
                let record = Record { deleted: *deleted, key, value, created: 3, version: 4 };
                if state { frame.push_state(7 + number as u64, &record) } else { frame.push(7 + number as u64, &record) }
            }
            let mut bytes = frame.finish(salt, 64).to_vec();
            let read = |bytes: &[u8], salt, offset| {
                let head = Head::decode(bytes, salt, offset)?;
                let records = records(&head, &bytes[FRAME_HEAD..FRAME_HEAD + head.length as usize]).ok()?;
                let plain = |(at, record, ..): (Revision, Record<'_>, u32, u32)| (at, record.deleted, record.key.to_owned(), record.value.to_vec());
                Some(records.into_iter().map(plain).collect::<Vec<_>>())
            };
            let wanted: Vec<_> =
                values.iter().enumerate().map(|(number, (deleted, key, value))| (7 + number as u64, *deleted, key.clone(), value.clone())).collect();
            prop_assert_eq!(read(&bytes, salt, 64), Some(wanted.clone()));
            prop_assert_eq!(read(&bytes, salt ^ 1, 64), None);
            prop_assert_eq!(read(&bytes, salt, 72), None);
            let head = Head::decode(&bytes, salt, 64).unwrap();
            let at = at.index(FRAME_HEAD + head.length as usize);
            bytes[at] ^= 1 << bit;
            let damaged = read(&bytes, salt, 64);
            prop_assert!(damaged.is_none(), "byte {at}: {damaged:?}");
        }
    }
}
