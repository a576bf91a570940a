//! Changes in the source code between two releases: as Markdown, as JSON, and its bugs (CVO-RELI-03).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::document::Doc;
use super::{Component, Difference, Info, Tag};
use crate::commits::{Location, Mention, Merge, Tracker};

const FROM_RELEASE: &str = "release.openshift.io/from-release";
/// The letters of a commit that are shown.
const SHORT: usize = 8;

/// A change of the code of one repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeChange {
    /// The repository, as the images name it.
    pub repository: String,
    /// Another repository that the older commit may be in.
    pub other_repository: Option<String>,
    /// The older commit.
    pub from: String,
    /// The newer commit.
    pub to: String,
    /// The images that are built of it.
    pub images: Vec<String>,
}

/// Changes whose commits were read.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The repository and its merges, newest first, by change.
    pub changes: Vec<(CodeChange, Location, Vec<Merge>)>,
}

/// The changes of images that both releases have.
struct Contents<'a> {
    code: Vec<CodeChange>,
    rebuilt: Vec<Tag<'a>>,
    /// Images of which nothing can be said.
    odd: Vec<&'a str>,
}

impl<'a> Difference<'a> {
    /// Returns true if both are the same image.
    pub fn is_identical(&self) -> bool {
        let digest = |info: &Info<'a>| info.image.map(|image| image.digest.clone());
        digest(self.from).is_some() && digest(self.from) == digest(self.to)
    }

    /// Returns the changes of source code, each once.
    pub fn code_changes(&self) -> Vec<CodeChange> {
        self.contents().code
    }

    fn contents(&self) -> Contents<'a> {
        let mut contents = Contents { code: Vec::new(), rebuilt: Vec::new(), odd: Vec::new() };
        let mut by_range = BTreeMap::<(&str, &str, &str), Vec<&str>>::new();
        let both = || self.images.iter().filter_map(|(name, pair)| Some((*name, pair.0?, pair.1?)));
        for (name, from, to) in both() {
            let (old, new) = (from.source_commit(), to.source_commit());
            if !old.is_empty() && old != new {
                by_range.entry((to.source_location(), old, new)).or_default().push(name);
            } else if from.digest().is_some() && from.digest() == to.digest() {
                // Only its place changed.
            } else if from.image().is_some_and(|image| !image.is_empty()) && to.image().is_some_and(|image| !image.is_empty()) {
                contents.rebuilt.push(to);
            } else {
                contents.odd.push(name);
            }
        }
        let mut shown = BTreeSet::new();
        for (_, from, to) in both() {
            let (old_repository, repository) = (from.source_location(), to.source_location());
            let (old, new) = (from.source_commit(), to.source_commit());
            let Some(images) = by_range.get(&(repository, old, new)) else { continue };
            if repository.is_empty() || old_repository.is_empty() || !shown.insert((repository, old, new)) {
                continue;
            }
            contents.code.push(CodeChange {
                repository: repository.to_owned(),
                other_repository: (old_repository != repository).then(|| old_repository.to_owned()),
                from: old.to_owned(),
                to: new.to_owned(),
                images: images.iter().map(|name| (*name).to_owned()).collect(),
            });
        }
        contents
    }

    /// The images that one of the releases alone has.
    fn added(&self) -> impl Iterator<Item = Tag<'a>> {
        self.images.values().filter(|pair| pair.0.is_none()).filter_map(|pair| pair.1)
    }

    fn removed(&self) -> impl Iterator<Item = &'a str> {
        self.images.iter().filter(|(_, pair)| pair.1.is_none()).map(|(name, _)| *name)
    }

    /// The components of the newer release, with their versions in the older one where they differ.
    fn upgraded(&self) -> impl Iterator<Item = (String, &'a Component, Option<&'a Component>)> {
        let (from, to) = (self.from, self.to);
        to.components.iter().map(move |(key, component)| {
            let old = from.components.get(key).filter(|old| *old != component);
            (display_name(key, component), component, old)
        })
    }

    /// Returns the changes as Markdown.
    pub fn changelog(&self, history: &History) -> String {
        let (from, to) = (self.from, self.to);
        let digest = to.image.map(|image| image.digest.as_str()).unwrap_or_default();
        let mut out = format!("# {}\n\nCreated: {}\n\nImage Digest: `{digest}`\n\n", to.name(), created(to));
        if let Some(release) = promoted(to) {
            let _ = write!(out, "Promoted from {release}\n\n");
        }
        let _ = write!(out, "\n## Changes from {}\n\n", from.name());
        let components: Vec<String> = self
            .upgraded()
            .map(|(name, component, old)| match old {
                Some(old) => format!("* {name} upgraded from {} to {}\n", old.version, component.version),
                None => format!("* {name} {}\n", component.version),
            })
            .collect();
        let contents = self.contents();
        let rebuilt = contents.rebuilt.iter().map(|tag| short(*tag)).chain(contents.odd.iter().map(|name| (*name).to_owned()));
        let list = |lines: &mut dyn Iterator<Item = String>| lines.map(|line| format!("* {line}\n")).collect::<Vec<_>>();
        for (title, lines) in [
            ("Components", components),
            ("New images", list(&mut self.added().map(short))),
            ("Removed images", list(&mut self.removed().map(str::to_owned))),
            ("Rebuilt images without code change", list(&mut { rebuilt })),
        ] {
            if !lines.is_empty() {
                let _ = write!(out, "### {title}\n\n{}\n\n", lines.concat());
            }
        }
        for (change, location, merges) in history.changes.iter().filter(|(_, _, merges)| !merges.is_empty()) {
            let images = change.images.join(", ");
            let _ = if location.is_github() {
                write!(out, "### [{images}](https://github.com{}/tree/{})\n\n", location.path, change.to)
            } else {
                write!(out, "### {images}\n\n")
            };
            for merge in merges {
                let _ = writeln!(out, "*{} {} {}", mentioned(&merge.mentions), safe(&merge.subject), pull_request(location, merge));
            }
            let _ = if location.is_github() {
                write!(out, "* [Full changelog]({})\n\n\n", compare(location, change))
            } else {
                write!(out, "* {} from {} to {}\n\n\n", change.repository, cut(&change.from), cut(&change.to))
            };
        }
        out
    }

    /// Returns the changes as JSON text, without a line end.
    pub fn changelog_json(&self, history: &History) -> String {
        let side = |info: &Info<'_>| {
            let mut fields = vec![
                ("name", text(info.name())),
                ("created", text(created_at(info))),
                ("digest", text(info.image.map(|image| image.digest.as_str()).unwrap_or_default())),
            ];
            fields.extend(promoted(info).map(|release| ("promotedFrom", text(release))));
            object(fields)
        };
        let components = self.upgraded().map(|(name, component, old)| {
            let mut fields = vec![("name", text(&name)), ("version", text(&component.version))];
            fields.extend(old.map(|old| ("from", text(&old.version))));
            object(fields)
        });
        let contents = self.contents();
        let named = |name: &str| object(vec![("name", text(name)), ("path", text(""))]);
        let rebuilt = contents.rebuilt.iter().map(|tag| image(*tag)).chain(contents.odd.iter().map(|name| named(name)));
        let updated = history.changes.iter().filter(|(_, _, merges)| !merges.is_empty()).map(|(change, location, merges)| {
            let path = if location.is_github() { format!("https://github.com{}/tree/{}", location.path, change.to) } else { String::new() };
            let mut fields = vec![("name", text(&change.images.join(", "))), ("path", text(&path))];
            fields.push(("commits", Doc::List(merges.iter().map(|merge| commit(location, merge)).collect())));
            if location.is_github() {
                fields.push(("fullChangeLog", text(&compare(location, change))));
            }
            object(fields)
        });
        let mut fields = vec![("from", side(self.from)), ("to", side(self.to))];
        for (name, list) in [
            ("components", components.collect::<Vec<_>>()),
            ("newImages", self.added().map(image).collect()),
            ("removedImages", self.removed().map(named).collect()),
            ("rebuiltImages", rebuilt.collect()),
            ("updatedImages", updated.collect()),
        ] {
            if !list.is_empty() {
                fields.push((name, Doc::List(list)));
            }
        }
        object(fields).to_text()
    }
}

/// Returns bugs as JSON text, without a line end; nothing is known of them but where they are kept.
pub fn bugs_json(bugs: &[Mention]) -> String {
    let one = |bug: &Mention| {
        let source = i32::from(bug.tracker == Tracker::Jira);
        let mut fields: Vec<(&str, Doc)> = vec![("id", text(&bug.id))];
        fields.extend(["status", "priority", "summary"].map(|name| (name, text(""))));
        fields.push(("source", Doc::Plain(source.into())));
        object(fields)
    };
    Doc::List(bugs.iter().map(one).collect()).to_text()
}

fn text(text: &str) -> Doc {
    Doc::Plain(text.into())
}

fn object(fields: Vec<(&str, Doc)>) -> Doc {
    Doc::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn commit(location: &Location, merge: &Merge) -> Doc {
    let pages = |tracker: Tracker| -> Value {
        let of = merge.mentions.iter().filter(|mention| mention.tracker == tracker);
        of.map(|mention| (mention.id.clone(), Value::from(mention.page()))).collect::<serde_json::Map<_, _>>().into()
    };
    let mut fields = Vec::new();
    for (name, tracker) in [("bugs", Tracker::Bugzilla), ("issues", Tracker::Jira)] {
        let pages = pages(tracker);
        if pages != json!({}) {
            fields.push((name, Doc::Plain(pages)));
        }
    }
    fields.push(("subject", text(&safe(&merge.subject))));
    if merge.pull_request > 0 {
        fields.push(("pullID", Doc::Plain(merge.pull_request.into())));
        fields.push(("pullURL", text(&format!("https://{}{}/pull/{}", location.host, location.path, merge.pull_request))));
    } else {
        fields.push(("commitID", text(cut(&merge.commit))));
        if location.is_github() {
            fields.push(("commitURL", text(&commit_page(location, merge))));
        }
    }
    fields.push(("commitDate", text(&merge.time.to_string())));
    object(fields)
}

/// The facts about an image of one release.
fn image(tag: Tag<'_>) -> Doc {
    let source = Location::parse(tag.source_location()).ok().filter(Location::is_github);
    let path = source.as_ref().map(|source| format!("https://github.com{}", source.path)).unwrap_or_default();
    let mut fields = vec![("name", text(tag.name())), ("path", text(&path))];
    let hash = tag.source_commit();
    if source.is_some() && !hash.is_empty() {
        fields.push(("shortCommit", text(cut(hash))));
        fields.push(("commit", text(hash)));
    }
    let reference = tag.digest_or_image();
    if !reference.is_empty() {
        fields.push(("imageRef", text(reference)));
    }
    object(fields)
}

/// An image in one line of Markdown.
fn short(tag: Tag<'_>) -> String {
    let name = match Location::parse(tag.source_location()).ok().filter(Location::is_github) {
        None => tag.name().to_owned(),
        Some(source) => {
            let (name, path, hash) = (tag.name(), &source.path, tag.source_commit());
            match hash {
                "" => format!("[{name}](https://github.com{path})"),
                hash => format!("[{name}](https://github.com{path}) git [{}](https://github.com{path}/commit/{hash})", cut(hash)),
            }
        }
    };
    format!("{name} `{}`", tag.digest_or_image())
}

fn mentioned(mentions: &[Mention]) -> String {
    let links = mentions.iter().enumerate().map(|(number, mention)| {
        let word = if number == 0 && mention.tracker == Tracker::Bugzilla { "Bug " } else { "" };
        format!("[{word}{}]({})", mention.id, mention.page())
    });
    let links = links.collect::<Vec<_>>().join(", ");
    if links.is_empty() { String::new() } else { format!(" {links}:") }
}

fn pull_request(location: &Location, merge: &Merge) -> String {
    match (merge.pull_request, location.is_github()) {
        (0, true) => format!("[{}]({})", cut(&merge.commit), commit_page(location, merge)),
        (0, false) => cut(&merge.commit).to_owned(),
        (number, _) => format!("[#{number}](https://{}{}/pull/{number})", location.host, location.path),
    }
}

fn commit_page(location: &Location, merge: &Merge) -> String {
    format!("https://{}{}/commit/{}", location.host, location.path, cut(&merge.commit))
}

fn compare(location: &Location, change: &CodeChange) -> String {
    format!("https://{}{}/compare/{}...{}", location.host, location.path, change.from, change.to)
}

/// The beginning of a hash.
fn cut(hash: &str) -> &str {
    hash.get(..SHORT).unwrap_or(hash)
}

/// Text of others, which begins no HTML in Markdown.
fn safe(text: &str) -> String {
    text.replace('<', "&lt;").replace('>', "&gt;")
}

fn promoted<'i>(info: &'i Info<'_>) -> Option<&'i str> {
    info.references["metadata"]["annotations"][FROM_RELEASE].as_str()
}

fn created_at<'i>(info: &'i Info<'_>) -> &'i str {
    info.references["metadata"]["creationTimestamp"].as_str().unwrap_or("0001-01-01T00:00:00Z")
}

/// A time as Go prints it.
fn created(info: &Info<'_>) -> String {
    match created_at(info).parse::<jiff::Timestamp>() {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string(),
        Err(_) => created_at(info).to_owned(),
    }
}

/// The name of a component for people.
fn display_name(key: &str, component: &Component) -> String {
    if !component.display_name.is_empty() {
        return component.display_name.clone();
    }
    let upper = |part: &str| {
        let mut letters = part.chars();
        letters.next().map(|first| first.to_uppercase().chain(letters).collect::<String>()).unwrap_or_default()
    };
    key.split('-').map(upper).collect::<Vec<_>>().join(" ")
}
