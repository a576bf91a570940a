//! A revisioned key-value store with watch.
