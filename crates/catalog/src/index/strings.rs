//! The texts of an index.

use std::collections::HashMap;

use super::layout::NONE;

/// Texts, each stored once.
#[derive(Default)]
pub(super) struct Strings {
    ids: HashMap<Box<str>, u32>,
    texts: Vec<(u32, u32)>,
    bytes: Vec<u8>,
}

impl Strings {
    pub(super) fn id(&mut self, text: &str) -> u32 {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = self.texts.len() as u32;
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(text.as_bytes());
        self.texts.push((start, self.bytes.len() as u32));
        self.ids.insert(text.into(), id);
        id
    }

    pub(super) fn optional(&mut self, text: &str) -> u32 {
        if text.is_empty() { NONE } else { self.id(text) }
    }

    pub(super) fn text(&self, id: u32) -> &str {
        let range = self.texts.get(id as usize).map_or(0..0, |(start, end)| *start as usize..*end as usize);
        std::str::from_utf8(&self.bytes[range]).unwrap_or("")
    }

    /// Offsets of all texts (one more than texts) and their bytes.
    pub(super) fn finish(self) -> (Vec<u32>, Vec<u8>) {
        let mut offsets: Vec<u32> = self.texts.iter().map(|(start, _)| *start).collect();
        offsets.push(self.bytes.len() as u32);
        (offsets, self.bytes)
    }
}
