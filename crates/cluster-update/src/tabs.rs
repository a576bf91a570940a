//! Columns as Go's `text/tabwriter` aligns them.

/// The layout of columns.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The least width of a column.
    pub least: usize,
    /// The blanks between columns.
    pub gap: usize,
}

/// Writes rows of cells below each other. The last cell of a row is not filled up.
pub fn aligned(rows: &[Vec<String>], layout: Layout) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter(|row| row.len() > column + 1).map(|row| row[column].chars().count() + layout.gap);
        cells.max().unwrap_or_default().max(layout.least)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            text.push_str(cell);
            if column + 1 < row.len() {
                text.extend(std::iter::repeat_n(' ', widths[column].saturating_sub(cell.chars().count())));
            }
        }
        text.push('\n');
    }
    text
}
