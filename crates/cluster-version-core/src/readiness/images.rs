//! Images of the release, as the registries that have them answer.

use mainstay_diagnostics::SharedError;

use super::facts::{Facts, known};
use super::finding::{Check, Finding, Level, few};

/// The most images and registries that a text names.
const MOST: usize = 5;

/// The answers of registries about the images of a release.
#[derive(Clone, Debug)]
pub enum ImageAnswers {
    /// There are simulated nodes only, which pull nothing.
    NotPulled,
    /// The registries were asked.
    Asked {
        /// The number of images.
        count: usize,
        /// Images that the registries do not have, or do not give to these credentials.
        refused: Vec<(String, SharedError)>,
        /// Registries that did not answer.
        silent: Vec<(String, SharedError)>,
    },
}

/// Images that cannot be pulled. Registries that do not answer are an error beside them: they may answer to the nodes.
pub(super) fn pullable(facts: &Facts<'_>) -> (Vec<Finding>, Option<SharedError>) {
    let answers = match known(&facts.images) {
        Ok(answers) => answers,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let object = format!("release {}", facts.target.version);
    match answers {
        ImageAnswers::NotPulled => {
            let evidence = "no node pulls them: there are simulated ones only";
            (vec![Finding::new(Check::Images, Level::Note, object, evidence, "nothing; the images were not looked at")], None)
        }
        ImageAnswers::Asked { count, refused, silent } => {
            let told: Vec<String> = refused.iter().map(|(image, error)| format!("{image}: {error}")).collect();
            let finding = (!told.is_empty()).then(|| {
                let evidence = format!(
                    "{} of {count} images cannot be pulled with the present credentials and mirrors: {}",
                    told.len(),
                    few(&told, MOST)
                );
                Finding::new(Check::Images, Level::Blocks, object, evidence, "mirror the release, or correct the pull secret")
            });
            let silent: Vec<String> = silent.iter().map(|(registry, error)| format!("{registry}: {error}")).collect();
            let error = (!silent.is_empty()).then(|| SharedError::from(few(&silent, MOST)));
            (finding.into_iter().collect(), error)
        }
    }
}
