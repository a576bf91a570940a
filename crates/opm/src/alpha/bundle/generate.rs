//! `opm alpha bundle generate`: `metadata/annotations.yaml` beside the manifests, and `bundle.Dockerfile` in the current folder.

use std::path::{Component, Path, PathBuf};

use clap::Args;
use mainstay_bundle::InvalidDocument;
use mainstay_bundle::generate::{Description, Package, csv_of, media_type};
use mainstay_terminal::errors::{Exit, Failure};

use super::super::super::init::words;
use super::super::super::server_log::{Level, ServerLog};

/// The Dockerfile's name.
pub const DOCKERFILE: &str = "bundle.Dockerfile";
const ANNOTATIONS: &str = "annotations.yaml";

/// Arguments.
#[derive(Debug, Args)]
#[command(
    long_about = "\
Generate operator bundle metadata and Dockerfile.

All manifests must be in the same directory. Without --package or --channels, both are taken from the package file beside the directory.",
    after_help = "Examples:\n  opm alpha bundle generate --directory /test/0.1.0/ --package test-operator --channels stable,beta --default stable"
)]
pub struct Arguments {
    /// What the bundle is called and where it lies.
    #[command(flatten)]
    pub bundle: BundleFlags,
}

/// Flags that generate and build share.
#[derive(Debug, Args)]
pub struct BundleFlags {
    /// The directory where bundle manifests for a specific version are located
    #[arg(short, long, value_name = "string")]
    directory: PathBuf,
    /// The name of the package that bundle image belongs to
    #[arg(short, long, value_name = "string", default_value = "", hide_default_value = true)]
    package: String,
    /// The list of channels that bundle image belongs to
    #[arg(short, long, value_name = "string", default_value = "", hide_default_value = true)]
    channels: String,
    /// The default channel for the bundle image
    #[arg(short = 'e', long = "default", value_name = "string", default_value = "", hide_default_value = true)]
    default_channel: String,
    /// Optional output directory for operator manifests
    #[arg(short = 'u', long, value_name = "string")]
    output_dir: Option<PathBuf>,
    /// Use a custom image pullspec as the base bundle image
    #[arg(long, value_name = "string", default_value = "scratch")]
    base_image: String,
}

/// The treatment of files that are there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// They are replaced.
    Replace,
    /// They stay.
    Keep,
}

/// The generated bundle metadata.
#[derive(Debug)]
pub struct Generated {
    /// The base image of the bundle's image.
    pub base_image: String,
    /// The annotations.
    pub description: Description,
    /// The folder of the manifests.
    pub manifests: PathBuf,
    /// The folder of the metadata.
    pub metadata: PathBuf,
}

/// Generates the metadata.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    generate(&arguments.bundle, Existing::Replace, &ServerLog::new(Level::Info)).map(|_| ())
}

/// A failure in the words of a document's error.
fn unreadable(error: &InvalidDocument) -> Failure {
    failed(error.to_string())
}

fn failed(message: impl Into<String>) -> Failure {
    Failure::new(Exit::Failed, "bundle", message)
}

fn io(verb: &str, path: &Path, error: &std::io::Error) -> Failure {
    failed(format!("{verb} {}: {}", path.display(), words(error)))
}

/// Writes annotations and Dockerfile.
pub fn generate(flags: &BundleFlags, existing: Existing, log: &ServerLog) -> Result<Generated, Failure> {
    let here = std::env::current_dir().map_err(|error| io("getwd", Path::new("."), &error))?;
    let directory = clean(&here.join(&flags.directory));
    let output = flags.output_dir.as_ref().filter(|path| !path.as_os_str().is_empty()).map(|path| clean(&here.join(path)));
    if let Err(error) = std::fs::metadata(&directory) {
        return Err(io("stat", &directory, &error));
    }
    let files = files(&directory)?;
    let shown = directory.display().to_string();
    let media_type =
        media_type(&shown, files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()))).map_err(|error| unreadable(&error))?;
    let mut description = Description {
        media_type: media_type.to_owned(),
        package: flags.package.clone(),
        channels: flags.channels.clone(),
        default_channel: flags.default_channel.clone(),
    };
    infer(&directory, &files, &mut description, log)?;
    let info = |message: &str| log.write(Level::Info, message, &[]);

    info("Building annotations.yaml");
    let root = match &output {
        None => directory.parent().unwrap_or(&directory).to_owned(),
        Some(output) => {
            info("Generating output manifests directory");
            copy(&directory, &output.join("manifests"), existing)?;
            output.clone()
        }
    };
    let manifests = if output.is_some() { root.join("manifests") } else { directory };
    let metadata = root.join("metadata");
    let annotations = metadata.join(ANNOTATIONS);
    match std::fs::read_to_string(&annotations) {
        Ok(text) if existing == Existing::Keep => {
            info("An annotations.yaml already exists in the directory: metadata/");
            info("Validating existing annotations.yaml");
            let problems = description.differences(&text).map_err(|error| unreadable(&error))?;
            match problems.as_slice() {
                [] => {}
                [only] => return Err(failed(only.clone())),
                many => return Err(failed(format!("[{}]", many.join(", ")))),
            }
        }
        Err(error) if existing == Existing::Keep && error.kind() != std::io::ErrorKind::NotFound => {
            return Err(io("open", &annotations, &error));
        }
        _ => write(&metadata, ANNOTATIONS, &description.annotations(), log)?,
    }

    info("Building Dockerfile");
    if existing == Existing::Keep && here.join(DOCKERFILE).exists() {
        info(&format!("A bundle.Dockerfile already exists in current working directory: {}", here.display()));
    } else {
        let text = description.dockerfile(&flags.base_image, &relative(&here, &manifests), &relative(&here, &metadata));
        write(&here, DOCKERFILE, &text, log)?;
    }
    Ok(Generated { base_image: flags.base_image.clone(), description, manifests, metadata })
}

/// Fills in the package and channels that were not given, from the package that the directory is a version of.
fn infer(directory: &Path, files: &[(String, Vec<u8>)], description: &mut Description, log: &ServerLog) -> Result<(), Failure> {
    let mut missing = Vec::new();
    if description.channels.is_empty() {
        missing.push("channels");
    }
    if description.package.is_empty() {
        missing.push("package name");
    }
    if missing.is_empty() {
        return Ok(());
    }
    let info = |message: String| log.write(Level::Info, &message, &[]);
    info(format!("Bundle {} information not provided, inferring from parent package directory", missing.join(" and ")));
    let shown = directory.display().to_string();
    let refuse = |problem: String| {
        failed(format!("please manually input channels and packageName, error interpreting bundle from directory {shown}, {problem}"))
    };
    let csv = csv_of(&shown, files).map_err(|problem| refuse(format!("error loading CSV from bundle directory, {problem}")))?;
    let bundle = csv["metadata"]["name"].as_str().unwrap_or_default();
    let parent = directory.parent().unwrap_or(directory);
    let package = read_package(parent)
        .and_then(|(files, folders)| Package::read(&parent.display().to_string(), &files, &folders).map_err(|error| unreadable(&error)));
    let package = package.map_err(|failure| refuse(failure.message().to_owned()))?;
    if description.channels.is_empty() {
        description.channels = package.channels_of(bundle).join(",");
        if description.channels.is_empty() {
            return Err(failed("error interpreting channels, please manually input channels instead"));
        }
        info(format!("Inferred channels: {}", description.channels));
    }
    if description.package.is_empty() {
        description.package.clone_from(&package.name);
        info(format!("Inferred package name: {}", description.package));
    }
    if description.default_channel.is_empty() {
        description.default_channel.clone_from(&package.default_channel);
        info(format!("Inferred default channel: {}", description.default_channel));
    }
    Ok(())
}

type Files = Vec<(String, Vec<u8>)>;

fn read_package(directory: &Path) -> Result<(Files, Vec<(String, Files)>), Failure> {
    let mut folders = Vec::new();
    for (name, path) in entries(directory)? {
        if path.is_dir() {
            folders.push((name, files(&path)?));
        }
    }
    Ok((files(directory)?, folders))
}

/// The entries of a folder, sorted by name.
fn entries(directory: &Path) -> Result<Vec<(String, PathBuf)>, Failure> {
    let failed = |error: std::io::Error| io("open", directory, &error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        found.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
    }
    found.sort();
    Ok(found)
}

/// The files of a folder, without those of inner folders.
pub fn files(directory: &Path) -> Result<Files, Failure> {
    let files = entries(directory)?.into_iter().filter(|(_, path)| path.is_file());
    files.map(|(name, path)| std::fs::read(&path).map(|bytes| (name, bytes)).map_err(|error| io("open", &path, &error))).collect()
}

/// Copies a folder of manifests. As with opm, the content of inner folders lands in a folder named after the one being copied. Unlike opm, which then
/// empties the author's files, a folder that is its own target stays as it is.
fn copy(from: &Path, to: &Path, existing: Existing) -> Result<(), Failure> {
    std::fs::create_dir_all(to).map_err(|error| io("mkdir", to, &error))?;
    let real = |path: &Path| path.canonicalize().map_err(|error| io("stat", path, &error));
    if real(from)? == real(to)? {
        return Ok(());
    }
    for (name, path) in entries(from)? {
        // As with opm, a link to a folder is not followed: copying it as a file fails.
        let metadata = std::fs::symlink_metadata(&path).map_err(|error| io("stat", &path, &error))?;
        if metadata.is_dir() {
            copy(&path, &to.join(from.file_name().unwrap_or_default()), existing)?;
            continue;
        }
        let target = to.join(name);
        if target.exists() && existing == Existing::Keep {
            continue;
        }
        std::fs::copy(&path, &target).map_err(|error| io("open", &target, &error))?;
    }
    Ok(())
}

fn write(directory: &Path, name: &str, text: &str, log: &ServerLog) -> Result<(), Failure> {
    std::fs::create_dir_all(directory).map_err(|error| io("mkdir", directory, &error))?;
    log.write(Level::Info, &format!("Writing {name} in {}", directory.display()), &[]);
    let path = directory.join(name);
    std::fs::write(&path, text).map_err(|error| io("open", &path, &error))
}

/// The path without `.` and `..`.
fn clean(path: &Path) -> PathBuf {
    let mut cleaned = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                cleaned.pop();
            }
            other => cleaned.push(other),
        }
    }
    cleaned
}

/// The relative path from one absolute path to another, with slashes.
fn relative(from: &Path, to: &Path) -> String {
    let (mut from, mut to) = (from.components().peekable(), to.components().peekable());
    while from.peek().is_some() && from.peek() == to.peek() {
        from.next();
        to.next();
    }
    let parts: Vec<String> = from.map(|_| "..".to_owned()).chain(to.map(|part| part.as_os_str().to_string_lossy().into_owned())).collect();
    if parts.is_empty() { ".".to_owned() } else { parts.join("/") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_between_folders() {
        for (from, to, way) in [("/a/b", "/a/b/c", "c"), ("/a/b", "/a/c/d", "../c/d"), ("/a", "/a", "."), ("/", "/x", "x")] {
            assert_eq!(relative(Path::new(from), Path::new(to)), way);
        }
        assert_eq!(clean(Path::new("/a/./b/../c")), Path::new("/a/c"));
    }
}
