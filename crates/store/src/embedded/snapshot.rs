//! Snapshots: every key as of one revision, in one file. Segments of the log that hold nothing later are removed once it is there.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use super::disk::{Disk, DiskFile};
use super::file::{self, FILE_HEAD, FileHead, Found, Magic, Scan};
use super::index::{Index, Live, OpenFile, Place};
use crate::record::{self, Frame, Kind, Record};
use crate::{Error, KeyValue, Revision};

/// Approximate bytes of the records in one frame.
const FRAME_BYTES: usize = 256 << 10;

/// A snapshot that is being written.
pub(super) struct Snapshot<'a> {
    disk: &'a dyn Disk,
    name: String,
    file: Arc<dyn DiskFile>,
    number: u32,
    head: FileHead,
    end: u64,
    frame: Frame,
    count: u64,
    places: HashMap<Revision, Place>,
}

impl<'a> Snapshot<'a> {
    /// Begins the snapshot of a revision; `number` is its file number in places.
    pub fn begin(disk: &'a dyn Disk, revision: Revision, number: u32) -> io::Result<Self> {
        let name = file::snapshot_name(revision);
        let head = FileHead::new(revision, revision);
        let file = file::begin(disk, &name, &head, 0)?;
        let frame = Frame::new(Kind::State, revision);
        Ok(Self { disk, name, file, number, head, end: FILE_HEAD, frame, count: 0, places: HashMap::new() })
    }

    /// Adds a key; keys come in order.
    pub fn push(&mut self, kv: &KeyValue) -> io::Result<()> {
        let record = Record { deleted: false, key: &kv.key, value: &kv.value, created: kv.created, version: kv.version };
        self.frame.push_state(kv.modified, &record);
        if let Some((begin, length)) = self.frame.spans.last() {
            let place = Place::new(self.number, self.end + u64::from(*begin), *length);
            self.places.insert(kv.modified, place);
        }
        self.count += 1;
        if self.frame.len() >= FRAME_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.frame.spans.is_empty() {
            return Ok(());
        }
        let bytes = self.frame.finish(self.head.salt, self.end);
        self.file.write_at(bytes, self.end)?;
        // Synced little by little, so that commits do not wait behind many unwritten pages.
        self.file.sync()?;
        self.end += bytes.len() as u64;
        self.frame = Frame::new(Kind::State, self.head.revision);
        Ok(())
    }

    /// Completes the snapshot and gives it its name.
    pub fn finish(mut self) -> io::Result<Written> {
        self.flush()?;
        let mut end = Frame::new(Kind::End, self.head.revision);
        let bytes = end.finish_counting(self.head.salt, self.end, self.count as u32);
        self.file.write_at(bytes, self.end)?;
        let bytes = self.end + bytes.len() as u64;
        file::finish(self.disk, &self.name, &*self.file)?;
        Ok(Written { name: self.name, file: self.file, number: self.number, revision: self.head.revision, bytes, places: self.places })
    }

    /// Abandons the snapshot.
    pub fn discard(self) {
        // The next start removes what is left over.
        let _ = self.disk.remove(&format!("{}{}", self.name, file::UNFINISHED));
    }
}

/// A complete snapshot.
pub(super) struct Written {
    pub name: String,
    pub file: Arc<dyn DiskFile>,
    pub number: u32,
    pub revision: Revision,
    pub bytes: u64,
    pub places: HashMap<Revision, Place>,
}

/// Reads a snapshot into an empty index.
pub(super) fn load(disk: &dyn Disk, name: &str, number: u32) -> Result<(Index, u64), Error> {
    let file = disk.open(name).map_err(|source| Error::io(&disk.path(name), "opening", source))?;
    let mut scan = Scan::open(disk.path(name), Magic::Store, &*file)?;
    let mut index = Index::new(scan.head.revision);
    let mut count = 0;
    loop {
        let at = scan.offset;
        match scan.next()? {
            Found::Frame(head, body, offset) if head.kind == Kind::State => {
                let records = record::records(&head, &body).map_err(|problem| scan.corrupt(format!("{problem}, at offset {at}")))?;
                for (modified, record, begin, length) in records {
                    let value = bytes::Bytes::copy_from_slice(record.value);
                    let live = Live { value, created: record.created, modified, version: record.version };
                    index.load(record.key, live, Place::new(number, offset + u64::from(begin), length));
                    count += 1;
                }
            }
            Found::Frame(head, ..) if head.kind == Kind::End && head.count == count => break,
            _ => return Err(scan.corrupt(format!("the snapshot of revision {} breaks off at offset {at}", index.revision))),
        }
    }
    let bytes = scan.offset;
    index.files.insert(number, Arc::new(OpenFile { name: name.to_owned(), file }));
    Ok((index, bytes))
}
