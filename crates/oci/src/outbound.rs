//! Requests to servers that are no registries: update services, stores of signatures, metrics.
//!
//! They leave through the proxies and with the authorities that a cluster configures, and have what every request here has: redirects only to
//! where the server may lead, a limit of size, a longest silence, a least pace, and an end.

use std::time::Duration;

use http::HeaderMap;
use mainstay_golang::http_proxy::Proxies;
use mainstay_golang::quote;
use reqwest::{Response, Url};
use tokio::time::{Instant, timeout_at};

use crate::addresses;
use crate::error::Error;
use crate::hosts::{HostSettings, Hosts, Purpose};
use crate::pace::Pace;
use crate::transport::{Host, Unread, body, chain};

/// Settings of requests.
#[derive(Debug, Clone)]
pub struct OutboundConfig {
    /// Certificate authorities besides the system's, as PEM, with the name to use in errors.
    pub authorities: Vec<(String, Vec<u8>)>,
    /// Proxies.
    pub proxies: Proxies,
    /// The header `User-Agent`.
    pub user_agent: String,
    /// Timeout for a connection.
    pub connect_timeout: Duration,
    /// Longest silence of a server.
    pub silence: Duration,
    /// Time for a request and the whole of its answer.
    pub deadline: Duration,
    /// Least pace of answers.
    pub pace: Pace,
}

impl Default for OutboundConfig {
    /// The proxies of the environment, half a minute for a connection and for silence, two minutes for all.
    fn default() -> Self {
        Self {
            authorities: Vec::new(),
            proxies: Proxies::from_environment(|name| std::env::var(name).ok()),
            user_agent: concat!("mainstay/", env!("CARGO_PKG_VERSION")).to_owned(),
            connect_timeout: Duration::from_secs(30),
            silence: Duration::from_secs(30),
            deadline: Duration::from_secs(120),
            pace: Pace::default(),
        }
    }
}

/// A client for such servers.
pub struct Outbound {
    hosts: Hosts,
    pace: Pace,
    deadline: Duration,
}

/// The head of an answer.
#[derive(Debug)]
pub struct Answer {
    response: Response,
    pace: Pace,
    end: Instant,
}

/// A request without an answer that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OutboundError {
    /// The URL cannot be asked.
    #[error("{problem}: {}", quote(.url))]
    NoRequest {
        /// The URL.
        url: String,
        /// The reason.
        problem: String,
    },
    /// No answer came.
    #[error("Get {}: {problem}", quote(.url))]
    NoAnswer {
        /// The URL, without a password.
        url: String,
        /// The reason.
        problem: String,
    },
    /// The answer is too long.
    #[error("the answer is longer than {0} bytes")]
    Long(usize),
    /// The answer came too slowly.
    #[error("the answer is given up: {0}")]
    Slow(String),
    /// The answer ended before its end.
    #[error("the answer broke off: {0}")]
    Broken(String),
}

impl Outbound {
    /// Creates a client; authorities that cannot be read are an error.
    pub fn new(config: &OutboundConfig) -> Result<Self, Error> {
        let hosts = Hosts::new(HostSettings {
            authorities: config.authorities.clone(),
            folders: Vec::new(),
            connect_timeout: config.connect_timeout,
            read_timeout: config.silence,
            proxies: config.proxies.clone(),
            user_agent: config.user_agent.clone(),
        })?;
        Ok(Self { hosts, pace: config.pace, deadline: config.deadline })
    }

    /// Sends a `GET` and waits for the head of the answer of any status.
    pub async fn get(&self, url: &str, headers: HeaderMap) -> Result<Answer, OutboundError> {
        let end = Instant::now() + self.deadline;
        let no_request = |problem: String| OutboundError::NoRequest { url: url.to_owned(), problem };
        let mut parsed = Url::parse(url).map_err(|error| no_request(error.to_string()))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(no_answer(url, &format_args!("unsupported protocol scheme {}", quote(parsed.scheme()))));
        }
        let sent = parsed.clone();
        // A password is not for messages; a URL of these schemes has a host, so this cannot fail.
        if parsed.password().is_some() && parsed.set_password(Some("xxxxx")).is_err() {
            return Err(OutboundError::NoRequest { url: String::new(), problem: "no Host in request URL".to_owned() });
        }
        let shown = parsed.as_str();
        let authority = sent.host_str().map(|host| sent.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")));
        let authority = authority.ok_or_else(|| no_answer(shown, &"no Host in request URL"))?;
        let host = Host { registry: &authority, insecure: false };
        let client = self.hosts.client(host, &authority, Purpose::Reading).await.map_err(|error| no_answer(shown, &error))?;
        addresses::check(&sent, client.class).map_err(|error| no_answer(shown, &error))?;
        self.hosts.check_proxy(&sent).map_err(|error| no_answer(shown, &error))?;
        match timeout_at(end, client.client.get(sent).headers(headers).send()).await {
            Ok(Ok(response)) => Ok(Answer { response, pace: self.pace, end }),
            Ok(Err(error)) => Err(no_answer(shown, &chain(&error))),
            Err(_) => Err(no_answer(shown, &format_args!("no answer came within {:?}", self.deadline))),
        }
    }
}

fn no_answer(url: &str, problem: &dyn std::fmt::Display) -> OutboundError {
    OutboundError::NoAnswer { url: url.to_owned(), problem: problem.to_string() }
}

impl Answer {
    /// The status.
    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// Reads the body, of at most `limit` bytes.
    pub async fn body(self, limit: usize) -> Result<Vec<u8>, OutboundError> {
        let slow = || OutboundError::Slow("its time has run out".to_owned());
        let read = timeout_at(self.end, body(self.response, limit, self.pace)).await.map_err(|_| slow())?;
        read.map_err(|unread| match unread {
            Unread::Long => OutboundError::Long(limit),
            Unread::Slow(slow) => OutboundError::Slow(slow.to_string()),
            Unread::Broken(error) => OutboundError::Broken(chain(&error)),
        })
    }
}
