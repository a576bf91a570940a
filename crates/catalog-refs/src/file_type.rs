//! What a file is, by its first bytes: which media type an icon has (CATLG-28), and whether a file is a database (CATLG-32).
//!
//! The signatures are the published ones of each format. Formats that no catalog has to do with are here as far as people mistake them for
//! one, so that the refusal can say what was found.

/// How much of a file tells its type.
pub const HEAD: u64 = 8192;

/// A type of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileType {
    /// Its usual extension.
    pub extension: &'static str,
    /// Its media type.
    pub media_type: &'static str,
    /// The bytes that must stand at these places.
    signature: &'static [(usize, &'static [u8])],
}

const fn of(extension: &'static str, media_type: &'static str, signature: &'static [(usize, &'static [u8])]) -> FileType {
    FileType { extension, media_type, signature }
}

/// The more particular signature stands before the more general one.
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

/// The type of a file that begins so; none when it is unknown, as that of text always is.
pub fn detect(head: &[u8]) -> Option<&'static FileType> {
    let stands = |(at, bytes): &(usize, &[u8])| head.get(*at..).is_some_and(|rest| rest.starts_with(bytes) && !rest.is_empty());
    TYPES.iter().find(|candidate| candidate.signature.iter().all(stands))
}

/// Whether a file that begins so is an SQLite database.
pub(crate) fn is_database(head: &[u8]) -> bool {
    detect(head).is_some_and(|found| found.extension == "sqlite")
}

/// The type in `opm`'s notation.
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

    /// CATLG-28: the media type of an icon; text, SVG included, has none, as upstream.
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
