//! `mainstay bundle images`: the images of a bundle that a mirror and an air-gapped cluster need.

use std::path::Path;

use clap::Args;
use mainstay_bundle::{Bundle, ImageUse};
use mainstay_diagnostics::counted;
use mainstay_terminal::bundles;
use mainstay_terminal::errors::{Failure, warn};
use mainstay_terminal::output::{self, Format, Table};
use serde_json::{Value, json};

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay bundle images examples/bundles/beacon/1.0.0
  mainstay bundle images REGISTRY/BUNDLE:TAG -o name          one reference a line
  mainstay bundle images bundle/ -o json

-o json is {\"bundle\", \"images\": [{\"image\", \"repository\", \"tag\", \"digest\", \"mirrored\", \"named\": [...]}]}; mirrored says
whether mirroring tools find the image: those that only a variable or an annotation names, they do not.")]
pub struct Arguments {
    /// A bundle directory or image
    #[arg(value_name = "DIR|REF")]
    bundle: String,
    /// table, json, yaml, name or jsonpath=PATH
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json, yaml, name or jsonpath=PATH"))]
    output: Format,
}

/// Prints the images.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let bundle = read(&arguments.bundle)?;
    let own = (!Path::new(&arguments.bundle).exists()).then_some(arguments.bundle.as_str());
    let images = bundle.images(own);
    let subject = format!("bundle {}", arguments.bundle);
    for image in images.iter().filter(|image| !image.mirrored) {
        warn(&subject, &format!("mirroring tools do not find {}: only {} names it", image.image, image.named[0]));
    }
    let tags = images.iter().filter(|image| image.digest().is_none()).count();
    match &arguments.output {
        Format::Table | Format::Wide => table(&images)?,
        Format::Name => images.iter().try_for_each(|image| output::line(&image.image))?,
        other => {
            let listed: Vec<Value> = images.iter().map(ImageUse::to_json).collect();
            output::value(other, &json!({"bundle": bundle.csv.name, "images": listed}))?;
        }
    }
    if tags > 0 && arguments.output.is_table() {
        mainstay_terminal::errors::note(format!(
            "{tags} of {} {} named by tag: what runs can change, and mirrors by digest miss them",
            counted(images.len(), "image"),
            if tags == 1 { "is" } else { "are" }
        ));
    }
    Ok(())
}

/// The bundle at a place. A bundle that can be read but not installed has images and differences all the same, and a note says so.
pub fn read(place: &str) -> Result<Bundle, Failure> {
    let subject = format!("bundle {place}");
    let bundle = bundles::read_for_catalog(&subject, &bundles::whole(place)?)?;
    for warning in &bundle.warnings {
        warn(&subject, warning);
    }
    for finding in bundle.check() {
        warn(&subject, &format!("cannot be installed: {finding}"));
    }
    Ok(bundle)
}

fn table(images: &[ImageUse]) -> Result<(), Failure> {
    let mut table = Table::new(&["IMAGE", "BY", "NAMED IN"]);
    for image in images {
        let by = match (image.digest(), image.tag()) {
            (Some(_), _) => "digest",
            (None, Some(_)) => "tag",
            (None, None) => "nothing",
        };
        let mut shown = image.image.as_str();
        let mut how = by;
        for named in &image.named {
            table.row([shown.to_owned(), how.to_owned(), named.to_string()]);
            (shown, how) = (" ", " ");
        }
    }
    table.print()
}
