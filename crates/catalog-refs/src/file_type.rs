//! Types of files, by their first bytes: the media type of an icon (CATLG-28), and the test for a database (CATLG-32).
//!
//! The signatures are the published ones of each format. Formats that catalogs do not use are included if people mistake them for one, so that
//! the refusal can name what was found.

/// Bytes at the beginning of a file that tell its type.
pub const HEAD: u64 = 8192;

/// A type of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileType {
    /// Its usual extension.
    pub extension: &'static str,
    /// Its media type.
    pub media_type: &'static str,
    /// The bytes required at these positions.
    signature: &'static [(usize, &'static [u8])],
}

const fn of(extension: &'static str, media_type: &'static str, signature: &'static [(usize, &'static [u8])]) -> FileType {
    FileType { extension, media_type, signature }
}

/// Known types; a more specific signature stands before a more general one.
const TYPES: &[FileType] = &[
    of("wasm", "application/wasm", &[(0, b"\0asm\x01\0\0\0")]),
    of("jpg", "image/jpeg", &[(0, b"\xff\xd8\xff")]),
    of("jp2", "image/jp2", &[(0, b"\0\0\0\x0cjP  \r\n\x87\n\0")]),
    of("png", "image/png", &[(0, b"\x89PNG")]),
    of("gif", "image/gif", &[(0, b"GIF")]),
    of("webp", "image/webp", &[(8, b"WEBP")]),
    of("cr2", "image/x-canon-cr2", &[(0, b"II*\0"), (8, b"CR\x02")]),
    of("cr2", "image/x-canon-cr2", &[(0, b"MM\0*"), (8, b"CR\x02")]),
    of("tif", "image/tiff", &[(0, b"II*\0"), (10, b"")]),
    of("tif", "image/tiff", &[(0, b"MM\0*"), (10, b"")]),
    of("bmp", "image/bmp", &[(0, b"BM")]),
    of("jxr", "image/vnd.ms-photo", &[(0, b"II\xbc")]),
    of("psd", "image/vnd.adobe.photoshop", &[(0, b"8BPS")]),
    of("ico", "image/vnd.microsoft.icon", &[(0, b"\0\0\x01\0")]),
    of("heif", "image/heif", &[(4, b"ftypheic")]),
    of("avif", "image/avif", &[(4, b"ftypavif")]),
    of("exr", "image/x-exr", &[(0, b"v/1\x01")]),
    of("dwg", "image/vnd.dwg", &[(0, b"AC10")]),
    of("avi", "video/x-msvideo", &[(0, b"RIFF"), (8, b"AVI")]),
    of("mp4", "video/mp4", &[(4, b"ftypisom")]),
    of("mp4", "video/mp4", &[(4, b"ftypmp42")]),
    of("mid", "audio/midi", &[(0, b"MThd")]),
    of("mp3", "audio/mpeg", &[(0, b"ID3")]),
    of("ogg", "audio/ogg", &[(0, b"OggS")]),
    of("flac", "audio/x-flac", &[(0, b"fLaC")]),
    of("wav", "audio/x-wav", &[(0, b"RIFF"), (8, b"WAVE")]),
    of("woff", "application/font-woff", &[(0, b"wOFF\0\x01\0\0")]),
    of("woff2", "application/font-woff", &[(0, b"wOF2\0\x01\0\0")]),
    of("ttf", "application/font-sfnt", &[(0, b"\0\x01\0\0\0")]),
    of("otf", "application/font-sfnt", &[(0, b"OTTO\0")]),
    of("zip", "application/zip", &[(0, b"PK\x03\x04")]),
    of("zip", "application/zip", &[(0, b"PK\x05\x06")]),
    of("tar", "application/x-tar", &[(257, b"ustar")]),
    of("rar", "application/vnd.rar", &[(0, b"Rar!\x1a\x07")]),
    of("gz", "application/gzip", &[(0, b"\x1f\x8b\x08")]),
    of("bz2", "application/x-bzip2", &[(0, b"BZh")]),
    of("7z", "application/x-7z-compressed", &[(0, b"7z\xbc\xaf\x27\x1c")]),
    of("xz", "application/x-xz", &[(0, b"\xfd7zXZ\0")]),
    of("zst", "application/zstd", &[(0, b"\x28\xb5\x2f\xfd")]),
    of("pdf", "application/pdf", &[(0, b"%PDF")]),
    of("exe", "application/vnd.microsoft.portable-executable", &[(0, b"MZ")]),
    of("rtf", "application/rtf", &[(0, b"{\\rtf")]),
    of("ps", "application/postscript", &[(0, b"%!")]),
    of("sqlite", "application/vnd.sqlite3", &[(0, b"SQLi")]),
    of("deb", "application/vnd.debian.binary-package", &[(0, b"!<arch>\ndebian-binary")]),
    of("ar", "application/x-unix-archive", &[(0, b"!<arch>")]),
    of("rpm", "application/x-rpm", &[(0, b"\xed\xab\xee\xdb"), (97, b"")]),
    of("elf", "application/x-executable", &[(0, b"\x7fELF"), (53, b"")]),
];

/// Returns the type of a file that begins with these bytes; `None` when it is unknown, as that of text always is.
pub fn detect(head: &[u8]) -> Option<&'static FileType> {
    let stands = |(at, bytes): &(usize, &[u8])| head.get(*at..).is_some_and(|rest| rest.starts_with(bytes) && !rest.is_empty());
    TYPES.iter().find(|candidate| candidate.signature.iter().all(stands))
}

/// Returns the media type of a whole file, SVG included; `None` when it is unknown.
pub fn media_type(content: &[u8]) -> Option<&'static str> {
    if is_svg(content) { Some("image/svg+xml") } else { detect(content).map(|found| found.media_type) }
}

/// Checks that a file is one SVG element, after an optional declaration and document type; comments do not count. Upstream decides by
/// a pattern that takes no `*` inside of the element, and so does this.
fn is_svg(content: &[u8]) -> bool {
    let head = &content[..content.len().min(24)];
    if head.len() == 24 && head.iter().any(|byte| *byte <= 8) {
        return false;
    }
    let bare = without_comments(content);
    let text = String::from_utf8_lossy(&bare);
    let mut rest = text.trim_matches(is_blank);
    for optional in ["<?xml", "<!doctype svg"] {
        if let Some(inside) = tag(rest, optional) {
            rest = inside.trim_start_matches(is_blank);
        }
    }
    let Some(inside) = tag(rest, "<svg") else { return false };
    let end = inside.len().checked_sub("</svg>".len()).and_then(|at| inside.split_at_checked(at));
    // Without regard to case, Go takes the long s for an s; it is one byte longer.
    let long = inside.len().checked_sub("</\u{17f}vg>".len()).and_then(|at| inside.split_at_checked(at));
    [end, long].into_iter().flatten().any(|(drawing, end)| strip(end, "</svg>") == Some("") && !drawing.contains('*'))
}

/// Removes the text from each `<!--` to the next `-->`.
fn without_comments(content: &[u8]) -> Vec<u8> {
    let position = |rest: &[u8], what: &[u8]| rest.windows(what.len()).position(|window| window == what);
    let (mut bare, mut rest) = (Vec::with_capacity(content.len()), content);
    while let Some(start) = position(rest, b"<!--") {
        let inside = &rest[start + 4..];
        // An unterminated comment is none, and neither is one after it.
        let Some(end) = position(inside, b"-->") else { break };
        bare.extend_from_slice(&rest[..start]);
        rest = &inside[end + 3..];
    }
    bare.extend_from_slice(rest);
    bare
}

/// Returns the text after a tag with this beginning, in any case.
fn tag<'t>(text: &'t str, start: &str) -> Option<&'t str> {
    strip(text, start)?.split_once('>').map(|(_, rest)| rest)
}

/// Removes a prefix, in any case.
fn strip<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let mut letters = text.chars();
    let same = |letter: char, wanted: char| letter.eq_ignore_ascii_case(&wanted) || (letter == '\u{17f}' && wanted == 's');
    let begins = prefix.chars().all(|wanted| letters.next().is_some_and(|letter| same(letter, wanted)));
    begins.then_some(letters.as_str())
}

/// Returns true for a blank of Go's patterns.
fn is_blank(letter: char) -> bool {
    matches!(letter, '\t' | '\n' | '\u{c}' | '\r' | ' ')
}

/// Returns true if a file that begins with these bytes is an SQLite database.
pub(crate) fn is_database(head: &[u8]) -> bool {
    detect(head).is_some_and(|found| found.extension == "sqlite")
}

/// Returns the type in `opm`'s notation.
pub(crate) fn describe(head: &[u8]) -> String {
    match detect(head) {
        Some(found) => {
            let (kind, rest) = found.media_type.split_once('/').unwrap_or((found.media_type, ""));
            format!("{{{{{kind} {rest} {}}} {}}}", found.media_type, found.extension)
        }
        None => "{{  } unknown}".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CATLG-28: SVG is told by its content, as upstream's pattern tells it.
    #[test]
    fn drawings() {
        for (content, expected) in [
            ("<svg viewBox=\"0 0 100 100\"><circle cx=\"25\" cy=\"25\" r=\"25\"/></svg>", true),
            ("<?xml version=\"1.0\"?>\n<!DOCTYPE svg PUBLIC \"-//W3C//DTD SVG 1.1//EN\" \"x\">\n<SVG a=\"b\">\n</sVg>\n\n", true),
            ("<!-- made by * --><?xml version=\"1.0\"?><svg><!-- <svg> --></svg><!---->", true),
            ("<svg></svg>", true),
            ("<\u{17f}vg></\u{17f}vg>", true),
            ("<svg xmlns=\"http://www.w3.org/2000/svg\"/>", false),
            ("<svg><style>* {}</style></svg>", false),
            ("<svg></svg><p>", false),
            ("\u{feff}<svg></svg>", false),
            ("<html><svg></svg></html>", false),
            ("<!DOCTYPE html><svg></svg>", false),
            ("<svg></svg><!-- not ended", false),
            ("<svg a=\"\u{1}\" b=\"0123456789\"></svg>", false),
            ("<svg", false),
            ("", false),
        ] {
            assert_eq!(media_type(content.as_bytes()) == Some("image/svg+xml"), expected, "{content}");
        }
        assert_eq!(media_type(b"<svg>\xff\xfe</svg>"), Some("image/svg+xml"));
        assert_eq!(media_type(b"\x89PNG"), Some("image/png"));
    }

    /// CATLG-28: the media type of a file by its first bytes; text has none.
    #[test]
    fn types() {
        for (head, expected) in [
            (&b"\x89PNG\r\n\x1a\n"[..], "image/png"),
            (b"\xff\xd8\xff\xe0", "image/jpeg"),
            (b"GIF89a", "image/gif"),
            (b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
            (b"RIFF\x24\0\0\0WAVEfmt ", "audio/x-wav"),
            (b"II*\0\x08\0\0\0CR\x02\0", "image/x-canon-cr2"),
            (b"II*\0\x08\0\0\0\0\0\x02\0", "image/tiff"),
            (b"II*\0\x08", ""),
            (b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>", ""),
            (b"SQLite format 3\0", "application/vnd.sqlite3"),
            (b"", ""),
        ] {
            assert_eq!(detect(head).map_or("", |found| found.media_type), expected, "{head:?}");
        }
        assert_eq!(describe(b"\x89PNG"), "{{image png image/png} png}");
        assert_eq!(describe(b"{}"), "{{  } unknown}");
    }
}
