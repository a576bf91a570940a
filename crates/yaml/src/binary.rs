//! `!!binary`: base64 text, with its bytes read as text.

/// Decodes base64 as Go's standard encoding does; bytes that are not UTF-8 become U+FFFD, as in Go's JSON.
pub(crate) fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let letters: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    let (groups, rest) = letters.as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    for (at, group) in groups.iter().enumerate() {
        let padding = group.iter().rev().take_while(|letter| **letter == b'=').count();
        if padding > 2 || (padding > 0 && at + 1 < groups.len()) {
            return None;
        }
        let mut values = [0_u8; 4];
        for (value, letter) in values.iter_mut().zip(&group[..4 - padding]) {
            *value = digit(*letter)?;
        }
        bytes.extend_from_slice(&join(values)[..3 - padding]);
    }
    Some(lossy(&bytes))
}

fn join([a, b, c, d]: [u8; 4]) -> [u8; 3] {
    [a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d]
}

fn digit(letter: u8) -> Option<u8> {
    Some(match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

/// Converts bytes to text: each byte that is not part of a character becomes its own replacement character.
fn lossy(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}
