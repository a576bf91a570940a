//! The first boot: what a machine boots with, from the config server (MACH-MCS-01, MACH-MCS-03).

use std::time::Duration;

use mainstay_machine_config_core::config_server::{FirstBoot, FirstBootError};
use reqwest::{Certificate, Client, StatusCode};

/// Limit for an answer.
const WITHIN: Duration = Duration::from_secs(20);
/// The largest answer: a config is in it three times, escaped.
const LARGEST: usize = 32 << 20;
/// The user agent, as logs of servers show it.
const AGENT: &str = concat!("mainstay/", env!("CARGO_PKG_VERSION"));
/// The request.
const ACCEPT: &str = "application/vnd.coreos.ignition+json;version=3.4.0, */*;q=0.1";

/// A machine that cannot boot now.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The authority of the server is no certificate, or there is no client.
    #[error("the config server cannot be asked")]
    Client(#[source] reqwest::Error),
    /// It does not answer, or not wholly.
    #[error("GET {url}")]
    Request {
        /// The address.
        url: String,
        /// The cause.
        #[source]
        source: reqwest::Error,
    },
    /// It refuses: there is no such pool, or none of its configurations is ready.
    #[error("GET {url}: the config server answers {status}")]
    Refused {
        /// The address.
        url: String,
        /// Its answer.
        status: StatusCode,
    },
    /// It answers with too much.
    #[error("GET {url}: the answer has more than {LARGEST} bytes")]
    TooLarge {
        /// The address.
        url: String,
    },
    /// The answer is no text.
    #[error("GET {url}: the answer is not UTF-8")]
    Encoding {
        /// The address.
        url: String,
    },
    /// Nothing can be booted with the answer.
    #[error("GET {url}")]
    Config {
        /// The address.
        url: String,
        /// Why.
        #[source]
        source: FirstBootError,
    },
}

/// A config server, as machines know it.
#[derive(Clone, Debug)]
pub struct ConfigServer {
    client: Client,
    base: String,
}

impl ConfigServer {
    /// A server at a base URL such as `https://api-int.example.com:22623`, with the authorities that it is trusted by, PEM.
    ///
    /// # Errors
    /// The authorities cannot be read.
    pub fn new(base: &str, authorities: &[u8]) -> Result<Self, BootError> {
        let certificates = Certificate::from_pem_bundle(authorities).map_err(BootError::Client)?;
        // Nothing stands between a machine that boots and its server.
        let builder = Client::builder().user_agent(AGENT).timeout(WITHIN).no_proxy().redirect(reqwest::redirect::Policy::none());
        let builder = certificates.into_iter().fold(builder, reqwest::ClientBuilder::add_root_certificate);
        Ok(Self { client: builder.build().map_err(BootError::Client)?, base: base.trim_end_matches('/').to_owned() })
    }

    /// Fetches what a machine of a pool boots with.
    ///
    /// # Errors
    /// The server does not answer, has nothing for the pool, or nothing that a machine can boot with.
    pub async fn fetch(&self, pool: &str) -> Result<FirstBoot, BootError> {
        let url = format!("{}/config/{pool}", self.base);
        let failed = |source: reqwest::Error| BootError::Request { url: url.clone(), source: source.without_url() };
        let mut answer = self.client.get(&url).header("accept", ACCEPT).send().await.map_err(failed)?;
        if answer.status() != StatusCode::OK {
            return Err(BootError::Refused { status: answer.status(), url });
        }
        let mut bytes = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(failed)? {
            bytes.extend_from_slice(&piece);
            if bytes.len() > LARGEST {
                return Err(BootError::TooLarge { url });
            }
        }
        let text = String::from_utf8(bytes).map_err(|_| BootError::Encoding { url: url.clone() })?;
        FirstBoot::read(&text).map_err(|source| BootError::Config { url, source })
    }
}
