//! `mainstay apply-plan`: applies a saved plan, unless the cluster changed since it was saved (MS-PLAN-02).

use std::path::PathBuf;

use clap::Args;
use mainstay_operations::classic::migration::SavedMigration;
use mainstay_operations::update_plan::SavedUpdate;
use mainstay_operations::{Planned, SavedPlans, Session, apply as operations};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure, note, note_drawn};
use mainstay_terminal::output;
use mainstay_terminal::progress::Progress;
use mainstay_terminal::runtime;
use mainstay_terminal::screen::{self, Kind};

use super::cluster_assessment::Releases;
use super::flags::{Consent, Waiting};
use super::migrate;
use crate::{plan_text, update_text};

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay plan upgrade beacon --out beacon.plan
  mainstay apply-plan beacon.plan
  mainstay apply-plan update.plan               of plan cluster-update --out: asks for the update

The plan is made again from the cluster as it is. If anything that it rests on is otherwise than it was, nothing is done, and what moved
is named (exit code 4).")]
pub struct Arguments {
    /// The file that mainstay plan --out, plan cluster-update --out or migrate --out wrote
    file: PathBuf,
    #[command(flatten)]
    consent: Consent,
    /// For each extension.
    #[command(flatten)]
    waiting: Waiting,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Applies the plan.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(saved) = SavedMigration::find(&arguments.file)? {
        return migrated(arguments, &saved);
    }
    if let Some(saved) = SavedUpdate::find(&arguments.file)? {
        return updated(arguments, &saved);
    }
    let saved = SavedPlans::read(&arguments.file)?;
    runtime::block_on(async {
        let session = arguments.cluster.open_to_change().await?;
        let names: Vec<&str> = saved.plans.iter().map(|plan| plan.change.extension()).collect();
        let hints = || {
            let mut hints = vec!["what was written stays, and the cluster goes on".to_owned()];
            hints.extend(names.iter().map(|name| format!("mainstay describe {name} shows how it stands")));
            hints.push("mainstay plan makes a new plan from how it stands then".to_owned());
            hints
        };
        runtime::until_interrupt(Box::pin(apply(&session, arguments, &saved)), hints).await
    })
}

/// Carries out a saved migration of OLM classic.
fn migrated(arguments: &Arguments, saved: &SavedMigration) -> Result<(), Failure> {
    let subject = format!("plan {}", arguments.file.display());
    let Some(limit) = arguments.waiting.limit() else {
        return Err(Failure::new(Exit::Usage, subject, "a migration waits for each of its steps; --no-wait is for other plans"));
    };
    runtime::block_on(async {
        let session = arguments.cluster.open_to_change().await?;
        let hints = || vec!["the same command goes on where it was interrupted".to_owned()];
        let manner = migrate::Manner { consent: &arguments.consent, limit };
        runtime::until_interrupt(Box::pin(migrate::apply_saved(&session, saved, &subject, &manner)), hints).await
    })
}

/// Asks for the update of a saved plan.
fn updated(arguments: &Arguments, saved: &SavedUpdate) -> Result<(), Failure> {
    let subject = format!("plan {}", arguments.file.display());
    runtime::block_on(async {
        let session = arguments.cluster.open_to_change().await?;
        let releases = Releases::of_saved(saved.update());
        let assessed = releases.assess(&session, Some(&saved.update().to), None).await?;
        if let Some(plan) = &assessed.found.plan {
            update_text::plan(plan, update_text::Shown::default())?;
        }
        update_text::report(&assessed.found.report)?;
        saved.check(&releases.saved(&assessed)?, &subject)?;
        arguments.consent.ask("ask for the update?")?;
        let screen = saved.request(&session).await?;
        screen::err(&screen.warnings, Kind::Text);
        output::print(&screen.text)?;
        note("mainstay adm upgrade status shows how it goes on");
        Ok(())
    })
}

async fn apply(session: &Session, arguments: &Arguments, saved: &SavedPlans) -> Result<(), Failure> {
    let subject = format!("plan {}", arguments.file.display());
    let mut all: Vec<Planned> = Vec::new();
    for plan in &saved.plans {
        let now = plan.renewed(session, &subject, &mut Progress::start()).await?;
        note_drawn(plan_text::painted(plan_text::show(&now, false).trim_end()));
        all.push(now);
    }
    arguments.consent.ask("apply it?")?;
    for planned in &all {
        let outcome = operations::carry_out(session, planned, arguments.waiting.limit(), &mut Progress::start()).await?;
        output::line(outcome.line)?;
    }
    Ok(())
}
