//! One digest over many files, computed on all cores.

use std::thread;

use mainstay_catalog::{LoadError, Source, SourceError, SourceFile, visible_files};
use sha2::{Digest, Sha256};

use crate::store::CatalogDigest;

/// Bytes that are hashed at once.
const PIECE: usize = 1 << 20;
/// Most threads that hash.
const THREADS: usize = 4;

/// The files of a source that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Files that belong to the catalog, that is, files that no `.indexignore` hides.
    Visible,
    /// Every file.
    All,
}

/// Computes a digest over paths and bytes of the files of several sources. The same files give the same digest, wherever they lie; any other byte,
/// name, length or order of sources gives another one.
pub fn digest(sources: &[(&dyn Source, Counted)]) -> Result<CatalogDigest, LoadError> {
    let mut files = Vec::new();
    for (number, (source, counted)) in sources.iter().enumerate() {
        let mut paths = match counted {
            Counted::Visible => visible_files(*source)?,
            Counted::All => source.paths()?,
        };
        paths.sort_unstable();
        for path in paths {
            let file = source.open(&path)?;
            files.push((number, path, file));
        }
    }
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    // Each thread takes every so many pieces of each file: one long file and many short ones keep all of them busy.
    let work = |thread: usize| {
        let mut hashed: Vec<(usize, u64, [u8; 32])> = Vec::new();
        let mut buffer = vec![0; PIECE];
        for (at, (_, path, file)) in files.iter().enumerate() {
            let failed = |error: std::io::Error| SourceError { path: path.clone(), reason: error.to_string() };
            for piece in ((thread + at) % threads..).step_by(threads) {
                let filled = fill(&**file, piece as u64 * PIECE as u64, &mut buffer).map_err(failed)?;
                if filled > 0 {
                    hashed.push((at, piece as u64, Sha256::digest(&buffer[..filled]).into()));
                }
                if filled < PIECE {
                    break;
                }
            }
        }
        Ok::<_, SourceError>(hashed)
    };
    let parts = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        let mut parts = vec![work(0)];
        // A thread that panicked has a defect that must not be hidden.
        parts.extend(others.into_iter().map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))));
        parts
    });
    let mut hashed = Vec::new();
    for part in parts {
        hashed.extend(part?);
    }
    hashed.sort_unstable();
    let mut pieces = hashed.iter().peekable();
    let mut all = Sha256::new();
    for (at, (number, path, _)) in files.iter().enumerate() {
        all.update(format!("file {number} {} {path}\n", path.len()));
        while let Some((_, _, piece)) = pieces.next_if(|(of, _, _)| *of == at) {
            all.update(piece);
        }
    }
    Ok(CatalogDigest::sha256(&all.finalize()))
}

/// Reads until the buffer is full or the file ends.
fn fill(file: &dyn SourceFile, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(offset + filled as u64, &mut buffer[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use mainstay_catalog::MemorySource;

    use super::*;

    fn of(files: &[(&str, &[u8])]) -> String {
        let source = files.iter().fold(MemorySource::new(), |source, (path, bytes)| source.with(path, *bytes));
        digest(&[(&source, Counted::Visible)]).unwrap().to_string()
    }

    /// CATLG-45: the digest follows content, names and what is ignored, and nothing else.
    #[test]
    fn tells_catalogs_apart() {
        let large = vec![b'x'; 3 * PIECE + 17];
        let mut other = large.clone();
        other[2 * PIECE + 3] ^= 1;
        let digests = [
            of(&[]),
            of(&[("a.json", b"")]),
            of(&[("a.json", b"{}")]),
            of(&[("b.json", b"{}")]),
            of(&[("a.json", b"{}"), ("b.json", b"{}")]),
            of(&[("a.json", &large)]),
            of(&[("a.json", &other)]),
            of(&[("a.json", &large[..PIECE])]),
            of(&[("a.json", &large[..2 * PIECE])]),
        ];
        for (i, digest) in digests.iter().enumerate() {
            assert!(!digests[..i].contains(digest), "{i}");
        }
        assert_eq!(of(&[("a.json", &large), ("b.json", b"{}")]), of(&[("b.json", b"{}"), ("a.json", &large)]));
        assert_eq!(
            of(&[("a.json", b"{}"), ("b.txt", b"1"), (".indexignore", b"b.txt\n")]),
            of(&[("a.json", b"{}"), ("b.txt", b"2"), (".indexignore", b"b.txt\n")])
        );
    }
}
