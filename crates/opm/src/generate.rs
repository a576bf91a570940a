//! `opm generate dockerfile` (CATLG-30, CATLG-31, OLM1-BUILD-01).

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Component, Path, PathBuf};

use clap::{Args, Subcommand};
use mainstay_terminal::errors::{Exit, Failure};

use super::init::words;

/// The image that contains opm.
pub const OPM_IMAGE: &str = "quay.io/operator-framework/opm:latest";

/// What is generated.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// Write the Dockerfile of a file-based catalog
    #[command(long_about = "\
Write the Dockerfile of a file-based catalog.

It lies beside the catalog's directory and has its name with .Dockerfile behind it; one that exists is not changed. Of a label that is
given twice the last value counts. The builder image needs opm, so it cannot be scratch.")]
    Dockerfile(Dockerfile),
}

/// Arguments of `dockerfile`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  opm generate dockerfile catalog
  opm generate dockerfile catalog --base-image scratch --extra-labels vendor=team")]
pub struct Dockerfile {
    /// The catalog's directory
    #[arg(value_name = "fbcRootDir")]
    directory: String,
    /// Image to build on
    #[arg(long, default_value = OPM_IMAGE, hide = true, long_help = "deprecated: use --base-image instead", conflicts_with = "base_image")]
    binary_image: String,
    /// Image to build on
    #[arg(short = 'i', long, default_value = OPM_IMAGE)]
    base_image: String,
    /// Image of the stage that fills the cache
    #[arg(short, long, default_value = OPM_IMAGE)]
    builder_image: String,
    /// Further labels of the image, key=value
    #[arg(short = 'l', long)]
    extra_labels: Vec<String>,
}

/// Writes the Dockerfile.
pub fn run(command: &Commands) -> Result<(), Failure> {
    let Commands::Dockerfile(arguments) = command;
    let fail = |message: String| Failure::new(Exit::Failed, "Dockerfile", message);
    if arguments.builder_image == "scratch" {
        return Err(fail("invalid builder image: \"scratch\"".to_owned()));
    }
    let old = arguments.binary_image != OPM_IMAGE;
    let base = if old { &arguments.binary_image } else { &arguments.base_image };
    let builder = if old && arguments.builder_image == OPM_IMAGE { base } else { &arguments.builder_image };
    let labels = labels(&arguments.extra_labels)?;
    let directory = cleaned(Path::new(&arguments.directory));
    let shown = directory.display().to_string();
    let (parent, name) = shown.rfind('/').map_or(("", shown.as_str()), |at| shown.split_at(at + 1));
    let path = PathBuf::from(format!("{parent}{name}.Dockerfile"));
    match std::fs::metadata(&path) {
        Ok(_) => {
            return Err(fail(format!("path \"{}\": file already exists", path.display()))
                .hint("remove it, or move it away, to have it written anew"));
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(fail(format!("stat {}: {}", path.display(), words(&error)))),
    }
    match std::fs::metadata(&directory) {
        Err(error) => return Err(fail(format!("stat {}: {}", directory.display(), words(&error)))),
        Ok(metadata) if !metadata.is_dir() => {
            return Err(fail(format!("provided root path \"{}\" is not a directory", directory.display())));
        }
        Ok(_) => {}
    }
    if base.is_empty() {
        return Err(fail("base image is unset".to_owned()));
    }
    let text = dockerfile(builder, base, name, &labels);
    let written = OpenOptions::new().write(true).create_new(true).open(&path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| fail(format!("open {}: {}", path.display(), words(&error))))
}

/// Labels as `key=value`, several separated by commas; the last value of a key counts.
fn labels(given: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let mut labels = BTreeMap::new();
    for label in given.iter().flat_map(|text| text.split(',')) {
        match label.split_once('=') {
            Some((key, value)) => labels.insert(key.to_owned(), value.to_owned()),
            None => return Err(Failure::new(Exit::Failed, "Dockerfile", format!("invalid label {label:?}"))),
        };
    }
    Ok(labels)
}

/// The path without `.`, `..` and empty parts, as Go cleans it.
fn cleaned(path: &Path) -> PathBuf {
    let mut parts: Vec<Component<'_>> = Vec::new();
    for part in path.components() {
        match (part, parts.last()) {
            (Component::CurDir, _) | (Component::ParentDir, Some(Component::RootDir)) => {}
            (Component::ParentDir, Some(Component::Normal(_))) => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    if parts.is_empty() { PathBuf::from(".") } else { parts.iter().collect() }
}

/// The file's text, as upstream writes it.
pub fn dockerfile(builder: &str, base: &str, directory: &str, labels: &BTreeMap<String, String>) -> String {
    let start = if base == "scratch" {
        "\
# OLMv0 CatalogSources that use binary-less images must set:
# spec:
#   grpcPodConfig:
#     extractContent:
#       catalogDir: /configs
#       cacheDir: /tmp/cache
"
    } else {
        "\
# The base image is expected to contain
# /bin/opm (with serve subcommand) and /bin/grpc_health_probe

# Configure the entrypoint and command
ENTRYPOINT [\"/bin/opm\"]
CMD [\"serve\", \"/configs\", \"--cache-dir=/tmp/cache\"]
"
    };
    let mut text = format!(
        "\
# The builder image is expected to contain
# /bin/opm (with serve subcommand)
FROM {builder} as builder

# Copy FBC root into image at /configs and pre-populate serve cache
ADD {directory} /configs
RUN [\"/bin/opm\", \"serve\", \"/configs\", \"--cache-dir=/tmp/cache\", \"--cache-only\"]

FROM {base}
{start}
COPY --from=builder /configs /configs
COPY --from=builder /tmp/cache /tmp/cache

# Set FBC-specific label for the location of the FBC root directory
# in the image
LABEL operators.operatorframework.io.index.configs.v1=/configs
"
    );
    if !labels.is_empty() {
        text.push_str("\n# Set other custom labels\n");
        text.extend(labels.iter().map(|(key, value)| format!("LABEL \"{key}\"=\"{value}\"\n")));
    }
    text
}
