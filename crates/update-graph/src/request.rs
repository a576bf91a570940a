//! The question of a cluster to its update service (CVO-USC-02).

use mainstay_golang::url;
use mainstay_versions::Version;

use crate::retrieve::RetrievalError;

/// The media type that a cluster asks for.
pub const ACCEPT: &str = "application/json";
/// The architecture of a cluster, or of an update, for machines of several.
pub(crate) const MULTI_CLUSTER: &str = "Multi";

/// The question of a cluster; an empty text is one that is not set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// The URL of the update service's graph.
    pub update_service: String,
    /// The cluster's ID, a UUID.
    pub cluster_id: String,
    /// The architecture of the next release: `Multi`, or the machines' in Go's spelling.
    pub desired_architecture: String,
    /// The architecture of the running release.
    pub current_architecture: String,
    /// The channel.
    pub channel: String,
    /// The running version.
    pub version: String,
}

/// A request by `GET`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The URL with its query.
    pub url: String,
    /// The path alone.
    pub path: String,
    /// The query alone.
    pub query: url::Query,
    /// The running version, which the answer is read for.
    pub version: Version,
}

/// Why a text is no UUID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUuid {
    /// Neither of the four forms has this length.
    #[error("invalid UUID length: {0}")]
    Length(usize),
    /// The form of 45 characters begins with `urn:uuid:`.
    #[error("invalid urn prefix: {}", mainstay_golang::quote(.0))]
    Prefix(String),
    /// Something stands in the place of a digit or a dash.
    #[error("invalid UUID format")]
    Format,
}

impl Query {
    /// Returns the request, or why nothing can be asked. The checks are in upstream's order.
    pub fn request(&self) -> Result<Request, RetrievalError> {
        if self.update_service.is_empty() {
            return Err(RetrievalError::NoUpstream);
        }
        let mut place = url::parse(&self.update_service).map_err(RetrievalError::InvalidUri)?;
        let id = uuid(&self.cluster_id).map_err(RetrievalError::InvalidId)?;
        if self.desired_architecture.is_empty() {
            return Err(RetrievalError::NoArchitecture);
        }
        if self.version.is_empty() {
            return Err(RetrievalError::NoCurrentVersion);
        }
        if self.channel.is_empty() {
            return Err(RetrievalError::NoChannel);
        }
        let version = Version::parse(&self.version).map_err(|_| RetrievalError::InvalidCurrentVersion)?;
        let architecture = if self.desired_architecture == MULTI_CLUSTER { "multi" } else { &self.desired_architecture };
        let mut query = place.pairs();
        for (key, value) in [("arch", architecture), ("channel", &self.channel), ("id", &id), ("version", &version.to_string())] {
            query.entry(key.to_owned()).or_default().push(value.to_owned());
        }
        place.query = url::encode_query(&query);
        Ok(Request { path: place.path.clone(), url: place.to_string(), query, version })
    }

    /// Returns true if a cluster of one architecture is to move to the image for several: then only that move is offered (CVO-USC-12).
    pub(crate) fn moves_to_multi(&self) -> bool {
        self.desired_architecture == MULTI_CLUSTER && self.current_architecture != self.desired_architecture
    }
}

/// The plain form of a UUID that is written plainly, as a URN, in braces, or without dashes.
fn uuid(text: &str) -> Result<String, InvalidUuid> {
    let body = match text.len() {
        36 | 32 => text,
        45 => {
            let (prefix, body) = text.split_at_checked(9).ok_or(InvalidUuid::Format)?;
            if !prefix.eq_ignore_ascii_case("urn:uuid:") {
                return Err(InvalidUuid::Prefix(prefix.to_owned()));
            }
            body
        }
        // Upstream looks at neither brace.
        38 => text.get(1..37).ok_or(InvalidUuid::Format)?,
        length => return Err(InvalidUuid::Length(length)),
    };
    let dashed = body.len() == 36;
    let is_dash = |at: usize| dashed && matches!(at, 8 | 13 | 18 | 23);
    let fits = |(at, byte): (usize, u8)| if is_dash(at) { byte == b'-' } else { byte.is_ascii_hexdigit() };
    if !body.bytes().enumerate().all(fits) {
        return Err(InvalidUuid::Format);
    }
    let digits: String = body.chars().filter(|c| *c != '-').map(|c| c.to_ascii_lowercase()).collect();
    Ok([&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn query() -> Query {
        Query {
            update_service: "https://updates.example/api?keep=1&arch=old".to_owned(),
            cluster_id: "5F7F6E8E-6A34-4C3E-9A71-0D9A3A0F5B11".to_owned(),
            desired_architecture: "amd64".to_owned(),
            current_architecture: "amd64".to_owned(),
            channel: "fast-4.11".to_owned(),
            version: "4.10.22".to_owned(),
        }
    }

    /// CVO-USC-02: parameters of the endpoint are kept, ours are added; the request for several architectures says `multi`.
    #[test]
    fn parameters() {
        let request = query().request().unwrap();
        let id = "5f7f6e8e-6a34-4c3e-9a71-0d9a3a0f5b11";
        assert_eq!(
            request.url,
            format!("https://updates.example/api?arch=old&arch=amd64&channel=fast-4.11&id={id}&keep=1&version=4.10.22")
        );
        let multi = Query { desired_architecture: "Multi".to_owned(), ..query() };
        assert_eq!(multi.request().unwrap().query["arch"], ["old", "multi"]);
        assert!(multi.moves_to_multi());
        assert!(!Query { current_architecture: "Multi".to_owned(), ..multi }.moves_to_multi());
    }

    /// CVO-USC-07: every reason why nothing is asked, and its order.
    #[test]
    fn nothing_to_ask() {
        let mut broken = Query {
            update_service: String::new(),
            cluster_id: "x".to_owned(),
            desired_architecture: String::new(),
            current_architecture: String::new(),
            channel: String::new(),
            version: String::new(),
        };
        let mut refused = |mend: fn(&mut Query)| {
            let error = broken.request().unwrap_err();
            mend(&mut broken);
            (error.reason(), error.to_string())
        };
        let expected = [
            (
                refused(|q| "%zz".clone_into(&mut q.update_service)),
                "NoUpstream",
                "No updateService server has been set to retrieve updates.",
            ),
            (
                refused(|q| q.update_service = query().update_service),
                "InvalidURI",
                "failed to parse update service URL: parse \"%zz\": invalid URL escape \"%zz\"",
            ),
            (refused(|q| q.cluster_id = query().cluster_id), "InvalidID", "invalid cluster ID: invalid UUID length: 1"),
            (refused(|q| "arm64".clone_into(&mut q.desired_architecture)), "NoArchitecture", "Architecture has not been configured."),
            (
                refused(|q| "4.x".clone_into(&mut q.version)),
                "NoCurrentVersion",
                "The cluster version does not have a semantic version assigned and cannot calculate valid upgrades.",
            ),
            (refused(|q| "c".clone_into(&mut q.channel)), "NoChannel", "The update channel has not been configured."),
            (
                refused(|_| ()),
                "InvalidCurrentVersion",
                "The current cluster version is not a valid semantic version and cannot be used to calculate upgrades.",
            ),
        ];
        for ((reason, message), wanted, text) in expected {
            assert_eq!((reason, message.as_str()), (wanted, text));
        }
    }

    #[test]
    fn uuids() {
        let plain = "5f7f6e8e-6a34-4c3e-9a71-0d9a3a0f5b11";
        for text in [plain, "5f7f6e8e6a344c3e9a710d9a3a0f5b11", &format!("urn:uuid:{plain}"), &format!("{{{plain}}}")] {
            assert_eq!(uuid(text).unwrap(), plain);
        }
        assert_eq!(uuid(&format!("urn:ueid:{plain}")).unwrap_err().to_string(), "invalid urn prefix: \"urn:ueid:\"");
        assert_eq!(uuid(&plain.replace("5f", "5g")), Err(InvalidUuid::Format));
        assert_eq!(uuid(&plain.replace('-', "_")), Err(InvalidUuid::Format));
        assert_eq!(uuid("ä"), Err(InvalidUuid::Length(2)));
    }
}
