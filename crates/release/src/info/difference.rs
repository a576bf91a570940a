//! The difference of two releases (CVO-RELI-03).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mainstay_golang::Tabs;
use serde_json::Value;

use super::document::{Doc, tag};
use super::screen::{Clock, NARROW, short_duration};
use super::{Info, SOURCE_COMMIT, SOURCE_LOCATION, Tag};

const WIDE: Tabs = Tabs { least: 0, padding: 2 };
const GITHUB: &str = "https://github.com/";

/// Two releases, and what differs.
#[derive(Debug)]
pub struct Difference<'a> {
    pub(super) from: &'a Info<'a>,
    pub(super) to: &'a Info<'a>,
    pub(super) images: BTreeMap<&'a str, (Option<Tag<'a>>, Option<Tag<'a>>)>,
    manifests: BTreeMap<&'a str, Sides<'a>>,
}

/// The contents of a file in both releases.
type Sides<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

impl<'a> Difference<'a> {
    /// Compares two releases.
    pub fn new(from: &'a Info<'a>, to: &'a Info<'a>) -> Self {
        let mut images = BTreeMap::<&str, (Option<Tag<'_>>, Option<Tag<'_>>)>::new();
        for tag in from.tags().filter(|tag| tag.image().is_some()) {
            images.insert(tag.name(), (Some(tag), None));
        }
        for tag in to.tags().filter(|tag| tag.image().is_some()) {
            images.entry(tag.name()).or_default().1 = Some(tag);
        }
        images.retain(|_, pair| !matches!(pair, (Some(from), Some(to)) if from.image() == to.image()));
        let mut manifests = BTreeMap::<&str, Sides<'_>>::new();
        for (name, content) in from.manifests() {
            manifests.entry(name).or_default().0 = Some(content);
        }
        for (name, content) in to.manifests() {
            manifests.entry(name).or_default().1 = Some(content);
        }
        manifests.retain(|_, (from, to)| from.unwrap_or_default() != to.unwrap_or_default());
        Self { from, to, images, manifests }
    }

    /// Returns the difference as JSON text, without a line end.
    pub fn to_json(&self) -> String {
        let side = |side: Option<Tag<'_>>| side.map_or(Doc::Plain(Value::Null), tag);
        let images = self.images.iter().map(|(name, (from, to))| {
            let fields = [("name", Doc::Plain((*name).into())), ("from", side(*from)), ("to", side(*to))];
            ((*name).to_owned(), Doc::Object(fields.map(|(name, value)| (name.to_owned(), value)).into()))
        });
        let bytes = |content: Option<&[u8]>| Doc::Plain(content.map_or(Value::Null, |content| STANDARD.encode(content).into()));
        let manifests = self.manifests.iter().map(|(name, (from, to))| {
            let fields = [("filename", Doc::Plain((*name).into())), ("from", bytes(*from)), ("to", bytes(*to))];
            ((*name).to_owned(), Doc::Object(fields.map(|(name, value)| (name.to_owned(), value)).into()))
        });
        let fields = [
            ("from", self.from.document()),
            ("to", self.to.document()),
            ("changedImages", Doc::Object(images.collect())),
            ("changedManifests", Doc::Object(manifests.collect())),
        ];
        Doc::Object(fields.map(|(name, value)| (name.to_owned(), value)).into()).to_text()
    }

    /// Returns the difference for people, with digests or with links to the source code.
    pub fn describe(&self, with_commits: bool, age: Clock<'_>) -> String {
        let (from, to) = (self.from, self.to);
        let digest = |info: &Info<'a>| info.image.map(|image| image.digest.clone());
        if digest(from).is_some() && digest(from) == digest(to) {
            return "Releases are identical\n".to_owned();
        }
        let mut out = format!("\tFROM\tTO\nName:\t{}\t{}\n", from.name(), to.name());
        let created = |info: &Info<'_>| info.image.and_then(|image| image.created()).and_then(age).map(short_duration).unwrap_or_default();
        let _ = writeln!(out, "Created:\t{}\t{}", created(from), created(to));
        if from.platform() != to.platform() {
            let _ = writeln!(out, "OS/Arch:\t{}\t{}", from.platform(), to.platform());
        }
        match (&from.metadata, &to.metadata) {
            (Some(old), Some(new)) => {
                let offered = new.previous.as_deref().unwrap_or_default().contains(&old.version);
                let _ = writeln!(out, "\nVersion:\t{}\t{}", old.version, new.version);
                let _ = writeln!(out, "Upgrade From:\t\t{}", if offered { "Yes" } else { "No" });
            }
            (Some(_), None) => out += "Has Release Metadata:\tYes\t\n",
            (None, Some(_)) => out += "Has Release Metadata:\t\tYes\n",
            (None, None) => {}
        }
        self.sections(with_commits, &mut out);
        out.push('\n');
        WIDE.align(&out)
    }

    fn sections(&self, with_commits: bool, out: &mut String) {
        let width = self.images.keys().map(|name| name.len()).max().unwrap_or_default();
        let both = || self.images.iter().filter_map(|(name, pair)| Some((*name, pair.0?, pair.1?)));
        let changed: BTreeSet<&str> = both().filter(|(_, from, to)| code_changed(*from, *to)).map(|(name, ..)| name).collect();
        let line = |(name, from, to): (&str, Tag<'_>, Tag<'_>)| {
            let (old, new) = (from.digest_or_image(), to.digest_or_image());
            (old != new).then(|| {
                if with_commits { format!("  {name:width$}\t{}\n", commits(from, to)) } else { format!("  {name:width$}\t{old}\t{new}\n") }
            })
        };
        let added = self.images.iter().filter_map(|(name, pair)| pair.0.is_none().then_some((*name, pair.1?))).map(|(name, to)| {
            let shown = if with_commits { commit(to) } else { to.digest_or_image().to_owned() };
            format!("  {name:width$}\t{shown}\n")
        });
        let removed = self.images.iter().filter(|(_, pair)| pair.1.is_none()).map(|(name, _)| format!("  {name:width$}\n"));
        let is_changed = |(name, ..): &(&str, Tag<'_>, Tag<'_>)| changed.contains(name);
        for (title, empty, lines) in [
            ("Images Changed", changed.is_empty(), both().filter(is_changed).filter_map(line).collect::<String>()),
            ("Images Rebuilt", both().all(|one| is_changed(&one)), both().filter(|one| !is_changed(one)).filter_map(line).collect()),
            ("Images Added", false, added.collect()),
            ("Images Removed", false, removed.collect()),
        ] {
            let starts = title.ends_with("Changed") || title.ends_with("Rebuilt");
            if if starts { !empty } else { !lines.is_empty() } {
                *out += &NARROW.align(&format!("\n{title}:\n{lines}"));
            }
        }
    }
}

fn code_changed(from: Tag<'_>, to: Tag<'_>) -> bool {
    let (old, new) = (from.annotation(SOURCE_COMMIT), to.annotation(SOURCE_COMMIT));
    !old.is_empty() && !new.is_empty() && old != new
}

/// The source code of an image.
fn commit(tag: Tag<'_>) -> String {
    let (repository, commit) = (tag.annotation(SOURCE_LOCATION), tag.annotation(SOURCE_COMMIT));
    if repository.is_empty() || commit.is_empty() { "<unknown>".to_owned() } else { link(repository, "commit", commit, commit) }
}

/// The change of the source code.
fn commits(from: Tag<'_>, to: Tag<'_>) -> String {
    let (old_repository, repository) = (from.annotation(SOURCE_LOCATION), to.annotation(SOURCE_LOCATION));
    let (old, new) = (from.annotation(SOURCE_COMMIT), to.annotation(SOURCE_COMMIT));
    let after = |repository: &str| link(repository, "commit", new, new);
    if repository.is_empty() || new.is_empty() {
        return "<unknown>".to_owned();
    }
    if old_repository == repository {
        return if old == new {
            after(repository)
        } else {
            link(repository, "compare", &format!("{old}...{new}"), &format!("{old} {new}"))
        };
    }
    if old.is_empty() {
        return format!("{old_repository} <unknown> -> {}", after(repository));
    }
    if old == new {
        return format!("{old_repository} -> {}", after(repository));
    }
    format!("{} -> {}", link(old_repository, "commit", old, old), after(repository))
}

/// A page of a repository at GitHub, or the words behind the repository.
fn link(repository: &str, page: &str, at: &str, words: &str) -> String {
    if repository.starts_with(GITHUB) {
        format!("{}/{page}/{at}", repository.trim_end_matches('/'))
    } else {
        format!("{repository} {words}")
    }
}
