//! Field sets, managed fields, server-side apply and the patch formats.
