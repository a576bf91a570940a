//! The one vocabulary of findings, causes, hints and codes.
