//! `mainstay migrate`: an operator of OLM classic becomes a ClusterExtension, with a plan first, a backup, and the way back (MS-RB-03, MS-RB-04).

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use mainstay_diagnostics::counted;
use mainstay_olm_classic_core::migration::{Fate, Obstacle};
use mainstay_operations::Session;
use mainstay_operations::classic::migration::{Backup, Planned, Request, SavedMigration, State, back, forward, observe};
use mainstay_operations::cluster_catalogs::{self, CatalogRequest};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure, note, note_drawn, warn};
use mainstay_terminal::output::{self, Format};
use mainstay_terminal::progress::Progress;
use mainstay_terminal::runtime;
use serde_json::json;

use super::flags::{Consent, Patience, Shown};
use crate::{named, plan_text};

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay migrate beacon -n lights --dry-run        what would become of each object, and why it cannot be done if so
  mainstay migrate beacon -n lights                  shows it, asks, and does it; the backup is lights-beacon.migration.json
  mainstay migrate beacon -n lights --out beacon.plan    then: mainstay apply-plan beacon.plan
  mainstay migrate beacon -n lights --catalog team   takes the bundle from this ClusterCatalog alone
  mainstay migrate --back lights-beacon.migration.json

CRDs, custom resources, Deployments, Services and ServiceAccounts stay as they are, with their uids; Pods are restarted only if the plan
says so. The extension begins with the installed version, and follows the Subscription's channel afterwards, unless the Subscription asks
for approvals. Where no ClusterCatalog has the package, one of the image of its CatalogSource is offered first. The backup holds the content of Secrets, and only its owner can read it. After an interruption the same command goes on.
Exit code 4: it cannot be migrated.")]
pub struct Arguments {
    /// The Subscription, package or CSV
    #[arg(required_unless_present = "back")]
    pub operator: Option<String>,
    /// Its namespace
    #[arg(long, short, value_name = "NAMESPACE", value_parser = named::namespace, required_unless_present = "back")]
    pub namespace: Option<String>,
    /// The extension's name instead of the package's
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Take the bundle from this ClusterCatalog alone
    #[arg(long, value_name = "NAME")]
    pub catalog: Option<String>,
    /// Leave the extension pinned to the installed version
    #[arg(long)]
    pub keep_pin: bool,
    /// The file of the backup instead of NAMESPACE-OPERATOR.migration.json
    #[arg(long, value_name = "FILE")]
    pub backup: Option<PathBuf>,
    /// Restore the operator of this backup: OLM classic takes it over again
    #[arg(long, value_name = "FILE", conflicts_with_all = ["operator", "namespace", "name", "catalog", "keep_pin", "backup", "dry_run", "out"])]
    pub back: Option<PathBuf>,
    /// Only show the plan
    #[arg(long)]
    pub dry_run: bool,
    /// Save the plan for mainstay apply-plan, and change nothing
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// The form of a dry run's plan.
    #[command(flatten)]
    pub shown: Shown,
    /// The consent, given or to be asked for.
    #[command(flatten)]
    pub consent: Consent,
    /// The time to wait.
    #[command(flatten)]
    pub patience: Patience,
    /// Which cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Migrates the operator, or restores it.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = if arguments.dry_run || arguments.out.is_some() {
            arguments.cluster.open().await?
        } else {
            arguments.cluster.open_to_change().await?
        };
        let hints = || vec!["the same command goes on where it was interrupted".to_owned()];
        runtime::until_interrupt(Box::pin(perform(&session, arguments)), hints).await
    })
}

async fn perform(session: &Session, arguments: &Arguments) -> Result<(), Failure> {
    if let Some(file) = &arguments.back {
        let mut backup = Backup::read(file)?;
        backup.check_cluster(session).await?;
        let (namespace, csv) = (&backup.namespace, &backup.csv_name);
        arguments.consent.ask(&format!(
            "delete clusterextension {} without its objects, and give {namespace}/{csv} back to OLM classic?",
            backup.extension_name
        ))?;
        let limit = arguments.patience.limit();
        return output::line(Box::pin(back(session, &mut backup, file, limit, &mut Progress::start())).await?);
    }
    let (operator, namespace) = (arguments.operator.clone().unwrap_or_default(), arguments.namespace.clone().unwrap_or_default());
    let file = arguments.backup.clone().unwrap_or_else(|| PathBuf::from(format!("{namespace}-{operator}.migration.json")));
    let only_shows = arguments.dry_run || arguments.out.is_some();
    let manner = Manner { consent: &arguments.consent, limit: arguments.patience.limit() };
    if !only_shows && resumed(session, &file, &manner).await? {
        return Ok(());
    }
    let request = Request {
        operator,
        namespace,
        extension: arguments.name.clone(),
        catalog: arguments.catalog.clone(),
        keep_pin: arguments.keep_pin,
    };
    let planned = look(session, &request).await?;
    if only_shows {
        show(&planned, &arguments.shown.format)?;
        if let Some(out) = &arguments.out {
            SavedMigration::of(&request, &file, &planned)?.write(out)?;
            note(format!("saved: {}; mainstay apply-plan {} does it", out.display(), out.display()));
        }
        return Ok(());
    }
    // What else is in the way is told first: a catalog would not help.
    let lacks_offer_alone = planned.migration.obstacles.iter().all(|obstacle| matches!(obstacle, Obstacle::NotOffered(_)));
    let planned = match &planned.missing_catalog {
        Some(catalog) if lacks_offer_alone => {
            add_catalog(session, &planned, catalog, &manner).await?;
            look(session, &request).await?
        }
        _ => planned,
    };
    carry_out(session, planned, &file, &manner).await
}

/// Looks at the operator, and says what could not be looked at.
async fn look(session: &Session, request: &Request) -> Result<Planned, Failure> {
    let planned = Box::pin(observe(session, request, &mut Progress::start())).await?;
    for note in &planned.notes {
        warn(&format!("operator {}/{}", request.namespace, request.operator), note);
    }
    Ok(planned)
}

/// Carries out a saved plan, unless the cluster changed since; one that was interrupted goes on.
pub async fn apply_saved(session: &Session, saved: &SavedMigration, subject: &str, manner: &Manner<'_>) -> Result<(), Failure> {
    if resumed(session, saved.backup(), manner).await? {
        return Ok(());
    }
    let planned = Box::pin(saved.renewed(session, subject, &mut Progress::start())).await?;
    carry_out(session, planned, saved.backup(), manner).await
}

/// The consent, and the time that the cluster may take.
pub struct Manner<'a> {
    /// The consent, given or to be asked for.
    pub consent: &'a Consent,
    /// The limit.
    pub limit: Duration,
}

/// Creates the ClusterCatalog that offers the package, and waits until it serves. It stays if the migration fails.
async fn add_catalog(session: &Session, planned: &Planned, catalog: &CatalogRequest, manner: &Manner<'_>) -> Result<(), Failure> {
    let Backup { namespace, package, .. } = &planned.backup;
    note(format!("no ClusterCatalog has package {package}; operator {namespace}/{package} comes from image {}", catalog.reference));
    manner.consent.ask(&format!("create clustercatalog {} of this image?", catalog.name))?;
    let mut progress = Progress::start();
    cluster_catalogs::check_image(session, catalog).await?;
    cluster_catalogs::write(session, catalog).await?;
    cluster_catalogs::serve(session, &catalog.name, manner.limit, &mut progress).await?;
    Ok(())
}

/// Shows a plan, asks, and carries it out; the backup is written first.
async fn carry_out(session: &Session, planned: Planned, file: &Path, manner: &Manner<'_>) -> Result<(), Failure> {
    note_drawn(plan_text::painted_lines(lines(&planned)));
    if let Some(refusal) = planned.refusal() {
        return Err(refusal.into());
    }
    manner.consent.ask(&format!("migrate {}?", planned.backup.csv_name))?;
    let mut backup = planned.backup;
    backup.write(file)?;
    go_on(session, &mut backup, file, manner).await
}

/// Goes on with a migration that was interrupted; false if this is none.
async fn resumed(session: &Session, file: &Path, manner: &Manner<'_>) -> Result<bool, Failure> {
    let Some(mut backup) = Backup::find(file)? else { return Ok(false) };
    match backup.state {
        State::Begun => {}
        State::Done => return Err(finished(&backup, file)),
        State::Back => return Ok(false),
    }
    backup.check_cluster(session).await?;
    warn(
        &format!("operator {}/{}", backup.namespace, backup.csv_name),
        &format!("an interrupted migration is continued from {}", file.display()),
    );
    manner.consent.ask(&format!("continue the migration of {}?", backup.csv_name))?;
    go_on(session, &mut backup, file, manner).await?;
    Ok(true)
}

async fn go_on(session: &Session, backup: &mut Backup, file: &Path, manner: &Manner<'_>) -> Result<(), Failure> {
    output::line(Box::pin(forward(session, backup, file, manner.limit, &mut Progress::start())).await?)
}

fn finished(backup: &Backup, file: &Path) -> Failure {
    let subject = format!("operator {}/{}", backup.namespace, backup.csv_name);
    Failure::new(
        Exit::Impossible,
        subject,
        format!("was migrated to clusterextension {}, as {} says", backup.extension_name, file.display()),
    )
    .hint(format!("mainstay migrate --back {} goes back", file.display()))
    .hint("--backup FILE begins another migration")
}

fn show(planned: &Planned, format: &Format) -> Result<(), Failure> {
    if format.is_table() {
        output::drawn(&format!("{}\n", plan_text::painted_lines(lines(planned))))?;
    } else {
        let mut document = serde_json::to_value(&planned.migration).map_err(|error| Failure::failed("plan", &error))?;
        document["kind"] = "MigrationPreview".into();
        document["operator"] =
            json!({"namespace": planned.backup.namespace, "csv": planned.backup.csv_name, "package": planned.backup.package});
        document["clusterExtension"] = planned.backup.extension.clone();
        document["customResources"] = planned.backup.custom_resources.len().into();
        output::value(format, &document)?;
    }
    match planned.refusal() {
        Some(refusal) if format.is_table() => Err(refusal.into()),
        Some(_) => Err(Failure::silent(Exit::Impossible)),
        None => Ok(()),
    }
}

fn lines(planned: &Planned) -> Vec<String> {
    let (migration, backup) = (&planned.migration, &planned.backup);
    let mut lines = Vec::new();
    let mut section = |title: &str, all: Vec<String>| {
        if !all.is_empty() {
            lines.push(title.to_owned());
            lines.extend(all.into_iter().map(|line| format!("  {line}")));
        }
    };
    let of = |fate: Fate| migration.objects.iter().filter(move |one| one.fate == fate).map(|one| one.object.clone()).collect::<Vec<_>>();
    if !backup.extension.is_null() {
        let pin = if backup.keep_pin { "stays at it" } else { "follows its channel afterwards" };
        let watch = migration.watch_namespace.as_ref().map(|one| format!(", watches namespace {one}")).unwrap_or_default();
        section(
            "to be created:",
            [vec![format!("ClusterExtension {} with {}, which {pin}{watch}", backup.extension_name, backup.csv_name)], of(Fate::Created)]
                .concat(),
        );
        section(
            "to be kept, with their uids:",
            [of(Fate::Adopted), of(Fate::Kept), vec![counted(backup.custom_resources.len(), "custom resource")]].concat(),
        );
        let classic = vec![
            format!("Subscription {}/{}", backup.namespace, backup.subscription["metadata"]["name"].as_str().unwrap_or_default()),
            format!("ClusterServiceVersion {}/{}", backup.namespace, backup.csv_name),
        ];
        section("to be deleted, without dependents:", classic);
        section("to be deleted at the end:", of(Fate::Removed));
        let restarts = if migration.restarts.is_empty() { vec!["no Pod".to_owned()] } else { migration.restarts.clone() };
        section("restarted:", restarts);
    }
    section("good to know:", migration.notes.clone());
    lines
}
