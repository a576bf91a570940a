//! The text of a plan.

use std::fmt::Write as _;

use mainstay_diagnostics::counted;
use mainstay_lifecycle::preview::{
    Bundle, Change, CrdChange, Dependency, FieldChange, Image, Kind, NOT_ASKED, Object, Preview, Step, UNMANAGED, Verification,
};
use mainstay_operations::Planned;
use mainstay_terminal::printable::{hanging, printable, printable_line};
use owo_colors::OwoColorize as _;

/// Number of fields of one object that are shown; JSON has all of them.
const FIELDS: usize = 20;

/// The plan as text; `wide` includes what stays as it is.
pub fn show(planned: &Planned, wide: bool) -> String {
    let Planned { preview, notes, rollback, .. } = planned;
    let mut text = format!("ClusterExtension {}\n", hanging(&preview.subject, 2));
    if let Some(way) = rollback {
        // The objections are in the problem of its step, or among the warnings.
        let _ = writeln!(text, "rollback {}", hanging(&way.headline(), 2));
        for line in way.assurances() {
            let _ = writeln!(text, "  {}", hanging(&line, 4));
        }
    }
    let written: Vec<&Object> = preview.writes.iter().filter(|write| wide || write.change.is_one()).collect();
    section(&mut text, 0, "decided here:", planned.choices.iter().cloned());
    section(&mut text, 0, "written by this command:", written.iter().flat_map(|object| lines(object)));
    section(&mut text, 0, "permissions that the installer gets:", preview.installer_permissions.iter().cloned());
    section(&mut text, 0, "dry run of what this command writes:", preview.verification.iter().map(verified));
    let many = preview.steps.len() > 1;
    for (index, step) in preview.steps.iter().enumerate() {
        let number = if many { format!("step {} of {}: ", index + 1, preview.steps.len()) } else { String::new() };
        let _ = writeln!(text, "\n{number}{}", hanging(&headline(step), 2));
        body(&mut text, step, wide);
    }
    section(&mut text, 0, "not looked at:", notes.iter().cloned());
    let _ = writeln!(text, "\n{}", verdict(preview));
    text
}

/// The plan's text for a terminal: text from outside is escaped, and created, changed, deleted and conflicting objects are in colour. If no
/// colours are wanted, the writer removes them again.
pub fn painted(text: &str) -> String {
    let text = printable(text);
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (body, end) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
        let word = body.trim_start().split(' ').next().unwrap_or_default();
        let indented = body.starts_with(' ');
        let painted = match word {
            "create" if indented => body.green().to_string(),
            "change" | "adopt" if indented => body.yellow().to_string(),
            "delete" | "conflict" if indented => body.red().to_string(),
            "cannot" if body.starts_with("cannot be applied") => body.red().bold().to_string(),
            "can" if body.starts_with("can be applied:") => body.green().bold().to_string(),
            "problem:" | "unsafe:" | "warnings:" => body.red().to_string(),
            _ if !indented && !body.is_empty() => body.bold().to_string(),
            _ => body.to_owned(),
        };
        out.push_str(&painted);
        out.push_str(end);
    }
    out
}

/// Lines of a change in colour, as [`painted`] paints a plan: a heading that says what happens counts for all lines below it.
pub fn painted_lines<S: AsRef<str>>(lines: impl IntoIterator<Item = S>) -> String {
    let mut heading = String::new();
    let mut paint = |line: S| {
        let line = printable_line(line.as_ref()).into_owned();
        if !line.starts_with(' ') {
            heading.clone_from(&line);
            return painted(&line);
        }
        match heading.as_str() {
            "to be deleted:" | "permissions lost:" => line.red().to_string(),
            heading if heading.ends_with("and deleted with them:") => line.red().to_string(),
            "to be kept:" => line.green().to_string(),
            "needed by:" | "used by others:" | "permissions gained:" => line.yellow().to_string(),
            _ => painted(&line),
        }
    };
    lines.into_iter().map(&mut paint).collect::<Vec<_>>().join("\n")
}

fn headline(step: &Step) -> String {
    let bundle = step.bundle.as_ref().map_or_else(String::new, |bundle| {
        let catalog = if bundle.catalog.is_empty() { String::new() } else { format!(" from catalog {}", bundle.catalog) };
        format!("{} ({}){catalog}", bundle.name, bundle.version)
    });
    let from = step.from.as_ref().map_or_else(|| "nothing".to_owned(), |bundle| bundle.name.clone());
    match step.kind {
        Kind::Install => format!("install {bundle}"),
        Kind::Upgrade => format!("upgrade {from} to {bundle}"),
        Kind::Repair => format!("repair {bundle}"),
        Kind::Nothing => format!("nothing to do: {bundle} is installed and stays"),
        Kind::Uninstall => format!("uninstall {from}"),
        Kind::Refused if bundle.is_empty() => "cannot be applied: no bundle".to_owned(),
        Kind::Refused => format!("cannot be applied: {bundle}"),
    }
}

fn body(text: &mut String, step: &Step, wide: bool) {
    if let Some(problem) = &step.problem {
        section(text, 1, "problem:", problem.message.lines().map(str::to_owned).chain(problem.causes.iter().cloned()));
    }
    section(text, 1, "why this bundle:", step.reasons.iter().cloned());
    if let Some(approval) = &step.approval {
        let approve = approval.change_plan.iter().map(|name| format!("mainstay approve {name} shows and approves it"));
        section(text, 1, "waits for an approval:", approval.reasons.iter().cloned().chain(approve));
    }
    section(text, 1, "installed in addition:", step.dependencies.iter().flat_map(dependency));
    let shown: Vec<&Object> = step.objects.iter().filter(|object| wide || object.change != Change::Unchanged).collect();
    let quiet = step.objects.len() - shown.len();
    let quiet = (quiet > 0).then(|| format!("{quiet} unchanged"));
    section(text, 1, "objects:", shown.into_iter().flat_map(lines).chain(quiet));
    section(text, 1, "custom resource definitions:", step.custom_resource_definitions.iter().flat_map(definition));
    section(text, 1, "permissions that the operator gains:", step.permissions_gained.iter().cloned());
    section(text, 1, "permissions that the operator loses:", step.permissions_lost.iter().cloned());
    section(text, 1, "webhooks and API services:", step.api_extensions.iter().cloned());
    images(text, &step.images);
    section(
        text,
        1,
        "pods that restart or stop:",
        step.restarts.iter().map(|restart| format!("{}: {}", restart.workload, restart.because)),
    );
    section(text, 1, "not served by this cluster now:", step.not_served.iter().cloned());
    section(text, 1, "warnings:", step.warnings.iter().cloned());
    section(text, 1, "dry run:", step.verification.iter().map(verified));
}

fn verified(one: &Verification) -> String {
    let verdict = match one.accepted {
        Some(true) => "accepted",
        Some(false) => "refused",
        None => "not asked",
    };
    let answer = if one.answer.is_empty() { String::new() } else { format!(": {}", one.answer) };
    format!("{}: {verdict} as {}{answer}", one.step, one.asked_as)
}

fn dependency(dependency: &Dependency) -> Vec<String> {
    let Bundle { name, version, catalog, .. } = &dependency.bundle;
    let mut lines = vec![format!("{name} ({version}) from catalog {catalog}")];
    lines.extend(dependency.because.iter().map(|need| format!("  {need}")));
    lines
}

fn section(text: &mut String, indent: usize, title: &str, lines: impl Iterator<Item = String>) {
    let pad = "  ".repeat(indent);
    let mut empty = true;
    for line in lines {
        if empty {
            let _ = writeln!(text, "{pad}{title}");
            empty = false;
        }
        let _ = writeln!(text, "{pad}  {}", hanging(&line, pad.len() + 4));
    }
}

fn lines(object: &Object) -> Vec<String> {
    let owner = match object.owner.as_deref() {
        None => String::new(),
        Some(UNMANAGED) => ", not managed by any extension".to_owned(),
        Some(owner) => format!(", managed by {owner}"),
    };
    let note = if object.note.is_empty() { String::new() } else { format!(" ({})", object.note) };
    let mut lines = vec![format!("{:<9} {}{owner}{note}", object.change, object.title())];
    lines.extend(object.fields.iter().take(FIELDS).map(|field: &FieldChange| format!("            {field}")));
    let more = object.fields.len().saturating_sub(FIELDS) + object.fields_omitted;
    if more > 0 {
        lines.push(format!("            and {}", counted(more, "more field")));
    }
    lines
}

fn definition(change: &CrdChange) -> Vec<String> {
    let existing = match (&change.existing, &change.existing_unknown) {
        (Some(existing), _) if existing.count > existing.checked && existing.checked > 0 => {
            format!(", {}, the first {} looked at", counted(existing.count, "custom resource"), existing.checked)
        }
        (Some(existing), _) => format!(", {}", counted(existing.count, "custom resource")),
        (None, Some(problem)) => format!(", custom resources unknown: {problem}"),
        (None, None) => String::new(),
    };
    let mut lines = vec![format!("{:<9} {}{existing}", change.change, change.name)];
    lines.extend(change.versions.iter().map(|line| format!("            {line}")));
    lines.extend(change.findings.iter().map(|line| format!("            unsafe: {line}")));
    let invalid = change.existing.iter().flat_map(|existing| &existing.invalid);
    lines.extend(invalid.map(|line| format!("            no longer valid: {line}")));
    let losing = change.existing.iter().flat_map(|existing| &existing.losing);
    lines.extend(losing.map(|line| format!("            loses data: {line}")));
    let notes = change.existing.iter().flat_map(|existing| &existing.notes);
    lines.extend(notes.map(|line| format!("            not looked at: {line}")));
    lines
}

fn images(text: &mut String, images: &[Image]) {
    let lines = |image: &Image| {
        let mut lines = vec![image.reference.clone(), format!("  for {}", image.used_by.join("; "))];
        match (&image.size, image.size_unknown.as_deref()) {
            (Some(size), _) => lines.push(format!("  {} to transfer, {}", weight(size.size), size.digest)),
            (None, None | Some(NOT_ASKED)) => {}
            (None, Some(problem)) => lines.push(format!("  size unknown: {problem}")),
        }
        lines
    };
    section(text, 1, "images to pull:", images.iter().flat_map(lines));
}

fn weight(bytes: u64) -> String {
    match bytes {
        0..10_240 => format!("{bytes} B"),
        10_240..10_485_760 => format!("{} KiB", bytes / 1024),
        _ => format!("{} MiB", bytes >> 20),
    }
}

fn verdict(preview: &Preview) -> String {
    if !preview.applicable {
        return "cannot be applied".to_owned();
    }
    let mut counts: Vec<(Change, usize)> = Vec::new();
    for object in preview.steps.iter().flat_map(|step| &step.objects).filter(|object| object.change.is_one()) {
        match counts.iter_mut().find(|(change, _)| *change == object.change) {
            Some((_, count)) => *count += 1,
            None => counts.push((object.change, 1)),
        }
    }
    let told: Vec<String> = counts.iter().map(|(change, count)| format!("{count} to {change}")).collect();
    if told.is_empty() {
        "can be applied: nothing changes on the cluster".to_owned()
    } else {
        format!("can be applied: {}", told.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use mainstay_lifecycle::preview::Existing;

    use super::*;

    /// MS-PLAN-01, MS-CLI-06: colours say what happens; a name that brings its own does not.
    #[test]
    fn plans_are_painted() {
        let shown = painted("install x\n  create    ConfigMap a\u{1b}[31m\n  keep it\n\ncannot be applied\n");
        assert!(shown.contains("\u{1b}[32m  create    ConfigMap a\\u{1b}[31m\u{1b}[39m\n"), "{shown:?}");
        assert!(shown.contains("\n  keep it\n\n"), "{shown:?}");
        let plain: String = anstream::adapter::strip_str(&shown).to_string();
        assert_eq!(plain, "install x\n  create    ConfigMap a\\u{1b}[31m\n  keep it\n\ncannot be applied\n");
    }

    /// MS-PLAN-01, MS-CLI-06: a heading colours what is below it, and a line of others stays one line.
    #[test]
    fn lines_are_painted() {
        let shown = painted_lines(["to be deleted:", "  Deployment a\nhint: b", "to be kept:", "  Namespace n"]);
        assert!(shown.contains("\u{1b}[31m  Deployment a\\nhint: b\u{1b}[39m\n"), "{shown:?}");
        assert!(shown.ends_with("\u{1b}[32m  Namespace n\u{1b}[39m"), "{shown:?}");
    }

    /// MS-PLAN-01: one custom resource is one.
    #[test]
    fn custom_resources_are_counted() {
        let told = |count: usize, checked: usize| {
            let existing = Some(Existing { count, checked, ..Existing::default() });
            definition(&CrdChange { name: "beacons".to_owned(), existing, ..CrdChange::default() }).remove(0)
        };
        assert!(told(1, 1).ends_with("beacons, 1 custom resource"), "{}", told(1, 1));
        assert!(told(2, 1).ends_with("beacons, 2 custom resources, the first 1 looked at"), "{}", told(2, 1));
    }
}
