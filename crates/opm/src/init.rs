//! `opm init` (CATLG-28, OLM1-BUILD-02).

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use mainstay_catalog::{Catalog, Icon, Package, render};
use mainstay_catalog_refs::file_type;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output;

use super::render::parse_output;

/// The largest icon or description that is read.
const MAX_FILE: u64 = 32 << 20;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  opm init my-operator --default-channel stable --description README.md --icon logo.png --output yaml > catalog/index.yaml")]
pub struct Arguments {
    /// The package
    #[arg(value_name = "packageName")]
    package: String,
    /// Channel that is installed from when nobody asks for another
    #[arg(short = 'c', long, default_value = "")]
    default_channel: String,
    /// File with a picture of the operator
    #[arg(short, long)]
    icon: Option<PathBuf>,
    /// File with a description of the operator, such as its README.md
    #[arg(short, long)]
    description: Option<PathBuf>,
    /// Output format (json|yaml)
    #[arg(short, long, default_value = "json")]
    output: String,
}

/// Prints the blob.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let format = parse_output(&arguments.output)?;
    let icon = arguments.icon.as_deref().map(|path| read("icon", path)).transpose()?;
    let description = match arguments.description.as_deref().map(|path| read("description", path)).transpose()? {
        // Bytes that are no text become the replacement character, as in Go's JSON.
        Some(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        None => String::new(),
    };
    let package = Package {
        name: arguments.package.as_str().into(),
        default_channel: arguments.default_channel.as_str().into(),
        description,
        icon: icon.map(|bytes| picture(&bytes)).transpose()?,
        properties: Vec::new(),
    };
    let catalog = Catalog { packages: vec![package], ..Catalog::default() };
    output::stream(format, |out| render(&catalog, format, out))
}

fn read(what: &str, path: &Path) -> Result<Vec<u8>, Failure> {
    let fail = |doing: &str, reason: String| Err(Failure::new(Exit::Failed, "package", format!("{doing}: {reason}")));
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) => return fail(&format!("open {what} file"), format!("open {}: {}", path.display(), words(&error))),
    };
    let mut bytes = Vec::new();
    match file.take(MAX_FILE + 1).read_to_end(&mut bytes) {
        Ok(_) if bytes.len() as u64 > MAX_FILE => {
            fail(&format!("read {what}"), format!("{} is larger than {MAX_FILE} bytes", path.display()))
        }
        Ok(_) => Ok(bytes),
        Err(error) => fail(&format!("read {what}"), format!("read {}: {}", path.display(), words(&error))),
    }
}

fn picture(bytes: &[u8]) -> Result<Icon, Failure> {
    let fail = |message: String| Failure::new(Exit::Failed, "package", message);
    if bytes.is_empty() {
        return Err(fail("detect icon mediatype: Empty buffer".to_owned()));
    }
    let media_type = file_type::media_type(bytes).unwrap_or_default();
    if !media_type.starts_with("image/") {
        return Err(fail(format!("detected invalid type {media_type:?}: not an image"))
            .hint("SVG, PNG, JPEG, GIF, WebP and other bitmap formats are images; an SVG file is one svg element, without a * in it"));
    }
    Ok(Icon::new(bytes, media_type))
}

/// The operating system's message, without the number that Rust adds and in Go's spelling.
pub(super) fn words(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" (os error").map_or(text.as_str(), |(words, _)| words);
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}
