//! Progress of an operation, reported to the user interface that started it.

use std::sync::Arc;

use mainstay_oci::Progress as Transferred;

/// Observer of one transfer; it is called with the progress of the transfer.
pub type OnTransfer = Arc<dyn Fn(Transferred) + Send + Sync>;

/// Observer of an operation.
pub trait Progress: Send {
    /// Reports what is being done now, in the first line of `what`.
    fn doing(&mut self, what: &str);

    /// Returns the observer of transfers of `what`; `None` if their progress is not shown.
    fn transfer(&self, what: &str) -> Option<OnTransfer>;
}

/// Progress that is not shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn doing(&mut self, _what: &str) {}

    fn transfer(&self, _what: &str) -> Option<OnTransfer> {
        None
    }
}
