//! The only access of this program to stdout and stderr. Foreign text is escaped here, so that no command can forget it: names, paths and
//! messages of catalogs, bundles, registries and clusters are shown, never obeyed (MS-CLI-06).
//!
//! ```text
//!   tables, lines, notes, errors ── Text ───► hidden characters as \u{1b}
//!   drawings, painted lines ─────── Drawn ──► the same, but colours stay: what is painted was escaped before
//!   -o json, JSON logs ──────────── Json ───► hidden characters as \u001b, the same document
//!   opm's own output ────────────── Data ───► byte for byte; on a terminal as Text or Json
//! ```

use std::borrow::Cow;
use std::io::{self, BufWriter, IsTerminal as _, Write};

use tracing_subscriber::fmt::MakeWriter;

use crate::printable::{printable, printable_json};

/// The escaping of text for a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Escapes everything that is hidden.
    Text,
    /// Escapes the same, but keeps colour sequences, which only this program writes.
    Drawn,
    /// A JSON document, or several, one per line.
    Json,
}

impl From<mainstay_catalog::Format> for Kind {
    fn from(format: mainstay_catalog::Format) -> Self {
        match format {
            mainstay_catalog::Format::Json | mainstay_catalog::Format::JsonLines => Self::Json,
            mainstay_catalog::Format::Yaml => Self::Text,
        }
    }
}

/// Writes to stdout.
pub fn out(text: &str, kind: Kind) -> io::Result<()> {
    let mut stdout = anstream::stdout();
    stdout.write_all(fit(text, kind).as_bytes())?;
    stdout.flush()
}

/// Writes to stderr. An error is ignored, because no place is left to report it.
pub fn err(text: &str, kind: Kind) {
    let _ = anstream::stderr().write_all(fit(text, kind).as_bytes());
}

/// Lets `write` print foreign data as it goes, in larger pieces: byte for byte, unless stdout is a terminal.
pub fn data(kind: Kind, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        let mut gathered = BufWriter::with_capacity(256 << 10, stdout.lock());
        let outcome = write(&mut gathered).and_then(|()| gathered.flush());
        if outcome.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            // The buffered data cannot be written either.
            drop(gathered.into_parts());
        }
        return outcome;
    }
    let mut lines = Lines { held: Vec::new(), kind, out: stdout.lock() };
    write(&mut lines)?;
    lines.finish()
}

/// Returns the columns of the terminal; `None` without a terminal.
pub fn columns() -> Option<usize> {
    let stdout = io::stdout();
    let size = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout).ok()).flatten()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Returns whether stderr shows colours.
pub fn colours_on_stderr() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Returns text as it may reach a screen.
fn fit(text: &str, kind: Kind) -> Cow<'_, str> {
    match kind {
        Kind::Text => printable(text),
        Kind::Json => printable_json(text),
        Kind::Drawn => drawn(text),
    }
}

/// Escapes hidden characters, except for sequences that set a colour: `ESC [ numbers m`.
fn drawn(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return printable(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        out.push_str(&printable(&rest[..at]));
        let sequence = &rest[at + 1..];
        let numbers =
            sequence.strip_prefix('[').map(|after| after.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ';'));
        if let Some(after) = numbers.and_then(|after| after.strip_prefix('m')) {
            out.push_str(&rest[at..rest.len() - after.len()]);
            rest = after;
        } else {
            out.push_str("\\u{1b}");
            rest = sequence;
        }
    }
    out.push_str(&printable(rest));
    Cow::Owned(out)
}

/// Writer of data on a terminal, line by line.
struct Lines<W: Write> {
    held: Vec<u8>,
    kind: Kind,
    out: W,
}

impl<W: Write> Lines<W> {
    fn finish(mut self) -> io::Result<()> {
        let held = std::mem::take(&mut self.held);
        self.out.write_all(fit(&String::from_utf8_lossy(&held), self.kind).as_bytes())?;
        self.out.flush()
    }
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(bytes);
        if let Some(end) = self.held.iter().rposition(|byte| *byte == b'\n') {
            let rest = self.held.split_off(end + 1);
            let whole = std::mem::replace(&mut self.held, rest);
            self.out.write_all(fit(&String::from_utf8_lossy(&whole), self.kind).as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writer of the log: to stderr, one event per line.
#[derive(Clone, Copy, Debug)]
pub struct LogLines(pub Kind);

impl<'w> MakeWriter<'w> for LogLines {
    type Writer = Self;

    fn make_writer(&'w self) -> Self {
        *self
    }
}

impl Write for LogLines {
    /// Writes one event, as the subscriber hands it over; a line end within it is foreign text.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let body = text.strip_suffix('\n').unwrap_or(&text);
        let line = if self.0 == Kind::Json { Cow::Borrowed(body) } else { Cow::Owned(body.replace('\n', "\\n")) };
        io::stderr().lock().write_all(format!("{}\n", fit(&line, self.0)).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use super::*;

    const POISON: &str = "a\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}1m\u{202e}b\u{200b}";

    /// MS-CLI-06: colours of ours stay, everything else of a terminal's language does not.
    #[test]
    fn only_colours_are_drawn() {
        assert_eq!(fit("\u{1b}[1;31mred\u{1b}[0m plain\n", Kind::Drawn), "\u{1b}[1;31mred\u{1b}[0m plain\n");
        let shown = fit(POISON, Kind::Drawn);
        assert!(!shown.chars().any(crate::printable::is_hidden), "{shown:?}");
        assert_eq!(fit("\u{1b}", Kind::Drawn), "\\u{1b}");
        assert_eq!(fit("\u{1b}[?25l", Kind::Drawn), "\\u{1b}[?25l");
    }

    /// MS-CLI-06: data is shown line by line, whatever the pieces that it comes in.
    #[test]
    fn data_on_a_terminal() {
        let mut shown = Vec::new();
        let mut lines = Lines { held: Vec::new(), kind: Kind::Text, out: &mut shown };
        for piece in format!("first {POISON}\nsecond\u{202e}").as_bytes().chunks(3) {
            lines.write_all(piece).unwrap();
        }
        lines.finish().unwrap();
        let shown = String::from_utf8(shown).unwrap();
        assert!(!shown.chars().any(|letter| crate::printable::is_hidden(letter) && letter != '\n'), "{shown:?}");
        assert!(shown.ends_with("second\\u{202e}"));
    }

    /// MS-CLI-06: no other file of the faces writes to the standard streams, so that no command can forget to escape.
    #[test]
    fn there_is_no_other_way_out() {
        fn look(folder: &Path, found: &mut Vec<String>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    look(&path, found);
                } else if path.extension().is_some_and(|ending| ending == "rs") && !path.ends_with("terminal/src/screen.rs") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    let ways = [
                        "anstream::stdout",
                        "anstream::stderr",
                        "anstream::print",
                        "io::stdout()",
                        "io::stderr()",
                        "io::stderr)",
                        "println!(",
                        "eprint!(",
                        "print!(",
                    ];
                    let lines = text.lines().enumerate().filter(|(_, line)| ways.iter().any(|way| line.contains(way)));
                    // Whether it is a terminal may be asked.
                    let bad = lines.filter(|(_, line)| !line.contains("is_terminal"));
                    found.extend(bad.map(|(number, line)| format!("{}:{}: {}", path.display(), number + 1, line.trim())));
                }
            }
        }
        let mut found = Vec::new();
        for face in ["terminal", "opm", "cli"] {
            look(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(face).join("src"), &mut found);
        }
        assert_eq!(found, Vec::<String>::new());
    }
}
