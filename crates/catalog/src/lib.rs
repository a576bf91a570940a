//! File-based catalogs: model, loader, validation, index, queries.
