//! A disk in memory whose power can be cut, that can be full, and whose syncs can fail.
//!
//! What was written and not synced is on the plate or not, sector by sector; names that were not synced are there up to some point. After a failed
//! sync the pages count as clean, as on Linux: a later sync succeeds and does not write them. A failed sync of the folder leaves its names as they
//! were: visible to all, and on the plate up to some point.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::disk::{Disk, DiskFile};

const SECTOR: usize = 512;

#[derive(Clone)]
enum Change {
    Write(u64, Vec<u8>),
    Length(u64),
}

#[derive(Clone, Default)]
struct Inode {
    /// The bytes that reads see.
    cached: Vec<u8>,
    /// The bytes that are on the plate for sure.
    plate: Vec<u8>,
    /// The changes that the next sync brings there.
    dirty: Vec<Change>,
    /// The changes of a failed sync, of which any may be on the plate.
    doubtful: Vec<Change>,
}

#[derive(Clone)]
enum Naming {
    Set(String, usize),
    Remove(String),
}

#[derive(Clone, Default)]
struct World {
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    lasting: BTreeMap<String, usize>,
    namings: Vec<Naming>,
    chance: u64,
    full: bool,
    failing_syncs: u32,
    failing_folder_syncs: u32,
}

impl World {
    fn random(&mut self) -> u64 {
        // xorshift; a seed is never 0.
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance
    }

    fn rename(names: &mut BTreeMap<String, usize>, naming: &Naming) {
        match naming {
            Naming::Set(name, inode) => {
                names.retain(|_, other| other != inode);
                names.insert(name.clone(), *inode);
            }
            Naming::Remove(name) => {
                names.remove(name);
            }
        }
    }
}

/// The disk; clones of the `Arc` are the same one.
pub(super) struct Simulated(Mutex<World>);

impl Simulated {
    pub fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self(Mutex::new(World { chance: seed | 1, ..World::default() })))
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk after a power cut at this instant.
    pub fn cut(&self, seed: u64) -> Arc<Self> {
        let mut world = self.world().clone();
        world.chance = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let survived = world.random() as usize % (world.namings.len() + 1);
        let (mut names, namings) = (world.lasting.clone(), std::mem::take(&mut world.namings));
        namings[..survived].iter().for_each(|naming| World::rename(&mut names, naming));
        for inode in 0..world.inodes.len() {
            if !names.values().any(|named| *named == inode) {
                world.inodes[inode] = Inode::default();
                continue;
            }
            let Inode { plate, dirty, doubtful, .. } = std::mem::take(&mut world.inodes[inode]);
            let mut content = plate;
            for change in doubtful.iter().chain(&dirty) {
                match change {
                    Change::Length(length) if world.random().is_multiple_of(2) => content.resize(*length as usize, 0),
                    Change::Length(_) => {}
                    Change::Write(offset, bytes) => {
                        let (begin, end) = (*offset as usize, *offset as usize + bytes.len());
                        let mut at = begin;
                        while at < end {
                            let next = ((at / SECTOR + 1) * SECTOR).min(end);
                            if world.random().is_multiple_of(2) {
                                content.resize(content.len().max(next), 0);
                                content[at..next].copy_from_slice(&bytes[at - begin..next - begin]);
                            }
                            at = next;
                        }
                    }
                }
            }
            world.inodes[inode] = Inode { cached: content.clone(), plate: content, ..Inode::default() };
        }
        (world.lasting, world.names) = (names.clone(), names);
        (world.full, world.failing_syncs, world.failing_folder_syncs) = (false, 0, 0);
        Arc::new(Self(Mutex::new(world)))
    }

    /// The disk after the process was killed at this instant: the system lives, and has everything that was written.
    pub fn kill(&self) -> Arc<Self> {
        Arc::new(Self(Mutex::new(self.world().clone())))
    }

    /// Returns true if all bytes of a file are on the plate.
    pub fn is_synced(&self, name: &str) -> bool {
        let world = self.world();
        world.names.get(name).is_some_and(|inode| world.inodes[*inode].dirty.is_empty())
    }

    /// A file's bytes, as reads see them.
    pub fn content(&self, name: &str) -> Vec<u8> {
        let world = self.world();
        world.names.get(name).map(|inode| world.inodes[*inode].cached.clone()).unwrap_or_default()
    }

    /// Makes the disk full, or not.
    pub fn set_full(&self, full: bool) {
        self.world().full = full;
    }

    /// Makes the next `count` syncs of files fail.
    pub fn fail_syncs(&self, count: u32) {
        self.world().failing_syncs = count;
    }

    /// Makes the next `count` syncs of the folder fail.
    pub fn fail_folder_syncs(&self, count: u32) {
        self.world().failing_folder_syncs = count;
    }

    /// Changes a file's bytes without any write.
    pub fn damage(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut world = self.world();
        if let Some(inode) = world.names.get(name).copied() {
            change(&mut world.inodes[inode].cached);
            world.inodes[inode].plate = world.inodes[inode].cached.clone();
        }
    }
}

struct OpenInode(Arc<Simulated>, usize);

/// A handle of the disk, since `Disk` hands out files that hold it.
pub(super) struct Handle(pub Arc<Simulated>);

impl Disk for Handle {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.0.world().names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut world = self.0.world();
        world.inodes.push(Inode::default());
        let inode = world.inodes.len() - 1;
        world.names.insert(name.to_owned(), inode);
        world.namings.push(Naming::Set(name.to_owned(), inode));
        Ok(Arc::new(OpenInode(self.0.clone(), inode)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let inode = self.0.world().names.get(name).copied().ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(OpenInode(self.0.clone(), inode)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut world = self.0.world();
        let inode = world.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        world.names.insert(to.to_owned(), inode);
        world.namings.push(Naming::Set(to.to_owned(), inode));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut world = self.0.world();
        world.names.remove(name).ok_or(io::ErrorKind::NotFound)?;
        world.namings.push(Naming::Remove(name.to_owned()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut world = self.0.world();
        if world.failing_folder_syncs > 0 {
            world.failing_folder_syncs -= 1;
            return Err(io::Error::other("the plate does not answer"));
        }
        world.lasting = world.names.clone();
        world.namings.clear();
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from("simulated").join(name)
    }
}

impl DiskFile for OpenInode {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let world = self.0.world();
        let rest = world.inodes[self.1].cached.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut world = self.0.world();
        // A full disk accepts only a part.
        let taken = if world.full { world.random() as usize % bytes.len() } else { bytes.len() };
        let inode = &mut world.inodes[self.1];
        let end = offset as usize + taken;
        inode.cached.resize(inode.cached.len().max(end), 0);
        inode.cached[offset as usize..end].copy_from_slice(&bytes[..taken]);
        inode.dirty.push(Change::Write(offset, bytes[..taken].to_vec()));
        if taken < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync(&self) -> io::Result<()> {
        let mut world = self.0.world();
        let failing = world.failing_syncs > 0;
        world.failing_syncs = world.failing_syncs.saturating_sub(1);
        let inode = &mut world.inodes[self.1];
        let dirty = std::mem::take(&mut inode.dirty);
        if failing {
            inode.doubtful.extend(dirty);
            return Err(io::Error::other("the plate does not answer"));
        }
        for change in dirty {
            match change {
                Change::Length(length) => inode.plate.resize(length as usize, 0),
                Change::Write(offset, bytes) => {
                    let end = offset as usize + bytes.len();
                    inode.plate.resize(inode.plate.len().max(end), 0);
                    inode.plate[offset as usize..end].copy_from_slice(&bytes);
                }
            }
        }
        Ok(())
    }

    fn reserve(&self, length: u64) -> io::Result<()> {
        let mut world = self.0.world();
        if world.full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let inode = &mut world.inodes[self.1];
        if inode.cached.len() < length as usize {
            inode.cached.resize(length as usize, 0);
            inode.dirty.push(Change::Length(length));
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut world = self.0.world();
        let inode = &mut world.inodes[self.1];
        inode.cached.resize(length as usize, 0);
        inode.dirty.push(Change::Length(length));
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.world().inodes[self.1].cached.len() as u64)
    }
}
