//! Writes the seeds of every target into FOLDER/TARGET, for libFuzzer.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use mainstay_fuzz::TARGETS;

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| "fuzz/corpus".into()));
    for target in TARGETS {
        let folder = folder.join(target.name);
        std::fs::create_dir_all(&folder)?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number}")), seed)?;
        }
    }
    Ok(())
}
