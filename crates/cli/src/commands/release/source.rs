//! Releases as the user names them.

use mainstay_oci::Client;
use mainstay_release_source::{Limits, Place, ReadError, Release};
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::{images, runtime};

/// Reads a release, with the user's settings of registries if it is an image of one.
pub fn read(place: &str) -> Result<Release, Failure> {
    runtime::block_on(read_with(place, images::client))
}

/// Reads a release with this client.
pub async fn read_with(place: &str, client: impl FnOnce() -> Result<Client, Failure>) -> Result<Release, Failure> {
    let found = Place::parse(place).map_err(|error| failure(place, &error))?;
    let client = if matches!(found, Place::Image(_)) { Some(client()?) } else { None };
    let client = || client.ok_or_else(|| ReadError::NoFile(place.to_owned()));
    mainstay_release_source::read(&found, client, &Limits::default()).await.map_err(|error| failure(place, &error))
}

fn failure(place: &str, error: &ReadError) -> Failure {
    let exit = error.cause().map_or(Exit::Failed, |cause| images::failure("", cause).exit);
    let failure = Failure::of(exit, format!("release {place}"), error);
    match error.cause().and_then(mainstay_oci::Error::hint) {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
