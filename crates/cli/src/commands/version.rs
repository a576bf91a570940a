//! `mainstay version`: the build of this program and the Kubernetes version of the cluster (MS-CLI-01). The answer has the form of kubectl's.

use std::time::Duration;

use clap::Args;
use mainstay_operations::refused;
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::output::{self, Format};
use mainstay_terminal::printable::printable_line;
use mainstay_terminal::{built, runtime};
use serde_json::{Value, json};

/// Limit for the server's answer: the command does not wait for a cluster to come up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay version
  mainstay version --client
  mainstay version -o 'jsonpath={.serverVersion.gitVersion}'

-o json gives {\"clientVersion\": {\"gitVersion\", \"gitCommit\", \"buildDate\", \"platform\"}, \"serverVersion\": {\"gitVersion\", ...}}; what is
not known is left out. Exit code 0 also where there is no cluster; where one was chosen that does not answer, the program's own version is
printed all the same.")]
pub struct Arguments {
    /// Only this program's version; the cluster is not asked
    #[arg(long)]
    client: bool,
    /// table, json, yaml or jsonpath=PATH
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, json, yaml or jsonpath=PATH"))]
    output: Format,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Prints the versions.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let server = if arguments.client { Ok(None) } else { runtime::block_on(server(&arguments.cluster)) };
    let (server, failure) = match server {
        Ok(server) => (server, None),
        Err(failure) => (None, Some(failure)),
    };
    show(&arguments.output, server.as_ref())?;
    failure.map_or(Ok(()), Err)
}

/// The version that the cluster's server reports; `None` if there is no cluster and none was asked for.
async fn server(cluster: &ClusterArgs) -> Result<Option<Value>, Failure> {
    let named = cluster.kubeconfig.is_some() || cluster.context.is_some() || cluster.embedded;
    let session = match cluster.open().await {
        Ok(session) => session,
        Err(failure) if failure.exit == Exit::NotFound && !named => {
            note(format!("cluster: {}", failure.to_line()));
            return Ok(None);
        }
        Err(failure) => return Err(failure),
    };
    let subject = || format!("server {}", session.server);
    let asked = tokio::time::timeout(PATIENCE, session.client.apiserver_version());
    let answer = asked.await.map_err(|_| {
        Failure::new(Exit::TimedOut, subject(), format!("no answer within {} s", PATIENCE.as_secs()))
            .hint("is the cluster running? mainstay version --client does not ask it")
    })?;
    let version = answer.map_err(|error| refused(subject(), &error))?;
    serde_json::to_value(version).map(Some).map_err(|error| Failure::failed(subject(), &error))
}

fn show(format: &Format, server: Option<&Value>) -> Result<(), Failure> {
    if !format.is_table() {
        let mut document = json!({"clientVersion": client()});
        if let Some(server) = server {
            document["serverVersion"] = server.clone();
        }
        return output::value(format, &document);
    }
    output::line(format!("Client Version: {}", built::VERSION))?;
    if !built::COMMIT.is_empty() {
        output::line(format!("Client Commit: {}", built::COMMIT))?;
    }
    server.map_or(Ok(()), |server| {
        output::line(format!("Server Version: {}", printable_line(server["gitVersion"].as_str().unwrap_or_default())))
    })
}

fn client() -> Value {
    let mut client = json!({"gitVersion": built::VERSION, "platform": format!("{}/{}", std::env::consts::OS, built::architecture())});
    for (key, value) in [("gitCommit", built::COMMIT), ("buildDate", built::DATE)] {
        if !value.is_empty() {
            client[key] = value.into();
        }
    }
    client
}
