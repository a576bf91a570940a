//! The release that is being applied, as the loops follow it.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Calls `changed` when the release changes, until `stop` is cancelled.
pub(crate) async fn follow(mut release: watch::Receiver<Arc<[Value]>>, stop: CancellationToken, changed: impl Fn()) {
    while let Some(Ok(())) = stop.run_until_cancelled(release.changed()).await {
        changed();
    }
}
