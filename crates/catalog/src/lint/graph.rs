//! Rules about one channel: paths to the head, edges, ranges.

use std::collections::BTreeMap;

use mainstay_versions::{CatalogRange, Version};

use super::{Report, Rule, Subject, Subjects};
use crate::model::{BundleName, Channel};
use crate::reach::{Edges, Updates};

/// The longest value of a label.
const MAX_NAME: usize = 63;

pub(super) fn check(package: &Subjects<'_>, channel: &Channel, report: &mut Report<'_>) {
    let name = channel.name.as_str();
    if !is_label(name) {
        report.add(Rule::ChannelName, Subject::channel(package.name, name), format!("name {name:?} cannot be a value of a label"));
    }
    let updates = Updates::of(channel, &package.versions);
    // Without exactly one head, paths have no target; validation reports that.
    if let Some(head) = updates.head() {
        unreachable(package, &updates, head, report);
        shadowed(package, &updates, head, report);
    }
    let spellings: BTreeMap<String, &str> = package.versions.keys().map(|name| (spelling(name), *name)).collect();
    for at in 0..updates.len() {
        backwards(package, &updates, at, report);
        misspelt(package, &updates, at, &spellings, report);
        range(package, &updates, at, report);
    }
    newer(package, &updates, report);
}

fn is_label(name: &str) -> bool {
    let end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    bytes.len() <= MAX_NAME
        && end(bytes.first())
        && end(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn unreachable(package: &Subjects<'_>, updates: &Updates<'_>, head: usize, report: &mut Report<'_>) {
    let by_name = updates.reaching(head, Edges::Named);
    if by_name.iter().all(|reached| *reached) {
        return;
    }
    let reached = updates.reaching(head, Edges::Resolver);
    for at in (0..updates.len()).filter(|at| !reached[*at]) {
        let name = updates.entry(at).name.as_str();
        let last = updates
            .reachable(updates.installed(at), Edges::Resolver)
            .into_iter()
            .max_by(|a, b| updates.version(*a).cmp(&updates.version(*b)));
        let ends = match last {
            Some(last) => format!("updates from it end at {}", updates.entry(last).name),
            None => "no entry updates it".to_owned(),
        };
        let message = format!("{ends}; the head is {}", updates.entry(head).name);
        report.add(Rule::Unreachable, Subject::entry(package.name, updates.channel.name.as_str(), name), message);
    }
}

fn shadowed(package: &Subjects<'_>, updates: &Updates<'_>, head: usize, report: &mut Report<'_>) {
    let entry = updates.entry(head);
    let Some(range) = entry.skip_range.as_deref().and_then(|range| CatalogRange::parse(range).ok()) else { return };
    let mut between = 0;
    for at in (0..updates.len()).filter(|at| *at != head) {
        match updates.version(at) {
            Some(version) if range.matches(version) => {}
            _ => return,
        }
        let skipped = entry.skips.contains(&updates.entry(at).name);
        let replaced = entry.replaces.as_ref() == Some(&updates.entry(at).name);
        between += usize::from(!skipped && !replaced);
    }
    if between > 0 {
        let message = format!("skipRange \"{range}\" of the head covers all {} older entries", updates.len() - 1);
        report.add(Rule::SkipRangeShadows, Subject::entry(package.name, updates.channel.name.as_str(), entry.name.as_str()), message);
    }
}

fn backwards(package: &Subjects<'_>, updates: &Updates<'_>, at: usize, report: &mut Report<'_>) {
    let entry = updates.entry(at);
    let Some(own) = updates.version(at) else { return };
    let named = entry.replaces.iter().map(|name| ("replaces", name)).chain(entry.skips.iter().map(|name| ("skips", name)));
    for (word, name) in named {
        let Some(Some(other)) = package.versions.get(name.as_str()) else { continue };
        if *name != entry.name && other.cmp_precedence(own).is_ge() {
            let message = format!("version {own} {word} {name}, which is {other}");
            report.add(Rule::EdgeBackwards, Subject::entry(package.name, updates.channel.name.as_str(), entry.name.as_str()), message);
        }
    }
}

/// A name without the characters that are often mistyped.
fn spelling(name: &str) -> String {
    let lower = name.to_ascii_lowercase().replace(".v", ".");
    lower.chars().filter(char::is_ascii_alphanumeric).collect()
}

fn misspelt(package: &Subjects<'_>, updates: &Updates<'_>, at: usize, spellings: &BTreeMap<String, &str>, report: &mut Report<'_>) {
    let entry = updates.entry(at);
    let subject = Subject::entry(package.name, updates.channel.name.as_str(), entry.name.as_str());
    for name in entry.replaces.iter().chain(&entry.skips).map(BundleName::as_str) {
        if package.versions.contains_key(name) {
            continue;
        }
        if let Some(meant) = spellings.get(&spelling(name)) {
            report.add(Rule::Misspelt, subject, format!("names {name}, which does not exist; the package has {meant}"));
        }
    }
    let Some(replaces) = entry.replaces.as_ref().map(BundleName::as_str) else { return };
    let older = |other: usize| updates.version(other).zip(updates.version(at)).is_some_and(|(other, own)| other < own);
    if updates.position(replaces).is_none() && package.versions.contains_key(replaces) && (0..updates.len()).any(older) {
        let skips_older = (0..updates.len())
            .filter(|other| older(*other))
            .all(|other| updates.edge(updates.installed(other), at, Edges::Resolver).is_some());
        if !skips_older {
            report.add(Rule::EdgeOtherChannel, subject, format!("replaces {replaces}, which is in the package but not in the channel"));
        }
    }
}

fn range(package: &Subjects<'_>, updates: &Updates<'_>, at: usize, report: &mut Report<'_>) {
    let entry = updates.entry(at);
    let Some(text) = entry.skip_range.as_deref() else { return };
    // Validation reports ranges that cannot be parsed.
    let Ok(range) = CatalogRange::parse(text) else { return };
    let subject = Subject::entry(package.name, updates.channel.name.as_str(), entry.name.as_str());
    if is_empty(text, &range) {
        report.add(Rule::SkipRangeEmpty, subject, format!("skipRange \"{text}\" contains no version"));
        return;
    }
    let Some(own) = updates.version(at) else { return };
    let mut older = package.versions.values().flatten().filter(|version| version.cmp_precedence(own).is_lt()).peekable();
    if older.peek().is_some() && !older.any(|version| range.matches(version)) {
        report.add(Rule::SkipRangeUnmatched, subject, format!("skipRange \"{text}\" contains no version of the package below {own}"));
    }
}

/// Ranges that contain newer entries; one finding for a channel, since such ranges are copied from release to release.
fn newer(package: &Subjects<'_>, updates: &Updates<'_>, report: &mut Report<'_>) {
    let newer_than = |at: usize| {
        let own = updates.version(at)?;
        let range = updates.range(at)?;
        let mut others = (0..updates.len()).filter_map(|other| Some((updates.version(other)?, other)));
        let (_, found) = others.find(|(version, _)| version.cmp_precedence(own).is_gt() && range.matches(version))?;
        Some((own, at, found))
    };
    let all: Vec<_> = (0..updates.len()).filter_map(newer_than).collect();
    let Some((own, at, other)) = all.iter().max_by_key(|(own, ..)| *own) else { return };
    let entry = updates.entry(*at);
    let mut message = format!(
        "skipRange \"{}\" contains {}, newer than {own}",
        entry.skip_range.as_deref().unwrap_or_default(),
        updates.entry(*other).name
    );
    if all.len() > 1 {
        message = format!("{message} (so it is with {} of {} entries; this is the newest)", all.len(), updates.len());
    }
    report.add(Rule::SkipRangeNewer, Subject::entry(package.name, updates.channel.name.as_str(), entry.name.as_str()), message);
}

/// Returns true if a range contains no version. The result of a comparator changes only at its bounds, so it is enough to try each bound,
/// the versions right beside it, and the lowest and highest one.
fn is_empty(text: &str, range: &CatalogRange) -> bool {
    let mut tries = vec!["0.0.0-0".to_owned(), "0.0.0".to_owned(), format!("{0}.{0}.{0}", u64::MAX)];
    for word in text.split(|c: char| c.is_whitespace() || matches!(c, '<' | '>' | '=' | '!' | '|')).filter(|word| !word.is_empty()) {
        let core = word.split(['-', '+']).next().unwrap_or(word);
        let numbers: Vec<u64> = core.split('.').map(|part| part.parse().unwrap_or(0)).collect();
        let number = |at: usize| numbers.get(at).copied().unwrap_or(0);
        let (major, minor, patch) = (number(0), number(1), number(2));
        tries.push(word.to_owned());
        tries.push(if word.contains('-') { format!("{word}.0") } else { format!("{word}-0") });
        for (major, minor, patch) in [
            (major, minor, patch),
            (major, minor, patch.saturating_add(1)),
            (major, minor, patch.saturating_sub(1)),
            (major, minor.saturating_add(1), 0),
            (major.saturating_add(1), 0, 0),
        ] {
            tries.push(format!("{major}.{minor}.{patch}"));
            tries.push(format!("{major}.{minor}.{patch}-0"));
        }
    }
    !tries.iter().filter_map(|version| Version::parse(version).ok()).any(|version| range.matches(&version))
}
