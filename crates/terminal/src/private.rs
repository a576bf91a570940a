//! Files and directories that only their owner can read: data directories, caches, notes of clusters, logs (KAPI-SRV-09).
//!
//! Files of this program get their mode when they are created: [`by_default`] sets the mask of commands that write nothing else. If an
//! earlier version left files readable, [`own`] repairs them when the directory is used, from the top down, without following links: once a
//! directory is closed to others, no other user can exchange its content.

use std::ffi::CString;
use std::fs::{DirBuilder, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, chmodat, fchmod, fstat, openat, statat};

use crate::errors::{Exit, Failure, warn};

/// The permissions that remain in a mode when others have none.
const OWNER: u32 = 0o700;
/// The entries in the data directory of a cluster.
const CLUSTER: [&str; 7] = ["kubeconfig", "lock", "log", "olm-v1", "pki", "store", "store.redb"];
/// Maximum depth of directories that are followed; none of ours are deeper.
const DEEPEST: usize = 64;

/// Restricts everything that this process creates to its owner, independent of the caller's mask.
pub fn by_default() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}

/// Opens a file of this program to append to it; refuses a link in its place.
pub fn append(path: &Path) -> std::io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// Creates the data directory of a cluster unless it exists, and refuses one of another user. Removes the permissions of others to read it,
/// with a note. If it holds anything but the cluster, the directory and that entry keep their modes.
pub fn own_data(directory: &Path) -> Result<(), Failure> {
    own(directory, |name| CLUSTER.contains(&name) || name.starts_with("kubeconfig."))
}

/// Does the same for the directory of `registry serve`.
pub fn own_images(directory: &Path) -> Result<(), Failure> {
    own(directory, |name| matches!(name, "blobs" | "repositories.json"))
}

/// Does the same for a directory that holds nothing else by its nature.
pub fn own_all(directory: &Path) -> Result<(), Failure> {
    own(directory, |_| true)
}

fn own(directory: &Path, ours: impl Fn(&str) -> bool) -> Result<(), Failure> {
    let failed = |error: &std::io::Error| Failure::failed(format!("directory {}", directory.display()), error);
    DirBuilder::new().recursive(true).mode(OWNER).create(directory).map_err(|error| failed(&error))?;
    // The directory itself may be a link, because the user named it.
    let opened = File::open(directory).map_err(|error| failed(&error))?;
    let owner = opened.metadata().map_err(|error| failed(&error))?.uid();
    let us = rustix::process::geteuid().as_raw();
    if owner != us {
        let problem = format!("belongs to user {owner}, and this process runs as user {us}; nothing was changed");
        return Err(Failure::new(Exit::Failed, format!("directory {}", directory.display()), problem)
            .because("who owns a directory can read and exchange what lies in it, keys and Secrets among them")
            .hint(format!("chown -R {us} {}", directory.display())));
    }
    let beside = std::fs::read_dir(directory)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<Vec<_>, _>>())
        .map_err(|error| failed(&error))?
        .into_iter()
        .find(|name| !name.to_str().is_some_and(&ours));
    let Some(beside) = beside else { return close(opened, directory, us) };
    // Users who can write to the directory could exchange our files despite the mode of these, unless it is a directory like /tmp.
    let mode = opened.metadata().map_err(|error| failed(&error))?.mode();
    if mode & 0o022 != 0 && mode & 0o1000 == 0 {
        let problem = "can be written to by other users; nothing was changed";
        return Err(Failure::new(Exit::Failed, format!("directory {}", directory.display()), problem)
            .because(format!("it holds {} as well, so that its permissions are not for this program to change", beside.display()))
            .hint(format!("chmod go-w {}", directory.display())));
    }
    for entry in std::fs::read_dir(directory).map_err(|error| failed(&error))? {
        let path = entry.map_err(|error| failed(&error))?.path();
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        if path.file_name().and_then(|name| name.to_str()).is_some_and(&ours)
            && let Ok(opened) = openat(CWD, &path, flags, Mode::empty())
        {
            close(opened.into(), &path, us)?;
        }
    }
    Ok(())
}

/// Closes a cache of this user to others, with a note, if it exists and they can read it.
pub fn own_cache(directory: &Path) -> Result<(), Failure> {
    // A missing cache is created closed. An unreadable one is of no use to its user either, and another error reports it.
    let Ok(opened) = File::open(directory) else { return Ok(()) };
    let us = rustix::process::geteuid().as_raw();
    match opened.metadata() {
        Ok(metadata) if metadata.uid() == us && metadata.is_dir() && metadata.mode() & 0o077 != 0 => close(opened, directory, us),
        _ => Ok(()),
    }
}

fn close(opened: File, path: &Path, us: u32) -> Result<(), Failure> {
    let mended = mend(opened.into(), path, us).map_err(|(path, error)| Failure::failed(path.display().to_string(), &error))?;
    let of_it = match mended {
        0 => return Ok(()),
        1 => "it, or one entry of it".to_owned(),
        _ => format!("{mended} entries of it"),
    };
    warn(&path.display().to_string(), &format!("others could read {of_it}; now its owner alone can"));
    Ok(())
}

/// An error with the file or directory that it is about.
type Trouble = (PathBuf, std::io::Error);

/// A directory that waits for its repair. It is opened when its turn comes, so that only as many are open at once as are nested.
struct Waiting {
    parent: Rc<OwnedFd>,
    name: CString,
    path: PathBuf,
    depth: usize,
}

/// Removes the permissions of others on an open file, or on a directory and everything below it; returns the number of changed entries.
/// Entries of another user, and those that are neither file nor directory, stay as they are.
fn mend(top: OwnedFd, path: &Path, us: u32) -> Result<usize, Trouble> {
    let mut waiting = Vec::new();
    let mut mended = mend_one(top, path, 0, us, &mut waiting)?;
    while let Some(next) = waiting.pop() {
        // Its parent is closed to others by now, so that the name still stands for the same entry.
        match openat(&*next.parent, &next.name, READING | OFlags::DIRECTORY, Mode::empty()) {
            Ok(opened) => mended += mend_one(opened, &next.path, next.depth, us, &mut waiting)?,
            // Another process has removed or replaced it.
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR) => {}
            Err(error) => return Err(at(&next.path)(error)),
        }
    }
    Ok(mended)
}

/// Flags to open entries that only get another mode.
const READING: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

fn at(path: &Path) -> impl Fn(rustix::io::Errno) -> Trouble {
    let path = path.to_owned();
    move |error| (path.clone(), std::io::Error::from(error))
}

/// Repairs an open file, or a directory with the files in it; its directories are added to `waiting`.
fn mend_one(opened: OwnedFd, path: &Path, depth: usize, us: u32, waiting: &mut Vec<Waiting>) -> Result<usize, Trouble> {
    let found = fstat(&opened).map_err(at(path))?;
    if found.st_uid != us {
        return Ok(0);
    }
    let mut mended = usize::from(narrow(&opened).map_err(at(path))?);
    if !FileType::from_raw_mode(found.st_mode).is_dir() {
        return Ok(mended);
    }
    let directory = Rc::new(opened);
    for entry in Dir::read_from(&*directory).map_err(at(path))? {
        let entry = entry.map_err(at(path))?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let child = path.join(std::ffi::OsStr::new(&*name.to_string_lossy()));
        let found = match statat(&*directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            Err(rustix::io::Errno::NOENT) => continue,
            Err(error) => return Err(at(&child)(error)),
        };
        let kind = FileType::from_raw_mode(found.st_mode);
        if found.st_uid != us || depth > DEEPEST {
            continue;
        }
        if kind.is_dir() {
            waiting.push(Waiting { parent: directory.clone(), name: name.to_owned(), path: child, depth: depth + 1 });
        } else if kind.is_file() && found.st_mode & 0o7077 != 0 {
            match openat(&*directory, name, READING, Mode::empty()) {
                Ok(opened) => mended += usize::from(narrow(&opened).map_err(at(&child))?),
                // Not even its owner may read it. The directory is closed by now, so that the name still stands for the same entry.
                Err(rustix::io::Errno::ACCESS) => {
                    let mode = Mode::from_raw_mode(found.st_mode & OWNER);
                    chmodat(&*directory, name, mode, AtFlags::empty()).map_err(at(&child))?;
                    mended += 1;
                }
                // The entry is gone, or is a link by now; a link has no mode of its own.
                Err(rustix::io::Errno::NOENT | rustix::io::Errno::LOOP) => {}
                Err(error) => return Err(at(&child)(error)),
            }
        }
    }
    Ok(mended)
}

/// Removes the permissions of others; returns whether there were any.
fn narrow(opened: &OwnedFd) -> Result<bool, rustix::io::Errno> {
    let mode = fstat(opened)?.st_mode;
    if mode & 0o7077 == 0 {
        return Ok(false);
    }
    fchmod(opened, Mode::from_raw_mode(mode & OWNER)).map(|()| true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    /// KAPI-SRV-09: what others may read in a directory is taken from them, at any depth, and a link out of it changes nothing there.
    #[test]
    fn directories_are_mended() {
        let folder = tempfile::tempdir().unwrap();
        let (data, outside) = (folder.path().join("data"), folder.path().join("outside"));
        fs::create_dir_all(data.join("store/deep/deeper")).unwrap();
        fs::create_dir(&outside).unwrap();
        let files = ["log", "store/0.log", "store/deep/deeper/x"].map(|name| data.join(name));
        for file in files.iter().chain([&outside.join("theirs")]) {
            fs::write(file, "secret").unwrap();
            fs::set_permissions(file, fs::Permissions::from_mode(0o664)).unwrap();
        }
        fs::set_permissions(&files[1], fs::Permissions::from_mode(0o4755)).unwrap();
        for directory in [&data, &data.join("store"), &data.join("store/deep"), &data.join("store/deep/deeper"), &outside] {
            fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).unwrap();
        }
        symlink(&outside, data.join("store/out")).unwrap();
        symlink(outside.join("theirs"), data.join("kubeconfig")).unwrap();
        let us = rustix::process::geteuid().as_raw();
        let mended = || mend(File::open(&data).unwrap().into(), &data, us).unwrap();
        assert_eq!(mended(), 7);
        assert_eq!(mended(), 0, "nothing is left to do");
        assert_eq!(files.iter().map(|file| mode(file)).collect::<Vec<_>>(), [0o600, 0o700, 0o600]);
        assert_eq!((mode(&data), mode(&data.join("store")), mode(&data.join("store/deep/deeper"))), (0o700, 0o700, 0o700));
        assert_eq!((mode(&outside), mode(&outside.join("theirs"))), (0o777, 0o664), "what a link leads to is somebody else's");
        assert_eq!(mend(File::open(&data).unwrap().into(), &data, us + 1).unwrap(), 0, "so is what another user owns");
    }

    /// KAPI-SRV-09: a directory that holds something else, too, is not closed, nor is that; what others can write to is refused then.
    #[test]
    fn what_lies_beside_a_cluster_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let home = folder.path();
        for name in ["notes", "log"] {
            fs::write(home.join(name), "").unwrap();
            open(&home.join(name), 0o644);
        }
        open(home, 0o755);
        own_data(home).unwrap();
        assert_eq!((mode(home), mode(&home.join("notes")), mode(&home.join("log"))), (0o755, 0o644, 0o600));
        open(home, 0o777);
        assert!(own_data(home).is_err());
        open(home, 0o1777);
        own_data(home).unwrap();
        fs::remove_file(home.join("notes")).unwrap();
        own_data(home).unwrap();
        assert_eq!(mode(home), 0o700);
        own_data(&home.join("new/data")).unwrap();
        assert_eq!(mode(&home.join("new/data")), 0o700);
    }

    /// KAPI-SRV-09: the log is not written through a link.
    #[test]
    fn a_link_is_not_appended_to() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("log"));
        fs::write(&target, "").unwrap();
        symlink(&target, &link).unwrap();
        assert!(append(&link).is_err());
        append(&folder.path().join("other")).unwrap();
        assert_eq!(mode(&folder.path().join("other")) & 0o077, 0);
    }
}
