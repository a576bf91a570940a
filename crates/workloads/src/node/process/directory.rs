//! The private directory of a pod whose containers are processes: volumes, the roots of its containers, logs (KAPI-WL-07).
//!
//! ```text
//!   UID/volumes/NAME/..data ─► ..DIGEST   the files of a volume, replaced at once as the kubelet does it
//!   UID/volumes/NAME/FILE ─► ..data/FILE
//!   UID/roots/CONTAINER/MOUNTPATH ─► UID/volumes/NAME      $MAINSTAY_ROOT is UID/roots/CONTAINER
//!   UID/logs/CONTAINER/RESTARTS.log
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::volumes::{File, Mount, Volume};

/// The directory of one pod, which only its owner may enter.
#[derive(Clone, Debug)]
pub struct Directory(PathBuf);

impl Directory {
    /// Names the directory of a pod below `base`; nothing is made.
    pub fn of(base: &Path, uid: &str) -> Self {
        Self(base.join(uid))
    }

    /// Makes the directory.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn make(&self) -> io::Result<()> {
        private(&self.0)
    }

    /// Returns the root of a container: `$MAINSTAY_ROOT`.
    pub fn root(&self, container: &str) -> PathBuf {
        self.0.join("roots").join(container)
    }

    /// Returns the directory of a container's logs.
    pub fn logs(&self, container: &str) -> PathBuf {
        self.0.join("logs").join(container)
    }

    /// Returns the path of a container's kubeconfig.
    pub fn kubeconfig(&self, container: &str) -> PathBuf {
        self.0.join("kubeconfigs").join(container)
    }

    /// Returns the directory of a volume.
    pub fn volume(&self, name: &str) -> PathBuf {
        self.0.join("volumes").join(name)
    }

    /// Writes the volumes; those that have not changed stay as they are.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn fill(&self, volumes: &BTreeMap<String, Volume>) -> io::Result<()> {
        for (name, volume) in volumes {
            let at = self.volume(name);
            private(&at)?;
            if let Volume::Files(files) = volume {
                replace(&at, files)?;
            }
        }
        Ok(())
    }

    /// Makes the root of a container, with its volumes at their mount paths.
    ///
    /// # Errors
    /// A path cannot be made.
    pub fn mount(&self, container: &str, mounts: &[Mount], volumes: &BTreeMap<String, Volume>) -> io::Result<()> {
        let root = self.root(container);
        private(&root)?;
        for mount in mounts {
            let at = root.join(&mount.path);
            if let Some(parent) = at.parent() {
                private(parent)?;
            }
            let mut target = self.volume(&mount.volume);
            if !mount.below.is_empty() {
                target = target.join(&mount.below);
                if volumes.get(&mount.volume) == Some(&Volume::Empty) && !target.exists() {
                    private(&target)?;
                }
            }
            if at.is_symlink() {
                fs::remove_file(&at)?;
            }
            symlink(&target, &at)?;
        }
        Ok(())
    }

    /// Writes a file that only its owner may read, making the directories that lead to it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
        if let Some(parent) = path.parent() {
            private(parent)?;
        }
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(content)
    }

    /// Removes the directory and everything in it.
    pub fn remove(&self) {
        if let Err(error) = fs::remove_dir_all(&self.0)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, path = %self.0.display(), "the directory of a pod stays");
        }
    }
}

/// Removes the directories of pods that are no longer there.
pub fn sweep(base: &Path, known: &BTreeSet<String>) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !known.contains(&name) {
            Directory::of(base, &name).remove();
        }
    }
}

fn private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Replaces the files of a volume at once: programs that look see all of the old ones or all of the new ones.
fn replace(at: &Path, files: &BTreeMap<String, File>) -> io::Result<()> {
    let mut digest = Sha256::new();
    for (path, file) in files {
        digest.update(format!("{}:{path}:{:o}:{}:", path.len(), file.mode, file.content.len()));
        digest.update(&file.content);
    }
    let name = format!("..{:.32x}", digest.finalize());
    let (data, present) = (at.join("..data"), at.join(&name));
    if fs::read_link(&data).is_ok_and(|target| target == Path::new(&name)) && present.is_dir() {
        return Ok(());
    }
    if present.exists() {
        fs::remove_dir_all(&present)?;
    }
    private(&present)?;
    for (path, file) in files {
        let place = present.join(path);
        if let Some(parent) = place.parent() {
            private(parent)?;
        }
        let mut made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&place)?;
        made.write_all(&file.content)?;
        made.set_permissions(Permissions::from_mode(file.mode))?;
    }
    let next = at.join("..data_tmp");
    if next.is_symlink() {
        fs::remove_file(&next)?;
    }
    symlink(&name, &next)?;
    fs::rename(&next, &data)?;
    let shown: BTreeSet<&str> = files.keys().filter_map(|path| path.split('/').next()).collect();
    for entry in fs::read_dir(at)? {
        let entry = entry?.file_name().to_string_lossy().into_owned();
        let stale = if entry.starts_with("..") { entry != "..data" && entry != name } else { !shown.contains(entry.as_str()) };
        let path = at.join(&entry);
        if stale && path.is_symlink() {
            fs::remove_file(path)?;
        } else if stale {
            fs::remove_dir_all(path)?;
        }
    }
    for name in shown {
        let path = at.join(name);
        if !path.is_symlink() {
            symlink(Path::new("..data").join(name), path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// KAPI-WL-07: the directory of a pod is its owner's alone; volumes are replaced as a whole, at their mount paths.
    #[test]
    fn volumes_are_written() {
        let base = tempfile::tempdir().unwrap();
        let directory = Directory::of(base.path(), "uid");
        directory.make().unwrap();
        let file = |text: &str, mode| File { content: text.as_bytes().to_vec(), mode };
        let volumes = |files: &[(&str, &str, u32)]| -> BTreeMap<String, Volume> {
            let files = files.iter().map(|(path, text, mode)| ((*path).to_owned(), file(text, *mode))).collect();
            [("v".to_owned(), Volume::Files(files)), ("e".to_owned(), Volume::Empty)].into()
        };
        let mount =
            |path: &str, volume: &str, below: &str| Mount { path: path.to_owned(), volume: volume.to_owned(), below: below.to_owned() };
        let first = volumes(&[("a", "1", 0o440), ("deep/b", "2", 0o755)]);
        directory.fill(&first).unwrap();
        let mounts = [mount("etc/v", "v", ""), mount("tmp/x", "e", "sub"), mount("etc/one", "v", "a")];
        directory.mount("c", &mounts, &first).unwrap();
        let root = directory.root("c");
        let read = |path: &str| fs::read_to_string(root.join(path)).ok();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(
            (read("etc/v/a").as_deref(), read("etc/v/deep/b").as_deref(), read("etc/one").as_deref()),
            (Some("1"), Some("2"), Some("1"))
        );
        assert_eq!((mode(&root.join("etc/v/a")), mode(&root.join("etc/v/deep/b"))), (0o440, 0o755));
        for private in [base.path().join("uid"), root.clone(), directory.volume("v"), directory.volume("e")] {
            assert_eq!(mode(&private), 0o700, "{}", private.display());
        }
        fs::write(root.join("tmp/x/kept"), "by the process").unwrap();
        let data = fs::read_link(directory.volume("v").join("..data")).unwrap();
        directory.fill(&first).unwrap();
        assert_eq!(fs::read_link(directory.volume("v").join("..data")).unwrap(), data, "unchanged files stay");

        directory.fill(&volumes(&[("a", "3", 0o440), ("c", "4", 0o400)])).unwrap();
        assert_eq!((read("etc/v/a").as_deref(), read("etc/v/deep/b"), read("etc/v/c").as_deref()), (Some("3"), None, Some("4")));
        assert_eq!(read("tmp/x/kept").as_deref(), Some("by the process"));
        // A second start of the container finds everything as it was.
        directory.mount("c", &mounts, &first).unwrap();
        sweep(base.path(), &BTreeSet::from(["uid".to_owned()]));
        assert!(root.exists());
        sweep(base.path(), &BTreeSet::new());
        assert!(!base.path().join("uid").exists());
    }
}
