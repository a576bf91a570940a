//! Blocks of tokens: stored, with fixed codes, or with codes of their own, whichever is shortest.

use super::Token;
use super::huffman::{Code, codes, fixed_distances, fixed_literals, size};

const END_OF_BLOCK: usize = 256;
const FIRST_LENGTH: usize = 257;
const LITERALS: usize = 286;
const DISTANCES: usize = 30;
/// The largest block that can be stored.
const STORED: usize = 65535;
/// The order in which lengths of codes for lengths of codes are written.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// A range of lengths or distances: its first value, and the bits that tell which one.
const LENGTHS: [(usize, u32); 29] = [
    (3, 0),
    (4, 0),
    (5, 0),
    (6, 0),
    (7, 0),
    (8, 0),
    (9, 0),
    (10, 0),
    (11, 1),
    (13, 1),
    (15, 1),
    (17, 1),
    (19, 2),
    (23, 2),
    (27, 2),
    (31, 2),
    (35, 3),
    (43, 3),
    (51, 3),
    (59, 3),
    (67, 4),
    (83, 4),
    (99, 4),
    (115, 4),
    (131, 5),
    (163, 5),
    (195, 5),
    (227, 5),
    (258, 0),
];

fn distance_range(symbol: usize) -> (usize, u32) {
    if symbol < 4 {
        return (symbol + 1, 0);
    }
    let bits = (symbol / 2 - 1) as u32;
    (((2 + symbol % 2) << bits) + 1, bits)
}

fn length_symbol(length: usize) -> usize {
    LENGTHS.iter().rposition(|(first, _)| *first <= length).unwrap_or_default()
}

fn distance_symbol(distance: usize) -> usize {
    (0..DISTANCES).rfind(|symbol| distance_range(*symbol).0 <= distance).unwrap_or_default()
}

/// A writer of blocks.
#[derive(Default)]
pub(super) struct BlockWriter {
    out: Vec<u8>,
    bits: u64,
    count: u32,
}

/// Lengths of codes in the form of a block's header.
struct Header {
    /// A written item: a symbol, and a number with its bits.
    symbols: Vec<(usize, Option<(u32, u32)>)>,
    frequencies: Vec<u32>,
}

impl BlockWriter {
    fn bits(&mut self, bits: u32, count: u32) {
        self.bits |= u64::from(bits) << self.count;
        self.count += count;
        while self.count >= 8 {
            self.out.push(self.bits as u8);
            self.bits >>= 8;
            self.count -= 8;
        }
    }

    fn code(&mut self, code: Code) {
        self.bits(u32::from(code.bits), u32::from(code.length));
    }

    fn flush(&mut self) {
        if self.count > 0 {
            self.out.push(self.bits as u8);
        }
        (self.bits, self.count) = (0, 0);
    }

    fn stored_header(&mut self, length: usize, is_last: bool) {
        self.bits(u32::from(is_last), 3);
        self.flush();
        self.bits(length as u32, 16);
        self.bits(u32::from(!(length as u16)), 16);
    }

    /// Ends the last block with an empty one.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.stored_header(0, true);
        self.flush();
        self.out
    }

    /// Writes a block of tokens that stand for these bytes.
    pub(super) fn block(&mut self, tokens: &[Token], covered: &[u8]) {
        let (mut literals, mut distances) = (vec![0_u32; LITERALS], vec![0_u32; DISTANCES]);
        for token in tokens {
            match token {
                Token::Literal(byte) => literals[usize::from(*byte)] += 1,
                Token::Match { length, distance } => {
                    literals[FIRST_LENGTH + length_symbol(*length)] += 1;
                    distances[distance_symbol(*distance)] += 1;
                }
            }
        }
        literals[END_OF_BLOCK] += 1;
        if distances.iter().all(|count| *count == 0) {
            distances[0] = 1;
        }
        let used = |counts: &[u32]| counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        let (literal_count, distance_count) = (used(&literals), used(&distances));
        let (own_literals, own_distances) = (codes(&literals, 15), codes(&distances, 15));
        let may_be_stored = covered.len() <= STORED;
        let extra = if may_be_stored { extra_bits(&literals, &distances) } else { 0 };
        let (literal_codes, distance_codes) = (fixed_literals(), fixed_distances());
        let fixed = 3 + size(&literal_codes, &literals) + size(&distance_codes, &distances) + extra;
        let header = Header::of(&own_literals[..literal_count], &own_distances[..distance_count]);
        let header_codes = codes(&header.frequencies, 7);
        let header_count = (4..=ORDER.len()).rfind(|count| *count == 4 || header.frequencies[ORDER[count - 1]] > 0).unwrap_or(4);
        let own = 3
            + 5
            + 5
            + 4
            + 3 * header_count
            + header.size(&header_codes)
            + size(&own_literals, &literals)
            + size(&own_distances, &distances)
            + extra;
        if may_be_stored && (covered.len() + 5) * 8 < fixed.min(own) {
            self.stored_header(covered.len(), false);
            self.out.extend_from_slice(covered);
        } else if own < fixed {
            self.bits(4, 3);
            self.bits((literal_count - 257) as u32, 5);
            self.bits((distance_count - 1) as u32, 5);
            self.bits((header_count - 4) as u32, 4);
            for symbol in &ORDER[..header_count] {
                self.bits(u32::from(header_codes[*symbol].length), 3);
            }
            for (symbol, number) in &header.symbols {
                self.code(header_codes[*symbol]);
                if let Some((number, count)) = number {
                    self.bits(*number, *count);
                }
            }
            self.tokens(tokens, &own_literals, &own_distances);
        } else {
            self.bits(2, 3);
            self.tokens(tokens, &literal_codes, &distance_codes);
        }
    }

    fn tokens(&mut self, tokens: &[Token], literals: &[Code], distances: &[Code]) {
        for token in tokens {
            match token {
                Token::Literal(byte) => self.code(literals[usize::from(*byte)]),
                Token::Match { length, distance } => {
                    let symbol = length_symbol(*length);
                    let (first, bits) = LENGTHS[symbol];
                    self.code(literals[FIRST_LENGTH + symbol]);
                    self.bits((length - first) as u32, bits);
                    let symbol = distance_symbol(*distance);
                    let (first, bits) = distance_range(symbol);
                    self.code(distances[symbol]);
                    self.bits((distance - first) as u32, bits);
                }
            }
        }
        self.code(literals[END_OF_BLOCK]);
    }
}

fn extra_bits(literals: &[u32], distances: &[u32]) -> usize {
    let lengths = LENGTHS.iter().zip(&literals[FIRST_LENGTH..]).map(|((_, bits), count)| bits * count);
    let distances = distances.iter().enumerate().map(|(symbol, count)| distance_range(symbol).1 * count);
    lengths.chain(distances).sum::<u32>() as usize
}

impl Header {
    fn of(literals: &[Code], distances: &[Code]) -> Self {
        let mut header = Self { symbols: Vec::new(), frequencies: vec![0; ORDER.len()] };
        let lengths: Vec<usize> = literals.iter().chain(distances).map(|code| usize::from(code.length)).collect();
        for run in lengths.chunk_by(|one, other| one == other) {
            header.run(run[0], run.len());
        }
        header
    }

    fn push(&mut self, symbol: usize, number: Option<(usize, u32)>) {
        self.frequencies[symbol] += 1;
        self.symbols.push((symbol, number.map(|(number, bits)| (number as u32, bits))));
    }

    /// Adds a length that stands so many times in a row.
    fn run(&mut self, length: usize, mut count: usize) {
        if length > 0 {
            self.push(length, None);
            count -= 1;
            while count >= 3 {
                let part = count.min(6);
                self.push(16, Some((part - 3, 2)));
                count -= part;
            }
        } else {
            while count >= 11 {
                let part = count.min(138);
                self.push(18, Some((part - 11, 7)));
                count -= part;
            }
            if count >= 3 {
                self.push(17, Some((count - 3, 3)));
                count = 0;
            }
        }
        for _ in 0..count {
            self.push(length, None);
        }
    }

    fn size(&self, codes: &[Code]) -> usize {
        size(codes, &self.frequencies) + self.symbols.iter().filter_map(|(_, number)| number.map(|(_, bits)| bits as usize)).sum::<usize>()
    }
}
