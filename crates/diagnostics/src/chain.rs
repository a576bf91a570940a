//! Errors with their causes, as text.

use std::error::Error;

/// An error with its causes, on one line: `cannot read x: permission denied`.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some libraries repeat the cause in their own message.
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Told {
        text: &'static str,
        source: Option<Box<Told>>,
    }

    impl std::fmt::Display for Told {
        fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            out.write_str(self.text)
        }
    }

    impl Error for Told {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.source.as_deref().map(|source| source as _)
        }
    }

    fn told(texts: &[&'static str]) -> Told {
        Told { text: texts[0], source: texts.get(1..).filter(|rest| !rest.is_empty()).map(|rest| Box::new(told(rest))) }
    }

    /// Every cause is told once.
    #[test]
    fn causes_follow_the_error() {
        assert_eq!(chain(&told(&["a"])), "a");
        assert_eq!(chain(&told(&["a", "b", "c"])), "a: b: c");
        assert_eq!(chain(&told(&["a: b", "b", "c"])), "a: b: c");
    }
}
