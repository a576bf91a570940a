//! Explanations: the reason for a state, what it waits for, and the one thing to do (MS-EXPL-02, MS-EXPL-04).

mod facts;

use mainstay_api::olm_v1::ClusterExtension;
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_olm_v1_core::extension::explain;
use mainstay_olm_v1_core::extension::explain::{Explanation, explain_catalog, explain_package};

use crate::progress::Progress;
use crate::session::Session;
use crate::{advice, extensions};

pub use facts::{last_seen, raw_events};

/// The subject of an explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// An extension, or a package if no extension has the name.
    Any(String),
    /// An extension.
    Extension(String),
    /// A catalog.
    Catalog(String),
    /// A package.
    Package(String),
}

/// Explains a subject without changing anything. Proposals were tried if that is possible without a change.
pub async fn explain(session: &Session, subject: &Subject, progress: &mut dyn Progress) -> Result<Explanation, Failure> {
    match subject {
        Subject::Any(name) => match extensions::find(session, name).await? {
            Some(found) => extension(session, found, progress).await,
            None => package(session, name, true, progress).await,
        },
        Subject::Extension(name) => extension(session, extensions::get(session, name).await?, progress).await,
        Subject::Catalog(name) => Ok(explain_catalog(&facts::catalog(session, name).await?)),
        Subject::Package(name) => package(session, name, false, progress).await,
    }
}

/// Explains an extension, and plans what its spec asks for.
async fn extension(session: &Session, extension: ClusterExtension, progress: &mut dyn Progress) -> Result<Explanation, Failure> {
    let (facts, mut view) = Box::pin(facts::extension(session, extension, progress)).await?;
    let answer = explain::explain(&facts);
    let Ok(plan) = &facts.plan else { return Ok(answer) };
    let outcomes = Box::pin(advice::outcomes(&mut view, &facts.snapshot, plan, answer.proposals(), progress)).await;
    Ok(explain::weighed(answer, &facts, &outcomes))
}

/// Explains a package. An unknown package is a failure; `guessed` means that the request did not say that the name is a package.
async fn package(session: &Session, name: &str, guessed: bool, progress: &mut dyn Progress) -> Result<Explanation, Failure> {
    let facts = Box::pin(facts::package(session, name, progress)).await?;
    let answer = explain_package(&facts);
    if answer.situation != "unknown-package" {
        return Ok(answer);
    }
    let what = if guessed { "no extension and no package has this name" } else { "no catalog has it" };
    let failure = Failure::new(FailureKind::NotFound, if guessed { name.to_owned() } else { format!("package {name}") }, what);
    let failure = match &answer.next {
        Some(next) if next.commands.is_empty() => failure.hint(next.text.as_str()),
        Some(next) => {
            let text = next.text.trim_end_matches(':');
            let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
            failure.hint(format!("{}: {}{rest}", next.commands.join(" && "), first.to_lowercase()))
        }
        None => failure,
    };
    Err(if guessed { failure.hint("mainstay list shows the extensions") } else { failure })
}
