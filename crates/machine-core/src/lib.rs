//! Decisions of the Machine API, pure functions of facts that callers hand in.
