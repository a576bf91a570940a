//! Access to references: the client, the accepted kinds, and the image of bundles that have none.

use mainstay_oci::Client;

use crate::error::BoxError;
use crate::image_template::ImageTemplate;
use crate::kind::Kind;

/// Notation of image references.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// With their registry, as `opm` wants them.
    Canonical,
    /// As people type them: without a registry it means Docker Hub.
    Familiar,
}

/// Settings for opening references.
#[derive(Clone, Copy)]
pub struct Access<'a> {
    /// Makes the client when an image must be pulled; directories and files need none.
    pub client: &'a (dyn Fn() -> Result<Client, BoxError> + Send + Sync),
    /// The kinds that may be opened.
    pub accept: &'a [Kind],
    /// Notation of image references.
    pub names: Names,
    /// The image of bundles that come from a directory; without it they have none.
    pub image_template: Option<&'a ImageTemplate>,
}

impl<'a> Access<'a> {
    /// Opens what `accept` lists, references as people type them.
    pub fn new(client: &'a (dyn Fn() -> Result<Client, BoxError> + Send + Sync), accept: &'a [Kind]) -> Self {
        Self { client, accept, names: Names::Familiar, image_template: None }
    }

    /// Opens what `accept` lists, as `opm` does.
    pub fn as_opm(client: &'a (dyn Fn() -> Result<Client, BoxError> + Send + Sync), accept: &'a [Kind]) -> Self {
        Self { names: Names::Canonical, ..Self::new(client, accept) }
    }
}
