//! `mainstay catalog serve-address`: where the registry server of a CatalogSource answers (OLM0-CAT-36).

use clap::Args;
use mainstay_operations::registry_addresses;
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::Failure;
use mainstay_terminal::{output, runtime};

use crate::named;

/// Arguments of `catalog serve-address`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay catalog serve-address team-catalog
  grpcurl -plaintext $(mainstay catalog serve-address team-catalog) api.Registry/ListPackages

The pods of an embedded cluster are simulated: this process answers for the server in a catalog's pod. The address changes with the
catalog's content.")]
pub struct Arguments {
    /// The CatalogSource
    #[arg(value_parser = named::object)]
    name: String,
    /// Its namespace
    #[arg(short, long, value_name = "NAMESPACE", default_value = "openshift-marketplace", value_parser = named::namespace)]
    namespace: String,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Prints the address.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = arguments.cluster.open().await?;
        output::line(&registry_addresses::of(&session, &arguments.namespace, &arguments.name).await?)
    })
}
