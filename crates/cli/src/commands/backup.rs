//! `mainstay backup`: everything that a cluster stores, in one file (KAPI-STORE-02).

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use futures::AsyncReadExt as _;
use mainstay_apiserver::backup::{PATH, about, pki_files};
use mainstay_operations::refused;
use mainstay_store::backup::{Backup, Contents};
use mainstay_store::{Embedded, Options, Store};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::output::{self, Format};
use mainstay_terminal::progress::Progress;
use mainstay_terminal::runtime;
use serde_json::{Value, json};

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay backup today.backup                        the running cluster, while it goes on
  mainstay backup today.backup --data-dir DIR         a data directory that no process uses
  mainstay backup objects.backup --objects-only       without the keys of the CA and of ServiceAccount tokens
  mainstay restore today.backup --data-dir NEW        what it is for

A backup shows every object as of one revision. With the keys in it, it is as secret as the cluster.")]
pub struct Arguments {
    /// Where to write it; an existing file is replaced once the backup is whole
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// A data directory that no process uses, instead of a running cluster
    #[arg(long, value_name = "DIR", conflicts_with_all = ["kubeconfig", "context", "embedded"])]
    data_dir: Option<PathBuf>,
    /// Leave out certificates and keys
    #[arg(long)]
    objects_only: bool,
    /// table, json, yaml or jsonpath=PATH
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json, yaml or jsonpath=PATH"))]
    output: Format,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Writes and verifies the backup.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let folder = arguments.file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Readable for its owner alone, as temporary files are.
    let mut part = tempfile::NamedTempFile::new_in(folder).map_err(|error| written(&arguments.file, &error))?;
    let mut progress = Progress::start();
    runtime::block_on(async {
        match &arguments.data_dir {
            Some(data_dir) => of_a_directory(data_dir, arguments, part.as_file_mut(), &mut progress).await,
            None => of_a_cluster(arguments, part.as_file_mut(), &mut progress).await,
        }
    })?;
    progress.doing("verifying");
    let contents = Backup::open(part.path()).and_then(|backup| backup.verify());
    let contents = contents.map_err(|error| Failure::failed("backup", &error).hint("the transfer broke off; try again"))?;
    part.as_file().sync_all().map_err(|error| written(&arguments.file, &error))?;
    part.persist(&arguments.file).map_err(|error| written(&arguments.file, &error.error))?;
    drop(progress);
    show(&arguments.output, &arguments.file, &contents)
}

async fn of_a_cluster(arguments: &Arguments, file: &mut File, progress: &mut Progress) -> Result<(), Failure> {
    let session = arguments.cluster.open().await?;
    note(format!("cluster: {} ({})", session.context, session.server));
    let path = if arguments.objects_only { format!("{PATH}?objectsOnly=true") } else { PATH.to_owned() };
    let request = http::Request::get(path).body(Vec::new()).map_err(|error| Failure::failed("backup", &error))?;
    let mut answer = Box::pin(session.client.request_stream(request).await.map_err(|error| match &error {
        kube::Error::Api(status) if status.code == 404 => refused("backup", &error).hint("this is no embedded cluster of mainstay"),
        _ => refused("backup", &error),
    })?);
    let (mut buffer, mut total) = (vec![0; 256 << 10], 0_u64);
    loop {
        let count = answer.read(&mut buffer).await.map_err(|error| Failure::failed("backup", &error))?;
        if count == 0 {
            return Ok(());
        }
        file.write_all(&buffer[..count]).map_err(|error| written(&arguments.file, &error))?;
        let before = total >> 24;
        total += count as u64;
        if total >> 24 > before {
            progress.doing(&format!("{} MiB", total >> 20));
        }
    }
}

async fn of_a_directory(data_dir: &Path, arguments: &Arguments, file: &mut File, progress: &mut Progress) -> Result<(), Failure> {
    let subject = || format!("data directory {}", data_dir.display());
    let folder = data_dir.join("store");
    if !Embedded::is_at(&folder) {
        return Err(Failure::new(Exit::NotFound, subject(), "holds no store"));
    }
    let store = Embedded::open(&folder, &Options::default()).map_err(|error| match &error {
        mainstay_store::Error::Locked { .. } => {
            Failure::failed(subject(), &error).hint("a running cluster is backed up without --data-dir, with --kubeconfig or --embedded")
        }
        _ => Failure::failed(subject(), &error),
    })?;
    let mut files = vec![("about.json".to_owned(), about().into_bytes())];
    if !arguments.objects_only {
        files.extend(pki_files(&[data_dir.join("pki")]).map_err(|error| Failure::failed(subject(), &error))?);
    }
    progress.doing("reading");
    let mut problem = None;
    let made = mainstay_store::backup::write(&store, &files, |piece| {
        let outcome = file.write_all(&piece).map_err(|error| {
            problem = Some(written(&arguments.file, &error));
            mainstay_store::Error::Closed
        });
        std::future::ready(outcome)
    })
    .await;
    store.close().await;
    match (problem, made) {
        (Some(failure), _) => Err(failure),
        (None, made) => made.map_err(|error| Failure::failed(subject(), &error)),
    }
}

fn written(file: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("file {}", file.display()), error)
}

/// Prints the content of a backup as text or in the given format.
pub fn show(format: &Format, file: &Path, contents: &Contents) -> Result<(), Failure> {
    if !format.is_table() {
        return output::value(format, &described(file, contents));
    }
    let keys = if has_keys(contents) { "certificates and keys" } else { "no certificates and keys" };
    output::line(format!(
        "backup {}: {} objects as of revision {}, {keys}, {} KiB",
        file.display(),
        contents.keys,
        contents.revision,
        contents.bytes.div_ceil(1024)
    ))
}

/// The content of a backup as a value.
pub fn described(file: &Path, contents: &Contents) -> Value {
    json!({
        "file": file, "revision": contents.revision, "objects": contents.keys, "bytes": contents.bytes, "files": contents.files,
    })
}

fn has_keys(contents: &Contents) -> bool {
    contents.files.iter().any(|name| name.starts_with("pki/"))
}
