//! Outcomes of a request: no answer, a refusal with the registry's message, or a body, read at a pace.

use std::error::Error as _;
use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;
use reqwest::Response;
use rustls::CertificateError;
use serde::Deserialize;

use super::{Call, MAX_WORDS};
use crate::addresses::OutOfReach;
use crate::error::{CertificateProblem, Error, ErrorKind, quoted};
use crate::pace::{Meter, Pace, Slow};

/// The reason for which a request got no answer.
pub(super) enum Failed {
    Sent(reqwest::Error),
    Slow(Slow),
    Reach(OutOfReach),
    Proxy(Error),
}

impl Failed {
    /// Returns true if no connection was made: there was no server, or it does not speak the protocol.
    pub(super) fn is_connect(&self) -> bool {
        matches!(self, Self::Sent(error) if error.is_connect() && cause::<OutOfReach>(error).is_none())
    }

    /// Returns true if a certificate was shown and is not trusted.
    pub(super) fn is_distrust(&self) -> bool {
        matches!(self, Self::Sent(error) if matches!(cause(error), Some(rustls::Error::InvalidCertificate(_))))
    }

    pub(super) fn of(self, call: &Call<'_>) -> Error {
        let connection = |kind, problem: &str| Error::connection(&call.subject, call.host.registry, kind, problem);
        match self {
            Self::Sent(error) => {
                if let Some(refused) = cause::<OutOfReach>(&error) {
                    return Self::Reach(refused.clone()).of(call);
                }
                let kind = if error.is_timeout() {
                    ErrorKind::Timeout
                } else if let Some(problem) = cause::<rustls::Error>(&error) {
                    tls(problem)
                } else if error.is_connect() || error.is_redirect() {
                    ErrorKind::Unreachable
                } else {
                    ErrorKind::Interrupted
                };
                connection(kind, &chain(&error))
            }
            Self::Slow(slow) => connection(ErrorKind::Timeout, &format!("no answer came: {slow}")),
            Self::Reach(problem) => Error::content(&call.subject, format!("registry {}: {problem}", call.host.registry)),
            Self::Proxy(error) => error,
        }
    }
}

/// Returns the kind of a TLS failure, by what helps.
fn tls(error: &rustls::Error) -> ErrorKind {
    let rustls::Error::InvalidCertificate(problem) = error else { return ErrorKind::Tls };
    ErrorKind::Certificate(match problem {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => CertificateProblem::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => CertificateProblem::NotYetValid,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => CertificateProblem::OtherName,
        _ => CertificateProblem::Untrusted,
    })
}

/// Returns the cause of that type, anywhere in the chain.
fn cause<'a, E: std::error::Error + 'static>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a E> {
    if let Some(found) = error.downcast_ref() {
        return Some(found);
    }
    // The source of an I/O error is its content's source, so the content itself has to be asked for.
    let content = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    content.and_then(|content| cause(content)).or_else(|| cause(error.source()?))
}

/// Joins the causes of an error in one line, without the URL, which may hold a signature.
pub(crate) fn chain(error: &reqwest::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let text = inner.to_string();
        if !parts.iter().any(|part| part.contains(&text)) {
            parts.push(text);
        }
        cause = inner.source();
    }
    if parts.is_empty() { error.to_string() } else { parts.join(": ") }
}

/// Decides if the message of an answer is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    Quoted,
    /// Not shown: the message does not come from the registry.
    Unheard,
}

pub(super) async fn status_error(call: &Call<'_>, response: Response, heard: Words, pace: Pace) -> Error {
    #[derive(Deserialize)]
    struct Answer {
        #[serde(default)]
        errors: Vec<Entry>,
    }
    #[derive(Deserialize)]
    struct Entry {
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: String,
    }
    let status = response.status().as_u16();
    let retry_after = retry_after(response.headers());
    let bytes = if heard == Words::Quoted { body(response, MAX_WORDS, pace).await.unwrap_or_default() } else { Vec::new() };
    let entries = serde_json::from_slice::<Answer>(&bytes).map(|answer| answer.errors).unwrap_or_default();
    let words = |entry: Entry| if entry.message.is_empty() { entry.code } else { format!("{} ({})", entry.message, entry.code) };
    let message = entries.into_iter().take(MAX_ENTRIES).map(words).collect::<Vec<_>>().join("; ");
    let message = quoted(&message);
    Error::Status { subject: call.subject.clone(), registry: call.host.registry.to_owned(), status, message, retry_after, refused: None }
}

/// Limit of `Retry-After`; longer values are cut.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);
/// Entries of an error answer that are shown.
const MAX_ENTRIES: usize = 8;

/// Reads `Retry-After`, as seconds or as a time.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds).min(LONGEST_WAIT));
    }
    let moment = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    Some(Duration::try_from(moment.duration_since(jiff::Timestamp::now())).unwrap_or_default().min(LONGEST_WAIT))
}

/// The reason for which a body was not read to its end.
pub(crate) enum Unread {
    Long,
    Slow(Slow),
    Broken(reqwest::Error),
}

/// Reads a body of at most `limit` bytes, at that pace.
pub(crate) async fn body(mut response: Response, limit: usize, pace: Pace) -> Result<Vec<u8>, Unread> {
    let mut meter = Meter::new(pace, limit as u64);
    let mut bytes = Vec::new();
    while let Some(chunk) = meter.wait(response.chunk()).await.map_err(Unread::Slow)?.map_err(Unread::Broken)? {
        if bytes.len() + chunk.len() > limit {
            return Err(Unread::Long);
        }
        bytes.extend_from_slice(&chunk);
        meter.came(chunk.len() as u64).map_err(Unread::Slow)?;
    }
    Ok(bytes)
}
