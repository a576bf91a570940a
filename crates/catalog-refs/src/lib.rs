//! Catalogs and bundles from whatever names them: a directory, a file, an image, an index database.
