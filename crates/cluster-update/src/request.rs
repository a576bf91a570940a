//! An update that is asked for (CVO-CLI-02 to CVO-CLI-09).

use mainstay_golang::quote;
use mainstay_versions::Version;
use serde_json::{Value, json};

use crate::cluster_version::{Condition, list, not_recommended, sort_by_version, text};
use crate::guards::Guards;
use crate::pull_spec::{InvalidPullSpec, PullSpec};
use crate::screen::{Screen, indented};

/// The request as the arguments say it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// `--to`.
    pub to: Option<String>,
    /// `--to-image`.
    pub to_image: Option<String>,
    /// `--to-latest`.
    pub to_latest: bool,
    /// `--to-multi-arch`.
    pub to_multi_arch: bool,
    /// `--clear`.
    pub clear: bool,
    /// The checks that are passed over.
    pub allow: Allowances,
}

/// Checks that are passed over.
#[expect(clippy::struct_excessive_bools, reason = "one per flag")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowances {
    /// `--force`: the cluster does not refuse the release.
    pub force: bool,
    /// `--allow-explicit-upgrade`: an image that the cluster does not list.
    pub explicit_upgrade: bool,
    /// `--allow-upgrade-with-warnings`: a cluster that is updating or failing.
    pub upgrade_with_warnings: bool,
    /// `--allow-not-recommended`: an update with risks.
    pub not_recommended: bool,
}

/// The target of a request, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Nothing: the cluster is to be shown.
    None,
    /// The wish is withdrawn.
    Clear,
    /// The current version for several architectures.
    MultiArch,
    /// The highest version that is offered.
    Latest,
    /// A version.
    Version(String),
    /// An image.
    Image(String),
}

/// The reason for which an update cannot be asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// `--clear` with a target.
    #[error("--clear may not be specified with any other flags")]
    ClearAndTarget,
    /// `--to-multi-arch` with a target.
    #[error("--to-multi-arch may not be used with --to or --to-image")]
    MultiArchAndTarget,
    /// Two targets.
    #[error("only one of --to or --to-image may be provided")]
    TwoTargets,
    /// The version is not a semantic one.
    #[error("--to must be a semantic version (e.g. 4.0.1 or 4.1.0-nightly-20181104): {0}")]
    Version(mainstay_versions::Error),
    /// The image is not a pull spec.
    #[error("--to-image must be a valid image pull spec: {0}")]
    Image(InvalidPullSpec),
    /// The image has no registry or repository.
    #[error("--to-image must be a valid image pull spec: no registry or repository specified")]
    NoRepository,
    /// The image has neither tag nor digest.
    #[error("--to-image must be a valid image pull spec: no tag or digest specified")]
    NoTag,
    /// The image has a tag.
    #[error(
        "--to-image must be a by-digest pull spec, unless --force is also set, because release images that are not accessed via digest cannot be verified by the cluster.  Even when --force is set, using tags is not recommended, although we continue to allow it for backwards compatibility"
    )]
    Tag,
    /// The move to several architectures was asked for before.
    #[error("info: Update to multi cluster architecture has already been requested")]
    AlreadyMulti,
    /// The target has risks.
    #[error(
        "the update {version} is not one of the recommended updates, but is available as a conditional update. To accept the Recommended={status} risk and to proceed with update use --allow-not-recommended.\n  Reason: {reason}\n  Message: {}\n",
        indented(.message)
    )]
    NotRecommended {
        /// The version.
        version: String,
        /// The status of the condition `Recommended`.
        status: String,
        /// Its reason.
        reason: String,
        /// Its message.
        message: String,
    },
    /// The cluster does not know which updates there are.
    #[error("cannot refresh available updates:\n  Reason: {reason}\n  Message: {}\n\nspecify {next}.", indented(.message))]
    NotRetrieved {
        /// The reason of the condition `RetrievedUpdates`.
        reason: String,
        /// Its message.
        message: String,
        /// The flag that helps, and for which update.
        next: String,
    },
    /// Nothing is offered, with risks or without.
    #[error("no recommended or conditional updates, specify {0} or wait for new updates to be available.")]
    NothingAtAll(String),
    /// Nothing is offered.
    #[error("no recommended updates, specify {0} or wait for new updates to be available.")]
    Nothing(String),
    /// The target is none of those offered.
    #[error("the update is not one of the possible targets: {}. specify {next}.", .offered.join(", "))]
    NotOffered {
        /// The versions that are offered.
        offered: Vec<String>,
        /// The flag that helps, and for which update.
        next: String,
    },
    /// The cluster is updating or failing.
    #[error("{0}\n\nIf you want to upgrade anyway, use --allow-upgrade-with-warnings.")]
    Guarded(Guards),
}

impl Asked {
    /// Checks the arguments against each other (CVO-CLI-03); the text beside the target is a warning.
    pub fn target(&self) -> Result<(Target, Option<&'static str>), Refusal> {
        let (to, image) = (self.to.as_deref().filter(|to| !to.is_empty()), self.to_image.as_deref().filter(|image| !image.is_empty()));
        if self.clear && (to.is_some() || image.is_some() || self.to_latest || self.to_multi_arch) {
            return Err(Refusal::ClearAndTarget);
        }
        if self.to_multi_arch && (to.is_some() || image.is_some()) {
            return Err(Refusal::MultiArchAndTarget);
        }
        if to.is_some() && image.is_some() {
            return Err(Refusal::TwoTargets);
        }
        if let Some(to) = to {
            Version::parse(to).map_err(Refusal::Version)?;
        }
        let mut warning = None;
        if let Some(image) = image {
            let spec = PullSpec::parse(image).map_err(Refusal::Image)?;
            if spec.registry.is_empty() && spec.namespace.is_empty() {
                return Err(Refusal::NoRepository);
            }
            if spec.digest.is_empty() && spec.tag.is_empty() {
                return Err(Refusal::NoTag);
            }
            if !spec.tag.is_empty() {
                if !self.allow.force {
                    return Err(Refusal::Tag);
                }
                warning = Some(
                    "Using by-tag pull specs is dangerous, and while we still allow it in combination with --force for backward compatibility, it would be much safer to pass a by-digest pull spec instead",
                );
            }
        }
        let target = match (self.clear, self.to_multi_arch, to, image, self.to_latest) {
            (true, ..) => Target::Clear,
            (_, true, ..) => Target::MultiArch,
            (_, _, Some(to), ..) => Target::Version(to.to_owned()),
            (_, _, _, Some(image), _) => Target::Image(image.to_owned()),
            (.., true) => Target::Latest,
            _ => Target::None,
        };
        Ok((target, warning))
    }
}

/// Decides about an update that is asked for; [`Target::None`] asks for nothing, and gets an empty screen. `latest` is `--to-latest`, which may
/// stand beside a version or an image.
pub fn request(asked: &Asked, cluster_version: &Value) -> Result<Screen, Refusal> {
    let (target, warning) = asked.target()?;
    let mut screen = Screen::default();
    if let Some(warning) = warning {
        screen.warn(warning);
    }
    let (spec, status) = (&cluster_version["spec"], &cluster_version["status"]);
    match &target {
        Target::None => Ok(screen),
        Target::Clear => Ok(clear(spec, status)),
        Target::MultiArch => {
            if spec["desiredUpdate"]["architecture"] == "Multi" {
                return Err(Refusal::AlreadyMulti);
            }
            guard(asked, cluster_version, &mut screen)?;
            let update = Update { architecture: "Multi", version: text(&status["desired"]["version"]), image: "", force: false };
            screen.patch = Some(update.patch());
            screen.say("Requested update to multi cluster architecture");
            Ok(screen)
        }
        Target::Version(to) if *to == text(&status["desired"]["version"]) => {
            Ok(Screen::line(format!("info: Cluster is already at version {to}")))
        }
        Target::Image(image) if *image == text(&status["desired"]["image"]) => {
            screen.say(format_args!("info: Cluster is already at {image}"));
            Ok(screen)
        }
        target => update(asked, target, cluster_version, screen),
    }
}

fn clear(spec: &Value, status: &Value) -> Screen {
    let (wish, desired) = (&spec["desiredUpdate"], &status["desired"]);
    if wish.is_null() {
        return Screen::line("info: No update in progress");
    }
    let name = |release: &Value| {
        [text(&release["version"]), text(&release["image"]), "<unknown>"].into_iter().find(|name| !name.is_empty()).map(str::to_owned)
    };
    let both =
        |field: &str| Some((text(&wish[field]), text(&desired[field]))).filter(|(left, right)| !left.is_empty() && !right.is_empty());
    let same = both("image").or_else(|| both("version")).is_some_and(|(left, right)| left == right);
    let told = if same {
        format!("Cleared the update field, still at {}", name(desired).unwrap_or_default())
    } else {
        format!("Cancelled requested upgrade to {}", name(wish).unwrap_or_default())
    };
    Screen { patch: Some(json!({"spec": {"desiredUpdate": null}})), ..Screen::line(told) }
}

/// A `spec.desiredUpdate`.
struct Update<'a> {
    architecture: &'a str,
    version: &'a str,
    image: &'a str,
    force: bool,
}

impl Update<'_> {
    fn patch(&self) -> Value {
        // All members are written, so that none of an earlier wish stays.
        json!({"spec": {"desiredUpdate": {"architecture": self.architecture, "version": self.version, "image": self.image, "force": self.force}}})
    }
}

fn guard(asked: &Asked, cluster_version: &Value, screen: &mut Screen) -> Result<(), Refusal> {
    match Guards::of(cluster_version) {
        None => Ok(()),
        Some(guards) if asked.allow.upgrade_with_warnings => {
            screen.warn(format_args!("--allow-upgrade-with-warnings is bypassing: {guards}"));
            Ok(())
        }
        Some(guards) => Err(Refusal::Guarded(guards)),
    }
}

/// Returns whether a release is the one that is asked for.
fn is_target(release: &Value, target: &Target) -> Result<bool, InvalidPullSpec> {
    match target {
        Target::Version(to) => Ok(text(&release["version"]) == to),
        Target::Image(image) => {
            let own = text(&release["image"]);
            if own == image {
                return Ok(true);
            }
            let (own, wanted) = (PullSpec::parse(own)?, PullSpec::parse(image)?);
            Ok(!wanted.digest.is_empty() && own.digest == wanted.digest)
        }
        _ => Ok(false),
    }
}

fn update(asked: &Asked, target: &Target, cluster_version: &Value, mut screen: Screen) -> Result<Screen, Refusal> {
    let status = &cluster_version["status"];
    let image_of = |release: &Value| match target {
        // The pull spec that was named may be that of a mirror.
        Target::Image(image) => image.clone(),
        _ => text(&release["image"]).to_owned(),
    };
    let mut found: Option<(String, String)> = None;
    let mut offered = Vec::<(&Value, Option<Condition<'_>>)>::new();
    for release in list(&status["availableUpdates"]) {
        match is_target(release, target) {
            Ok(true) => {
                found = Some((text(&release["version"]).to_owned(), image_of(release)));
                break;
            }
            Ok(false) => {}
            Err(error) => screen.warn(format_args!("unable to calculate match for the update target in available updates: {error}")),
        }
        offered.push((release, None));
    }
    if found.is_none() {
        for update in list(&status["conditionalUpdates"]) {
            let Some(condition) = not_recommended(update) else { continue };
            let release = &update["release"];
            match is_target(release, target) {
                Ok(true) if !asked.allow.not_recommended => {
                    return Err(Refusal::NotRecommended {
                        version: text(&release["version"]).to_owned(),
                        status: condition.status().to_owned(),
                        reason: condition.reason().to_owned(),
                        message: condition.message().to_owned(),
                    });
                }
                Ok(true) => {
                    screen.warn(accepted(release, condition));
                    found = Some((text(&release["version"]).to_owned(), text(&release["image"]).to_owned()));
                    break;
                }
                Ok(false) => {}
                Err(error) => {
                    screen.warn(format_args!("unable to calculate match for the update target in available conditional updates: {error}"));
                }
            }
            if asked.allow.not_recommended {
                offered.push((release, Some(condition)));
            }
        }
    }
    if let (None, Target::Image(image), true) = (&found, target, asked.allow.explicit_upgrade) {
        screen.warn("The requested upgrade image is not one of the available updates. You have used --allow-explicit-upgrade for the update to proceed anyway");
        found = Some((String::new(), image.clone()));
    }
    sort_by_version(&mut offered, |(release, _)| text(&release["version"]));
    if let (true, Some((release, _))) = (asked.to_latest, offered.first()) {
        let image = text(&release["image"]);
        // Of several risks with the same image, the last one counts.
        let condition = offered.iter().rev().find(|(other, condition)| condition.is_some() && other["image"] == release["image"]);
        if let Some((_, Some(condition))) = condition {
            screen.warn(accepted(release, *condition));
        }
        found = Some((text(&release["version"]).to_owned(), image.to_owned()));
    }
    let Some((version, image)) = found else { return nothing(asked, target, status, &offered, screen) };
    if asked.allow.force {
        screen.warn("--force overrides cluster verification of your supplied release image and waives any update precondition failures.");
    }
    guard(asked, cluster_version, &mut screen)?;
    screen.patch = Some(Update { architecture: "", version: &version, image: &image, force: asked.allow.force }.patch());
    if version.is_empty() {
        screen.say(format_args!("Requested update to release image {image}"));
    } else {
        screen.say(format_args!("Requested update to {version}"));
    }
    Ok(screen)
}

fn accepted(release: &Value, condition: Condition<'_>) -> String {
    let (version, status) = (text(&release["version"]), condition.status());
    let (reason, message) = (condition.reason(), condition.message());
    format!("with --allow-not-recommended you have accepted the risks with {version} and bypassed Recommended={status} {reason}: {message}")
}

/// The answer where nothing fits (CVO-CLI-07).
fn nothing(
    asked: &Asked,
    target: &Target,
    status: &Value,
    offered: &[(&Value, Option<Condition<'_>>)],
    mut screen: Screen,
) -> Result<Screen, Refusal> {
    let option = if matches!(target, Target::Image(_)) { "--allow-explicit-upgrade" } else { "--to-image" };
    let next = format!("{option} to continue with {} update", if asked.to_latest { "an" } else { "the" });
    let retrieved = Condition::find(&status["conditions"], "RetrievedUpdates").filter(|condition| condition.status() != "True");
    if let Some(condition) = retrieved {
        return Err(Refusal::NotRetrieved { reason: condition.reason().to_owned(), message: condition.message().to_owned(), next });
    }
    if !offered.is_empty() {
        let offered = offered.iter().map(|(release, _)| text(&release["version"]).to_owned()).collect();
        return Err(Refusal::NotOffered { offered, next });
    }
    if asked.allow.not_recommended {
        return Err(Refusal::NothingAtAll(next));
    }
    if asked.to_latest {
        screen.say(format_args!("info: Cluster is already at the latest available version {}", text(&status["desired"]["version"])));
        return Ok(screen);
    }
    Err(Refusal::Nothing(next))
}

/// A name in quotes, for the refusals of other commands.
pub(crate) fn quoted(name: &str) -> String {
    quote(name)
}
