//! Unpacked archives of the recorded data.

use std::fs;
use std::path::PathBuf;

use mainstay_testing::data;

use crate::binary;

/// The folder that an archive of the recorded data unpacks to, unpacked once below the build folder.
#[track_caller]
pub fn unpacked(name: &str) -> Option<PathBuf> {
    let archive = data::path(&format!("{name}.tar.gz"))?;
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
