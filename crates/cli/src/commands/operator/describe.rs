//! A package as a page.

use mainstay_operations::classic::objects::text;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output;

use super::listing::manifests;
use super::{Context, SELF};

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The operator
    operator: String,
    /// Catalog to query [default: all]
    #[arg(long, short, value_name = "[NAMESPACE/]NAME")]
    catalog: Option<String>,
    /// Package channel to describe [default: the default channel]
    #[arg(long, short = 'C', value_name = "CHANNEL")]
    channel: Option<String>,
    /// Include long description
    #[arg(long, short = 'L')]
    with_long_description: bool,
}

/// Prints the page.
pub async fn run(context: &Context, arguments: &Arguments) -> Result<(), Failure> {
    let all = manifests(context, Some(&arguments.operator), arguments.catalog.as_deref()).await?;
    let Some(manifest) = all.first() else { return Ok(()) };
    let default = text(manifest, "/status/defaultChannel");
    if arguments.channel.is_none() && default.is_empty() {
        let message = format!("package {:?} does not have a default channel", arguments.operator);
        return Err(Failure::new(Exit::NotFound, SELF, message));
    }
    let wanted = arguments.channel.as_ref().unwrap_or(&default);
    let channels: Vec<_> = manifest["status"]["channels"].as_array().into_iter().flatten().collect();
    let Some(channel) = channels.iter().find(|channel| channel["name"] == *wanted.as_str()) else {
        let message = format!("channel {wanted:?} does not exist for package {:?}", arguments.operator);
        return Err(Failure::new(Exit::NotFound, SELF, message));
    };
    let head = &channel["currentCSVDesc"];
    let marked = |name: String| {
        let default = if name == default { " (default)" } else { "" };
        let shown = if name == *wanted { " (shown)" } else { "" };
        format!("{name}{default}{shown}")
    };
    let listed: Vec<String> = channels.iter().map(|channel| marked(text(channel, "/name"))).collect();
    let modes = head["installModes"].as_array().into_iter().flatten().filter(|mode| mode["supported"] == true);
    let mut modes: Vec<String> = modes.map(|mode| text(mode, "/type")).collect();
    modes.sort();
    let package = format!("{} {} (by {})", text(head, "/displayName"), text(head, "/version"), text(head, "/provider/name"));
    let mut blocks = vec![
        ("Package", package),
        ("Repository", text(head, "/annotations/repository")),
        ("Catalog", text(manifest, "/status/catalogSourceDisplayName")),
        ("Channels", listed.join("\n")),
        ("Install Modes", modes.join("\n")),
        ("Description", text(head, "/annotations/description")),
    ];
    if arguments.with_long_description {
        blocks.push(("Long Description", text(head, "/description")));
    }
    let page: Vec<String> = blocks.into_iter().map(|(title, content)| format!("== {title} ==\n{content}\n")).collect();
    output::print(&page.join("\n"))
}
