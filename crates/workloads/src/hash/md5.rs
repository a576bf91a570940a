//! MD5 (RFC 1321), by which Kubernetes orders the ports and subsets of Endpoints. Its weakness to forgery does not matter here.

/// Returns the digest of bytes.
pub fn of(bytes: &[u8]) -> [u8; 16] {
    let mut state = [0x6745_2301_u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    if padded.len() - bytes.len() < 9 {
        padded.resize(padded.len() + 64, 0);
    }
    let at = padded.len() - 8;
    padded[at..].copy_from_slice(&(bytes.len() as u64).wrapping_mul(8).to_le_bytes());
    let sines = sines();
    for block in padded.chunks_exact(64) {
        let mut words = [0_u32; 16];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        }
        let [mut a, mut b, mut c, mut d] = state;
        for step in 0..64 {
            let (mixed, word) = match step / 16 {
                0 => ((b & c) | (!b & d), step),
                1 => ((d & b) | (!d & c), 5 * step + 1),
                2 => (b ^ c ^ d, 3 * step + 5),
                _ => (c ^ (b | !d), 7 * step),
            };
            let sum = a.wrapping_add(mixed).wrapping_add(sines[step]).wrapping_add(words[word % 16]);
            (a, d, c) = (d, c, b);
            b = b.wrapping_add(sum.rotate_left(SHIFTS[step / 16][step % 4]));
        }
        for (sum, value) in state.iter_mut().zip([a, b, c, d]) {
            *sum = sum.wrapping_add(value);
        }
    }
    let mut digest = [0; 16];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    digest
}

/// The bits by which each step of a round rotates.
const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// The constants of the steps: the first 32 bits of the sines of 1, 2, 3 ... (in radians).
fn sines() -> [u32; 64] {
    std::array::from_fn(|step| ((step as f64 + 1.0).sin().abs() * 4_294_967_296.0) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of RFC 1321, and lengths around those of a block.
    #[test]
    fn vectors() {
        let hex = |text: &str| format!("{:032x}", u128::from_be_bytes(of(text.as_bytes())));
        for (text, digest) in [
            (String::new(), "d41d8cd98f00b204e9800998ecf8427e"),
            ("a".into(), "0cc175b9c0f1b6a831c399e269772661"),
            ("abc".into(), "900150983cd24fb0d6963f7d28e17f72"),
            ("message digest".into(), "f96b697d7cb7938d525a2f31aaf161d0"),
            ("1234567890".repeat(8), "57edf4a22be3c955ac49da2e2107b67a"),
            ("x".repeat(55), "04364420e25c512fd958a70738aa8f72"),
            ("x".repeat(56), "668a72d5ba17f08e62dabcafad6db14b"),
            ("x".repeat(64), "c1bb4f81d892b2d57947682aeb252456"),
        ] {
            assert_eq!(hex(&text), digest, "{}", text.len());
        }
    }
}
