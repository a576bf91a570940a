//! Characters and colours of terminals.

use std::borrow::Cow;

use crate::model::{Line, Mark, Node, Tone};

/// Width, characters and colours of drawn text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextStyle {
    /// Columns of the terminal.
    pub width: usize,
    /// Characters for lines.
    pub charset: Charset,
    /// Use of colours (ANSI sequences).
    pub colour: Colour,
}

impl Default for TextStyle {
    fn default() -> Self {
        Self { width: 100, charset: Charset::Unicode, colour: Colour::Without }
    }
}

/// Characters for lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charset {
    /// Box drawing.
    Unicode,
    /// Only ASCII.
    Ascii,
}

/// Use of colours in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// Text alone.
    Without,
    /// ANSI sequences.
    Ansi,
}

/// Role of a piece of text, which decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    Plain,
    Strong,
    Faint,
    Good,
    Here,
    Care,
    Warning,
    Second,
    Third,
}

impl Ink {
    pub(super) fn of(mark: &str) -> Self {
        match mark {
            "head" => Self::Good,
            "installed" | "start" | "next" | "reachable" => Self::Here,
            "deprecated" => Self::Care,
            "blocked" => Self::Warning,
            _ => Self::Plain,
        }
    }

    pub(super) fn tone(tone: Tone) -> Self {
        match tone {
            Tone::Main => Self::Plain,
            Tone::Second => Self::Second,
            Tone::Third => Self::Third,
            Tone::Warning => Self::Warning,
        }
    }

    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Strong => "1",
            Self::Faint => "2",
            Self::Good => "32",
            Self::Here => "34",
            Self::Care => "33",
            Self::Warning => "31",
            Self::Second => "35",
            Self::Third => "36",
        }
    }
}

/// Draws in a style.
pub(super) struct Pen<'s>(pub(super) &'s TextStyle);

impl Pen<'_> {
    /// The text in a colour. Control characters of the text do not reach the terminal.
    pub(super) fn paint(&self, text: &str, ink: Ink) -> String {
        let mut text: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        if self.0.charset == Charset::Ascii {
            text = text.replace('\u{2192}', "->");
        }
        if self.0.colour == Colour::Without || ink == Ink::Plain || text.is_empty() {
            return text;
        }
        format!("\u{1b}[{}m{text}\u{1b}[0m", ink.code())
    }

    /// The text, shortened if it is too long.
    pub(super) fn fit<'t>(&self, text: &'t str, room: usize) -> Cow<'t, str> {
        if text.chars().count() <= room {
            return Cow::Borrowed(text);
        }
        let end = self.either("\u{2026}", "~");
        Cow::Owned(text.chars().take(room.saturating_sub(1)).chain(end.chars()).collect())
    }

    pub(super) fn either(&self, unicode: &'static str, ascii: &'static str) -> &'static str {
        match self.0.charset {
            Charset::Unicode => unicode,
            Charset::Ascii => ascii,
        }
    }

    pub(super) fn node(&self, node: &Node) -> String {
        let (glyph, ink) = if node.marks.has(Mark::Installed) || node.marks.has(Mark::Start) {
            (self.either("\u{25c9}", "@"), Ink::Here)
        } else if node.marks.has(Mark::Blocked) {
            (self.either("\u{2717}", "x"), Ink::Warning)
        } else if node.marks.has(Mark::Elsewhere) {
            (self.either("\u{25cc}", "."), Ink::Faint)
        } else if node.marks.has(Mark::Deprecated) {
            (self.either("\u{25cb}", "o"), Ink::Care)
        } else if node.marks.has(Mark::Head) {
            (self.either("\u{25cf}", "*"), Ink::Good)
        } else {
            (self.either("\u{25cf}", "*"), Ink::Plain)
        };
        self.paint(glyph, ink)
    }

    pub(super) fn vertical(&self, line: Line) -> &'static str {
        match line {
            Line::Solid => self.either("\u{2502}", "|"),
            Line::Dashed => self.either("\u{254e}", "!"),
            Line::Dotted => self.either("\u{250a}", ":"),
        }
    }

    pub(super) fn arrow(&self) -> &'static str {
        self.either("\u{2192}", "->")
    }

    pub(super) fn enters(&self) -> &'static str {
        self.either("\u{25c4}", "<")
    }
}
