//! The questions of several verbs about a cluster's update: its releases, the plan, the readiness.

use clap::Args;
use mainstay_cluster_version_core::readiness::Report;
use mainstay_diagnostics::SharedError;
use mainstay_operations::Session;
use mainstay_operations::update_plan::{self, Answers, Assessment, Content, Contents, Images, Question, SavedUpdate, Update};
use mainstay_release::Metadata;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::images;
use mainstay_terminal::progress::Progress;
use serde_json::{Value, json};

use super::release::source;

/// Where the releases of an update lie.
#[derive(Clone, Debug, Args)]
pub struct Releases {
    /// The release that the cluster is to get: an image, an OCI layout or archive, a tar file, or a folder [default: the image that the
    /// ClusterVersion names for the version]
    #[arg(long, value_name = "RELEASE")]
    pub release: Option<String>,
    /// The release that the cluster has [default: the image that the ClusterVersion names]
    #[arg(long, value_name = "RELEASE")]
    pub current: Option<String>,
    /// The cluster profile
    #[arg(long, value_name = "PROFILE", default_value = super::release::PROFILE)]
    pub profile: String,
}

/// An update, and what is known of it.
pub struct Assessed {
    /// The version that the cluster has.
    pub from: String,
    /// The wanted version.
    pub to: String,
    /// The image of the wanted release.
    pub image: String,
    /// The cluster's identity.
    pub cluster: String,
    /// The plan, the readiness and what takes time.
    pub found: Assessment,
}

impl Default for Releases {
    fn default() -> Self {
        Self { release: None, current: None, profile: super::release::PROFILE.to_owned() }
    }
}

impl Releases {
    /// Assesses the update to a version, or to that of `--release`.
    ///
    /// # Errors
    /// No version is named, a release cannot be read, or the cluster cannot.
    pub async fn assess(&self, session: &Session, to: Option<&str>, answers: Option<&Answers>) -> Result<Assessed, Failure> {
        let named = match &self.release {
            Some(place) => Some(read(place).await?),
            None => None,
        };
        let version = match (to, &named) {
            (Some(version), _) => version.to_owned(),
            (None, Some(content)) => version(content)?,
            (None, None) => return Err(Failure::new(Exit::Usage, "cluster update", "needs --to VERSION or --release RELEASE")),
        };
        if let Some(content) = &named
            && version != self::version(content)?
        {
            let subject = format!("release {}", content.place);
            return Err(Failure::new(Exit::Failed, subject, format!("is {}, and not {version}", self::version(content)?)));
        }
        let images = update_plan::images(session, &version).await?;
        let contents = self.contents(named, &images, &version).await?;
        self.question(session, &images, &version, Ok(&contents), answers).await
    }

    /// Assesses the update without a release that cannot be read: its checks are named as not made.
    ///
    /// # Errors
    /// The cluster cannot be read.
    pub async fn assess_what_can_be_read(&self, session: &Session, version: &str) -> Result<Assessed, Failure> {
        let images = update_plan::images(session, version).await?;
        let named = match &self.release {
            Some(place) => Some(read(place).await?),
            None => None,
        };
        let contents = self.contents(named, &images, version).await.map_err(|failure| SharedError::from(failure.into_told()));
        self.question(session, &images, version, contents.as_ref().map_err(Clone::clone), None).await
    }

    async fn question(
        &self,
        session: &Session,
        images: &Images,
        version: &str,
        contents: Result<&Contents, SharedError>,
        answers: Option<&Answers>,
    ) -> Result<Assessed, Failure> {
        let question = Question { version, contents: contents.clone(), profile: &self.profile, answers };
        let mut progress = Progress::start();
        let found = update_plan::assess(session, &question, &mut progress).await?;
        let image = contents.map(|contents| contents.target.image.clone()).unwrap_or_default();
        Ok(Assessed { from: images.current_version.clone(), to: version.to_owned(), image, cluster: images.cluster.clone(), found })
    }

    /// The places of the releases of a saved plan.
    pub fn of_saved(update: &Update) -> Self {
        Self { release: update.release.clone(), current: update.current.clone(), profile: update.profile.clone() }
    }

    /// The plan as a file holds it.
    ///
    /// # Errors
    /// Something blocks the update.
    pub fn saved(&self, assessed: &Assessed) -> Result<SavedUpdate, Failure> {
        let update = Update {
            to: assessed.to.clone(),
            release: self.release.clone(),
            current: self.current.clone(),
            profile: self.profile.clone(),
            image: assessed.image.clone(),
            cluster: assessed.cluster.clone(),
        };
        Ok(SavedUpdate::of(update, &assessed.found)?)
    }

    async fn contents(&self, named: Option<Content>, images: &Images, version: &str) -> Result<Contents, Failure> {
        let target = match (named, &images.target) {
            (Some(content), Some(image)) => Content { image: image.clone(), ..content },
            (Some(content), None) => content,
            (None, Some(image)) => read(image).await.map_err(|failure| failure.hint("--release names another place of it"))?,
            (None, None) => {
                let failure = Failure::new(Exit::NotFound, format!("release {version}"), "is not known to the cluster");
                return Err(failure.hint("mainstay adm upgrade recommend lists those that are; --release names any other"));
            }
        };
        let current = self.current.as_deref().unwrap_or(&images.current);
        let current = read(current).await.map_err(|failure| failure.hint("--current names another place of it"))?;
        let current = Content { image: images.current.clone(), ..current };
        Ok(Contents { current, target })
    }
}

async fn read(place: &str) -> Result<Content, Failure> {
    Ok(Content { files: source::read_with(place, images::client).await?.files, place: place.to_owned(), image: place.to_owned() })
}

fn version(content: &Content) -> Result<String, Failure> {
    let subject = format!("release {}", content.place);
    let metadata = content.files.release("release-metadata");
    let metadata = metadata.ok_or_else(|| Failure::new(Exit::Failed, &*subject, "has no release-metadata"))?;
    Ok(Metadata::parse(metadata).map_err(|error| Failure::failed(&subject, &error))?.version_text)
}

impl Assessed {
    /// The document for programs.
    pub fn document(&self, operation: &str) -> Result<Value, Failure> {
        let failed = |error: serde_json::Error| Failure::failed("plan", &error);
        let mut document = json!({"kind": "Plan", "operation": operation, "from": self.from, "to": self.to, "doable": self.is_doable()});
        if let Some(plan) = &self.found.plan {
            document["update"] = serde_json::to_value(plan).map_err(failed)?;
        }
        document["readiness"] = serde_json::to_value(&self.found.report).map_err(failed)?;
        document["estimate"] = serde_json::to_value(&self.found.estimate).map_err(failed)?;
        Ok(document)
    }

    /// Returns true if nothing blocks it.
    pub fn is_doable(&self) -> bool {
        !self.found.report.blocks()
    }

    /// The exit code (MS-READY-03).
    pub fn verdict(&self, is_table: bool) -> Result<(), Failure> {
        let silent = |failure: Failure| if is_table { failure } else { Failure::silent(failure.exit) };
        verdict(&self.found.report, &self.from, &self.to).map_err(silent)
    }
}

/// Nothing blocks: success. Something blocks: impossible. A check could not be made: failed, since it never counts as passed.
fn verdict(report: &Report, from: &str, to: &str) -> Result<(), Failure> {
    let subject = format!("update {from} to {to}");
    if report.blocks() {
        return Err(Failure::new(Exit::Impossible, subject, "is blocked; the findings say by what"));
    }
    if report.not_run.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = report.not_run.iter().map(|not_run| not_run.check.name()).collect();
    Err(Failure::new(Exit::Failed, subject, format!("checks could not be made: {}", names.join(", "))))
}
