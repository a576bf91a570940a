//! Bytes as choices, for targets that make something of a structure instead of reading what came.

/// What is still to be read of the bytes. Beyond their end every number is 0.
pub(crate) struct Choices<'a>(pub(crate) &'a [u8]);

impl Choices<'_> {
    /// The next byte; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// The next byte as a number.
    pub(crate) fn number(&mut self) -> usize {
        self.next().map_or(0, usize::from)
    }

    /// One of some.
    pub(crate) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.number() % all.len()]
    }

    /// So many of the bytes, or as many as there are.
    pub(crate) fn bytes(&mut self, count: usize) -> &[u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}
