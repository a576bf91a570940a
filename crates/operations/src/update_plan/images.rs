//! The images of a release, as their registries answer with the present credentials and mirrors.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt as _;
use mainstay_cluster_version_core::readiness::{ImageAnswers, Read};
use mainstay_diagnostics::{SharedError, chain};
use mainstay_oci::{Client, Error, ErrorKind, Reference};
use mainstay_release::Files;
use serde_json::Value;

use super::facts::{array, text};

/// Images that are asked about at once.
const AT_A_TIME: usize = 16;
/// The time for the answer about one image.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most images of a release.
const MOST: usize = 2_000;

/// The images that a release refers to.
pub(super) fn of_release(files: &Files) -> Read<BTreeSet<String>> {
    let references = files.release("image-references").ok_or_else(|| SharedError::from("the release has no image-references"))?;
    let references: Value = serde_json::from_slice(references).map_err(SharedError::new)?;
    let tags = array(&references, "/spec/tags").iter().take(MOST);
    Ok(tags.map(|tag| text(tag, "/from/name")).filter(|image| !image.is_empty()).map(str::to_owned).collect())
}

enum Answer {
    Found,
    Refused(String, SharedError),
    Silent(String, SharedError),
}

/// Asks for the manifest of each image. A registry that does not answer is asked no more.
pub(super) async fn ask(client: &Client, images: BTreeSet<String>) -> ImageAnswers {
    let count = images.len();
    let (mut refused, mut silent) = (Vec::new(), BTreeMap::new());
    let mut by_registry = BTreeMap::<String, Vec<(String, Reference)>>::new();
    for image in images {
        match client.reference(&image) {
            Ok(reference) => by_registry.entry(reference.registry().to_owned()).or_default().push((image, reference)),
            Err(error) => refused.push((image, SharedError::new(error))),
        }
    }
    for (registry, mut images) in by_registry {
        // One image tells if the registry answers at all.
        let Some((image, reference)) = images.pop() else { continue };
        let first = one(client, &registry, image, reference).await;
        let goes_on = !matches!(first, Answer::Silent(..));
        let rest = images.into_iter().filter(|_| goes_on);
        let rest: Vec<_> = rest.map(|(image, reference)| one(client, &registry, image, reference)).collect();
        let answers: Vec<Answer> = futures::stream::iter(rest).buffer_unordered(AT_A_TIME).collect().await;
        for answer in answers.into_iter().chain([first]) {
            match answer {
                Answer::Found => {}
                Answer::Refused(image, error) => refused.push((image, error)),
                Answer::Silent(registry, error) => _ = silent.entry(registry).or_insert(error),
            }
        }
    }
    refused.sort_by(|a, b| a.0.cmp(&b.0));
    ImageAnswers::Asked { count, refused, silent: silent.into_iter().collect() }
}

async fn one(client: &Client, registry: &str, image: String, reference: Reference) -> Answer {
    match tokio::time::timeout(PATIENCE, client.resolve(&reference)).await {
        Ok(Ok(_)) => Answer::Found,
        Ok(Err(error)) if is_an_answer(&error) => Answer::Refused(image, SharedError::from(chain(&error))),
        Ok(Err(error)) => Answer::Silent(registry.to_owned(), SharedError::from(chain(&error))),
        Err(_) => Answer::Silent(registry.to_owned(), SharedError::from(format!("no answer within {} s", PATIENCE.as_secs()))),
    }
}

/// Returns true if the registry said no, and a node would hear the same.
fn is_an_answer(error: &Error) -> bool {
    use ErrorKind as Kind;
    matches!(error.kind(), Kind::Unauthorized | Kind::Forbidden | Kind::NotFound | Kind::Rejected | Kind::Blocked | Kind::InvalidReference)
}
