//! `opm alpha bundle extract`: writes a bundle directory into a ConfigMap, as the unpack Job of classic OLM does.

use std::path::{Path, PathBuf};

use clap::Args;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use mainstay_bundle::configmap::{self, Encoding, SOURCE_IMAGE};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::runtime;

use super::super::super::init::words;
use super::super::super::server_log::{Level, ServerLog};

/// Why a folder cannot be read, in the words of upstream's program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct Unreadable(String);

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  opm alpha bundle extract -m /bundle/ -n olm -c unpacked --gzip")]
pub struct Arguments {
    /// Enable debug logging
    #[arg(long)]
    debug: bool,
    /// Absolute path to kubeconfig file
    #[arg(short, long, value_name = "string")]
    kubeconfig: Option<PathBuf>,
    /// Path to directory containing manifests
    #[arg(short, long, value_name = "string", default_value = "/")]
    manifestsdir: String,
    /// Name of configmap to write bundle data
    #[arg(short, long, value_name = "string", default_value = "", hide_default_value = true)]
    configmapname: String,
    /// Namespace to write configmap data
    #[arg(short, long, value_name = "string", default_value = "openshift-operator-lifecycle-manager")]
    namespace: String,
    /// Maximum limit in bytes for total bundle data
    #[arg(short = 'l', long, value_name = "uint", default_value_t = 1 << 20)]
    datalimit: u64,
    /// Enable gzip compression of configmap data
    #[arg(short = 'z', long)]
    gzip: bool,
}

/// Writes the ConfigMap.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let log = ServerLog::new(if arguments.debug { Level::Debug } else { Level::Info });
    let failed = |problem: String| Failure::new(Exit::Failed, "bundle", format!("error loading manifests from directory: {problem}"));
    let encoding = if arguments.gzip { Encoding::Gzip } else { Encoding::Plain };
    runtime::block_on(async {
        let place = ClusterArgs { kubeconfig: arguments.kubeconfig.clone(), ..ClusterArgs::default() };
        let session = place.open().await?;
        let api: Api<ConfigMap> = Api::namespaced(session.client, &arguments.namespace);
        let said = |error: kube::Error| match error {
            kube::Error::Api(status) => failed(status.message.clone()),
            other => failed(other.to_string()),
        };
        let mut map = api.get(&arguments.configmapname).await.map_err(said)?;

        let mut files: Vec<(String, Vec<u8>)> = Vec::new();
        for folder in ["manifests/", "metadata/"] {
            let path = format!("{}{folder}", arguments.manifestsdir);
            files.extend(read(&path, &log).map_err(|error| failed(error.to_string()))?);
        }
        let named = files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
        let content = configmap::content(named, encoding, arguments.datalimit).map_err(|error| failed(error.to_string()))?;
        for (name, key) in &content.translated {
            let fields = [("file.Name", name.as_str()), ("validConfigMapKey", key.as_str())];
            log.write(Level::Info, "translated filename for configmap compatibility", &fields);
        }
        // The ConfigMap's own annotations stay unless the bundle contains a file of them.
        let brought = content.annotations.unwrap_or_default();
        let mut annotations = if files.iter().any(|(name, _)| name == "annotations.yaml") {
            brought
        } else {
            let mut kept = map.metadata.annotations.take().unwrap_or_default();
            kept.extend(brought);
            kept
        };
        if let Some(image) = std::env::var("CONTAINER_IMAGE").ok().filter(|image| !image.is_empty()) {
            annotations.insert(SOURCE_IMAGE.to_owned(), image);
        }
        map.metadata.annotations = Some(annotations);
        map.data = Some(content.data);
        map.binary_data = Some(content.binary_data.into_iter().map(|(key, bytes)| (key, ByteString(bytes))).collect());
        api.replace(&arguments.configmapname, &PostParams::default(), &map).await.map_err(said)?;
        Ok(())
    })
}

/// The files of a folder in order; like opm, it does not read inner folders.
fn read(folder: &str, log: &ServerLog) -> Result<Vec<(String, Vec<u8>)>, Unreadable> {
    let shown = |path: &str, error: &std::io::Error| Unreadable(format!("open {path}: {}", words(error)));
    let entries = std::fs::read_dir(Path::new(folder)).map_err(|error| shown(folder, &error))?;
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.map_err(|error| shown(folder, &error))?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let read = |name: String| {
        let path = format!("{folder}{name}");
        log.write(Level::Info, "Reading file", &[("file", &path)]);
        std::fs::read(&path).map(|bytes| (name, bytes)).map_err(|error| shown(&path, &error))
    };
    names.into_iter().map(read).collect()
}
