//! The files that decide which images are let in; they are read again each time.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::Rejection;
use super::places::Places;
use super::policy::Policy;
use super::requirement::Material;
use crate::error::Error;

/// The largest policy, key or certificate file, in bytes.
const MAX_FILE: u64 = 4 << 20;
const MAX_FILES: usize = 1024;

/// Places of the policy about signatures, and of the settings for signature stores. By default there are none: every image is let in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SignatureFiles {
    /// Possible places of a `policy.json`; the first existing one counts. Without any, every image is let in.
    pub policies: Vec<PathBuf>,
    /// Possible places of a folder `registries.d`; the first existing one counts.
    pub places: Vec<PathBuf>,
    /// The folder of signatures that is used if `registries.d` names no other.
    pub lookaside: Option<PathBuf>,
}

impl SignatureFiles {
    /// Returns the places of container tools, for a user with this home; `system` stands for `/etc`.
    pub fn of(home: Option<&Path>, system: &Path) -> Self {
        let own = |path: &str| home.map(|home| home.join(path));
        let lookaside = if rustix::process::geteuid().is_root() {
            Some(PathBuf::from("/var/lib/containers/sigstore"))
        } else {
            own(".local/share/containers/sigstore")
        };
        Self {
            policies: own(".config/containers/policy.json").into_iter().chain([system.join("containers/policy.json")]).collect(),
            places: own(".config/containers/registries.d").into_iter().chain([system.join("containers/registries.d")]).collect(),
            lookaside,
        }
    }

    /// Returns true if there is a policy.
    pub fn has_policy(&self) -> bool {
        self.policies.iter().any(|path| path.exists())
    }

    /// Reads the current policy. A policy that cannot be read lets nothing in.
    pub(crate) fn policy(&self) -> Result<Option<Policy>, Error> {
        for path in &self.policies {
            if let Some(text) = read_if_there(path)? {
                return Policy::parse(&path.display().to_string(), &text).map(Some);
            }
        }
        Ok(None)
    }

    /// Reads the current `registries.d`.
    pub(crate) fn places(&self) -> Result<Places, Error> {
        let mut places = Places::default();
        for folder in &self.places {
            let entries = match fs::read_dir(folder) {
                Ok(entries) => entries,
                Err(error) if is_absent(&error) => continue,
                Err(error) => return Err(Error::Io { path: folder.clone(), source: error }),
            };
            let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>().map_err(Error::io(folder))?;
            paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
            paths.sort();
            if paths.len() > MAX_FILES {
                return Err(Error::Limit { subject: folder.display().to_string(), what: "number of files", limit: MAX_FILES as u64 });
            }
            for path in paths {
                // A file that was removed after it was listed has no entries.
                if let Some(text) = read_if_there(&path)? {
                    let subject = path.display().to_string();
                    let text = String::from_utf8(text)
                        .map_err(|_| Error::Configuration { subject: subject.clone(), problem: "no UTF-8 text".to_owned() })?;
                    places.add(&subject, &text)?;
                }
            }
            break;
        }
        Ok(places)
    }
}

impl Material {
    /// Reads the keys or certificates.
    pub(super) fn read(&self) -> Result<Vec<u8>, Rejection> {
        match self {
            Self::Inline(bytes) => Ok(bytes.clone()),
            Self::File(path) => match read_if_there(path) {
                Ok(Some(bytes)) => Ok(bytes),
                Ok(None) => Err(Rejection(format!("open {}: no such file or directory", path.display()))),
                Err(error) => Err(Rejection(error.to_string())),
            },
        }
    }

    /// Returns their place, to be added to an error.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Inline(_) => String::new(),
            Self::File(path) => format!(" in {}", path.display()),
        }
    }
}

/// Reads a file's content; `None` if there is none.
pub(crate) fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(Error::Io { path: path.to_owned(), source: error }),
    };
    let mut content = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut content).map_err(Error::io(path))?;
    if content.len() as u64 > MAX_FILE {
        return Err(Error::Limit { subject: path.display().to_string(), what: "size in bytes", limit: MAX_FILE });
    }
    Ok(Some(content))
}

fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}
