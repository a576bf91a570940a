//! The place that a text names.

use std::path::{Path, PathBuf};

use mainstay_oci::{Layout, Platform, is_archive};

use crate::error::ReadError;
use crate::{Limits, Release, folder, image, tar};

/// The place of a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A folder with the two folders, or with the files themselves.
    Folder(PathBuf),
    /// An OCI layout, and the name of the image in it; none if it is the only one.
    Layout(PathBuf, Option<String>),
    /// A tar file: an archive of images with the image's name, or a payload's files.
    File(PathBuf, Option<String>),
    /// A tar stream from standard input.
    Input,
    /// An image of a registry, as the user names it.
    Image(String),
}

impl Place {
    /// Returns the place that a text names: what exists on this machine is taken for that, `-` for standard input, everything else for an image.
    pub fn parse(text: &str) -> Result<Self, ReadError> {
        if text == "-" {
            return Ok(Self::Input);
        }
        let path = Path::new(text);
        if path.is_dir() {
            return Ok(if is_layout(path) { Self::Layout(path.to_owned(), None) } else { Self::Folder(path.to_owned()) });
        }
        if path.exists() {
            return Ok(Self::File(path.to_owned(), None));
        }
        // Names of images have colons too, so the first one that ends a path counts.
        for (at, _) in text.match_indices(':') {
            let (path, name) = (Path::new(&text[..at]), Some(text[at + 1..].to_owned()));
            if is_layout(path) {
                return Ok(Self::Layout(path.to_owned(), name));
            }
            if path.is_file() {
                return Ok(Self::File(path.to_owned(), name));
            }
        }
        if text.starts_with(['.', '/', '~']) {
            return Err(ReadError::NoFile(text.to_owned()));
        }
        Ok(Self::Image(text.to_owned()))
    }

    /// Reads what lies on this machine. Blocks.
    pub(crate) fn read(&self, limits: &Limits) -> Result<Release, ReadError> {
        match self {
            Self::Folder(path) => Ok(Release { files: folder(path)?, image: None }),
            Self::Layout(path, name) => {
                let subject = shown(path, name.as_deref());
                let layout = Layout::open(path).map_err(|error| ReadError::image(&subject, error))?;
                image::of_layout(&layout, name.as_deref(), &subject, limits)
            }
            Self::File(path, name) => {
                let subject = shown(path, name.as_deref());
                if !is_archive(path).map_err(|error| ReadError::image(&subject, error))? {
                    return Err(ReadError::NoPayload(subject));
                }
                tar::of_file(path, name.as_deref(), &subject, limits)
            }
            Self::Input => tar(std::io::stdin().lock(), limits),
            Self::Image(text) => Err(ReadError::NoFile(text.clone())),
        }
    }
}

fn is_layout(directory: &Path) -> bool {
    directory.join("oci-layout").is_file() && directory.join("index.json").is_file()
}

fn shown(path: &Path, name: Option<&str>) -> String {
    name.map_or_else(|| path.display().to_string(), |name| format!("{}:{name}", path.display()))
}

/// The platform that is chosen where a list offers several: payloads are the same on all of them.
pub(crate) fn platform() -> Platform {
    Platform { os: "linux".to_owned(), architecture: "amd64".to_owned(), variant: None }
}

/// Returns the value of a task that is never cancelled; a panic goes on in the caller.
pub(crate) fn joined<T>(outcome: Result<T, tokio::task::JoinError>) -> T {
    match outcome {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => unreachable!("blocking tasks are not cancelled"),
        },
    }
}
