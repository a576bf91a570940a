//! `mainstay adm release info`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use futures::StreamExt as _;
use mainstay_oci::Client;
use mainstay_release::ReleaseImage;
use mainstay_release::info::{Columns, Difference, Info, Tag};
use mainstay_release_source::{Release, inspect};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output::{self, JsonPath};
use mainstay_terminal::runtime;
use mainstay_terminal::screen::Kind;
use serde_json::Value;

use super::registry::{Options, told};
use super::{Refused, changes, refuse, resolve, signatures, tell};

const FORMATS: [&str; 11] = [
    "json",
    "pullspec",
    "digest",
    "name",
    "go-template",
    "go-template-file",
    "template",
    "templatefile",
    "jsonpath",
    "jsonpath-as-json",
    "jsonpath-file",
];
const FORMAT_LIST: &str =
    "json, pullspec, digest, name, go-template, go-template-file, template, templatefile, jsonpath, jsonpath-as-json, jsonpath-file";

/// Arguments.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "one per flag")]
#[command(after_help = "\
Examples:
  mainstay adm release info quay.example/release:4.19.44
  mainstay adm release info quay.example/release:4.19.44 --commits
  mainstay adm release info release.tar --image-for etcd
  mainstay adm release info quay.example/release:4.18.54 quay.example/release:4.19.44
  mainstay adm release info quay.example/release:4.18.54 quay.example/release:4.19.44 --changelog repositories
  mainstay adm release info quay.example/release@sha256:... --verify
  mainstay adm release info                      of the cluster's own release
  mainstay adm release info 4.19.44              of a version that the cluster knows

A release is an image, an OCI layout or archive, a tar file, or a folder. Flags, words and exit codes are those of oc.

Exit codes: 0 done, 1 refused.")]
pub struct Arguments {
    /// A release; two show their difference
    #[arg(value_name = "IMAGE")]
    images: Vec<String>,
    /// Show what changes from this release
    #[arg(long, value_name = "IMAGE")]
    changes_from: Option<String>,
    /// Check that every image of the release is there, and its signatures with the keys that it brings; print one line
    #[arg(long)]
    verify: bool,
    /// Print all files of the release
    #[arg(long)]
    contents: bool,
    /// Show the source code of each image
    #[arg(long)]
    commits: bool,
    /// Show a link to the source code of each image
    #[arg(long)]
    commit_urls: bool,
    /// Show the pull spec of each image instead of its digest
    #[arg(long)]
    pullspecs: bool,
    /// Show the size of each image
    #[arg(long)]
    size: bool,
    /// Print the pull spec of one image of the release
    #[arg(long, value_name = "NAME")]
    image_for: Option<String>,
    /// Another form, as oc has them: json|name|digest|pullspec|jsonpath=TEMPLATE|template=TEMPLATE
    #[arg(short, long, value_name = "FORMAT", default_value = "", hide_default_value = true)]
    output: String,
    /// Show the pull requests between two releases as Markdown, or with -o json; repositories are cloned below this folder
    #[arg(long, value_name = "DIR")]
    changelog: Option<PathBuf>,
    /// Show the bugs that the pull requests between two releases mention; repositories are cloned below this folder
    #[arg(long, value_name = "DIR")]
    bugs: Option<PathBuf>,
    /// Do not ask trackers about bugs; print only what commits mention, with -o name or -o json
    #[arg(long)]
    skip_bug_check: bool,
    /// Add the configurations of all images to -o json
    #[arg(long)]
    include_images: bool,
    #[command(flatten)]
    packages: Packages,
    #[command(flatten)]
    registries: Options,
}

/// Lists of packages, which are refused in words that say why.
#[derive(Debug, Args)]
struct Packages {
    #[arg(long, hide = true)]
    rpmdb: bool,
    #[arg(long, hide = true)]
    rpmdb_diff: bool,
    #[arg(long, hide = true)]
    rpmdb_cache: Option<PathBuf>,
    #[arg(long, hide = true)]
    rpmdb_image: Option<String>,
}

impl Packages {
    fn check(&self) -> Result<(), Refused> {
        if self.rpmdb || self.rpmdb_diff || self.rpmdb_cache.is_some() || self.rpmdb_image.is_some() {
            return Err(Refused::Usage(
                "--rpmdb, --rpmdb-diff, --rpmdb-cache and --rpmdb-image are not offered: RPM databases of images are not read; \
                 rpm -qa in a container of the image lists its packages",
            ));
        }
        Ok(())
    }
}

/// Runs it.
pub(super) fn run(arguments: &Arguments, cluster: &ClusterArgs) -> Result<(), Failure> {
    runtime::block_on(async {
        let mut images = resolve(&arguments.images, cluster).await?;
        let mut from = arguments.changes_from.clone();
        if from.is_none() && images.len() == 2 && !arguments.verify {
            from = Some(images.remove(0));
        }
        arguments.check(from.as_deref(), &images).map_err(|error| refuse(&error))?;
        arguments.registries.check()?;
        let client = arguments.registries.client()?;
        if let Some(from) = from.filter(|_| !arguments.verify) {
            return arguments.difference(&client, &from, &images[0]).await;
        }
        // Each release is shown, even if others fail; a failure was told.
        let mut failed = false;
        for image in &images {
            failed |= arguments.show(&client, image).await.is_err();
        }
        if failed { Err(Failure::silent(Exit::Failed)) } else { Ok(()) }
    })
}

/// A payload and its image, held for its description.
struct Read {
    release: Release,
}

impl Arguments {
    fn check(&self, from: Option<&str>, images: &[String]) -> Result<(), Refused> {
        self.packages.check()?;
        let tables = [self.commits, self.commit_urls, self.pullspecs, self.contents, self.size, self.verify, self.image_for.is_some()];
        if tables.iter().filter(|chosen| **chosen).count() > 1 {
            return Err(Refused::Usage("only one of --commits, --commit-urls, --pullspecs, --contents, --size, --verify may be specified"));
        }
        if self.image_for.is_some() && !self.output.is_empty() {
            return Err(Refused::Usage("--output and --image-for may not both be specified"));
        }
        if self.skip_bug_check && self.bugs.is_none() {
            return Err(Refused::Usage("--skip-bug-check requires --bugs"));
        }
        if self.skip_bug_check && !["name", "json"].contains(&self.output.as_str()) {
            return Err(Refused::Usage("--skip-bug-check requires --output to be set to 'name' or 'json'"));
        }
        if (self.changelog.is_some() || self.bugs.is_some()) && from.is_none() {
            return Err(Refused::Usage("--changelog/--bugs/--rpmdb-diff require --changes-from"));
        }
        match (&self.changelog, &self.bugs) {
            (Some(_), Some(_)) => return Err(Refused::Usage("--changelog/--bugs/--rpmdb-diff are mutually exclusive")),
            (Some(_), None) if !["", "json"].contains(&self.output.as_str()) => return Err(Refused::Output("'json' for --changelog")),
            (None, Some(_)) if !["", "name", "json"].contains(&self.output.as_str()) => {
                return Err(Refused::Output("'name' or 'json' for --bugs"));
            }
            (None, Some(_)) if !self.skip_bug_check => {
                return Err(Refused::Usage("--bugs does not ask trackers about bugs; add --skip-bug-check and --output name or json"));
            }
            _ => {}
        }
        let format = self.output.split('=').next().unwrap_or_default();
        if !format.is_empty() && !FORMATS.contains(&format) {
            return Err(Refused::Output(FORMAT_LIST));
        }
        if from.is_some() && images.len() != 1 {
            return Err(Refused::Usage("must specify a single release image as argument when comparing to another release image"));
        }
        Ok(())
    }

    async fn read(&self, client: &Client, image: &str) -> Result<Read, Failure> {
        let release = self.registries.read(image, client).await.map_err(|error| refuse(&error))?;
        Ok(Read { release })
    }

    async fn described<'r>(&self, client: &Client, image: &'r str, read: &'r Read) -> Result<Info<'r>, Failure> {
        let mut info = Info::read(image, &read.release.files, read.release.image.as_ref()).map_err(|error| refuse(&error))?;
        info.notices.iter().for_each(|notice| tell(notice));
        if self.size || self.verify || self.include_images {
            let (found, missing) = self.images(client, &info).await;
            info.with_images(found, missing);
        }
        Ok(info)
    }

    /// Looks at every image of a release.
    async fn images(&self, client: &Client, info: &Info<'_>) -> (BTreeMap<String, ReleaseImage>, Vec<String>) {
        let named: Vec<(String, String)> = info.tags().filter_map(|tag| Some((tag.name().to_owned(), tag.image()?.to_owned()))).collect();
        let looked = futures::stream::iter(named).map(|(name, image)| async move {
            let read = async {
                let reference = client.reference(&image).map_err(|error| format!("tag {name:?} has an invalid reference: {error}"))?;
                inspect(client, &reference).await.map_err(|error| format!("tag {name:?}: {}", told(&image, &error)))
            };
            let read = read.await;
            (name, read)
        });
        let (mut found, mut missing) = (BTreeMap::new(), Vec::new());
        let looked: Vec<_> = looked.buffer_unordered(self.registries.max_per_registry.clamp(1, 64)).collect().await;
        for (name, read) in looked {
            match read {
                Ok(image) => drop(found.insert(name, image)),
                Err(warning) => missing.push(warning),
            }
        }
        (found, missing)
    }

    async fn difference(&self, client: &Client, from: &str, to: &str) -> Result<(), Failure> {
        if self.contents {
            return output::print(&format!(
                "To see the differences between these releases, run:\n\n  mainstay adm release extract {from} --to=/tmp/old\n  \
                 mainstay adm release extract {to} --to=/tmp/new\n  diff /tmp/old /tmp/new\n\n"
            ));
        }
        let (new, old) = (self.read(client, to).await?, self.read(client, from).await?);
        let (new, old) = (self.described(client, to, &new).await?, self.described(client, from, &old).await?);
        let difference = Difference::new(&old, &new);
        if let Some(folder) = &self.bugs {
            return changes::bugs(&difference, folder, &self.output);
        }
        if let Some(folder) = &self.changelog {
            return changes::changelog(&difference, folder, &self.output);
        }
        match self.output.as_str() {
            "json" => print(&(difference.to_json() + "\n"), Kind::Json),
            "" => print(&difference.describe(self.commits, &age), Kind::Text),
            other => Err(refuse(&Refused::OutputMode(other.to_owned()))),
        }
    }

    async fn show(&self, client: &Client, image: &str) -> Result<(), Failure> {
        let read = self.read(client, image).await?;
        let info = self.described(client, image, &read).await?;
        if self.verify {
            let created = info.references["metadata"]["creationTimestamp"].as_str().unwrap_or("0001-01-01T00:00:00Z");
            let digest = info.image.map(|image| image.digest.as_str()).unwrap_or_default();
            output::line(format!("{digest} {created} {}", info.name()))?;
            info.warnings.iter().for_each(|warning| tell(&format!("error: {warning}")));
            let is_vouched_for = if info.image.is_some() {
                signatures::is_vouched_for(&read.release, &info.pull_spec()).await?
            } else {
                tell(&format!("warning: {image} is no image, so that it has no signatures"));
                true
            };
            return if info.warnings.is_empty() && is_vouched_for { Ok(()) } else { Err(Failure::silent(Exit::Failed)) };
        }
        if self.contents {
            let contents = info.contents();
            return output::stream(Kind::Text, |out| out.write_all(&contents));
        }
        let (format, template) = self.output.split_once('=').unwrap_or((&self.output, ""));
        let tags = || info.tags().filter(|tag| tag.image().is_some());
        match format {
            "json" => return print(&(info.to_json() + "\n"), Kind::Json),
            "name" => return lines(info.tags().map(Tag::name)),
            "pullspec" => return lines(tags().filter_map(Tag::image)),
            "digest" => {
                for tag in tags().filter(|tag| tag.digest().is_none()) {
                    tell(&format!("error: {} does not point to a digest", tag.name()));
                }
                return lines(tags().filter_map(Tag::digest));
            }
            "" => {}
            _ => return by_template(&info, format, template),
        }
        if let Some(name) = &self.image_for {
            return output::line(info.image_for(name).map_err(|error| refuse(&error))?);
        }
        let columns = match self {
            Self { commits: true, .. } => Columns::Commits,
            Self { commit_urls: true, .. } => Columns::CommitUrls,
            Self { pullspecs: true, .. } => Columns::PullSpecs,
            Self { size: true, .. } => Columns::Sizes,
            _ => Columns::Digests,
        };
        print(&info.describe(columns, &age), Kind::Text)
    }
}

/// Prints each text as a line.
fn lines<'t>(texts: impl Iterator<Item = &'t str>) -> Result<(), Failure> {
    let text: Vec<&str> = texts.flat_map(|text| [text, "\n"]).collect();
    print(&text.concat(), Kind::Text)
}

fn print(text: &str, kind: Kind) -> Result<(), Failure> {
    output::stream(kind, |out| out.write_all(text.as_bytes()))
}

/// Seconds since a time.
fn age(time: &str) -> Option<i64> {
    let then: jiff::Timestamp = time.parse().ok()?;
    Some(jiff::Timestamp::now().as_second() - then.as_second())
}

/// A template over the document of `-o json`.
fn by_template(info: &Info<'_>, format: &str, template: &str) -> Result<(), Failure> {
    let document: Value = serde_json::from_str(&info.to_json()).map_err(|error| Failure::failed("release", &error))?;
    let text = match format {
        "jsonpath" => JsonPath::parse(template).map_err(|error| refuse(&error))?.evaluate(&document),
        "jsonpath-file" => {
            let template = super::extract::read_small(std::path::Path::new(template), 1 << 20)?;
            JsonPath::parse(template.trim_end()).map_err(|error| refuse(&error))?.evaluate(&document)
        }
        "template" | "go-template" => super::template::render(template, &document).map_err(|error| refuse(&error))?,
        "templatefile" | "go-template-file" => {
            let template = super::extract::read_small(std::path::Path::new(template), 1 << 20)?;
            super::template::render(&template, &document).map_err(|error| refuse(&error))?
        }
        _ => return Err(refuse(&Refused::Usage("--output jsonpath-as-json is not supported; use jsonpath"))),
    };
    print(&text, Kind::Text)
}
