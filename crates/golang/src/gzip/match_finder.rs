//! Repeats in a content, found lazily: a match is only taken if the next byte does not begin a longer one.

use super::Token;

const WINDOW: usize = 1 << 15;
const SHORTEST: usize = 4;
const LONGEST: usize = 258;
/// Most tokens of a block.
const BLOCK: usize = 1 << 14;
const HASH_BITS: u32 = 17;
/// Matches of this length are good enough to look at a quarter of the others only.
const GOOD: usize = 32;
/// The most places that are looked at.
const CHAIN: usize = 4096;
/// Matches of the shortest length do not pay farther away than this.
const NEAR: usize = 4096;
const NONE: usize = usize::MAX;

pub(super) struct MatchFinder<'c> {
    content: &'c [u8],
    /// The last place of each hash.
    head: Vec<usize>,
    /// The place before each place with the same hash.
    before: Vec<usize>,
}

impl<'c> MatchFinder<'c> {
    pub(super) fn new(content: &'c [u8]) -> Self {
        Self { content, head: vec![NONE; 1 << HASH_BITS], before: vec![NONE; WINDOW] }
    }

    fn hash(&self, at: usize) -> usize {
        let bytes = [0, 1, 2, 3].map(|offset| self.content[at + offset]);
        (u32::from_be_bytes(bytes).wrapping_mul(0x1e35_a7bd) >> (32 - HASH_BITS)) as usize
    }

    /// Remembers a place; returns the last one with the same hash.
    fn insert(&mut self, at: usize) -> usize {
        let hash = self.hash(at);
        let last = std::mem::replace(&mut self.head[hash], at);
        self.before[at % WINDOW] = last;
        last
    }

    /// The longest match that is worth it: its length and distance.
    fn longest(&self, at: usize, first: usize) -> Option<(usize, usize)> {
        let most = LONGEST.min(self.content.len() - at);
        let mut length = SHORTEST - 1;
        let mut found = None;
        let tries = if length >= GOOD { CHAIN / 4 } else { CHAIN };
        let mut place = first;
        for _ in 0..tries {
            if length < most && self.content[at + length] == self.content[place + length] {
                let same = (0..most).take_while(|offset| self.content[place + offset] == self.content[at + offset]).count();
                if same > length && (same > SHORTEST || at - place <= NEAR) {
                    length = same;
                    found = Some((length, at - place));
                    if same >= most {
                        break;
                    }
                }
            }
            if place + WINDOW == at {
                break;
            }
            place = self.before[place % WINDOW];
            if place == NONE || place + WINDOW < at {
                break;
            }
        }
        found
    }

    /// Gives tokens to `block`, with the bytes that they stand for, a block at a time.
    pub(super) fn run(mut self, block: &mut dyn FnMut(&[Token], &[u8])) {
        let content = self.content;
        let last_insert = content.len().saturating_sub(SHORTEST - 1);
        let mut tokens = Vec::new();
        let (mut at, mut begun) = (0, 0);
        let (mut length, mut distance) = (SHORTEST - 1, 0);
        let mut pending = false;
        let mut last = NONE;
        while at < content.len() {
            if at < last_insert {
                last = self.insert(at);
            }
            let (old_length, old_distance) = (length, distance);
            (length, distance) = (SHORTEST - 1, 0);
            let ahead = content.len() - at;
            let is_near = last != NONE && last + WINDOW >= at && last < at;
            if is_near
                && ahead > old_length
                && old_length < LONGEST
                && let Some(found) = self.longest(at, last)
            {
                (length, distance) = found;
            }
            if old_length >= SHORTEST && length <= old_length {
                tokens.push(Token::Match { length: old_length, distance: old_distance });
                let end = at + old_length - 1;
                for inside in at + 1..end {
                    if inside < last_insert {
                        self.insert(inside);
                    }
                }
                at = end;
                pending = false;
                length = SHORTEST - 1;
                if tokens.len() == BLOCK {
                    block(&tokens, &content[begun..at]);
                    tokens.clear();
                    begun = at;
                }
            } else {
                if pending {
                    tokens.push(Token::Literal(content[at - 1]));
                    if tokens.len() == BLOCK {
                        block(&tokens, &content[begun..at]);
                        tokens.clear();
                        begun = at;
                    }
                }
                at += 1;
                pending = true;
            }
        }
        if pending {
            tokens.push(Token::Literal(content[at - 1]));
        }
        if !tokens.is_empty() {
            block(&tokens, &content[begun..at]);
        }
    }
}
