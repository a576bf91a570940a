//! Bundles from registries, with the user's access to them.

use mainstay_bundle::Bundle;
use mainstay_catalog_refs::{BundleFiles, Error as ReferenceError, pull_files};
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_oci::{Client, Error, ErrorKind};

/// Returns the failure of a registry error, with its kind and its hint.
pub fn failure(subject: &str, error: &Error) -> Failure {
    let kind = match error.kind() {
        ErrorKind::NotFound => FailureKind::NotFound,
        ErrorKind::Timeout => FailureKind::TimedOut,
        _ => FailureKind::Failed,
    };
    let failure = Failure::of(kind, subject, error);
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Returns the failure of a reference that cannot be read, in a registry or elsewhere.
pub fn reference_failure(subject: &str, error: &ReferenceError) -> Failure {
    match error.image() {
        Some(image) => failure(subject, image),
        None => Failure::failed(subject, error),
    }
}

/// Pulls the files of a bundle image, as its labels place them.
pub async fn pull_bundle(client: &Client, reference: &str) -> Result<BundleFiles, Failure> {
    pull_files(client, reference).await.map_err(|error| bundle_failure(reference, &error))
}

/// Returns the failure of pulling a bundle image.
pub fn bundle_failure(reference: &str, error: &ReferenceError) -> Failure {
    reference_failure(&format!("bundle {reference}"), error)
}

/// Reads the bundle in these files for installation.
pub fn read_bundle(reference: &str, files: &BundleFiles) -> Result<Bundle, Failure> {
    Bundle::read(files.iter().map(|(path, bytes)| (path, bytes))).map_err(|error| Failure::failed(format!("bundle {reference}"), &error))
}
