//! Protobuf's wire format: varints, keys and length-delimited parts.

use crate::error::{Error, Result};

/// The value of one field on the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    /// Nothing in these messages has 32 bits; the value is only skipped.
    Fixed32,
    Bytes(&'a [u8]),
}

/// Reads fields one after the other.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next field: number and value; `None` at the end.
    pub(crate) fn field(&mut self) -> Result<Option<(u32, Wire<'a>)>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).ok().filter(|number| *number > 0);
        let number = number.ok_or_else(|| Error::here(format!("the field number {} is illegal", key >> 3)))?;
        let value = match key & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = self.varint()?;
                Wire::Bytes(self.take(usize::try_from(length).map_err(|_| cut())?)?)
            }
            5 => {
                self.array::<4>()?;
                Wire::Fixed32
            }
            other => return Err(Error::here(format!("the field number {number} has the wire type {other}, which is not used"))),
        };
        Ok(Some((number, value)))
    }

    /// A varint without a key, as packed lists have them.
    pub(crate) fn varint(&mut self) -> Result<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                break;
            }
            value |= part << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Error::here("a varint is longer than 64 bits"))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(length).ok_or_else(cut)?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or_else(cut)?;
        self.rest = rest;
        Ok(*head)
    }
}

fn cut() -> Error {
    Error::here("the bytes end too early")
}

/// Appends a varint.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a field that holds a varint.
pub(crate) fn put_number(out: &mut Vec<u8>, number: u32, value: u64) {
    put_varint(out, u64::from(number) << 3);
    put_varint(out, value);
}

/// Appends a field that holds a double.
pub(crate) fn put_double(out: &mut Vec<u8>, number: u32, value: f64) {
    put_varint(out, u64::from(number) << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a field that holds bytes: a text, bytes or a message.
pub(crate) fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_varint(out, u64::from(number) << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// KAPI-SRV-07: numbers survive the wire.
        #[test]
        fn varints_survive(value: u64, number in 1_u32..1_000_000) {
            let mut out = Vec::new();
            put_number(&mut out, number, value);
            let mut reader = Reader::new(&out);
            let (found, wire) = reader.field().unwrap().unwrap();
            prop_assert_eq!(found, number);
            prop_assert!(matches!(wire, Wire::Varint(read) if read == value));
            prop_assert!(reader.field().unwrap().is_none());
        }
    }

    #[test]
    fn broken_bytes_are_refused() {
        for bytes in [&[0x0a][..], &[0x0a, 5, 1], &[0x08], &[0x09, 1, 2], &[0x0b], &[0x00, 0x00], &[0x08, 0xff, 0xff]] {
            assert!(Reader::new(bytes).field().is_err(), "{bytes:?}");
        }
        let long = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert!(Reader::new(&long).field().is_err());
    }
}
