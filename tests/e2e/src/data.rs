//! The shared data beside the checkout.

use std::fs;
use std::path::PathBuf;

use crate::{binary, skip};

/// A file or folder of the shared data. Where it is absent: a failure in CI, elsewhere a visible skip.
#[track_caller]
pub fn shared(name: &str) -> Option<PathBuf> {
    let path = binary::root().join("../shared").join(name);
    if path.exists() {
        return Some(path);
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{} is not there, and CI=true", path.display());
    skip(&format!("../shared/{name} is not there"));
    None
}

/// The folder that an archive of the shared data unpacks to, unpacked once below the build folder.
#[track_caller]
pub fn unpacked(name: &str) -> Option<PathBuf> {
    let archive = shared(&format!("data/{name}.tar.gz"))?;
    let real = binary::root().join("target/real");
    let folder = real.join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    let unpack = || -> std::io::Result<()> {
        fs::create_dir_all(&real)?;
        let aside = tempfile::Builder::new().prefix(".unpack-").tempdir_in(&real)?;
        tar::Archive::new(flate2::read::GzDecoder::new(fs::File::open(&archive)?)).unpack(aside.path())?;
        match fs::rename(aside.path().join(name), &folder) {
            // Another test was faster.
            Err(_) if folder.is_dir() => Ok(()),
            other => other,
        }
    };
    if let Err(error) = unpack() {
        panic!("{} cannot be unpacked: {error}", archive.display());
    }
    Some(folder)
}
