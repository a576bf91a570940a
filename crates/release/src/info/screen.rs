//! The description of a release for people.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use mainstay_golang::{Tabs, value};
use mainstay_versions::Version;
use serde_json::Value;

use super::{Info, SOURCE_COMMIT, SOURCE_LOCATION};

pub(super) const NARROW: Tabs = Tabs { least: 0, padding: 1 };
const MIB: f64 = 1024.0 * 1024.0;

/// The table of images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Columns {
    /// Digests.
    #[default]
    Digests,
    /// Repositories and commits of the source code.
    Commits,
    /// Links to the source code.
    CommitUrls,
    /// Pull specs.
    PullSpecs,
    /// Ages and sizes of the images, which must have been looked at.
    Sizes,
}

/// Returns how long ago a time in RFC 3339 was; none if it is no such time.
pub type Clock<'c> = &'c dyn Fn(&str) -> Option<i64>;

/// A duration in seconds as Kubernetes shows ages: one unit.
pub fn short_duration(seconds: i64) -> String {
    match seconds {
        ..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        86_400..31_536_000 => format!("{}d", seconds / 86_400),
        _ => format!("{}y", seconds / 31_536_000),
    }
}

impl Info<'_> {
    /// Returns the description. `age` is asked only for the sizes of images.
    pub fn describe(&self, columns: Columns, age: Clock<'_>) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "Name:\t{}", self.name());
        let _ = writeln!(out, "Digest:\t{}", self.digest());
        let _ = writeln!(out, "Created:\t{}", self.image.and_then(|image| image.created()).map_or_else(|| ZERO.to_owned(), seconds));
        let _ = writeln!(out, "OS/Arch:\t{}", self.platform());
        let _ = writeln!(out, "Manifests:\t{}", self.manifests().count());
        if self.other_files() > 0 {
            let _ = writeln!(out, "Metadata files:\t{}", self.other_files());
        }
        let _ = writeln!(out, "\nPull From:\t{}", self.pull_spec());
        if let Some(metadata) = &self.metadata {
            let _ = writeln!(out, "\nRelease Metadata:\n  Version:\t{}", metadata.version);
            let previous = metadata.previous.as_deref().unwrap_or_default();
            let upgrades = if previous.is_empty() { "<none>".to_owned() } else { sorted(previous).join(", ") };
            let _ = writeln!(out, "  Upgrades:\t{upgrades}");
            let mut section = "  Metadata:\n".to_owned();
            for (key, value) in metadata.metadata.iter().filter(|(_, value)| !is_blank(value)) {
                let _ = writeln!(section, "    {key}:\t{}", value::plain(value));
            }
            out += &NARROW.align(&section);
        }
        if !self.components.is_empty() {
            out += "\nComponent Versions:\n";
            for (name, component) in &self.components {
                let _ = writeln!(out, "  {name}\t{}\t{}", component.version, component.display_name);
            }
        }
        out += &NARROW.align(&format!("\nImages:\n{}", self.images_table(columns, age)));
        if !self.warnings.is_empty() {
            out += "\nWarnings:\n";
            for warning in &self.warnings {
                let _ = writeln!(out, "* {warning}");
            }
        }
        out.push('\n');
        NARROW.align(&out)
    }

    fn images_table(&self, columns: Columns, age: Clock<'_>) -> String {
        let title = match columns {
            Columns::Digests => "  NAME\tDIGEST\n",
            Columns::Commits => "  NAME\tREPO\tCOMMIT\t\n",
            Columns::CommitUrls => "  NAME\tURL\t\n",
            Columns::PullSpecs => "  NAME\tPULL SPEC\n",
            Columns::Sizes => return self.sizes(age),
        };
        let mut out = title.to_owned();
        for tag in self.tags() {
            let Some(image) = tag.image() else { continue };
            let (repository, commit) = (tag.annotation(SOURCE_LOCATION), tag.annotation(SOURCE_COMMIT));
            let shown = match columns {
                Columns::Commits => format!("{repository}\t{commit}"),
                Columns::CommitUrls => match github_path(repository) {
                    Some(path) => format!("https://github.com{path}/commit/{commit}"),
                    None => format!("{repository} {commit}"),
                },
                Columns::PullSpecs => image.to_owned(),
                Columns::Digests | Columns::Sizes => tag.digest_or_image().to_owned(),
            };
            let _ = writeln!(out, "  {}\t{shown}", tag.name());
        }
        out
    }

    /// Ages, layers and sizes; with several base images a column that tells them apart.
    fn sizes(&self, age: Clock<'_>) -> String {
        let none = BTreeMap::new();
        let images = self.images.as_ref().unwrap_or(&none);
        let (mut uses, mut bases, mut total) = (BTreeMap::<&str, usize>::new(), BTreeMap::<&str, usize>::new(), 0);
        for image in images.values() {
            for (number, layer) in image.layers.iter().enumerate() {
                if number == 0 {
                    bases.insert(&layer.digest, 0);
                }
                let uses = uses.entry(&layer.digest).or_default();
                total += if *uses == 0 { layer.size } else { 0 };
                *uses += 1;
            }
        }
        let mut out = format!("  NAME\t AGE\t LAYERS\t SIZE MB\t UNIQUE MB\t {}\n", if bases.len() > 1 { "BASE" } else { "" });
        let (mut shown, mut next, kinds) = (BTreeSet::new(), 1, bases.len());
        for tag in self.tags().filter(|tag| tag.image().is_some()) {
            let Some(image) = images.get(tag.name()) else {
                let _ = writeln!(out, "  {}\t\t\t\t\t", tag.name());
                continue;
            };
            let base = image.layers.first().and_then(|layer| bases.get_mut(&*layer.digest)).filter(|_| kinds > 1).map(|index| {
                if *index == 0 {
                    *index = next;
                    next += 1;
                }
                let letter = u8::try_from(*index - 1).unwrap_or_default() + b'A';
                if kinds <= 5 { format!("{}{}", " ".repeat(*index - 1), char::from(letter)) } else { index.to_string() }
            });
            let size: u64 = image.layers.iter().map(|layer| layer.size).sum();
            let own = image.layers.iter().filter(|layer| uses.get(&*layer.digest).is_none_or(|&uses| uses <= 1));
            let mut unshared: u64 = own.map(|layer| layer.size).sum();
            // An image without a layer of its own counts its topmost, once.
            if let Some(top) = image.layers.last().filter(|top| unshared == 0 && shown.insert(&*top.digest)) {
                unshared = top.size;
            }
            let age = image.created().filter(|time| *time != ZERO).and_then(age).map(short_duration).unwrap_or_default();
            let _ = writeln!(
                out,
                "  {}\t{age:>4}\t{:>7}\t{:>8.1}\t{:>10.1}\t {}",
                tag.name(),
                image.layers.len(),
                size as f64 / MIB,
                unshared as f64 / MIB,
                base.unwrap_or_default()
            );
        }
        out.push('\n');
        let _ = match kinds {
            0 | 1 => writeln!(out, "  {} across {} layers", human(total), uses.len()),
            _ => writeln!(out, "  {} across {} layers, {kinds} different base images", human(total), uses.len()),
        };
        out
    }
}

const ZERO: &str = "0001-01-01T00:00:00Z";

/// A time without the parts of a second.
fn seconds(time: &str) -> String {
    let Some((whole, rest)) = time.split_once('.') else { return time.to_owned() };
    let zone = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
    format!("{whole}{zone}")
}

fn is_blank(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Versions in their order; as they are if one of them is no version.
fn sorted(versions: &[String]) -> Vec<String> {
    let parsed: Result<Vec<Version>, _> = versions.iter().map(|version| Version::parse(version)).collect();
    let Ok(mut parsed) = parsed else { return versions.to_vec() };
    parsed.sort_by(Version::cmp_precedence);
    parsed.iter().map(ToString::to_string).collect()
}

/// The path of a repository at GitHub, of an address or of `git@github.com:PATH`.
fn github_path(location: &str) -> Option<&str> {
    if let Some((_, rest)) = location.split_once("://") {
        let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let path = path.split(['?', '#']).next().unwrap_or_default();
        return (host == "github.com" || host.ends_with("@github.com")).then_some(path);
    }
    let (user, rest) = location.split_once('@')?;
    let (host, path) = rest.split_once(':')?;
    let plain = !user.is_empty() && user.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    (plain && host == "github.com").then_some(path)
}

/// A number of bytes in decimal units, with four digits.
fn human(bytes: u64) -> String {
    let (mut number, mut unit) = (bytes as f64, 0);
    let units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    while number >= 1000.0 && unit + 1 < units.len() {
        number /= 1000.0;
        unit += 1;
    }
    let digits = if number >= 1000.0 {
        0
    } else if number >= 100.0 {
        1
    } else if number >= 10.0 {
        2
    } else {
        3
    };
    let text = format!("{number:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{}", units[unit])
}
