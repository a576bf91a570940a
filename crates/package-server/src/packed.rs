//! Text that is kept compressed: descriptions of operators are long, and most of them are read seldom.

use std::io::{self, Read as _, Write as _};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

/// A compressed text.
#[derive(Debug)]
pub struct Packed {
    bytes: Box<[u8]>,
    length: usize,
}

impl Packed {
    /// Compresses a text.
    ///
    /// # Errors
    /// The compressor fails.
    pub fn new(text: &str) -> io::Result<Self> {
        let mut encoder = DeflateEncoder::new(Vec::with_capacity(text.len() / 4), Compression::fast());
        encoder.write_all(text.as_bytes())?;
        Ok(Self { bytes: encoder.finish()?.into_boxed_slice(), length: text.len() })
    }

    /// Returns the length of the text in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns the bytes that it takes.
    pub fn held(&self) -> usize {
        self.bytes.len()
    }

    /// Appends the text.
    ///
    /// # Errors
    /// The compressed text is damaged.
    pub fn write_to(&self, out: &mut Vec<u8>) -> io::Result<()> {
        out.reserve(self.length);
        DeflateDecoder::new(&*self.bytes).read_to_end(out).map(drop)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A text comes back as it was, and takes less.
    #[test]
    fn there_and_back() {
        let text = "describes an operator ".repeat(500);
        let packed = Packed::new(&text).unwrap();
        let mut out = b"[".to_vec();
        packed.write_to(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), format!("[{text}"));
        assert!(packed.held() * 10 < packed.len());
    }
}
