//! Codes of limited length for symbols by their frequency.

/// A code: its bits, the first one lowest, and their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Code {
    pub(super) bits: u16,
    pub(super) length: u16,
}

fn code(bits: u16, length: u16) -> Code {
    Code { bits: bits.reverse_bits() >> (16 - length), length }
}

/// The codes for literals that need no table.
pub(super) fn fixed_literals() -> Vec<Code> {
    let of = |symbol: u16| match symbol {
        0..144 => code(symbol + 48, 8),
        144..256 => code(symbol + 400 - 144, 9),
        256..280 => code(symbol - 256, 7),
        _ => code(symbol + 192 - 280, 8),
    };
    (0..286).map(of).collect()
}

/// The codes for distances that need no table.
pub(super) fn fixed_distances() -> Vec<Code> {
    (0..30).map(|symbol| code(symbol, 5)).collect()
}

/// The bits that symbols take together.
pub(super) fn size(codes: &[Code], frequencies: &[u32]) -> usize {
    frequencies.iter().zip(codes).map(|(frequency, code)| *frequency as usize * usize::from(code.length)).sum()
}

/// Codes of at most `most` bits, as short together as can be. Symbols that do not occur have none.
pub(super) fn codes(frequencies: &[u32], most: usize) -> Vec<Code> {
    let mut codes = vec![Code::default(); frequencies.len()];
    let mut symbols: Vec<(u32, usize)> =
        frequencies.iter().enumerate().filter(|(_, frequency)| **frequency > 0).map(|(symbol, frequency)| (*frequency, symbol)).collect();
    if symbols.len() <= 2 {
        for (index, (_, symbol)) in symbols.iter().enumerate() {
            codes[*symbol] = Code { bits: index as u16, length: 1 };
        }
        return codes;
    }
    symbols.sort_unstable();
    let counts = counts_by_length(&symbols, most);
    let mut next: u16 = 0;
    let mut rest = symbols.as_slice();
    for (length, count) in counts.iter().enumerate() {
        next <<= 1;
        if length == 0 || *count == 0 {
            continue;
        }
        let (kept, chunk) = rest.split_at(rest.len() - count);
        rest = kept;
        let mut chunk: Vec<usize> = chunk.iter().map(|(_, symbol)| *symbol).collect();
        chunk.sort_unstable();
        for symbol in chunk {
            codes[symbol] = code(next, length as u16);
            next += 1;
        }
    }
    codes
}

/// The number of codes of each length, by the package-merge that Go uses: where a symbol and a pair weigh the same, the pair is taken.
fn counts_by_length(symbols: &[(u32, usize)], most: usize) -> Vec<usize> {
    let most = most.min(symbols.len() - 1);
    let frequencies: Vec<u64> = symbols.iter().map(|(frequency, _)| u64::from(*frequency)).collect();
    // A level's list: the weight of each entry, and the number of symbols among the entries up to it, on each level.
    let mut below: Vec<(u64, Vec<usize>)> = Vec::new();
    for level in 1..=most {
        let wanted = 2 * symbols.len() - 2;
        let mut entries: Vec<(u64, Vec<usize>)> = Vec::with_capacity(wanted);
        let (mut symbol, mut pair) = (0, 0);
        let mut counts = vec![0; most + 1];
        while entries.len() < wanted {
            let pair_weight = below.get(2 * pair + 1).map(|second| second.0 + below[2 * pair].0);
            let symbol_weight = frequencies.get(symbol).copied();
            let takes_symbol = match (symbol_weight, pair_weight) {
                (Some(symbol), Some(pair)) => entries.len() < 2 || symbol < pair,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => break,
            };
            if takes_symbol {
                counts[level] += 1;
                symbol += 1;
                entries.push((symbol_weight.unwrap_or_default(), counts.clone()));
            } else {
                counts[..level].copy_from_slice(&below[2 * pair + 1].1[..level]);
                pair += 1;
                entries.push((pair_weight.unwrap_or_default(), counts.clone()));
            }
        }
        below = entries;
    }
    let last = below.get(2 * symbols.len() - 3).map(|(_, counts)| counts.clone()).unwrap_or_default();
    let mut by_length = vec![0; most + 1];
    for (length, count) in by_length.iter_mut().enumerate().skip(1) {
        let level = most + 1 - length;
        *count = last.get(level).copied().unwrap_or_default() - last.get(level - 1).copied().unwrap_or_default();
    }
    by_length
}
