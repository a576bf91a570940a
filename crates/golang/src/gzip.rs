//! Compression as `compress/gzip` does it at its best level, to the byte: texts that upstream's programs embed are compared as they stand.
//!
//! `match_finder` finds repeats, `huffman` makes codes, `block` chooses between the kinds of block and writes them.

mod block;
mod huffman;
mod match_finder;

use block::BlockWriter;
use match_finder::MatchFinder;

/// Something that stands in a block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Token {
    /// A byte.
    Literal(u8),
    /// A repeat: its length and the distance to what it repeats.
    Match { length: usize, distance: usize },
}

/// The content compressed, without a name and a time.
pub fn gzip_best(content: &[u8]) -> Vec<u8> {
    // Magic number, deflate, no flags, no time, best compression, unknown system.
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 255];
    let mut writer = BlockWriter::default();
    MatchFinder::new(content).run(&mut |tokens, covered| writer.block(tokens, covered));
    out.extend(writer.finish());
    out.extend(crc32(content).to_le_bytes());
    out.extend((content.len() as u32).to_le_bytes());
    out
}

fn crc32(content: &[u8]) -> u32 {
    !content.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    }

    /// The bytes that Go 1.26 wrote for these.
    #[test]
    fn as_go_compresses() {
        for (content, wanted) in [
            (Vec::new(), "1f8b08000000000002ff010000ffff0000000000000000"),
            (b"a".to_vec(), "1f8b08000000000002ff4a04040000ffff43beb7e801000000"),
        ] {
            assert_eq!(hex(&gzip_best(&content)), wanted);
        }
    }
}
