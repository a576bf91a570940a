//! Letters of a TOML text with the count of lines that upstream's messages name.

/// The fault, and its line.
#[derive(Debug)]
pub(super) struct Mistake {
    pub(super) line: usize,
    pub(super) message: String,
}

pub(super) type Scanned<T> = Result<T, Mistake>;

/// A reader of letters. The end of the text is the letter NUL, which no text may contain.
pub(super) struct Scan<'t> {
    text: &'t [u8],
    pub(super) at: usize,
    pub(super) line: usize,
    /// True if the end was read, and not given back.
    at_end: bool,
}

pub(super) const END: char = '\0';

impl<'t> Scan<'t> {
    pub(super) fn new(text: &'t [u8]) -> Self {
        Self { text, at: 0, line: 1, at_end: false }
    }

    pub(super) fn next(&mut self) -> Scanned<char> {
        let Some(byte) = self.text.get(self.at).copied() else {
            self.at_end = true;
            return Ok(END);
        };
        if byte == b'\n' {
            self.line += 1;
        }
        let rest = &self.text[self.at..];
        let Some(letter) = first_letter(rest) else { return Err(self.mistake(format!("invalid UTF-8 byte: 0x{byte:02x}"))) };
        let is_lonely_return = letter == '\r' && rest.get(1) != Some(&b'\n');
        if letter.is_ascii_control() && !matches!(letter, '\t' | '\r' | '\n') || is_lonely_return {
            let message = format!("TOML files cannot contain control characters: '0x{:02x}'", u32::from(letter));
            return Err(Mistake { line: self.line, message });
        }
        self.at += letter.len_utf8();
        Ok(letter)
    }

    /// Gives a letter back.
    pub(super) fn back(&mut self, letter: char) {
        if std::mem::take(&mut self.at_end) {
            return;
        }
        self.at -= letter.len_utf8();
        if letter == '\n' {
            self.line -= 1;
        }
    }

    pub(super) fn peek(&mut self) -> Scanned<char> {
        let letter = self.next()?;
        self.back(letter);
        Ok(letter)
    }

    pub(super) fn accept(&mut self, wanted: char) -> Scanned<bool> {
        let letter = self.next()?;
        if letter == wanted {
            return Ok(true);
        }
        self.back(letter);
        Ok(false)
    }

    pub(super) fn take_while(&mut self, fits: impl Fn(char) -> bool) -> Scanned<()> {
        loop {
            let letter = self.next()?;
            if letter == END || !fits(letter) {
                self.back(letter);
                return Ok(());
            }
        }
    }

    /// The letters since a place, as text.
    pub(super) fn since(&self, start: usize) -> String {
        String::from_utf8_lossy(self.text.get(start..self.at).unwrap_or_default()).into_owned()
    }

    /// A mistake here; at the end of the text it counts to the line before.
    pub(super) fn mistake(&self, message: impl Into<String>) -> Mistake {
        Mistake { line: self.line - usize::from(self.at_end), message: message.into() }
    }

    /// A mistake that counts to the line before.
    pub(super) fn mistake_before(&self, message: impl Into<String>) -> Mistake {
        Mistake { line: self.line - 1, message: message.into() }
    }
}

fn first_letter(bytes: &[u8]) -> Option<char> {
    let head = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&head[..error.valid_up_to()]).ok()?,
    };
    valid.chars().next()
}

pub(super) fn is_blank(letter: char) -> bool {
    matches!(letter, ' ' | '\t')
}

pub(super) fn is_line_end(letter: char) -> bool {
    matches!(letter, '\n' | '\r')
}

/// A letter as Go's `%q` writes a rune.
pub(super) fn quoted(letter: char) -> String {
    let text = mainstay_golang::quote(&letter.to_string());
    match letter {
        '"' => "'\"'".to_owned(),
        '\'' => "'\\''".to_owned(),
        _ => format!("'{}'", &text[1..text.len() - 1]),
    }
}

/// A letter in quotes, or the words for the end.
pub(super) fn shown_or_end(letter: char) -> String {
    if letter == END { "end of file".to_owned() } else { format!("'{letter}'") }
}
