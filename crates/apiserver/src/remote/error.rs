//! Why a call did not bring what was asked for, in the words of Go's HTTP client and of client-go.

use std::time::Duration;

use http::StatusCode;
use mainstay_golang::quote;
use serde_json::Value;

use super::resolve::ResolveError;

/// A call that failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The client configuration cannot be used.
    #[error("{0}")]
    Config(String),
    /// No answer came, or none that could be read.
    #[error("{method} {}: {failure}", quote(url))]
    Transport {
        /// `Get`, `Post`: the method as Go writes it.
        method: String,
        /// The URL that was called.
        url: String,
        /// The failure.
        failure: Failure,
    },
    /// An answer other than success.
    #[error("{message}")]
    Status {
        /// Its HTTP status.
        code: StatusCode,
        /// Its message, or the one of client-go in its place.
        message: String,
    },
    /// A successful answer that is no JSON.
    #[error("couldn't get version/kind; json parse error: {0}")]
    Decode(#[source] serde_json::Error),
}

/// A failure of a call, instead of an answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The Service leads nowhere.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The time was over.
    #[error("context deadline exceeded")]
    Timeout,
    /// The connection could not be made; the words are Go's.
    #[error("{0}")]
    Connect(String),
    /// The other end is not who it should be, or does not speak TLS; the words are Go's.
    #[error("{0}")]
    Tls(String),
    /// The connection ended, or what came is no HTTP.
    #[error("{0}")]
    Broken(String),
    /// The answer is larger than anybody needs.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
}

impl CallError {
    /// Returns whether the time was over.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Transport { failure: Failure::Timeout, .. })
    }

    /// Returns whether the process that was to be called is simulated.
    pub fn is_simulated(&self) -> bool {
        let Self::Transport { failure: Failure::Resolve(error), .. } = self else { return false };
        matches!(error, ResolveError::Simulated { .. } | ResolveError::SimulatedAddress(_))
    }

    /// The status of an answer that was no success.
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Status { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// The error of an answer without success: in its own words if it is a `Status` object, else in client-go's for the code.
    pub(super) fn of_answer(code: StatusCode, body: &[u8]) -> Self {
        let status: Option<Value> = serde_json::from_slice(body).ok().filter(|value: &Value| value["kind"] == "Status");
        if let Some(message) = status.as_ref().and_then(|status| status["message"].as_str()).filter(|message| !message.is_empty()) {
            return Self::Status { code, message: message.to_owned() };
        }
        Self::Status { code, message: generic(code, &shown(body)) }
    }
}

/// The body as client-go repeats it: text, trimmed, at most 2048 bytes of it.
fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(2048)]);
    if text.contains('\u{fffd}') { "unknown".to_owned() } else { text.trim().to_owned() }
}

fn generic(code: StatusCode, body: &str) -> String {
    let or_unknown = || if body.is_empty() { "unknown".to_owned() } else { body.to_owned() };
    match code.as_u16() {
        409 => "the server reported a conflict".to_owned(),
        404 => "the server could not find the requested resource".to_owned(),
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 | 406 | 415 => or_unknown(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        422 => "the server rejected our request due to an error in our request".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => "the server was unable to return a response in the time allotted, but may still be processing the request".to_owned(),
        500.. => format!("an error on the server ({}) has prevented the request from succeeding", quote(body)),
        other => format!("the server responded with the status code {other} but did not return more information"),
    }
}

/// A duration as Go prints it: `30s`, `1m30s`, `500ms`.
pub(super) fn go_duration(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    if seconds == 0 && millis > 0 {
        return format!("{millis}ms");
    }
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction = if millis == 0 { String::new() } else { format!(".{millis:03}").trim_end_matches('0').to_owned() };
    match (hours, minutes) {
        (0, 0) => format!("{rest}{fraction}s"),
        (0, _) => format!("{minutes}m{rest}{fraction}s"),
        _ => format!("{hours}h{minutes}m{rest}{fraction}s"),
    }
}

/// Go's words for a connection that the system refused to make.
pub(super) fn dial(address: &str, error: &std::io::Error) -> String {
    use std::io::ErrorKind;
    let why = match error.kind() {
        ErrorKind::ConnectionRefused => "connect: connection refused",
        ErrorKind::HostUnreachable => "connect: no route to host",
        ErrorKind::NetworkUnreachable => "connect: network is unreachable",
        ErrorKind::TimedOut => "connect: connection timed out",
        ErrorKind::PermissionDenied => "connect: permission denied",
        ErrorKind::AddrNotAvailable => "connect: cannot assign requested address",
        _ => return format!("dial tcp {address}: {}", error.to_string().to_lowercase()),
    };
    format!("dial tcp {address}: {why}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// KAPI-ADM-01: answers without success are named as client-go names them.
    #[test]
    fn answers() {
        let says = |code: u16, body: &str| CallError::of_answer(StatusCode::from_u16(code).unwrap(), body.as_bytes()).to_string();
        assert_eq!(says(404, "404 page not found\n"), "the server could not find the requested resource");
        assert_eq!(says(500, "boom\n"), "an error on the server (\"boom\") has prevented the request from succeeding");
        assert_eq!(says(301, ""), "the server responded with the status code 301 but did not return more information");
        assert_eq!(says(403, r#"{"kind":"Status","message":"no"}"#), "no");
        assert_eq!(says(500, r#"{"kind":"Status"}"#).split(' ').take(4).collect::<Vec<_>>().join(" "), "an error on the");
    }

    #[test]
    fn durations() {
        for (millis, text) in [(30_000, "30s"), (500, "500ms"), (90_000, "1m30s"), (1_500, "1.5s"), (3_600_000, "1h0m0s"), (0, "0s")] {
            assert_eq!(go_duration(Duration::from_millis(millis)), text);
        }
    }
}
