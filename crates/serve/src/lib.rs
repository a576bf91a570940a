//! Every listener: TLS with reload, limits, graceful end.
