//! CRD manifests, written from the types.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use mainstay_api::Manifest;

use crate::embedded::Tables;

/// Writes all manifests; `root` is the project's folder.
pub fn write(root: &Path) -> Result<()> {
    let folder = root.join("crates/api/manifests");
    write_into(&folder, &mainstay_api::manifests()?)?;
    write_into(&folder.join("classic"), &classic(root)?)?;
    write_into(&folder.join("platform"), &platform(root)?)?;
    write_into(&folder.join("machine"), &mainstay_api::machine_definitions())?;
    write_into(&folder.join("machine-config"), &machine_config(root)?)?;
    write_into(&folder.join("release"), &mainstay_api::release_definitions())
}

/// The definitions of OLM classic with Kubernetes' types in them.
pub fn classic(root: &Path) -> Result<Vec<Manifest>> {
    embedded(root, mainstay_api::classic_definitions())
}

/// The definitions of the platform's kinds with Kubernetes' types in them.
pub fn platform(root: &Path) -> Result<Vec<Manifest>> {
    embedded(root, mainstay_api::platform_definitions())
}

/// The definitions of nodes' configuration with Kubernetes' types in them.
pub fn machine_config(root: &Path) -> Result<Vec<Manifest>> {
    embedded(root, mainstay_api::machine_config_definitions())
}

fn embedded(root: &Path, mut manifests: Vec<Manifest>) -> Result<Vec<Manifest>> {
    let path = root.join("crates/kinds/facts/definitions.json");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let tables = Tables::read(&text)?;
    for manifest in &mut manifests {
        tables.embed(&mut manifest.definition).with_context(|| manifest.file.clone())?;
    }
    Ok(manifests)
}

fn write_into(folder: &Path, manifests: &[Manifest]) -> Result<()> {
    fs::create_dir_all(folder)?;
    for manifest in manifests {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The manifests of OLM classic, of the platform, of nodes' configuration and of releases that are checked in are those that the types and Kubernetes' tables give.
    #[test]
    fn manifests_are_up_to_date() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        compare(classic(root).unwrap(), &mainstay_api::classic_manifests().unwrap());
        compare(platform(root).unwrap(), &mainstay_api::platform_manifests().unwrap());
        compare(mainstay_api::machine_definitions(), &mainstay_api::machine_manifests().unwrap());
        compare(machine_config(root).unwrap(), &mainstay_api::machine_config_manifests().unwrap());
        compare(mainstay_api::release_definitions(), &mainstay_api::release_manifests().unwrap());
    }

    fn compare(mut wanted: Vec<Manifest>, held: &[Manifest]) {
        wanted.sort_by(|a, b| a.file.cmp(&b.file));
        assert_eq!(held.len(), wanted.len());
        for (held, wanted) in held.iter().zip(&wanted) {
            assert_eq!(held.file, wanted.file);
            assert!(held.definition == wanted.definition, "{} is not what the types give: run cargo xtask manifests", held.file);
        }
    }
}
