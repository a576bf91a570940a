//! Settings of container tools for this machine and user: the files that podman, skopeo and docker read.
//!
//! | what | where, the first or most particular first |
//! | --- | --- |
//! | credentials | `$REGISTRY_AUTH_FILE`, `$XDG_RUNTIME_DIR/containers/auth.json`, `$DOCKER_CONFIG/config.json`, `~/.config/containers/auth.json`, `~/.docker/config.json`, `~/.dockercfg` |
//! | mirrors, short names | `$CONTAINERS_REGISTRIES_CONF`, or `~/.config/containers/registries.conf`, or `/etc/containers/registries.conf`; then `registries.conf.d` of the machine and of the user |
//! | which images are let in | `~/.config/containers/policy.json`, or `/etc/containers/policy.json`; `registries.d` beside it says where signatures lie |
//! | authorities | `certs.d` below `~/.config/containers`, `/etc/containers`, `/etc/docker` |

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::auth::Credentials;
use crate::auth_file;
use crate::client::ClientConfig;
use crate::error::Error;
use crate::registries::Registries;
use crate::signature::SignatureFiles;

/// Places of settings.
#[derive(Debug, Clone)]
pub struct Settings {
    auth_files: Vec<PathBuf>,
    /// The one of `auth_files` that the environment names.
    named_auth_file: Option<PathBuf>,
    legacy_auth_file: Option<PathBuf>,
    registries: Vec<PathBuf>,
    drop_ins: Vec<PathBuf>,
    certificates: Vec<PathBuf>,
    signatures: SignatureFiles,
}

impl Settings {
    /// Returns the places for a user with these environment variables; `system` stands for `/etc`.
    pub fn of(variable: impl Fn(&str) -> Option<OsString>, system: &Path) -> Self {
        let folder = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = folder("HOME");
        let config = folder("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config"))).map(|config| config.join("containers"));
        let below = |folder: &Option<PathBuf>, path: &str| folder.as_ref().map(|folder| folder.join(path));
        let auth_files = [
            folder("REGISTRY_AUTH_FILE"),
            below(&folder("XDG_RUNTIME_DIR"), "containers/auth.json"),
            below(&folder("DOCKER_CONFIG"), "config.json"),
            below(&config, "auth.json"),
            below(&home, ".docker/config.json"),
        ];
        let registries =
            [folder("CONTAINERS_REGISTRIES_CONF"), below(&config, "registries.conf"), Some(system.join("containers/registries.conf"))];
        Self {
            named_auth_file: auth_files[0].clone().or_else(|| auth_files[2].clone()),
            auth_files: auth_files.into_iter().flatten().collect(),
            legacy_auth_file: below(&home, ".dockercfg"),
            registries: registries.into_iter().flatten().collect(),
            drop_ins: [Some(system.join("containers/registries.conf.d")), below(&config, "registries.conf.d")]
                .into_iter()
                .flatten()
                .collect(),
            certificates: [below(&config, "certs.d"), Some(system.join("containers/certs.d")), Some(system.join("docker/certs.d"))]
                .into_iter()
                .flatten()
                .collect(),
            signatures: SignatureFiles::of(home.as_deref(), system),
        }
    }

    /// Returns the files of the policy about signatures; they are read with each pull.
    pub fn signatures(&self) -> &SignatureFiles {
        &self.signatures
    }

    /// Loads the settings.
    pub fn load(&self) -> Result<ClientConfig, Error> {
        let registries = self.registries()?;
        let mut credentials = self.credentials()?;
        for helper in registries.credential_helpers() {
            credentials.ask_also(helper);
        }
        Ok(ClientConfig {
            credentials,
            registries,
            certificates: self.certificates.clone(),
            signatures: self.signatures.clone(),
            ..ClientConfig::default()
        })
    }

    /// Reads the credentials of the auth files; the first file that knows a registry counts.
    pub fn credentials(&self) -> Result<Credentials, Error> {
        let mut all = Credentials::default();
        if let Some(path) = &self.legacy_auth_file
            && let Some(text) = read_if_there(path)?
        {
            all.extend(Credentials::parse_legacy(&path.display().to_string(), &text)?);
        }
        for path in self.auth_files.iter().rev() {
            if let Some(text) = read_if_there(path)? {
                all.extend(Credentials::parse(&path.display().to_string(), &text)?);
            }
        }
        Ok(all)
    }

    /// Returns the auth files in their order of precedence.
    pub fn auth_files(&self) -> &[PathBuf] {
        &self.auth_files
    }

    /// Returns the auth file to keep a registry's password in: the first that has an entry for it, since that would count before any other; else
    /// the one that the environment names, or the user's own of Docker.
    pub fn login_file(&self, registry: &str) -> Result<Option<PathBuf>, Error> {
        for path in &self.auth_files {
            if auth_file::mentions(path, registry)? {
                return Ok(Some(path.clone()));
            }
        }
        Ok(self.named_auth_file.clone().or_else(|| self.auth_files.last().cloned()))
    }

    /// Reads the main file, and the changes of the drop-ins.
    pub fn registries(&self) -> Result<Registries, Error> {
        let parse = |path: &Path, text: &str| Registries::parse(&path.display().to_string(), text);
        let mut all = Registries::default();
        for path in &self.registries {
            if let Some(text) = read_if_there(path)? {
                all = parse(path, &text)?;
                break;
            }
        }
        for folder in &self.drop_ins {
            let Ok(entries) = fs::read_dir(folder) else { continue };
            let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>().map_err(Error::io(folder))?;
            paths.retain(|path| path.extension().is_some_and(|extension| extension == "conf"));
            paths.sort();
            for path in paths {
                if let Some(text) = read_if_there(&path)? {
                    all.extend(parse(&path, &text)?);
                }
            }
        }
        Ok(all)
    }
}

/// Reads a file's text; `None` if there is none, or none that this user may read.
fn read_if_there(path: &Path) -> Result<Option<String>, Error> {
    use std::io::ErrorKind as Kind;
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), Kind::NotFound | Kind::NotADirectory | Kind::PermissionDenied) => Ok(None),
        Err(error) => Err(Error::Io { path: path.to_owned(), source: error }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// OLM1-BUILD-11, OLM1-DISC-01: the files of podman and docker, in their order.
    #[test]
    fn the_files_of_container_tools() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let home = root.join("home");
        let variable = |name: &str| (name == "HOME").then(|| home.clone().into_os_string());
        let settings = Settings::of(variable, &root.join("etc"));
        assert_eq!(settings.credentials().unwrap(), Credentials::default());

        write(root, "home/.dockercfg", r#"{"old.example": {"auth": "YTpvbGQ="}, "quay.io": {"auth": "YTpvbGQ="}}"#);
        write(
            root,
            "home/.docker/config.json",
            r#"{"auths": {"quay.io": {"auth": "YTpkb2NrZXI="}, "hub.example": {"auth": "YTpkb2NrZXI="}}}"#,
        );
        write(root, "home/.config/containers/auth.json", r#"{"auths": {"quay.io": {"auth": "YTpwb2RtYW4="}}}"#);
        write(root, "etc/containers/registries.conf", "[[registry]]\nlocation = 'quay.io'\nblocked = true\n");
        write(
            root,
            "etc/containers/registries.conf.d/10-a.conf",
            "[[registry]]\nlocation = 'quay.io'\n[[registry.mirror]]\nlocation = 'm.example'\n",
        );
        write(root, "home/.config/containers/registries.conf.d/20-b.conf", "unqualified-search-registries = ['quay.io']\n");
        write(root, "etc/containers/registries.conf.d/README", "no TOML");
        let config = settings.load().unwrap();
        let password = |registry: &str| match config.credentials.find(registry, "a") {
            Some(crate::Credential::Basic { password, .. }) => password.clone(),
            other => format!("{other:?}"),
        };
        assert_eq!(
            (password("quay.io"), password("hub.example"), password("old.example")),
            ("podman".into(), "docker".into(), "old".into())
        );
        let reference = config.registries.reference("busybox").unwrap();
        let sources: Vec<String> =
            config.registries.sources(&reference).unwrap().iter().map(|source| source.reference.to_string()).collect();
        assert_eq!(sources, ["m.example/busybox", "quay.io/busybox"]);
        write(root, "home/.config/containers/registries.conf.d/30-c.conf", "[[registry]");
        let error = settings.load().unwrap_err().to_string();
        assert!(error.contains("30-c.conf: TOML parse error"), "{error}");
    }
}
