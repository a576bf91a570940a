//! Memory-mapped catalog indexes by digest.
