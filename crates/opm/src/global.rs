//! Flags of every command, and the registry client that they ask for.

use clap::Args;
use mainstay_catalog_refs::BoxError;
use mainstay_oci::{Client, ClientConfig};
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::{images, progress};

/// Flags of every command of opm.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Global {
    /// Do not verify the TLS certificates of registries
    #[arg(long, global = true)]
    pub skip_tls_verify: bool,
    /// Allow plain HTTP to registries
    #[arg(long, global = true)]
    pub use_http: bool,
    /// Allow plain HTTP to registries
    #[arg(long, global = true, hide = true, long_help = "deprecated: use --use-http and --skip-tls-verify instead")]
    pub skip_tls: bool,
}

impl Global {
    /// Refuses flags that contradict each other.
    pub fn check(self) -> Result<(), Failure> {
        let problem = match (self.skip_tls, self.use_http, self.skip_tls_verify) {
            (true, true, _) => "cannot use --use-http with --skip-tls",
            (true, _, true) => "cannot use --skip-tls-verify with --skip-tls",
            (_, true, true) => "--use-http and --skip-tls-verify cannot both be true",
            _ => return Ok(()),
        };
        Err(Failure::new(Exit::Failed, "opm", format!("invalid flag combination: {problem}")))
    }

    /// The user's credentials and mirrors, with what the flags allow.
    pub fn config(self) -> Result<ClientConfig, Failure> {
        let insecure = self.skip_tls_verify || self.use_http || self.skip_tls;
        images::config().map(|config| ClientConfig { insecure: config.insecure || insecure, ..config })
    }

    /// A client with these settings.
    pub fn client(self) -> Result<Client, BoxError> {
        let config = self.config().map_err(|failure| BoxError::from(failure.to_line()))?;
        Ok(progress::shown(Client::new(config)?))
    }
}
