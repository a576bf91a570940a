//! Which release the cluster is to go to, and in which way its manifests are applied (CVO-API-11 to CVO-API-13, CVO-HIST-07).

use mainstay_api::config_v1::{Architecture, ClusterVersion, Release, UpdateHistory, UpdateState};

/// How the manifests of a release are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The cluster is being installed.
    Initializing,
    /// The cluster is on its way to another release.
    Updating,
    /// The cluster has the release and is kept at it.
    Reconciling,
}

/// A release that the cluster is to go to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Its version; empty if only the image is known.
    pub version: String,
    /// The pullspec of its image.
    pub image: String,
    /// True if it is taken although it cannot be verified or a precondition fails.
    pub force: bool,
}

impl Wanted {
    /// Its version, or its image if the version is not known.
    pub fn name(&self) -> &str {
        crate::release::name(&self.version, &self.image)
    }
}

/// The image of the operator's own release. An operator that a release brings knows it from its flag; this program is not part of one, so what the
/// cluster says it is at comes first, then `flag`, then the release that an installation asks for (CVO-RUN-07, CVO-FLOW-06).
pub fn own_image<'a>(cluster_version: &'a ClusterVersion, flag: Option<&'a str>) -> Option<&'a str> {
    let asked = cluster_version.spec.desired_update.as_ref().map(|update| update.image.as_str());
    let known = [Some(cluster_version.status.desired.image.as_str()), flag, asked];
    known.into_iter().flatten().find(|image| !image.is_empty())
}

/// The release that `spec.desiredUpdate` stands for: nothing if there is no wish or if it cannot be resolved (CVO-API-11, CVO-API-12).
pub fn requested(cluster_version: &ClusterVersion, current: Option<Architecture>) -> Option<Wanted> {
    let update = cluster_version.spec.desired_update.as_ref()?;
    if !update.image.is_empty() {
        return Some(Wanted { version: update.version.clone(), image: update.image.clone(), force: update.force });
    }
    let moves = update.architecture == Some(Architecture::Multi) && current != Some(Architecture::Multi);
    let version = if moves { &cluster_version.status.desired.version } else { &update.version };
    let updates = cluster_version.status.available_updates.iter().flatten();
    let found = updates.into_iter().find(|release| release.version == *version && !release.image.is_empty())?;
    Some(Wanted { version: version.clone(), image: found.image.clone(), force: update.force })
}

/// The release to work on: the requested one, or the operator's own release (CVO-API-12, CVO-SYNC-09). `None` if neither has an image
/// (CVO-API-13).
///
/// `loaded` is false until the operator has loaded its own release once.
pub fn target(cluster_version: &ClusterVersion, own: &Release, loaded: bool) -> Option<Wanted> {
    let requested = requested(cluster_version, own.architecture).filter(|_| loaded);
    let target = requested.unwrap_or_else(|| Wanted { version: own.version.clone(), image: own.image.clone(), force: false });
    (!target.image.is_empty()).then_some(target)
}

/// The mode in which a release is applied, from what the cluster has completed.
pub fn mode(history: &[UpdateHistory], wanted: &Wanted) -> Mode {
    let completed = |entry: &UpdateHistory| entry.state == UpdateState::Completed;
    if !history.iter().any(completed) {
        Mode::Initializing
    } else if history.first().is_some_and(|entry| completed(entry) && entry.image == wanted.image) {
        Mode::Reconciling
    } else {
        Mode::Updating
    }
}
