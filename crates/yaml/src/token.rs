//! The tokens that the scanner finds and the parser puts together.

use std::borrow::Cow;
use std::ops::Range;

use crate::input::Mark;

/// A piece of the text with its place.
#[derive(Clone, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind<'a>,
    pub(crate) mark: Mark,
}

/// The kinds of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind<'a> {
    StreamEnd,
    /// `%YAML 1.1`.
    Version(u8, u8),
    /// `%TAG !x! prefix`.
    TagHandle(&'a str, Cow<'a, [u8]>),
    DocumentStart,
    DocumentEnd,
    /// Indentation that begins a sequence.
    BlockSequence,
    /// Indentation that begins a mapping.
    BlockMapping,
    /// Indentation that ends either.
    BlockEnd,
    FlowSequence,
    FlowSequenceEnd,
    FlowMapping,
    FlowMappingEnd,
    /// `- `.
    Entry,
    /// `,`.
    Comma,
    /// `? `, or the beginning of a key before its `:`.
    Key,
    /// `:`.
    Value,
    Alias(&'a str),
    Anchor(&'a str),
    /// Handle (empty for a verbatim tag) and suffix.
    Tag(&'a str, Cow<'a, [u8]>),
    Scalar(Text, Style),
}

/// The style of a scalar, reduced to the differences that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Other,
}

/// The place of a scalar's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Text {
    /// In the document, as it is.
    Written(Range<usize>),
    /// Among the texts that were put together: folded lines, escapes, blocks.
    Made(Range<usize>),
}
