//! Assembly of the kept blobs, in the order of the catalog.

use std::collections::BTreeMap;

use super::Filtered;
use super::picks::{KeptPackages, Picks};
use crate::model::{Catalog, Channel, ChannelName, Deprecation, Deprecations, Package, SCHEMA_BUNDLE, SCHEMA_CHANNEL};
use crate::parts::Parts;

pub(super) fn assemble(catalog: &Catalog, packages: &BTreeMap<&str, Parts<'_>>, picks: &Picks, kept: &KeptPackages<'_>) -> Filtered {
    let mut notices = picks.notices.clone();
    let mut out = Catalog::default();
    for (name, of) in kept {
        notices.extend(of.notices.iter().cloned());
        let Some(parts) = packages.get(name) else { continue };
        if let Some(package) = parts.package {
            let default_channel = of.default_channel.map_or_else(|| package.default_channel.clone(), ChannelName::from);
            out.packages.push(Package { default_channel, ..package.clone() });
        }
        for (updates, stays) in &of.channels {
            let entries = (0..updates.len()).filter(|at| stays.entries[*at]).map(|at| updates.entry(at).clone()).collect();
            out.channels.push(Channel { entries, ..updates.channel.clone() });
        }
        let stays = |deprecation: &&Deprecation| {
            let name = deprecation.reference.name.as_str();
            match deprecation.reference.schema.as_str() {
                SCHEMA_CHANNEL => of.channels.iter().any(|(updates, _)| updates.channel.name.as_str() == name),
                SCHEMA_BUNDLE => of.bundles.contains(name),
                _ => true,
            }
        };
        for deprecations in &parts.deprecations {
            let entries: Vec<Deprecation> = deprecations.entries.iter().filter(stays).cloned().collect();
            if !entries.is_empty() {
                out.deprecations.push(Deprecations { package: deprecations.package.clone(), entries });
            }
        }
    }
    let is_kept = |package: &str| kept.get(package);
    out.bundles = catalog
        .bundles
        .iter()
        .filter(|bundle| is_kept(bundle.package.as_str()).is_some_and(|of| of.bundles.contains(bundle.name.as_str())))
        .cloned()
        .collect();
    // Blobs without a package belong to the catalog.
    out.others = catalog.others.iter().filter(|other| other.package.is_empty() || is_kept(&other.package).is_some()).cloned().collect();
    notices.sort();
    notices.dedup();
    Filtered { catalog: out, notices }
}
