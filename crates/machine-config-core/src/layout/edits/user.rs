//! The user `core`: keys and password; and the kubeconfig that no other user may read.

use super::{EditError, Live, Plan, Target, View, in_the_way};
use crate::layout::read::{File, Id};
use crate::layout::{account, with_password};

/// The kubeconfig of the kubelet, which others must not read.
const KUBECONFIG: &str = "/etc/kubernetes/kubeconfig";
const PASSWD: &str = "/etc/passwd";
const SHADOW: &str = "/etc/shadow";
const CORE: &str = "core";
/// Keys of the user `core` where a folder has several files of them, and where it does not.
const KEYS: &str = "/home/core/.ssh/authorized_keys.d/ignition";
const OLD_KEYS: &str = "/home/core/.ssh/authorized_keys";

impl<V: View> Plan<'_, V> {
    pub(super) fn kubeconfig(&mut self) -> Result<(), V::Error> {
        let is_ours = self.new.files.contains_key(KUBECONFIG);
        if let Live::File { mode } = self.disk.live(KUBECONFIG)?
            && !is_ours
            && mode != 0o600
            && let Some(content) = self.disk.read(KUBECONFIG)?
        {
            self.set(KUBECONFIG, Target::Content(content, 0o600));
        }
        Ok(())
    }

    /// Keys and password of the user `core`; a disk that has users and not this one is left alone, as upstream leaves it.
    pub(super) fn user(&mut self) -> Result<(), V::Error> {
        let passwd = self.disk.read(PASSWD)?.map(|text| String::from_utf8_lossy(&text).into_owned());
        if passwd.as_deref().is_some_and(|passwd| account(passwd, CORE).is_none()) {
            return Ok(());
        }
        if self.new.keys != self.old.keys {
            self.keys(passwd.is_some())?;
        }
        let changed = self.new.password != self.old.password;
        if changed && let Some(shadow) = self.disk.read(SHADOW)? {
            let shadow = String::from_utf8_lossy(&shadow).into_owned();
            let hash = self.new.password.as_deref().unwrap_or("*");
            if let (Some(text), Live::File { mode }) = (with_password(&shadow, CORE, hash), self.disk.live(SHADOW)?)
                && text != shadow
            {
                self.set(SHADOW, Target::Content(text.into_bytes(), mode));
            }
        }
        Ok(())
    }

    fn keys(&mut self, has_users: bool) -> Result<(), V::Error> {
        let keys: String = self.new.keys.iter().flatten().flat_map(|key| [key.as_str(), "\n"]).collect();
        let in_folder = self.reads_folders_of_keys()?;
        let path = if in_folder { KEYS } else { OLD_KEYS };
        if in_folder && has_users {
            // Nothing else lets anyone in there.
            for old in self.other_keys()? {
                self.set(old, Target::Absent);
            }
        }
        let owner = has_users.then(|| Id::Name(CORE.to_owned()));
        let file = File { mode: 0o600, user: owner.clone(), group: owner, content: keys.into_bytes() };
        let live = self.disk.live(path)?;
        if let Some(what) = in_the_way(&live) {
            return Err(EditError::InTheWay { path: path.to_owned(), what }.into());
        }
        self.set(path, Target::File(file));
        Ok(())
    }

    fn other_keys(&self) -> Result<Vec<String>, V::Error> {
        let mut paths = Vec::new();
        if matches!(self.disk.live(OLD_KEYS)?, Live::File { .. } | Live::Link(_)) {
            paths.push(OLD_KEYS.to_owned());
        }
        let folder = KEYS.rsplit_once('/').map_or(KEYS, |(folder, _)| folder);
        for name in self.disk.names(folder)? {
            let path = format!("{folder}/{name}");
            if path != KEYS && matches!(self.disk.live(&path)?, Live::File { .. } | Live::Link(_)) {
                paths.push(path);
            }
        }
        Ok(paths)
    }

    /// Returns whether the system's SSH server reads a folder of files with keys: Fedora CoreOS, RHEL 9 and what is made of them, and a tree
    /// that is no system at all.
    fn reads_folders_of_keys(&self) -> Result<bool, V::Error> {
        for path in ["/etc/os-release", "/usr/lib/os-release"] {
            let Some(text) = self.disk.read(path)? else { continue };
            let text = String::from_utf8_lossy(&text).into_owned();
            let value = |key: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
                line.map(|value| value.trim_matches('"').to_owned()).unwrap_or_default()
            };
            let (id, variant) = (value("ID"), value("VARIANT_ID"));
            let platform = value("PLATFORM_ID");
            return Ok((id == "fedora" && variant == "coreos")
                || id == "scos"
                || platform == "platform:el9"
                || value("VERSION_ID").starts_with("9."));
        }
        Ok(true)
    }
}
