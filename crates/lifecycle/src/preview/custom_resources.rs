//! Existing custom resources, checked against a CRD that is about to change (MS-PLAN-01, OLM1-CRD-01). They are read as the API server would read
//! them afterwards (pruned, then defaulted) and validated by schema and by rules, with the same functions as the API server.
//!
//! ```text
//!   instance ──► each version it will be read in ──┬── pruned: what is lost
//!                                                  └── defaulted ── schema ── rules: what is wrong, and was not wrong before
//! ```
//!
//! Rules about `oldSelf` judge a change, not a stored object; they run only if they set `optionalOldSelf`.

use std::collections::{BTreeMap, BTreeSet};

use mainstay_cel::{CompiledRules, RUNTIME_BUDGET};
use mainstay_schema::crd::{Conversion, Definition};
use mainstay_schema::field::Path;
use mainstay_schema::validate::validate;
use mainstay_schema::{SchemaRef, default, prune};
use serde_json::Value;

/// Cost limit of all rules over all instances, in CEL cost units: some seconds.
const BUDGET: u64 = 20 * RUNTIME_BUDGET;
/// Maximum number of characters in the description of one instance.
const LONG: usize = 300;

/// The effect of a changed CRD on the instances of its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Instances that are valid now and would become invalid: `namespace/name: why`, one line each.
    pub invalid: Vec<String>,
    /// Instances that have data in fields that would be pruned: `namespace/name: fields`, one line each.
    pub losing: Vec<String>,
    /// Checks that were skipped, each with the reason.
    pub notes: Vec<String>,
}

/// Returns the effect on instances when `found`, the definition on the cluster, becomes `wanted`.
pub fn impact(found: &Value, wanted: &Value, instances: &[Value]) -> Outcome {
    let (old, new) = match (Definition::parse(found), Definition::parse(wanted)) {
        (Ok(old), Ok(new)) => (old, new),
        (Err(problem), _) | (_, Err(problem)) => {
            return Outcome { notes: vec![format!("the schemas cannot be compared: {problem}")], ..Outcome::default() };
        }
    };
    let mut holder =
        Holder { old: forms(&old), new: forms(&new), converts: new.conversion != Conversion::None, budget: BUDGET, ..Holder::default() };
    for (name, form) in &holder.new {
        if let Some(problem) = &form.unusable {
            holder.notes.insert(format!("the rules of {name} cannot be compiled, and the API server will refuse them: {problem}"));
        }
    }
    let mut outcome = Outcome::default();
    for instance in instances {
        holder.instance(instance, &mut outcome);
    }
    if holder.unjudged > 0 {
        let note = format!("the rules were not run over {} of them: too costly", holder.unjudged);
        holder.notes.insert(note);
    }
    outcome.notes.extend(holder.notes);
    outcome
}

/// One version of a CRD.
struct Form {
    schema: SchemaRef,
    served: bool,
    storage: bool,
    prunes: bool,
    rules: Option<CompiledRules>,
    /// The compile error of the rules.
    unusable: Option<String>,
}

fn forms(definition: &Definition) -> BTreeMap<String, Form> {
    let form = |version: &mainstay_schema::crd::Version| {
        let (rules, unusable) = match CompiledRules::compile(&version.schema, "") {
            Ok(rules) => ((!rules.is_empty()).then_some(rules), None),
            Err(errors) => (None, errors.first().map(ToString::to_string)),
        };
        let prunes = !definition.preserve_unknown_fields;
        Form { schema: version.schema.clone(), served: version.served, storage: version.storage, prunes, rules, unusable }
    };
    definition.versions.iter().map(|version| (version.name.clone(), form(version))).collect()
}

#[derive(Default)]
struct Holder {
    old: BTreeMap<String, Form>,
    new: BTreeMap<String, Form>,
    /// True if a webhook converts between the new versions.
    converts: bool,
    budget: u64,
    /// Number of instances on which the rules were not run.
    unjudged: usize,
    notes: BTreeSet<String>,
}

impl Holder {
    fn instance(&mut self, instance: &Value, outcome: &mut Outcome) {
        let (group, of) = instance["apiVersion"].as_str().and_then(|version| version.split_once('/')).unwrap_or_default();
        let mut wrong: Vec<String> = Vec::new();
        let mut lost: BTreeSet<String> = BTreeSet::new();
        if !self.new.contains_key(of) {
            wrong.push(format!("version {of} is gone"));
        }
        let mut judged = true;
        for version in self.read_in(of) {
            let mut object = instance.clone();
            object["apiVersion"] = format!("{group}/{version}").into();
            // A new version has no earlier findings of its own.
            let before = self.old.get(&version).map(|form| form.read(object.clone(), &mut self.budget)).unwrap_or_default();
            let Some(after) = self.new.get(&version).map(|form| form.read(object, &mut self.budget)) else { continue };
            judged &= after.judged;
            let place = if version == of { String::new() } else { format!("as {version}: ") };
            wrong.extend(after.wrong.into_iter().filter(|line| !before.wrong.contains(line)).map(|line| format!("{place}{line}")));
            lost.extend(after.lost.difference(&before.lost).cloned());
        }
        self.unjudged += usize::from(!judged);
        let title = title(instance);
        if let Some((first, more)) = wrong.split_first() {
            let more = if more.is_empty() { String::new() } else { format!(" (and {} more)", more.len()) };
            outcome.invalid.push(format!("{title}: {}{more}", shortened(first)));
        }
        if !lost.is_empty() {
            outcome.losing.push(format!("{title}: {}", shortened(&lost.into_iter().collect::<Vec<_>>().join(", "))));
        }
    }

    /// Returns the versions in which an object that is read as `of` will be read: `of` itself, if it is still served, and the stored version.
    fn read_in(&mut self, of: &str) -> Vec<String> {
        let same = self.new.get(of).filter(|form| form.served).map(|_| of.to_owned());
        let stored = self.new.iter().find(|(name, form)| form.storage && form.served && *name != of).map(|(name, _)| name.clone());
        let Some(other) = stored else { return same.into_iter().collect() };
        if self.converts {
            self.notes.insert(format!("what the conversion webhook makes of them as {other} is not known"));
            return same.into_iter().collect();
        }
        same.into_iter().chain([other]).collect()
    }
}

/// An object as read in one version.
#[derive(Default)]
struct Read {
    wrong: Vec<String>,
    lost: BTreeSet<String>,
    /// True if all rules were run.
    judged: bool,
}

impl Form {
    fn read(&self, mut object: Value, budget: &mut u64) -> Read {
        let mut read = Read { judged: true, ..Read::default() };
        if self.prunes {
            read.lost = prune::prune(&self.schema, &mut object).iter().map(|path| path.as_str().to_owned()).collect();
        }
        default::default(&self.schema, &mut object);
        let errors = validate(&self.schema, &object, &Path::root());
        read.wrong.extend(errors.iter().map(ToString::to_string));
        let Some(rules) = &self.rules else { return read };
        if *budget == 0 {
            read.judged = false;
            return read;
        }
        // If the schema's findings make rules meaningless, the findings suffice.
        let Ok(evaluated) = rules.evaluate(&object, None, &errors) else { return read };
        *budget = budget.saturating_sub(evaluated.cost);
        for violation in evaluated.violations {
            let rule = violation.rule.clone();
            let said = mainstay_schema::field::Error::from(violation).to_string();
            read.wrong.push(if said.contains(&rule) { said } else { format!("{said} (rule: {rule})") });
        }
        read
    }
}

fn title(instance: &Value) -> String {
    let text = |key: &str| instance["metadata"][key].as_str().unwrap_or_default();
    if text("namespace").is_empty() { text("name").to_owned() } else { format!("{}/{}", text("namespace"), text("name")) }
}

fn shortened(text: &str) -> String {
    let line = text.replace('\n', " ");
    let cut: String = line.chars().take(LONG).collect();
    if cut.len() < line.len() { format!("{cut}...") } else { cut }
}
