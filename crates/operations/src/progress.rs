//! Progress of an operation, told to the face that started it.

use std::sync::Arc;

use mainstay_oci::Progress as Transferred;

/// Observer of one transfer, told how far it is.
pub type OnTransfer = Arc<dyn Fn(Transferred) + Send + Sync>;

/// Observer of an operation.
pub trait Progress: Send {
    /// Tells what is being done now; the first line of `what` says it.
    fn doing(&mut self, what: &str);

    /// The observer of transfers of `what`; none if nobody would see it.
    fn transfer(&self, what: &str) -> Option<OnTransfer>;
}

/// Progress that nobody sees.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn doing(&mut self, _what: &str) {}

    fn transfer(&self, _what: &str) -> Option<OnTransfer> {
        None
    }
}
