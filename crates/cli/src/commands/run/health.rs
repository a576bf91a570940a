//! The answers of `/healthz` and `/readyz`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing is open yet.
    Starting = 0,
    /// Ready to take over.
    Following = 1,
    /// Leading, but its listener of catalogs is not open yet.
    TakingOver = 2,
    /// Leading and working.
    Leading = 3,
    /// Stopping.
    Ending = 4,
}

/// The state of this process.
#[derive(Debug, Default)]
pub struct Health(AtomicU8);

impl Health {
    /// Sets the present state.
    pub fn set(&self, state: State) {
        self.0.store(state as u8, Ordering::Relaxed);
    }

    /// The readiness of the process, as a leader or as one that can become it.
    fn ready(&self) -> Result<&'static str, &'static str> {
        let now = self.0.load(Ordering::Relaxed);
        let known = [State::Starting, State::Following, State::TakingOver, State::Leading];
        match known.into_iter().find(|state| *state as u8 == now).unwrap_or(State::Ending) {
            State::Following => Ok("ok: another process may lead"),
            State::Leading => Ok("ok: leading"),
            State::Starting => Err("starting"),
            State::TakingOver => Err("taking over"),
            State::Ending => Err("ending"),
        }
    }
}

/// The routes.
pub fn router(health: Arc<Health>) -> Router {
    let ready = move || {
        let answer = match health.ready() {
            Ok(text) => (StatusCode::OK, text),
            Err(text) => (StatusCode::SERVICE_UNAVAILABLE, text),
        };
        async move { answer }
    };
    Router::new().route("/healthz", get(|| async { "ok" })).route("/readyz", get(ready))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OLM1-GEN-09, MS-CLI-04: a follower is ready, whoever starts, takes over or ends is not.
    #[test]
    fn readiness() {
        let health = Health::default();
        assert_eq!(health.ready(), Err("starting"));
        for (state, ready) in [(State::Following, true), (State::TakingOver, false), (State::Leading, true), (State::Ending, false)] {
            health.set(state);
            assert_eq!(health.ready().is_ok(), ready, "{state:?}");
        }
    }
}
