//! The frames of OpenPGP packets (RFC 4880, 4.2).

use std::borrow::Cow;

/// Joins the parts of packets that come in parts. Go's library began with a part that is shorter than the standard allows; gpg reads such messages,
/// and there are releases that are signed with them. Bytes that are no packets are left as they are.
pub(super) fn join_parts(message: &[u8]) -> Cow<'_, [u8]> {
    joined(message).map_or(Cow::Borrowed(message), Cow::Owned)
}

/// The message with whole packets; `None` if it has them already, or is none.
fn joined(message: &[u8]) -> Option<Vec<u8>> {
    let (mut rest, mut out, mut found) = (message, Vec::with_capacity(message.len()), false);
    while let Some(&tag) = rest.first() {
        let (header, length) = if tag & 0xC0 == 0xC0 { new_length(rest.get(1..)?)? } else { old_length(tag, rest.get(1..)?)? };
        let start = 1 + header;
        let Length::Part(mut length) = length else {
            let end = match length {
                Length::Whole(length) => start.checked_add(length)?,
                _ => rest.len(),
            };
            out.extend_from_slice(rest.get(..end)?);
            rest = &rest[end..];
            continue;
        };
        found = true;
        let (mut body, mut at) = (Vec::new(), start);
        loop {
            body.extend_from_slice(rest.get(at..at.checked_add(length)?)?);
            at += length;
            let (header, next) = new_length(rest.get(at..)?)?;
            at += header;
            match next {
                Length::Part(more) => length = more,
                Length::Whole(last) => {
                    let end = at.checked_add(last)?;
                    body.extend_from_slice(rest.get(at..end)?);
                    rest = &rest[end..];
                    break;
                }
                Length::ToTheEnd => return None,
            }
        }
        out.extend([tag, 0xFF]);
        out.extend(u32::try_from(body.len()).ok()?.to_be_bytes());
        out.extend(body);
    }
    found.then_some(out)
}

enum Length {
    Whole(usize),
    Part(usize),
    ToTheEnd,
}

/// The length of a packet of the new format, or of its next part; with the bytes that say so.
fn new_length(bytes: &[u8]) -> Option<(usize, Length)> {
    let first = usize::from(*bytes.first()?);
    Some(match first {
        0..192 => (1, Length::Whole(first)),
        192..224 => (2, Length::Whole(((first - 192) << 8) + usize::from(*bytes.get(1)?) + 192)),
        224..255 => (1, Length::Part(1 << (first & 0x1F))),
        _ => (5, Length::Whole(big_endian(bytes.get(1..5)?))),
    })
}

/// The length of a packet of the old format.
fn old_length(tag: u8, bytes: &[u8]) -> Option<(usize, Length)> {
    if tag & 0x80 == 0 {
        return None;
    }
    let size = match tag & 3 {
        0 => 1,
        1 => 2,
        2 => 4,
        _ => return Some((0, Length::ToTheEnd)),
    };
    Some((size, Length::Whole(big_endian(bytes.get(..size)?))))
}

fn big_endian(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |sum, byte| (sum << 8) | usize::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts of any length become one packet; packets of both formats around them stay as they are.
    #[test]
    fn parts_are_joined() {
        let whole = [0xC4, 2, 1, 2];
        let old = [0x88, 1, 9];
        let parts = [&[0xCB, 0xE1, 1, 2, 0xE0, 3, 0xC0, 0][..], &[4; 192]].concat();
        let mut expected = whole.to_vec();
        expected.extend([0xCB, 0xFF, 0, 0, 0, 195, 1, 2, 3]);
        expected.extend([4; 192]);
        expected.extend(old);
        assert_eq!(join_parts(&[&whole[..], &parts, &old].concat()), expected);
    }

    /// Whole packets are not copied, and what is broken off is not touched.
    #[test]
    fn other_bytes_stay() {
        for bytes in [
            &[][..],
            b"hello",
            &[0xC4, 2, 1, 2],
            &[0x8B, 1, 2],
            &[0xCB],
            &[0xCB, 0xE1, 1],
            &[0xCB, 0xFE, 1],
            &[0xCB, 0xFF, 255, 255, 255, 255, 1],
        ] {
            assert!(matches!(join_parts(bytes), Cow::Borrowed(same) if same == bytes), "{bytes:?}");
        }
    }
}
