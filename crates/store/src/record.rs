//! How keys' values and the log stand in the file.
//!
//! ```text
//!   record   crc32 | created | modified | version | value        (integers big-endian, crc over all that follows it)
//!   log      0 put / 1 delete | modified before, or 0 | key      (by revision)
//! ```

use bytes::Bytes;

use crate::{KeyValue, Revision};

const HEAD: usize = 4 + 3 * 8;

/// The bytes of a record.
pub(crate) fn encode(kv: &KeyValue) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD + kv.value.len());
    out.extend_from_slice(&[0; 4]);
    for number in [kv.created, kv.modified, kv.version] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    out.extend_from_slice(&kv.value);
    let sum = crc32fast::hash(&out[4..]);
    out[..4].copy_from_slice(&sum.to_be_bytes());
    out
}

/// The record in `bytes`, or what is wrong with it.
pub(crate) fn decode(key: &str, bytes: &[u8]) -> Result<KeyValue, String> {
    let (Some(sum), Some(rest)) = (bytes.first_chunk::<4>(), bytes.get(4..)) else {
        return Err(format!("the record of {key} is cut off"));
    };
    if crc32fast::hash(rest) != u32::from_be_bytes(*sum) {
        return Err(format!("the record of {key} has a wrong checksum"));
    }
    let number = |at: usize| rest.get(at..at + 8).and_then(|part| part.first_chunk::<8>()).map(|part| u64::from_be_bytes(*part));
    match (number(0), number(8), number(16), rest.get(24..)) {
        (Some(created), Some(modified), Some(version), Some(value)) => {
            Ok(KeyValue { key: key.to_owned(), value: Bytes::copy_from_slice(value), created, modified, version })
        }
        _ => Err(format!("the record of {key} is cut off")),
    }
}

/// One line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub delete: bool,
    /// The revision of what was overwritten or deleted; 0 when the key was created.
    pub before: Revision,
    pub key: &'a str,
}

impl<'a> Entry<'a> {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(9 + self.key.len());
        out.push(u8::from(self.delete));
        out.extend_from_slice(&self.before.to_be_bytes());
        out.extend_from_slice(self.key.as_bytes());
        out
    }

    pub fn decode(bytes: &'a [u8]) -> Result<Self, String> {
        match (bytes.first(), bytes.get(1..9).and_then(|part| part.first_chunk::<8>()), bytes.get(9..)) {
            (Some(kind @ (0 | 1)), Some(before), Some(key)) => Ok(Self {
                delete: *kind == 1,
                before: u64::from_be_bytes(*before),
                key: std::str::from_utf8(key).map_err(|_| "a log entry's key is not text".to_owned())?,
            }),
            _ => Err("a log entry is cut off".to_owned()),
        }
    }
}
