//! The words in which a node's container runtime tells that an image cannot be pulled (OLM0-ADMIN-12, OLM0-ADMIN-22).

use mainstay_oci::{Error, Reference};

/// The sentence of a runtime about a failed pull.
pub fn of(error: &Error, reference: &Reference) -> String {
    format!("rpc error: code = Unknown desc = {}", cause(error, reference))
}

fn cause(error: &Error, reference: &Reference) -> String {
    match error {
        // The last place is the image's own registry.
        Error::Sources { attempts, .. } if !attempts.is_empty() => attempts.last().map(|last| cause(last, reference)).unwrap_or_default(),
        Error::Status { status, message, .. } => {
            let version = reference.digest().map_or_else(|| reference.tag().unwrap_or("latest").to_owned(), ToString::to_string);
            format!("reading manifest {version} in {}: {}", reference.name(), answered(*status, message))
        }
        Error::Connection { registry, problem, .. } => {
            format!("error pinging docker registry {registry}: Get \"https://{registry}/v2/\": {}", dialled(registry, problem))
        }
        other => mainstay_diagnostics::chain(other),
    }
}

/// The registry's own words, with its code first as a runtime has it.
fn answered(status: u16, message: &str) -> String {
    let coded = message.strip_suffix(')').and_then(|message| message.rsplit_once(" ("));
    if let Some((message, code)) = coded {
        return format!("{}: {message}", code.to_lowercase().replace('_', " "));
    }
    match (status, message) {
        (401, "") => "unauthorized: authentication required".to_owned(),
        (403, "") => "denied: requested access to the resource is denied".to_owned(),
        (404, "") => "manifest unknown: manifest unknown".to_owned(),
        (_, "") => format!("received unexpected HTTP status: {status}"),
        (_, code) => code.to_lowercase().replace('_', " "),
    }
}

/// The problem of a connection. What a resolver or the system says differs from machine to machine, a runtime's words do not.
fn dialled(registry: &str, problem: &str) -> String {
    let host = registry.rsplit_once(':').map_or(registry, |(host, _)| host);
    if problem.contains("dns error") || problem.contains("failed to lookup") {
        format!("dial tcp: lookup {host}: no such host")
    } else if problem.contains("Connection refused") {
        format!("dial tcp {registry}: connect: connection refused")
    } else {
        problem.to_owned()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use mainstay_oci::ErrorKind;

    use super::*;

    /// OLM0-ADMIN-12, OLM0-ADMIN-22: the sentences that the documentation shows.
    #[test]
    fn sentences_of_a_runtime() {
        let reference = Reference::parse_familiar("quay.io/team/catalog:v1").unwrap();
        let status = |status, message: &str| Error::Status {
            subject: String::new(),
            registry: "quay.io".into(),
            status,
            message: message.into(),
            retry_after: None,
            refused: None,
        };
        let connection = |problem: &str| Error::Connection {
            subject: String::new(),
            registry: "quay.io".into(),
            kind: ErrorKind::Unreachable,
            problem: problem.into(),
        };
        for (error, expected) in [
            (
                status(401, "access to the requested resource is not authorized (UNAUTHORIZED)"),
                "reading manifest v1 in quay.io/team/catalog: unauthorized: access to the requested resource is not authorized",
            ),
            (status(404, ""), "reading manifest v1 in quay.io/team/catalog: manifest unknown: manifest unknown"),
            (status(401, ""), "reading manifest v1 in quay.io/team/catalog: unauthorized: authentication required"),
            (
                connection("client error (Connect): dns error: failed to lookup address information: Name or service not known"),
                "error pinging docker registry quay.io: Get \"https://quay.io/v2/\": dial tcp: lookup quay.io: no such host",
            ),
            (
                connection("client error (Connect): tcp connect error: Connection refused (os error 111)"),
                "error pinging docker registry quay.io: Get \"https://quay.io/v2/\": dial tcp quay.io: connect: connection refused",
            ),
        ] {
            let last = Error::Sources { subject: String::new(), attempts: vec![connection("a mirror"), error] };
            assert_eq!(of(&last, &reference), format!("rpc error: code = Unknown desc = {expected}"));
        }
    }
}
