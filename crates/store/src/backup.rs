//! Backups: every key as of one revision, and files that belong to them, in one file that shows by itself whether it is whole
//! (KAPI-STORE-02).
//!
//! ```text
//!   head | file | file | ... | keys | keys | ... | end (how many keys)
//! ```
//!
//! It is a snapshot of the embedded engine with another beginning, whatever engine the keys come from: [`Encoder`] makes its bytes piece by
//! piece, so that a server can send it as it reads; [`Backup`] reads it. Checksums cover each piece and its place.

use std::fs::File;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::embedded::disk::DiskFile;
use crate::embedded::file::{FILE_HEAD, FileHead, Found, Magic, Scan};
use crate::record::{self, Frame, Kind, Record};
use crate::{Embedded, Error, KeyValue, Range, Revision, Store};

/// Keys that are read from a store at once.
const PAGE: usize = 500;
/// Approximate bytes of keys in one piece.
const PIECE: usize = 1 << 20;

/// Makes the bytes of a backup, in order: [`Encoder::begin`], files, keys, [`Encoder::end`].
pub struct Encoder {
    head: FileHead,
    offset: u64,
    keys: u64,
}

impl Encoder {
    /// An encoder for a backup of this revision.
    pub fn new(revision: Revision) -> Self {
        Self { head: FileHead::new(revision, revision), offset: FILE_HEAD, keys: 0 }
    }

    /// Returns the first bytes of the backup.
    pub fn begin(&self) -> Vec<u8> {
        self.head.encode(Magic::Backup).to_vec()
    }

    /// Returns the piece for a file beside the keys; the name is a relative path.
    pub fn file(&mut self, name: &str, content: &[u8]) -> Vec<u8> {
        let mut frame = Frame::new(Kind::File, self.head.revision);
        frame.push_state(self.head.revision, &Record { deleted: false, key: name, value: content, created: 0, version: 0 });
        self.finish(frame)
    }

    /// Returns the pieces for these keys, which come in order.
    pub fn keys(&mut self, keys: &[KeyValue]) -> Vec<u8> {
        let (mut out, mut frame) = (Vec::new(), Frame::new(Kind::State, self.head.revision));
        for kv in keys {
            let record = Record { deleted: false, key: &kv.key, value: &kv.value, created: kv.created, version: kv.version };
            frame.push_state(kv.modified, &record);
            self.keys += 1;
            if frame.len() >= PIECE {
                out.extend(self.finish(std::mem::replace(&mut frame, Frame::new(Kind::State, self.head.revision))));
            }
        }
        if !frame.spans.is_empty() {
            out.extend(self.finish(frame));
        }
        out
    }

    /// Returns the last bytes of the backup; without them it is not whole.
    pub fn end(mut self) -> Vec<u8> {
        let count = self.keys as u32;
        let mut frame = Frame::new(Kind::End, self.head.revision);
        let bytes = frame.finish_counting(self.head.salt, self.offset, count).to_vec();
        self.offset += bytes.len() as u64;
        bytes
    }

    fn finish(&mut self, mut frame: Frame) -> Vec<u8> {
        let bytes = frame.finish(self.head.salt, self.offset).to_vec();
        self.offset += bytes.len() as u64;
        bytes
    }
}

/// Reads every key of a store as of its latest revision, and hands over the bytes of a backup piece by piece; writes go on meanwhile. An error of
/// `take` ends it.
pub async fn write<F>(store: &dyn Store, files: &[(String, Vec<u8>)], mut take: impl FnMut(Bytes) -> F + Send) -> Result<(), Error>
where
    F: Future<Output = Result<(), Error>> + Send,
{
    let mut range = Range { prefix: String::new(), limit: PAGE, ..Range::default() };
    let mut listing = store.list(range.clone()).await?;
    let mut encoder = Encoder::new(listing.revision);
    take(encoder.begin().into()).await?;
    for (name, content) in files {
        take(encoder.file(name, content).into()).await?;
    }
    loop {
        take(encoder.keys(&listing.items).into()).await?;
        range.after = listing.items.pop().map(|kv| kv.key);
        if listing.remaining == 0 {
            break;
        }
        range.revision = Some(listing.revision);
        listing = store.list(range.clone()).await?;
    }
    take(encoder.end().into()).await
}

/// A piece of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A file: its relative path, and its content.
    File(String, Vec<u8>),
    /// Keys, in order.
    Keys(Vec<KeyValue>),
}

/// The content of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The revision of the keys.
    pub revision: Revision,
    /// The number of keys.
    pub keys: u64,
    /// Bytes of the backup.
    pub bytes: u64,
    /// The names of the files beside the keys.
    pub files: Vec<String>,
}

/// A backup in a file.
pub struct Backup {
    path: PathBuf,
    file: File,
}

impl Backup {
    /// Opens the file; nothing is checked yet.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(|source| Error::io(path, "opening", source))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Reads all of the file and checks every checksum and every count.
    pub fn verify(&self) -> Result<Contents, Error> {
        self.pieces(|piece, contents| {
            if let Piece::File(name, _) = piece {
                contents.files.push(name);
            }
            Ok(())
        })
    }

    /// Hands over every file beside the keys.
    pub fn files(&self, mut each: impl FnMut(&str, &[u8]) -> Result<(), Error>) -> Result<Contents, Error> {
        self.pieces(|piece, _| match piece {
            Piece::File(name, content) => each(&name, &content),
            Piece::Keys(_) => Ok(()),
        })
    }

    /// Makes a store of the keys, as of a revision that is not before the backup's: revisions that clients have seen since the backup must not come
    /// again with another meaning.
    pub fn restore(&self, folder: &Path, revision: Revision) -> Result<Contents, Error> {
        Embedded::create(folder, revision, |push| {
            self.pieces(|piece, _| match piece {
                Piece::File(..) => Ok(()),
                Piece::Keys(keys) => keys.iter().try_for_each(&mut *push),
            })
        })
    }

    fn pieces(&self, mut each: impl FnMut(Piece, &mut Contents) -> Result<(), Error>) -> Result<Contents, Error> {
        let file: &dyn DiskFile = &self.file;
        let mut scan = Scan::open(self.path.clone(), Magic::Backup, file)?;
        let mut contents = Contents { revision: scan.head.revision, ..Contents::default() };
        loop {
            let at = scan.offset;
            let (head, body) = match scan.next()? {
                Found::Frame(head, body, _) => (head, body),
                Found::Nothing => return Err(scan.corrupt(format!("it breaks off, or is damaged, at offset {at}"))),
            };
            let records = record::records(&head, &body).map_err(|problem| scan.corrupt(format!("{problem}, at offset {at}")));
            let piece = match head.kind {
                Kind::State => {
                    let keys = records?.into_iter().map(|(modified, record, ..)| {
                        let (key, value) = (record.key.to_owned(), Bytes::copy_from_slice(record.value));
                        KeyValue { key, value, created: record.created, modified, version: record.version }
                    });
                    let keys: Vec<_> = keys.collect();
                    contents.keys += keys.len() as u64;
                    Piece::Keys(keys)
                }
                Kind::File => match records?.as_slice() {
                    [(_, record, ..)] => Piece::File(record.key.to_owned(), record.value.to_vec()),
                    _ => return Err(scan.corrupt(format!("a file has no content at offset {at}"))),
                },
                Kind::End if head.count == contents.keys as u32 => {
                    let length = DiskFile::len(file).map_err(|source| Error::io(&self.path, "reading its length", source))?;
                    if length != scan.offset {
                        return Err(scan.corrupt(format!("it ends at offset {}, and something follows", scan.offset)));
                    }
                    contents.bytes = scan.offset;
                    return Ok(contents);
                }
                _ => return Err(scan.corrupt(format!("keys are missing before offset {at}"))),
            };
            each(piece, &mut contents)?;
        }
    }
}
