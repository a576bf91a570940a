//! `opm index export` (CATLG-60): packages as folders with one manifest folder per version, and a `package.yaml`.

use std::path::{Component, Path, PathBuf};

use clap::Args;
use mainstay_catalog_refs::pull_files;
use mainstay_sqlite_index::IndexDatabase;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::runtime;
use serde_json::Value;

use super::super::Global;
use super::super::databases::{self, list, log_of};
use super::super::server_log::Level;
use super::image::extract;

/// Arguments.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Index to export from
    #[arg(short, long, required = true)]
    index: String,
    /// Packages to export, parted by commas; all when there are none
    #[arg(short, long, value_name = "strings")]
    package: Vec<String>,
    /// Earlier name of --package
    #[arg(short = 'o', long, hide = true, value_name = "strings")]
    xpackage: Vec<String>,
    /// Folder to write into
    #[arg(short = 'f', long, default_value = "downloaded")]
    download_folder: PathBuf,
    /// Tool to pull with: none, docker, podman. Images are pulled by this program whatever it says
    #[arg(short, long, default_value = "none")]
    container_tool: String,
    /// Log what is done
    #[arg(long, hide = true)]
    debug: bool,
}

/// Writes the packages.
pub(super) fn run(arguments: &Arguments, global: Global) -> Result<(), Failure> {
    let subject = format!("index {}", arguments.index);
    if !arguments.package.is_empty() && !arguments.xpackage.is_empty() {
        return Err(Failure::new(Exit::Failed, subject, "cannot simultaneously set '-p' and '-o' flags, remove '-o'"));
    }
    global.check()?;
    let mut packages = list(if arguments.xpackage.is_empty() { &arguments.package } else { &arguments.xpackage });
    let log = log_of("package", &packages).with(&[("index", &arguments.index)]);
    log.write(Level::Info, "export from the index", &[]);
    let scratch = tempfile::tempdir().map_err(|error| Failure::failed("temporary folder", &error))?;
    let file = scratch.path().join("index.db");
    let client = databases::client(global, "")?;
    log.write(Level::Info, &format!("Pulling previous image {} to get metadata", arguments.index), &[]);
    extract(&client, &arguments.index, &file)?;
    let database = databases::open(&file)?;
    let asked = |error: &mainstay_sqlite_index::Error| databases::failure(&subject, error);
    if packages.is_empty() {
        packages = database.packages().map_err(|error| asked(&error))?;
    }
    for package in &packages {
        let folder = arguments.download_folder.join(plain(package)?);
        for (image, version) in database.images(package).map_err(|error| asked(&error))? {
            let below = if version.is_empty() { name_of(&image) } else { version };
            let directory = folder.join(plain(&below)?);
            let files = runtime::block_on(async {
                pull_files(&client, &image).await.map_err(|error| {
                    Failure::new(Exit::Failed, format!("bundle {image}"), format!("exporting bundle image:{image} failed with {error}"))
                })
            })?;
            write_manifests(&directory, &files).map_err(|error| Failure::failed(format!("folder {}", directory.display()), &error))?;
        }
        let text = package_yaml(&database, package).map_err(|error| asked(&error))?;
        let write = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(folder.join("package.yaml"), text));
        write.map_err(|error| Failure::failed(format!("folder {}", folder.display()), &error))?;
    }
    Ok(())
}

fn write_manifests(directory: &Path, files: &[(String, Vec<u8>)]) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    for (path, bytes) in files {
        let Some(below) = path.strip_prefix("manifests/") else { continue };
        let to = directory.join(below);
        if let Some(parent) = to.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(to, bytes)?;
    }
    Ok(())
}

/// The name, if it is one plain folder: names in a database come from outside.
fn plain(name: &str) -> Result<&str, Failure> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(_)), None) if !name.ends_with('/') => Ok(name),
        _ => Err(Failure::new(Exit::Failed, "index", format!("{name:?} cannot be the name of a folder"))),
    }
}

/// The folder name for a bundle without a version; upstream takes a random number.
fn name_of(image: &str) -> String {
    image.rsplit('/').next().unwrap_or(image).replace([':', '@'], "-")
}

/// The package's channels in the older format.
fn package_yaml(database: &IndexDatabase, package: &str) -> Result<String, mainstay_sqlite_index::Error> {
    let text = |text: &str| mainstay_yaml::to_string(&Value::from(text)).trim_end().to_owned();
    let channels = database.channels(package)?;
    let mut lines = vec![format!("packageName: {}", text(package))];
    lines.push(if channels.is_empty() { "channels: []".to_owned() } else { "channels:".to_owned() });
    lines.extend(channels.iter().map(|(channel, head)| format!("- name: {}\n  currentCSV: {}", text(channel), text(head))));
    lines.push(format!("defaultChannel: {}\n", text(&database.default_channel(package)?)));
    Ok(lines.join("\n"))
}
