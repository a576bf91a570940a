//! `mainstay image extract`: extracts files of an image, with the limits that hold wherever layers are unpacked.

use std::fs;
use std::path::{Component, Path, PathBuf};

use clap::Args;
use mainstay_oci::{Layer, Modes, Platform, UnpackOptions, unpack};
use mainstay_terminal::errors::InvalidArgument;
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::progress::Progress;
use mainstay_terminal::{images, output, runtime};

/// Arguments of `image extract`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay image extract REGISTRY/bundle:v1 --path /manifests:out
  mainstay image extract REGISTRY/catalog:v1 --path /configs:configs --path /bin/opm:.

A folder's content goes into the directory, a file goes there under its own name. Links that lead out of what is extracted are left out.")]
pub struct Extract {
    /// The image
    #[arg(value_name = "IMAGE")]
    image: String,
    /// What to extract, and the directory it goes to; may be given more than once
    #[arg(long = "path", value_name = "SRC:DST", default_value = "/:.", value_parser = pair)]
    paths: Vec<(String, PathBuf)>,
    /// Replace files that are there
    #[arg(long)]
    force: bool,
    /// Which image of an index: linux/arm64; this machine's when not given
    #[arg(long, value_name = "OS/ARCH", value_parser = platform)]
    platform: Option<Platform>,
}

fn pair(text: &str) -> Result<(String, PathBuf), InvalidArgument> {
    let (source, target) = text.split_once(':').ok_or_else(|| InvalidArgument("expected SRC:DST".to_owned()))?;
    if source.split('/').any(|part| part == "..") {
        return Err(InvalidArgument("a path in an image has no \"..\"".to_owned()));
    }
    if target.is_empty() {
        return Err(InvalidArgument("the directory after the colon is missing".to_owned()));
    }
    Ok((source.split('/').filter(|part| !part.is_empty() && *part != ".").collect::<Vec<_>>().join("/"), PathBuf::from(target)))
}

fn platform(text: &str) -> Result<Platform, InvalidArgument> {
    let mut parts = text.splitn(3, '/').map(str::to_owned);
    match (parts.next(), parts.next(), parts.next()) {
        (Some(os), Some(architecture), variant) if !os.is_empty() && !architecture.is_empty() => Ok(Platform { os, architecture, variant }),
        _ => Err(InvalidArgument("expected OS/ARCH, like linux/arm64".to_owned())),
    }
}

/// Extracts the paths.
pub fn run(arguments: &Extract) -> Result<(), Failure> {
    let subject = format!("image {}", arguments.image);
    let failed = |error: mainstay_oci::Error| images::failure(&subject, &error);
    let progress = Progress::start();
    let written = runtime::block_on(async {
        let mut client = images::client()?;
        if let Some(on_progress) = progress.transfer("image") {
            client = client.with_progress(on_progress);
        }
        if let Some(platform) = &arguments.platform {
            client = client.for_platform(platform.clone());
        }
        let reference = client.reference(&arguments.image).map_err(failed)?;
        let workspace = client.workspace().map_err(failed)?;
        let image = client.pull(&reference, workspace.store()).await.map_err(failed)?;
        let layers = Layer::of(&image, workspace.store());
        let mut written = 0;
        for (source, target) in &arguments.paths {
            written += one(&subject, &layers, source, target, arguments.force)?;
        }
        Ok(written)
    })?;
    drop(progress);
    output::line(format!("{subject}: {written} {} extracted", if written == 1 { "file" } else { "files" }))
}

/// Extracts one path; returns the number of files and links.
fn one(subject: &str, layers: &[Layer], source: &str, target: &Path, force: bool) -> Result<u64, Failure> {
    let at = |path: &Path| {
        let place = format!("directory {}", path.display());
        move |error: std::io::Error| Failure::failed(place, &error)
    };
    fs::create_dir_all(target).map_err(at(target))?;
    // On the same file system, so that everything can be moved.
    let scratch = tempfile::Builder::new().prefix(".mainstay-extract-").tempdir_in(target).map_err(at(target))?;
    let root = scratch.path().join("root");
    let keep = Some(source.to_owned()).filter(|source| !source.is_empty()).into_iter().collect();
    let options = UnpackOptions { keep, modes: Modes::Umask, ..UnpackOptions::default() };
    unpack(layers, &root, &options).map_err(|error| images::failure(subject, &error))?;
    let found = root.join(source);
    let Ok(kind) = fs::symlink_metadata(&found) else {
        return Err(Failure::new(Exit::NotFound, subject, format!("has no path /{source}")));
    };
    let mut written = 0;
    if kind.is_dir() {
        drop_links_outside(&found, &found)?;
        for entry in fs::read_dir(&found).map_err(at(&found))? {
            let entry = entry.map_err(at(&found))?;
            place(&entry.path(), &target.join(entry.file_name()), force, &mut written)?;
        }
    } else {
        let (folder, name) = (found.parent().unwrap_or(&root), found.file_name().unwrap_or_default());
        drop_links_outside(folder, folder)?;
        if fs::symlink_metadata(&found).is_ok() {
            place(&found, &target.join(name), force, &mut written)?;
        } else {
            return Err(Failure::new(Exit::Failed, subject, format!("/{source} is a link that leads out of what is extracted")));
        }
    }
    Ok(written)
}

/// Removes links below `folder` that lead out of `top`: elsewhere they would lead to other files.
fn drop_links_outside(top: &Path, folder: &Path) -> Result<(), Failure> {
    let at = |error: std::io::Error| Failure::failed(format!("directory {}", folder.display()), &error);
    for entry in fs::read_dir(folder).map_err(at)? {
        let entry = entry.map_err(at)?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(at)?);
        if kind.is_dir() {
            drop_links_outside(top, &path)?;
        } else if kind.is_symlink() && !stays(top, &path).map_err(at)? {
            let shown = path.strip_prefix(top).unwrap_or(&path).display().to_string();
            note(format!("warning: link {shown:?} leads out of what is extracted and is left out"));
            fs::remove_file(&path).map_err(at)?;
        }
    }
    Ok(())
}

/// Returns true if a link leads to something below `top`, by its text and when followed.
fn stays(top: &Path, link: &Path) -> std::io::Result<bool> {
    let target = fs::read_link(link)?;
    let mut depth = link.strip_prefix(top).map_or(0, |inside| inside.components().count()).saturating_sub(1);
    for part in target.components() {
        match part {
            Component::ParentDir if depth == 0 => return Ok(false),
            Component::ParentDir => depth -= 1,
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return Ok(false),
        }
    }
    // Through other links it may lead elsewhere than its text says.
    match link.canonicalize() {
        Ok(leads) => Ok(leads.starts_with(top.canonicalize()?)),
        Err(_) => Ok(true),
    }
}

/// Moves a file, a link, or a folder with its content.
fn place(from: &Path, to: &Path, force: bool, written: &mut u64) -> Result<(), Failure> {
    let at = |error: std::io::Error| Failure::failed(format!("file {}", to.display()), &error);
    let moving = fs::symlink_metadata(from).map_err(at)?;
    let there = match fs::symlink_metadata(to) {
        Ok(there) => Some(there),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(at(error)),
    };
    match there {
        Some(there) if there.is_dir() && moving.is_dir() => {}
        Some(there) if there.is_dir() || moving.is_dir() || !force => {
            return Err(Failure::new(Exit::Failed, format!("file {}", to.display()), "is there already; nothing of it was changed")
                .hint("--force replaces files, or another directory after the colon of --path"));
        }
        Some(_) => fs::remove_file(to).map_err(at)?,
        None if moving.is_dir() => fs::create_dir(to).map_err(at)?,
        None => {}
    }
    if !moving.is_dir() {
        *written += 1;
        return fs::rename(from, to).map_err(at);
    }
    for entry in fs::read_dir(from).map_err(at)? {
        let entry = entry.map_err(at)?;
        place(&entry.path(), &to.join(entry.file_name()), force, written)?;
    }
    Ok(())
}
