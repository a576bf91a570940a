//! Credentials whose signatures were verified lately, so that a client that asks a thousand times a second is not verified a thousand
//! times. Only what a signature proves is remembered; validity in time and live objects are looked at on every request.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use ring::digest::{Context, SHA256};

/// So many credentials are remembered; when there are more, all are forgotten.
const CAPACITY: usize = 4_096;

/// Verified credentials, by the digest of their bytes.
pub(super) struct Known<T>(RwLock<HashMap<[u8; 32], T>>);

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<T> std::fmt::Debug for Known<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Known").finish_non_exhaustive()
    }
}

impl<T: Clone> Known<T> {
    /// The content of a credential: from memory, else from `verify`, whose refusals are not remembered.
    pub fn or_verify<'a, E>(&self, credential: impl IntoIterator<Item = &'a [u8]>, verify: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let mut context = Context::new(&SHA256);
        for part in credential {
            // Lengths, so that no two lists of parts have the same bytes.
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let mut digest = [0; 32];
        digest.copy_from_slice(context.finish().as_ref());
        if let Some(known) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&digest) {
            return Ok(known.clone());
        }
        let verified = verify()?;
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= CAPACITY {
            all.clear();
        }
        all.insert(digest, verified.clone());
        Ok(verified)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verifies_once_and_remembers_no_refusal() {
        let known = Known::default();
        let mut asked = 0;
        let mut ask = |parts: &[&[u8]], answer: Result<u8, ()>| {
            known.or_verify(parts.iter().copied(), || {
                asked += 1;
                answer
            })
        };
        assert_eq!(ask(&[b"a", b"b"], Err(())), Err(()));
        assert_eq!(ask(&[b"a", b"b"], Ok(1)), Ok(1));
        assert_eq!(ask(&[b"a", b"b"], Ok(2)), Ok(1));
        assert_eq!(ask(&[b"ab"], Ok(3)), Ok(3), "another division of the same bytes is another credential");
        assert_eq!(asked, 3);
    }

    #[test]
    fn holds_a_bounded_number() {
        let known = Known::default();
        for number in 0..CAPACITY + 10 {
            let _: Result<usize, ()> = known.or_verify([&number.to_be_bytes()[..]], || Ok(number));
        }
        assert!(known.0.read().unwrap_or_else(PoisonError::into_inner).len() <= CAPACITY);
    }
}
