//! Columns as Go's `text/tabwriter` aligns them, with blanks.
//!
//! A cell ends with a tab; what follows the last tab of a line belongs to no column. A column goes on as long as neighbouring lines have a cell
//! in it, so each run of lines has widths of its own.

/// The settings of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tabs {
    /// The least width of a cell, with its padding.
    pub least: usize,
    /// Blanks after the longest cell of a column.
    pub padding: usize,
}

impl Tabs {
    /// Returns the text with its tabs replaced by blanks.
    pub fn align(self, text: &str) -> String {
        let lines: Vec<Vec<&str>> = text.split('\n').map(|line| line.split('\t').collect()).collect();
        let mut out = String::with_capacity(text.len() * 2);
        self.format(&lines, &mut Vec::new(), &mut out);
        // The last line has no end.
        out.pop();
        out
    }

    fn format(self, lines: &[Vec<&str>], widths: &mut Vec<usize>, out: &mut String) {
        let column = widths.len();
        let has = |line: &Vec<&str>| column + 1 < line.len();
        let mut at = 0;
        while at < lines.len() {
            let run = lines[at..].iter().position(|line| has(line) != has(&lines[at])).unwrap_or(lines.len() - at);
            let block = &lines[at..at + run];
            if has(&block[0]) {
                let width = block.iter().map(|line| line[column].chars().count() + self.padding).max().unwrap_or_default();
                widths.push(width.max(self.least));
                self.format(block, widths, out);
                widths.pop();
            } else {
                for line in block {
                    for (cell, width) in line.iter().zip(widths.iter().map(Some).chain(std::iter::repeat(None))) {
                        out.push_str(cell);
                        let missing = width.map_or(0, |width| width.saturating_sub(cell.chars().count()));
                        out.extend(std::iter::repeat_n(' ', missing));
                    }
                    out.push('\n');
                }
            }
            at += run;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Widths belong to runs of lines; text after the last tab is not counted.
    #[test]
    fn columns() {
        let tabs = Tabs { least: 0, padding: 1 };
        for (text, expected) in [
            ("Name:\tx\nCreated:\ty\n\nPull From:\tz\n", "Name:    x\nCreated: y\n\nPull From: z\n"),
            ("  NAME\tURL\t\n  a-long-name\tu\n", "  NAME        URL \n  a-long-name u\n"),
            ("a\tb\tc\nd\te\n", "a b c\nd e\n"),
            ("\tFROM\tTO\nName:\t1\t2\nUpgrade:\t\tYes\n", "         FROM TO\nName:    1    2\nUpgrade:      Yes\n"),
            ("x\t\ty\nlong\t\tz\n", "x     y\nlong  z\n"),
            ("äö\tb\na\tc\n", "äö b\na  c\n"),
            ("no end\ta", "no end a"),
        ] {
            assert_eq!(tabs.align(text), expected, "{text:?}");
        }
    }
}
