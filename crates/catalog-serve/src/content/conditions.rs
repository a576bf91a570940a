//! Version of a content, and the conditions and ranges of requests (RFC 9110, sections 13 and 14).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use jiff::Timestamp;
use mainstay_catalog_store::StoredCatalog;

/// Tag and time of a content.
pub(super) struct Version {
    tag: String,
    /// RFC 9110 compares whole seconds.
    modified: u64,
}

impl Version {
    pub(super) fn of(content: &StoredCatalog) -> Self {
        let modified = content.modified().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs());
        Self { tag: format!("\"{}\"", content.digest()), modified }
    }

    /// Writes both into the headers of an answer.
    pub(super) fn write(&self, headers: &mut HeaderMap) {
        for (name, text) in [(header::ETAG, format!("W/{}", self.tag)), (header::LAST_MODIFIED, http_date(self.modified))] {
            // Both are plain ASCII.
            if let Ok(value) = HeaderValue::try_from(text) {
                headers.insert(name, value);
            }
        }
    }

    /// Returns 304 or 412 if a precondition says so (section 13.2.2).
    pub(super) fn precondition(&self, headers: &HeaderMap) -> Option<StatusCode> {
        let time = |name| headers.get(name).and_then(|value| value.to_str().ok()).and_then(parse_http_date);
        if headers.contains_key(header::IF_MATCH) {
            // The comparison is strong, and a weak tag is never strongly equal.
            let any = headers.get(header::IF_MATCH).is_some_and(|value| value == "*");
            if !any {
                return Some(StatusCode::PRECONDITION_FAILED);
            }
        } else if time(header::IF_UNMODIFIED_SINCE).is_some_and(|since| self.modified > since) {
            return Some(StatusCode::PRECONDITION_FAILED);
        }
        if headers.contains_key(header::IF_NONE_MATCH) {
            let values = headers.get_all(header::IF_NONE_MATCH).into_iter().filter_map(|value| value.to_str().ok());
            let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
            let equal = tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == self.tag);
            return equal.then_some(StatusCode::NOT_MODIFIED);
        }
        time(header::IF_MODIFIED_SINCE).filter(|since| self.modified <= *since).map(|_| StatusCode::NOT_MODIFIED)
    }

    /// Returns true if a range of this version satisfies the request (`If-Range`).
    pub(super) fn is_current(&self, headers: &HeaderMap) -> bool {
        let wanted = headers.get(header::IF_RANGE).and_then(|value| value.to_str().ok());
        wanted.is_none_or(|date| parse_http_date(date) == Some(self.modified))
    }
}

/// The part that a `Range` asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// No range that is understood.
    Ignored,
    /// From the first to the last byte.
    Bytes(u64, u64),
    /// A range outside of the content.
    Unsatisfiable,
}

/// Parses one range of bytes; several are answered with the whole, as RFC 9110 allows.
pub(super) fn parse_range(text: &str, length: u64) -> Part {
    let Some((from, to)) = text.strip_prefix("bytes=").filter(|spec| !spec.contains(',')).and_then(|spec| spec.split_once('-')) else {
        return Part::Ignored;
    };
    match (from.trim().parse::<u64>(), to.trim().parse::<u64>()) {
        (Ok(from), _) if from >= length => Part::Unsatisfiable,
        (Ok(from), Ok(to)) if from <= to => Part::Bytes(from, to.min(length - 1)),
        (Ok(from), Err(_)) if to.trim().is_empty() => Part::Bytes(from, length - 1),
        (Err(_), Ok(last)) if from.trim().is_empty() => {
            if last == 0 || length == 0 {
                Part::Unsatisfiable
            } else {
                Part::Bytes(length.saturating_sub(last), length - 1)
            }
        }
        _ => Part::Ignored,
    }
}

fn http_date(seconds: u64) -> String {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    Timestamp::try_from(time).map(|time| time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()).unwrap_or_default()
}

fn parse_http_date(text: &str) -> Option<u64> {
    let rest = text.trim().strip_suffix("GMT")?;
    let time = jiff::fmt::strtime::parse("%a, %d %b %Y %H:%M:%S %z", format!("{rest}+0000")).ok()?.to_timestamp().ok()?;
    u64::try_from(time.as_second()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version() -> Version {
        Version { tag: "\"sha256:ab\"".to_owned(), modified: 100 }
    }

    fn headers(pairs: &[(header::HeaderName, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn ranges_and_dates_are_read_as_http_says() {
        assert_eq!(parse_range("bytes=0-9", 100), Part::Bytes(0, 9));
        assert_eq!(parse_range("bytes=90-", 100), Part::Bytes(90, 99));
        assert_eq!(parse_range("bytes=-5", 100), Part::Bytes(95, 99));
        assert_eq!(parse_range("bytes=100-", 100), Part::Unsatisfiable);
        assert_eq!(parse_range("bytes=0-1,5-6", 100), Part::Ignored);
        assert_eq!(parse_http_date("Thu, 01 Jan 1970 00:01:40 GMT"), Some(100));
        assert_eq!(http_date(100), "Thu, 01 Jan 1970 00:01:40 GMT");
    }

    /// OLM1-CAT-16: the preconditions of HTTP, tags before times.
    #[test]
    fn preconditions() {
        const EARLIER: &str = "Thu, 01 Jan 1970 00:01:39 GMT";
        const SAME: &str = "Thu, 01 Jan 1970 00:01:40 GMT";
        let unmodified = Some(StatusCode::NOT_MODIFIED);
        let failed = Some(StatusCode::PRECONDITION_FAILED);
        for (pairs, expected) in [
            (&[][..], None),
            (&[(header::IF_NONE_MATCH, "\"x\", W/\"sha256:ab\"")], unmodified),
            (&[(header::IF_NONE_MATCH, "\"sha256:ab\"")], unmodified),
            (&[(header::IF_NONE_MATCH, "*")], unmodified),
            (&[(header::IF_NONE_MATCH, "\"x\""), (header::IF_MODIFIED_SINCE, SAME)], None),
            (&[(header::IF_MODIFIED_SINCE, SAME)], unmodified),
            (&[(header::IF_MODIFIED_SINCE, EARLIER)], None),
            (&[(header::IF_UNMODIFIED_SINCE, EARLIER)], failed),
            (&[(header::IF_UNMODIFIED_SINCE, SAME)], None),
            (&[(header::IF_MATCH, "W/\"sha256:ab\"")], failed),
            (&[(header::IF_MATCH, "*")], None),
            (&[(header::IF_MODIFIED_SINCE, "yesterday")], None),
        ] {
            assert_eq!(version().precondition(&headers(pairs)), expected, "{pairs:?}");
        }
    }
}
