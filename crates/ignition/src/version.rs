//! Versions as Ignition reads them: three numbers, perhaps with a pre-release and metadata.

use std::fmt;

/// A version of a config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Major, minor and patch.
    pub numbers: [i64; 3],
    /// The part after `-`.
    pub pre_release: String,
    /// The part after `+`.
    pub metadata: String,
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(out, "{major}.{minor}.{patch}")?;
        for (mark, part) in [('-', &self.pre_release), ('+', &self.metadata)] {
            if !part.is_empty() {
                write!(out, "{mark}{part}")?;
            }
        }
        Ok(())
    }
}

impl Version {
    /// Reads a version; none if the text is none.
    pub fn parse(text: &str) -> Option<Self> {
        let (rest, metadata) = text.split_once('+').unwrap_or((text, ""));
        let (rest, pre_release) = rest.split_once('-').unwrap_or((rest, ""));
        let mut parts = rest.splitn(3, '.');
        let mut numbers = [0; 3];
        for number in &mut numbers {
            *number = parts.next()?.parse().ok()?;
        }
        let word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let fits = |part: &str| part.is_empty() || part.split('.').all(word);
        (fits(pre_release) && fits(metadata)).then(|| Self { numbers, pre_release: pre_release.to_owned(), metadata: metadata.to_owned() })
    }

    /// Returns whether it is exactly this version, with nothing after the numbers.
    pub fn is(&self, numbers: [i64; 3]) -> bool {
        self.numbers == numbers && self.pre_release.is_empty() && self.metadata.is_empty()
    }
}
