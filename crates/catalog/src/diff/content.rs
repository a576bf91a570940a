//! The changes of one package between two catalogs, blob by blob.

use std::collections::{BTreeMap, BTreeSet};

use super::{BundleDiff, Change, ChannelDiff, DeprecationDiff, EntryDiff, FieldDiff, PackageDiff, Pair, SetDiff, others};
use crate::model::{Bundle, Channel, Entry, Package, Property};
use crate::parts::{Parts, Versions, version};
use crate::properties::{needs, provided};
use crate::reach::Updates;

/// Maximum length of a property value that is shown completely.
const SHOWN: usize = 160;

pub(super) fn package(name: &str, change: Change, old: &Parts<'_>, new: &Parts<'_>) -> PackageDiff {
    PackageDiff {
        package: name.to_owned(),
        change,
        fields: fields(old.package, new.package),
        channels: channels(old, new),
        bundles: bundles(old, new),
        deprecations: deprecations(old, new),
        others: others(&old.others, &new.others),
    }
}

fn fields(old: Option<&Package>, new: Option<&Package>) -> Vec<FieldDiff> {
    let icon = |package: &Package| {
        let icon = package.icon.as_ref()?;
        // Line breaks in base64 have no meaning.
        let data: String = icon.base64data.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        Some(format!("{} {:08x}", icon.mediatype, crc32fast::hash(data.as_bytes())))
    };
    let properties = |package: &Package| package.properties.iter().map(shown).collect::<Vec<_>>().join(", ");
    let mut found = Vec::new();
    let mut field = |name: &'static str, of: &dyn Fn(&Package) -> Option<String>| {
        if let Some(values) = Pair::of(old.and_then(of).as_deref(), new.and_then(of).as_deref()) {
            found.push(FieldDiff { field: name, values });
        }
    };
    field("defaultChannel", &|package| Some(package.default_channel.to_string()));
    field("description", &|package| Some(package.description.clone()));
    field("icon", &icon);
    field("properties", &|package| Some(properties(package)));
    found
}

fn channels(old: &Parts<'_>, new: &Parts<'_>) -> Vec<ChannelDiff> {
    let names: BTreeSet<&str> = old.channels.iter().chain(&new.channels).map(|channel| channel.name.as_str()).collect();
    let (then, now) = (old.versions(), new.versions());
    let differing = |name: &&str| {
        let (before, after) = (old.channel(name), new.channel(name));
        let entries = entries(before, after);
        let head = Pair::of(head(before, &then).as_deref(), head(after, &now).as_deref());
        let change = change(before, after);
        let properties = |channel: Option<&Channel>| channel.map(|channel| channel.properties.clone()).unwrap_or_default();
        let same = change == Change::Changed && entries.is_empty() && head.is_none() && properties(before) == properties(after);
        (!same).then(|| ChannelDiff { channel: (*name).to_owned(), change, head, entries })
    };
    names.iter().filter_map(differing).collect()
}

fn head(channel: Option<&Channel>, versions: &Versions<'_>) -> Option<String> {
    let updates = Updates::of(channel?, versions);
    updates.head().map(|head| updates.entry(head).name.to_string())
}

fn change<T>(old: Option<T>, new: Option<T>) -> Change {
    match (old, new) {
        (None, _) => Change::Added,
        (_, None) => Change::Removed,
        _ => Change::Changed,
    }
}

fn entries(old: Option<&Channel>, new: Option<&Channel>) -> Vec<EntryDiff> {
    fn by_name(channel: Option<&Channel>) -> BTreeMap<&str, &Entry> {
        channel.into_iter().flat_map(|channel| &channel.entries).map(|entry| (entry.name.as_str(), entry)).collect()
    }
    fn skips(entry: Option<&Entry>) -> impl Iterator<Item = &str> {
        entry.into_iter().flat_map(|entry| &entry.skips).map(crate::BundleName::as_str)
    }
    let (before, after) = (by_name(old), by_name(new));
    let mut found = Vec::new();
    for name in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
        let (then, now) = (before.get(name).copied(), after.get(name).copied());
        if then == now {
            continue;
        }
        let replaces = |entry: Option<&'_ Entry>| entry.and_then(|entry| entry.replaces.as_ref()).map(ToString::to_string);
        let range = |entry: Option<&'_ Entry>| entry.and_then(|entry| entry.skip_range.clone());
        let diff = EntryDiff {
            bundle: (*name).to_owned(),
            change: change(then, now),
            replaces: Pair::of(replaces(then).as_deref(), replaces(now).as_deref()),
            skips: SetDiff::of(skips(then), skips(now)),
            skip_range: Pair::of(range(then).as_deref(), range(now).as_deref()),
        };
        // The order of skips has no meaning.
        if diff.change != Change::Changed || diff.replaces.is_some() || !diff.skips.is_empty() || diff.skip_range.is_some() {
            found.push(diff);
        }
    }
    found
}

fn bundles(old: &Parts<'_>, new: &Parts<'_>) -> Vec<BundleDiff> {
    fn by_name<'a>(parts: &Parts<'a>) -> BTreeMap<&'a str, &'a Bundle> {
        parts.bundles.iter().map(|bundle| (bundle.name.as_str(), *bundle)).collect()
    }
    let (before, after) = (by_name(old), by_name(new));
    let mut found = Vec::new();
    for name in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
        let (then, now) = (before.get(name).copied(), after.get(name).copied());
        if let Some(diff) = bundle(name, then, now) {
            found.push((now.or(then).and_then(version), diff));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.bundle.cmp(&b.1.bundle)));
    found.into_iter().map(|(_, diff)| diff).collect()
}

pub(super) fn bundle(name: &str, old: Option<&Bundle>, new: Option<&Bundle>) -> Option<BundleDiff> {
    let change = change(old, new);
    let images = |bundle: Option<&Bundle>| {
        let images = bundle.map(|bundle| bundle.related_images.clone()).unwrap_or_default();
        images.into_iter().map(|image| if image.name.is_empty() { image.image } else { format!("{} ({})", image.image, image.name) })
    };
    let provides = |bundle: Option<&Bundle>| bundle.map(provided).unwrap_or_default();
    let needs = |bundle: Option<&Bundle>| bundle.map(needs).unwrap_or_default();
    let mut diff = BundleDiff {
        bundle: name.to_owned(),
        version: new.or(old).and_then(version).map(|version| version.to_string()),
        change,
        image: Pair::of(old.map(|bundle| bundle.image.as_str()), new.map(|bundle| bundle.image.as_str())),
        properties: SetDiff::default(),
        provides: SetDiff::of(provides(old), provides(new)),
        needs: SetDiff::of(needs(old), needs(new)),
        related_images: SetDiff::of(images(old), images(new)),
    };
    if let (Some(old), Some(new)) = (old, new) {
        diff.properties = properties(old, new);
        let same = diff.image.is_none() && diff.properties.is_empty() && diff.related_images.is_empty();
        if same {
            return None;
        }
    }
    Some(diff)
}

/// Compares the properties of a bundle that is in both catalogs. Values are compared completely, and shown shortened.
fn properties(old: &Bundle, new: &Bundle) -> SetDiff {
    if old.properties == new.properties {
        return SetDiff::default();
    }
    let all = |bundle: &Bundle| bundle.properties.iter().map(|p| (p.kind.clone(), canonical(p))).collect::<BTreeSet<_>>();
    let (then, now) = (all(old), all(new));
    let only = |of: &BTreeSet<(String, String)>, other: &BTreeSet<(String, String)>| {
        of.difference(other).map(|(kind, value)| short(kind, value)).collect()
    };
    SetDiff { added: only(&now, &then), removed: only(&then, &now) }
}

/// A value with sorted keys, since the order of keys has no meaning.
fn canonical(property: &Property) -> String {
    match serde_json::from_str::<serde_json::Value>(property.value.get()) {
        Ok(value) => value.to_string(),
        Err(_) => property.value.get().to_owned(),
    }
}

fn shown(property: &Property) -> String {
    short(&property.kind, &canonical(property))
}

fn short(kind: &str, value: &str) -> String {
    if value.len() <= SHOWN {
        return format!("{kind}: {value}");
    }
    format!("{kind}: {} bytes, checksum {:08x}", value.len(), crc32fast::hash(value.as_bytes()))
}

fn deprecations(old: &Parts<'_>, new: &Parts<'_>) -> Vec<DeprecationDiff> {
    let (then, now) = (old.deprecated(), new.deprecated());
    let mut found = Vec::new();
    for reference in then.keys().chain(now.keys()).collect::<BTreeSet<_>>() {
        let (before, after) = (then.get(*reference).copied(), now.get(*reference).copied());
        if let Some(message) = Pair::of(before, after) {
            found.push(DeprecationDiff {
                schema: reference.schema.clone(),
                name: reference.name.clone(),
                change: change(before, after),
                message,
            });
        }
    }
    found
}
