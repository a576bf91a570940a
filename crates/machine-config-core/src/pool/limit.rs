//! The number of nodes of a pool that may be unavailable.

use mainstay_objects::{IntOrString, IntOrStringError, PlainText, Rounding};

/// A limit that cannot be read, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"maxUnavailable\" {0}")]
pub struct LimitError(#[from] IntOrStringError);

/// Returns how many of a pool's nodes may be unavailable: one by default, shares rounded down, never none (MACH-MCP-04). A negative number
/// stays negative, which stops the pool.
///
/// # Errors
/// The limit is a text that is no percentage.
pub fn max_unavailable(limit: Option<&IntOrString>, nodes: usize) -> Result<i64, LimitError> {
    let limit = limit.unwrap_or(&IntOrString::Int(1)).scaled(nodes, Rounding::Down, PlainText::Refused)?;
    Ok(if limit == 0 { 1 } else { limit })
}
