//! `mainstay uninstall --classic`: what goes, what goes with it, what stays, and the removal (OLM0-ADMIN-10, OLM0-ADMIN-11).

use mainstay_diagnostics::counted;
use mainstay_olm_classic_core::removal::{Choices, DefinitionPreview};
use mainstay_operations::Session;
use mainstay_operations::classic::removal::{Planned, carry_out, plan};
use mainstay_terminal::errors::{Failure, note_drawn, warn};
use mainstay_terminal::output::{self, Format};
use mainstay_terminal::progress::Progress;

use crate::commands::flags::{Consent, Patience};
use crate::plan_text;

/// The manner of a removal.
pub struct Manner<'a> {
    /// Only shown.
    pub is_dry: bool,
    /// The consent, given or to be asked for.
    pub consent: &'a Consent,
    /// The time to wait.
    pub patience: Patience,
    /// The format of a dry run's preview.
    pub format: &'a Format,
}

/// Shows the removal, asks, and carries it out.
pub async fn uninstall(session: &Session, namespace: &str, name: &str, choices: Choices, manner: &Manner<'_>) -> Result<(), Failure> {
    let planned = plan(session, namespace, name, choices, &mut Progress::start()).await?;
    for note in &planned.notes {
        warn(&format!("operator {namespace}/{name}"), note);
    }
    if manner.is_dry {
        return show(&planned, manner.format);
    }
    note_drawn(plan_text::painted_lines(lines(&planned)));
    if let Some(refusal) = planned.refusal() {
        return Err(refusal.into());
    }
    manner.consent.ask(&format!("uninstall {}?", planned.name))?;
    output::line(carry_out(session, &planned, manner.patience.limit(), &mut Progress::start()).await?)
}

fn show(planned: &Planned, format: &Format) -> Result<(), Failure> {
    if format.is_table() {
        output::drawn(&format!("{}\n", plan_text::painted_lines(lines(planned))))?;
    } else {
        let mut document = serde_json::to_value(&planned.removal.preview).map_err(|error| Failure::failed("preview", &error))?;
        document["kind"] = "RemovalPreview".into();
        document["name"] = planned.name.clone().into();
        document["namespace"] = planned.namespace.clone().into();
        document["doable"] = planned.removal.refusal.is_none().into();
        output::value(format, &document)?;
    }
    match planned.refusal() {
        Some(refusal) if format.is_table() => Err(refusal.into()),
        Some(_) => Err(Failure::silent(mainstay_terminal::errors::Exit::Impossible)),
        None => Ok(()),
    }
}

fn lines(planned: &Planned) -> Vec<String> {
    let preview = &planned.removal.preview;
    let mut lines = Vec::new();
    let mut section = |title: &str, all: Vec<String>| {
        if !all.is_empty() {
            lines.push(title.to_owned());
            lines.extend(all.into_iter().map(|line| format!("  {line}")));
        }
    };
    let definitions = |deleted: bool| preview.definitions.iter().filter(move |definition| definition.deleted == deleted).map(definition);
    section("to be deleted:", preview.deleted.iter().cloned().chain(definitions(true)).collect());
    let copies = (!preview.copies.is_empty()).then(|| {
        format!(
            "{} of the CSV in namespace {}",
            if preview.copies.len() == 1 { "the copy" } else { "the copies" },
            shortened(&preview.copies)
        )
    });
    section("made by the CSV, and deleted with them:", preview.follows.iter().cloned().chain(copies).collect());
    section(
        "to be kept:",
        definitions(false).chain(preview.kept.iter().cloned()).chain(["the OperatorGroup and the Namespace".to_owned()]).collect(),
    );
    section("needed by:", preview.needed_by.clone());
    section("good to know:", preview.notes.clone());
    lines
}

fn shortened(names: &[String]) -> String {
    const MOST: usize = 10;
    let shown = names.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > MOST { format!("{shown} and {} more", names.len() - MOST) } else { shown }
}

fn definition(definition: &DefinitionPreview) -> String {
    let resources = match (definition.custom_resources, &definition.unknown) {
        (Some(count), _) => counted(count, "custom resource"),
        (None, Some(why)) => format!("custom resources unknown: {why}"),
        (None, None) => String::new(),
    };
    format!("CustomResourceDefinition {} ({resources})", definition.name)
}
