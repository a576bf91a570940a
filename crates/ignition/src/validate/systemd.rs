//! Rules of systemd units.

use std::collections::HashMap;

use mainstay_golang::quote;

use super::storage::ending;
use crate::data::Struct;
use crate::report::{Report, Severity, Trail};
use crate::unit::{Reader, sections};

/// The endings of units' names.
pub(crate) const UNIT_ENDINGS: [&str; 12] =
    [".service", ".socket", ".device", ".mount", ".automount", ".swap", ".target", ".path", ".timer", ".snapshot", ".slice", ".scope"];

/// The template of an instance of a service: `a@.service` of `a@b.service`.
fn template_of(name: &str) -> Option<String> {
    let stem = name.strip_suffix(".service")?;
    // The shortest part before an at sign of which none of the two parts is empty, on one line.
    let at = stem.char_indices().skip(1).find(|(_, letter)| *letter == '@')?.0;
    let (before, instance) = (&stem[..at], &stem[at + 1..]);
    (!instance.is_empty() && !before.contains('\n') && !instance.contains('\n')).then(|| format!("{before}@.service"))
}

pub(super) fn systemd(of: &Struct, path: &Trail<'_>, report: &mut Report) {
    let units: HashMap<&str, &Struct> = of.structs("units").map(|unit| (unit.text_or_empty("name"), unit)).collect();
    for (index, unit) in of.structs("units").enumerate() {
        let name = unit.text_or_empty("name");
        let Some(template) = template_of(name).filter(|_| unit.is_true("enabled")) else { continue };
        let contents = units.get(template.as_str()).and_then(|unit| unit.get("contents").not_empty());
        let Some(Ok(found)) = contents.map(|contents| sections(contents, Reader::Current)) else { continue };
        if !found.iter().any(|section| section == "Install") {
            let words = format!("template unit {} for {} doesn't have Install section", quote(&template), quote(name));
            report.add(Severity::Warning, path.then("units").then(index).then("contents"), words);
        }
    }
}

pub(super) fn unit(of: &Struct, path: &Trail<'_>, report: &mut Report) {
    let name = of.text_or_empty("name");
    if !UNIT_ENDINGS.contains(&ending(name)) {
        report.add(Severity::Error, path.then("name"), "invalid systemd unit extension");
    }
    let path = path.then("contents");
    let Some(contents) = of.text("contents") else { return };
    match sections(contents, Reader::Current) {
        Err(error) => report.add(Severity::Error, path, format_args!("invalid unit content: {error}")),
        Ok(found) => {
            if of.is_true("enabled") && !contents.is_empty() && !found.iter().any(|section| section == "Install") {
                report.add(Severity::Warning, path, no_install_section(name));
            }
        }
    }
}

/// Upstream's words about a unit that is enabled for nothing.
pub(crate) fn no_install_section(name: &str) -> String {
    format!("unit {} is enabled, but has no install section so enable does nothing", quote(name))
}

pub(super) fn dropin(of: &Struct, path: &Trail<'_>, report: &mut Report) {
    if let Some(Err(error)) = of.text("contents").map(|contents| sections(contents, Reader::Current)) {
        report.add(Severity::Error, path.then("contents"), format_args!("invalid unit content: {error}"));
    }
    if ending(of.text_or_empty("name")) != ".conf" {
        report.add(Severity::Error, path.then("name"), "invalid systemd drop-in extension");
    }
}
