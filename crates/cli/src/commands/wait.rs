//! `mainstay wait`: waits until an extension or a catalog is in a given state (MS-CLI-05, MS-CLI-06).

use std::time::Duration;

use clap::Args;
use mainstay_operations::wait::{Awaited, Subject, wait};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output;
use mainstay_terminal::progress::Progress;
use mainstay_terminal::runtime;

use crate::durations;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay wait beacon                           until it is installed and its objects are ready
  mainstay wait beacon --for version=1.1.0       until this version, or one in this range, is installed and ready
  mainstay wait beacon --for deleted --timeout 1m
  mainstay wait clustercatalog team              until it serves

Progress is on stderr. Exit codes: 0 it is so, 3 there is nothing of this name, 4 it cannot become so without a user's action,
5 it is not so yet.")]
pub struct Arguments {
    /// [clusterextension|clustercatalog] NAME
    #[arg(required = true, num_args = 1..=2, value_names = ["KIND", "NAME"])]
    what: Vec<String>,
    /// installed, healthy, deleted, version=RANGE; serving or deleted of a catalog [default: healthy, or serving]
    #[arg(long = "for", value_name = "STATE")]
    until: Option<Awaited>,
    /// How long: 90s, 5m, 1h30m
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = durations::parse)]
    timeout: Duration,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Waits for the state.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let subject = subject(&arguments.what)?;
    let awaited = arguments.until.clone().unwrap_or(match subject {
        Subject::Catalog(_) => Awaited::Serving,
        Subject::Extension(_) => Awaited::Healthy,
    });
    match (&awaited, &subject) {
        (Awaited::Serving, Subject::Extension(_)) => {
            return Err(
                Failure::new(Exit::Usage, "wait", "an extension does not serve").hint("--for installed, healthy, deleted or version=RANGE")
            );
        }
        (Awaited::Installed | Awaited::Healthy | Awaited::Version(..), Subject::Catalog(_)) => {
            return Err(Failure::new(Exit::Usage, "wait", "a catalog is not installed").hint("--for serving or deleted"));
        }
        _ => {}
    }
    runtime::block_on(async {
        let session = arguments.cluster.open().await?;
        let said = wait(&session, &subject, &awaited, arguments.timeout, &mut Progress::start()).await?;
        output::line(format!("{subject}: {said}"))
    })
}

/// The subject in `NAME`, `KIND NAME` or `KIND/NAME`.
fn subject(words: &[String]) -> Result<Subject, Failure> {
    let (kind, name) = match words {
        [name] => match name.split_once('/') {
            None => return Ok(Subject::Extension(name.clone())),
            Some(split) => split,
        },
        [kind, name] => (kind.as_str(), name.as_str()),
        _ => return Err(Failure::new(Exit::Usage, "wait", "expected a name, or a kind and a name")),
    };
    match kind.to_lowercase().split('.').next().unwrap_or_default() {
        "clusterextension" | "clusterextensions" | "extension" => Ok(Subject::Extension(name.to_owned())),
        "clustercatalog" | "clustercatalogs" | "catalog" => Ok(Subject::Catalog(name.to_owned())),
        _ => Err(Failure::new(Exit::Usage, "wait", format!("{kind:?} is no kind that can be waited for"))
            .hint("it can be clusterextension or clustercatalog")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// MS-CLI-06: what can be waited for.
    #[test]
    fn arguments() {
        let words = |text: &str| subject(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(words("beacon").unwrap(), Subject::Extension("beacon".to_owned()));
        assert_eq!(words("catalog/team").unwrap(), Subject::Catalog("team".to_owned()));
        assert_eq!(words("pod x").unwrap_err().exit, Exit::Usage);
    }
}
