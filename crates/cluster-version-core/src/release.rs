//! A release, as far as it is known.

use mainstay_api::config_v1::Release;

/// The version of a release, its image if there is none, or `<unknown>`.
pub fn name<'a>(version: &'a str, image: &'a str) -> &'a str {
    [version, image].into_iter().find(|name| !name.is_empty()).unwrap_or("<unknown>")
}

/// Fills in what a release lacks from another.
fn fill(release: &mut Release, from: &Release) {
    if release.version.is_empty() {
        release.version.clone_from(&from.version);
    }
    if release.url.is_empty() {
        release.url.clone_from(&from.url);
    }
    if release.architecture.is_none() {
        release.architecture = from.architecture;
    }
    if release.channels.is_empty() {
        release.channels.clone_from(&from.channels);
    }
}

/// Releases as the update service knows them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'a> {
    /// The release in use.
    pub current: Option<&'a Release>,
    /// The recommended updates.
    pub updates: &'a [Release],
}

/// A release with what its payload does not say, from the operator's own release if it is that, then from the update service (CVO-USC-13).
pub fn completed(mut release: Release, own: &Release, known: Known<'_>) -> Release {
    if release.image == own.image {
        fill(&mut release, own);
    }
    merged(release, known)
}

/// A release with what the update service knows of it; what the payload says counts.
pub fn merged(mut release: Release, known: Known<'_>) -> Release {
    let found = known.current.into_iter().chain(known.updates).find(|other| same_content(&other.image, &release.image));
    if let Some(found) = found {
        fill(&mut release, found);
    }
    release
}

/// Returns whether two pullspecs are equal or name the same digest.
pub fn same_content(one: &str, other: &str) -> bool {
    let digest = |pullspec: &str| {
        let mut parts = pullspec.splitn(3, '@');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(_), Some(digest), None) if !digest.is_empty() => Some(digest.to_owned()),
            _ => None,
        }
    };
    one == other || digest(one).is_some_and(|own| digest(other) == Some(own))
}
