//! systemd units, as far as Ignition looks into them: which sections they have, and whether they can be read at all.

use mainstay_golang::quote;

/// Why a unit cannot be read, in the words of upstream's reader.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// A bracket is not closed.
    #[error("unable to find end of section")]
    Section,
    /// Something stands behind a section's name. The place for the name stays empty, as upstream leaves it.
    #[error("found garbage after section name : {}", quote(.0))]
    Garbage(String),
    /// The same, in the words of the reader of 2.x.
    #[error("found garbage after section name : [{}]", numbers(.0))]
    GarbageBytes(Vec<u8>),
    /// A line has no equals sign.
    #[error("unexpected newline encountered while parsing option name")]
    OptionName,
    /// The text ends within an option's name.
    #[error("EOF")]
    End,
    /// A line is longer than systemd reads.
    #[error("line too long (max 2048 bytes)")]
    LongLine,
}

/// The reader whose words are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// That of 3.x.
    Current,
    /// That of 2.x, which prints bytes as numbers.
    Old,
}

/// The sections in which a unit has options, each as often as it has options.
pub fn sections(text: &str, reader: Reader) -> Result<Vec<String>, UnitError> {
    let mut scan = Scan { bytes: text.as_bytes(), at: 0, buffer_end: 0 };
    let mut sections = Vec::new();
    let mut section: Option<String> = None;
    loop {
        scan.check_line()?;
        let Some(letter) = scan.letter() else { return Ok(sections) };
        match (letter, &section) {
            ('[', _) => {
                scan.check_line()?;
                let name = scan.until(b']').ok_or(UnitError::Section)?;
                scan.check_line()?;
                let rest = trimmed(scan.line().0);
                if !rest.is_empty() {
                    return Err(match reader {
                        Reader::Current => UnitError::Garbage(String::from_utf8_lossy(rest).into_owned()),
                        Reader::Old => UnitError::GarbageBytes(rest.to_vec()),
                    });
                }
                section = Some(name);
            }
            ('#' | ';', _) => {
                scan.check_line()?;
                while ends_in_backslash(scan.line().0) {}
            }
            (letter, Some(section)) if !letter.is_whitespace() => {
                scan.back(letter);
                scan.check_line()?;
                scan.option_name()?;
                scan.check_line()?;
                scan.option_value()?;
                sections.push(section.clone());
            }
            _ => {}
        }
    }
}

fn numbers(bytes: &[u8]) -> String {
    bytes.iter().map(u8::to_string).collect::<Vec<_>>().join(" ")
}

fn ends_in_backslash(line: &[u8]) -> bool {
    line.strip_suffix(b" ").unwrap_or(line).ends_with(b"\\")
}

/// A line without blanks around it.
fn trimmed(line: &[u8]) -> &[u8] {
    match std::str::from_utf8(line) {
        Ok(text) => text.trim().as_bytes(),
        Err(_) => line.trim_ascii(),
    }
}

struct Scan<'t> {
    bytes: &'t [u8],
    at: usize,
    /// The end of what upstream's reader holds in its buffer.
    buffer_end: usize,
}

impl<'t> Scan<'t> {
    /// Size of the buffer, and the length of line that systemd reads.
    const BUFFER: usize = 4096;
    const LONGEST: usize = 2048;

    /// Upstream looks for a long line in what its buffer happens to hold; this is what it holds.
    fn check_line(&self) -> Result<(), UnitError> {
        let held = self.buffer_end.saturating_sub(self.at);
        if held < Self::LONGEST {
            return Ok(());
        }
        let ahead = &self.bytes[self.at..self.at + Self::LONGEST];
        if ahead.iter().any(|byte| matches!(byte, b'\r' | b'\n')) { Ok(()) } else { Err(UnitError::LongLine) }
    }

    /// Fills the buffer as upstream does when it is empty, or when a letter may be cut off.
    fn fill(&mut self, wanted: usize) {
        while self.buffer_end < (self.at + wanted).min(self.bytes.len()) {
            self.buffer_end = (self.at + Self::BUFFER).min(self.bytes.len());
        }
    }

    fn letter(&mut self) -> Option<char> {
        self.fill(1);
        let rest = self.bytes.get(self.at..)?;
        let length = match rest.first()? {
            0xf0.. => 4,
            0xe0.. => 3,
            0xc0.. => 2,
            _ => 1,
        };
        self.fill(length);
        let letter = std::str::from_utf8(rest.get(..length)?).ok()?.chars().next()?;
        self.at += length;
        Some(letter)
    }

    fn back(&mut self, letter: char) {
        self.at -= letter.len_utf8();
    }

    fn until(&mut self, end: u8) -> Option<String> {
        let rest = self.bytes.get(self.at..)?;
        let length = rest.iter().position(|byte| *byte == end)?;
        self.advance(length + 1);
        Some(String::from_utf8_lossy(&rest[..length]).into_owned())
    }

    /// Reads bytes; a read that goes beyond the buffer fills it from here, and then again each time that it is full.
    fn advance(&mut self, count: usize) {
        let target = self.at + count;
        if target > self.buffer_end {
            let buffers = count.div_ceil(Self::BUFFER);
            self.buffer_end = (self.at + buffers * Self::BUFFER).min(self.bytes.len());
        }
        self.at = target;
    }

    /// The rest of the line, and whether the text ends with it.
    fn line(&mut self) -> (&'t [u8], bool) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let end = rest.iter().position(|byte| *byte == b'\n');
        let (line, read) = end.map_or((rest, rest.len()), |end| (&rest[..end], end + 1));
        self.advance(read);
        let ended = end.is_none();
        // Upstream takes the carriage return away before the line end, so that only a last line loses it.
        (if ended { line.strip_suffix(b"\r").unwrap_or(line) } else { line }, ended)
    }

    fn option_name(&mut self) -> Result<(), UnitError> {
        loop {
            match self.letter() {
                None => return Err(UnitError::End),
                Some('\n' | '\r') => return Err(UnitError::OptionName),
                Some('=') => return Ok(()),
                Some(_) => {}
            }
        }
    }

    /// Skips a value with the lines that continue it.
    fn option_value(&mut self) -> Result<(), UnitError> {
        loop {
            let (line, _) = self.line();
            if trimmed(line).is_empty() || !line.ends_with(b"\\") {
                return Ok(());
            }
            self.check_line()?;
        }
    }
}
