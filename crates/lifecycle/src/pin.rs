//! Pins: the installed content stays as it is, whatever is offered later (MS-RB-05). Pure: a history in, the revision to stay at out.

use crate::revision::{History, Revision};

/// A reason why nothing can be pinned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// No attempt was ever completed.
    #[error("nothing is installed")]
    NothingInstalled,
    /// Another bundle is on its way. A pin would turn back half of a change without the verdict of a rollback.
    #[error("{next} is being installed over {installed}, so that neither is there as a whole")]
    Underway {
        /// The installed bundle.
        installed: String,
        /// The bundle of the attempt.
        next: String,
    },
}

/// Returns the revision to stay at: the installed one, unless a change to another bundle is under way.
///
/// # Errors
///
/// [`PinError`], if there is no such revision.
pub fn target(history: &History) -> Result<&Revision, PinError> {
    let installed = history.installed().ok_or(PinError::NothingInstalled)?;
    match history.attempt() {
        Some(attempt) if attempt.record.bundle.name != installed.record.bundle.name => {
            Err(PinError::Underway { installed: installed.record.bundle.name.clone(), next: attempt.record.bundle.name.clone() })
        }
        _ => Ok(installed),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::sync::Arc;

    use super::*;
    use crate::revision::State;
    use crate::revision::tests::example;

    fn history(revisions: &[(State, &str)]) -> History {
        let revision = |(index, (state, bundle)): (usize, &(State, &str))| {
            let mut revision = example(u32::try_from(index).unwrap() + 1, *state, "text");
            Arc::make_mut(&mut revision.record).bundle.name = (*bundle).to_owned();
            revision
        };
        History { revisions: revisions.iter().enumerate().map(revision).collect() }
    }

    /// MS-RB-05: the installed revision is the one to stay at; half of a change to another bundle is not turned back by a pin.
    #[test]
    fn the_installed_revision_is_pinned() {
        use State::{Deployed, Failed, Pending, Superseded};
        let underway = |next: &str| Err(PinError::Underway { installed: "p.v1".into(), next: next.into() });
        for (revisions, wanted) in [
            (&[][..], Err(PinError::NothingInstalled)),
            (&[(Pending, "p.v1")], Err(PinError::NothingInstalled)),
            (&[(Deployed, "p.v1")], Ok(1)),
            (&[(Superseded, "p.v1"), (Deployed, "p.v2")], Ok(2)),
            (&[(Deployed, "p.v1"), (Pending, "p.v2")], underway("p.v2")),
            (&[(Deployed, "p.v1"), (Failed, "p.v2")], underway("p.v2")),
            (&[(Deployed, "p.v1"), (Failed, "p.v1")], Ok(1)),
        ] {
            assert_eq!(target(&history(revisions)).map(|revision| revision.number), wanted, "{revisions:?}");
        }
    }
}
