//! The fate of each object of a removed subject: deleted, kept, or unknown.

use super::{Facts, Owned, Stays, Tie, is_crd, text};
use crate::preview::Change;

/// The fate of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is deleted.
    Goes,
    /// It is deleted although it should be kept, by the controller of this object.
    GoesWith(String),
    /// It is deleted with the subject's namespace, and with nothing else.
    GoesWithNamespace,
    /// It would be deleted, and is kept by a choice of the request or of the subject.
    KeptByChoice,
    /// It is not tied to the subject, or nothing deletes what only carries its marks.
    Untied,
    /// It cannot be read.
    Unreadable(String),
}

impl Fate {
    /// Decides the fate of an object.
    pub fn of(facts: &Facts<'_>, own: &Owned) -> Self {
        let tie = match &own.tie {
            Ok(tie) => tie.as_ref(),
            Err(problem) => return Self::Unreadable(problem.to_string()),
        };
        let in_namespace = facts.choices.delete_namespace && own.object["metadata"]["namespace"] == facts.namespace;
        let is_kept_crd = is_crd(&own.object) && facts.keeps_definitions();
        match tie {
            None | Some(Tie::Mark) if in_namespace => Self::GoesWithNamespace,
            None => Self::Untied,
            Some(Tie::Through(holder)) if is_kept_crd => Self::GoesWith(holder.clone()),
            Some(Tie::Through(_)) => Self::Goes,
            Some(Tie::Mark) if !is_crd(&own.object) || is_unused(facts, own) => Self::Untied,
            Some(_) if is_kept_crd => Self::KeptByChoice,
            Some(Tie::Reference) if facts.stays == Ok(Some(Stays::Everything)) => Self::KeptByChoice,
            Some(Tie::Reference | Tie::Mark) => Self::Goes,
        }
    }

    /// Returns true if the object is deleted with the subject.
    pub fn goes(&self) -> bool {
        matches!(self, Self::Goes | Self::GoesWith(_))
    }

    /// Returns the reason why the fate is unknown, if it is.
    pub fn unreadable(&self) -> Option<&str> {
        if let Self::Unreadable(problem) = self { Some(problem) } else { None }
    }

    /// Returns the effect on the object.
    pub fn change(&self) -> Change {
        match self {
            Self::Goes | Self::GoesWith(_) | Self::GoesWithNamespace => Change::Deleted,
            Self::KeptByChoice | Self::Untied => Change::Kept,
            Self::Unreadable(_) => Change::Unknown,
        }
    }

    /// Returns the reason for the fate; empty if it needs none.
    pub fn note(&self, own: &Owned) -> String {
        match self {
            Self::Goes => String::new(),
            Self::GoesWith(holder) => format!("{holder} controls it"),
            Self::GoesWithNamespace => "it goes with its namespace".to_owned(),
            Self::KeptByChoice if is_crd(&own.object) => "CRDs and their custom resources are kept".to_owned(),
            Self::KeptByChoice => "it stays, as the extension asks".to_owned(),
            Self::Untied => "it has no owner that goes".to_owned(),
            Self::Unreadable(problem) => problem.clone(),
        }
    }
}

/// Returns true if nothing is lost by leaving a CRD that only carries marks: it has no custom resources, and its deletion was not requested.
fn is_unused(facts: &Facts<'_>, own: &Owned) -> bool {
    let instances = facts.instances.get(text(&own.object["metadata"]["name"]));
    facts.choices.keep_crds != Some(false) && matches!(instances, Some(Ok(found)) if found.is_empty())
}
