//! The kubeconfig that `mainstay up` writes: everything embedded, readable by its owner alone.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::pki::PkiError;

/// A kubeconfig of one cluster and one user.
#[derive(Debug, Clone)]
pub struct Kubeconfig<'a> {
    /// Name of cluster and context.
    pub name: &'a str,
    /// `https://HOST:PORT`.
    pub server: &'a str,
    /// Name of the user entry.
    pub user: &'a str,
    /// The CA's certificate, PEM.
    pub ca: &'a str,
    /// The client certificate, PEM.
    pub certificate: &'a str,
    /// The client key, PEM.
    pub key: &'a str,
}

impl Kubeconfig<'_> {
    /// As YAML.
    pub fn render(&self) -> String {
        // JSON strings are YAML strings, whatever is in them.
        let text = |text: &str| Value::from(text).to_string();
        let (name, user, context) = (text(self.name), text(self.user), text(&format!("{}@{}", self.user, self.name)));
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: {name}\n  cluster:\n    server: {}\n    certificate-authority-data: {}\nusers:\n- name: {user}\n  \
             user:\n    client-certificate-data: {}\n    client-key-data: {}\ncontexts:\n- name: {context}\n  context:\n    cluster: \
             {name}\n    user: {user}\ncurrent-context: {context}\npreferences: {{}}\n",
            text(self.server),
            STANDARD.encode(self.ca),
            STANDARD.encode(self.certificate),
            STANDARD.encode(self.key),
        )
    }

    /// Writes it, mode 0600, in place of an older one.
    pub fn write(&self, path: &Path) -> Result<(), PkiError> {
        write_private(path, self.render().as_bytes())
    }
}

/// Writes a file that only its owner may read; readers see the old content or the new, never a part.
pub fn write_private(path: &Path, content: &[u8]) -> Result<(), PkiError> {
    let failed = |source| PkiError::Write { path: path.to_owned(), source };
    let mut partial = path.as_os_str().to_owned();
    partial.push(format!(".{}.partial", std::process::id()));
    let partial = std::path::PathBuf::from(partial);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // Never into a file that is there: it may be somebody else's, or lead elsewhere.
    let opened = match options.open(&partial) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => fs::remove_file(&partial).and_then(|()| options.open(&partial)),
        opened => opened,
    };
    let mut file = opened.map_err(failed)?;
    file.write_all(content).and_then(|()| file.sync_all()).map_err(failed)?;
    fs::rename(&partial, path).map_err(failed)
}
