//! Metrics of the whole process under client-go's names: requests to API servers, and the Leases that it holds.

use std::sync::LazyLock;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Request {
    code: String,
    method: String,
    host: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Lease {
    name: String,
}

pub(super) static REQUESTS: LazyLock<Family<Request, Counter>> = LazyLock::new(Family::default);
pub(super) static LEADING: LazyLock<Family<Lease, Gauge>> = LazyLock::new(Family::default);

/// The code of a request without an answer.
const UNANSWERED: &str = "<error>";

/// A request to an API server, counted when its answer begins or when it is abandoned.
pub(crate) struct Sent {
    request: Option<(String, String)>,
}

impl Sent {
    /// Starts the record of a sent request.
    pub(crate) fn new(method: &str, host: &str) -> Self {
        Self { request: Some((method.to_owned(), host.to_owned())) }
    }

    /// Counts the request with the code of its answer.
    pub(crate) fn answered(mut self, code: &str) {
        self.count(code);
    }

    fn count(&mut self, code: &str) {
        if let Some((method, host)) = self.request.take() {
            REQUESTS.get_or_create(&Request { code: code.to_owned(), method, host }).inc();
        }
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.count(UNANSWERED);
    }
}

/// Records in the metrics if this process holds a Lease.
pub(crate) fn leads(lease: &str, holds: bool) {
    LEADING.get_or_create(&Lease { name: lease.to_owned() }).set(i64::from(holds));
}
