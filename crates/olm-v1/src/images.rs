//! Images: catalogs and bundles from registries.
