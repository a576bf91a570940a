//! Limits on the size of a database.

/// Limits on reading (the largest published index databases have 700 MB and 200,000 channel entries).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of one value, and of one SQL statement of the schema.
    pub value_bytes: i32,
    /// Rows of all tables together.
    pub rows: u64,
    /// Bytes of all values that are read.
    pub total_bytes: u64,
    /// Steps of SQLite's virtual machine in one statement.
    pub steps: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { file_bytes: 4 << 30, value_bytes: 64 << 20, rows: 5_000_000, total_bytes: 4 << 30, steps: 4_000_000_000 }
    }
}
