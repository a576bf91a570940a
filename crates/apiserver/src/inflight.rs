//! How many requests are answered at a time, and how long one may take (KAPI-SRV-06).
//!
//! Reading and writing requests have limits of their own, as in kube-apiserver. Requests that last by nature (watches, logs,
//! proxies) are not counted; administrators are let in even when everything is full.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderValue, StatusCode, header};
use mainstay_rbac::UserInfo;

use crate::error::{ApiError, Result};
use crate::request::{Query, RequestInfo};
use crate::respond::Answer;

/// The longest a request may take.
pub const LONGEST: Duration = Duration::from_secs(60);
/// Whose requests are never turned away.
const ADMINISTRATORS: &str = "system:masters";

/// How many requests may be in flight; 0 is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// get, list.
    pub reading: usize,
    /// Everything else.
    pub writing: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { reading: 400, writing: 200 }
    }
}

/// The requests in flight.
#[derive(Debug, Default)]
pub struct InFlight {
    limits: Limits,
    /// Those that read.
    pub reading: Lane,
    /// Those that write.
    pub writing: Lane,
}

/// One kind of requests in flight.
#[derive(Debug, Default)]
pub struct Lane {
    now: AtomicUsize,
    refused: AtomicU64,
}

/// A request that is counted until this is dropped.
#[derive(Debug)]
pub struct Slot<'a>(Option<&'a AtomicUsize>);

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        if let Some(count) = self.0 {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// There are too many requests already.
#[derive(Debug)]
pub struct Full;

impl InFlight {
    /// With these limits.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Lets a request in.
    pub fn admit(&self, info: &RequestInfo, user: &UserInfo) -> std::result::Result<Slot<'_>, Full> {
        if long_running(info) {
            return Ok(Slot(None));
        }
        let (lane, limit) = if reads(info) { (&self.reading, self.limits.reading) } else { (&self.writing, self.limits.writing) };
        let limit = if limit == 0 { usize::MAX } else { limit };
        let entered = lane.now.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| (now < limit).then_some(now + 1));
        match entered {
            Ok(_) => Ok(Slot(Some(&lane.now))),
            Err(_) if user.groups.iter().any(|group| group == ADMINISTRATORS) => Ok(Slot(None)),
            Err(_) => {
                lane.refused.fetch_add(1, Ordering::Relaxed);
                Err(Full)
            }
        }
    }
}

impl Lane {
    /// How many there are.
    pub fn now(&self) -> usize {
        self.now.load(Ordering::Relaxed)
    }

    /// How many were turned away.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl From<Full> for Answer {
    fn from(_: Full) -> Self {
        let mut answer = Self::text(StatusCode::TOO_MANY_REQUESTS, "Too many requests, please try again later.\n");
        answer.headers.push((header::RETRY_AFTER, HeaderValue::from_static("1")));
        answer.headers.push((header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")));
        answer
    }
}

fn reads(info: &RequestInfo) -> bool {
    matches!(info.verb.as_str(), "get" | "list" | "watch" | "head")
}

/// Whether a request lasts by nature.
pub fn long_running(info: &RequestInfo) -> bool {
    info.is_resource
        && (matches!(info.verb.as_str(), "watch" | "proxy")
            || matches!(info.subresource.as_str(), "attach" | "exec" | "proxy" | "log" | "portforward"))
}

/// How long a request may take: what it asks for, at most the longest.
pub fn patience(query: &Query) -> Result<Duration> {
    let Some(text) = query.text("timeout") else { return Ok(LONGEST) };
    let wanted = crate::gotime::duration(text)
        .map_err(|why| ApiError::bad_request(format!("invalid timeout specified in the request URL - {why}")))?;
    Ok(if wanted.is_zero() { LONGEST } else { wanted.min(LONGEST) })
}

/// 504 for a request that took longer.
pub fn out_of_time() -> ApiError {
    ApiError {
        details: Some(crate::error::Details::default()),
        ..ApiError::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", "Timeout: request did not complete within the allotted timeout")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use http::Method;

    fn info(method: &str, path: &str) -> RequestInfo {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        RequestInfo::new(&Method::from_bytes(method.as_bytes()).unwrap(), path, &Query::parse(query))
    }

    /// KAPI-SRV-06: reading and writing are bounded apart, lasting requests are not counted, administrators are let in.
    #[test]
    fn slots() {
        let inflight = InFlight::new(Limits { reading: 2, writing: 1 });
        let somebody = UserInfo::new("somebody", &["system:authenticated"]);
        let administrator = UserInfo::new("root", &["system:masters"]);
        let admit = |method: &str, path: &str, user| inflight.admit(&info(method, path), user);
        let maps = "/api/v1/namespaces/default/configmaps";
        let first = admit("GET", maps, &somebody).unwrap();
        let _second = admit("GET", "/version", &somebody).unwrap();
        assert!(admit("GET", maps, &somebody).is_err());
        let _administrator = admit("GET", maps, &administrator).unwrap();
        assert_eq!(inflight.reading.now(), 2, "who is let in beyond the limit is not counted");
        let _lasting = [
            admit("GET", &format!("{maps}?watch=true"), &somebody).unwrap(),
            admit("GET", "/api/v1/namespaces/default/pods/a/log", &somebody).unwrap(),
            admit("POST", "/api/v1/namespaces/default/pods/a/exec", &somebody).unwrap(),
        ];
        let _write = admit("POST", maps, &somebody).unwrap();
        assert!(admit("DELETE", &format!("{maps}/a"), &somebody).is_err());
        drop(first);
        assert!(admit("GET", maps, &somebody).is_ok());
        assert_eq!((inflight.reading.refused(), inflight.writing.refused()), (1, 1));
        let unlimited = InFlight::new(Limits { reading: 0, writing: 0 });
        let all: Vec<_> = (0..1_000).map(|_| unlimited.admit(&info("GET", maps), &somebody).unwrap()).collect();
        assert_eq!(all.len(), unlimited.reading.now());
    }

    /// KAPI-SRV-06: a request may ask for less time, not for more.
    #[test]
    fn timeouts() {
        let cases = [("", LONGEST), ("timeout=0s", LONGEST), ("timeout=34s", Duration::from_secs(34)), ("timeout=10m", LONGEST)];
        for (query, wanted) in cases {
            assert_eq!(patience(&Query::parse(query)).unwrap(), wanted, "{query}");
        }
        let refused = patience(&Query::parse("timeout=soon")).unwrap_err();
        assert_eq!(refused.message, "invalid timeout specified in the request URL - time: invalid duration \"soon\"");
    }
}
