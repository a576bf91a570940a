//! End-to-end tests: the built binary with real clients.
