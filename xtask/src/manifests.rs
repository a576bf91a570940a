//! CRD manifests, written from the types.

use std::fs;
use std::path::Path;

use anyhow::Context;

pub fn write(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    for manifest in mainstay_api::manifests()? {
        let path = folder.join(&manifest.file);
        let text = format!(
            "# Written by `cargo xtask manifests` from crates/api; do not edit.\n{}",
            mainstay_yaml::to_string(&manifest.definition)
        );
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        println!("{}", manifest.file);
    }
    Ok(())
}
