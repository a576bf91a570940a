//! anyOf, oneOf, allOf and not.

use serde_json::Value;

use super::{Checker, Outcome, Place};
use mainstay_golang::quote;

use crate::field::Error;
use crate::model::{Schema, SchemaRef};

impl Checker<'_> {
    pub(super) fn check_composites(&self, schema: &Schema, value: &Value, old: Option<&Value>, place: &Place<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        if !schema.any_of.is_empty() {
            self.any_of(&schema.any_of, value, old, place, &mut outcome);
        }
        if !schema.one_of.is_empty() {
            self.one_of(&schema.one_of, value, old, place, &mut outcome);
        }
        if !schema.all_of.is_empty() {
            self.all_of(&schema.all_of, value, old, place, &mut outcome);
        }
        if let Some(not) = &schema.not
            && self.check(not, value, old, place).errors.is_empty()
        {
            self.complain(place, "must not validate the schema (not)", &mut outcome);
        }
        outcome.matches += 1;
        outcome
    }

    /// Upstream says these without a field or a value.
    fn complain(&self, place: &Place<'_>, words: &str, outcome: &mut Outcome) {
        outcome.add(Error::invalid(&self.whole(), "", format!("{} {words}", quote(&place.name()))));
    }

    fn any_of(&self, schemas: &[SchemaRef], value: &Value, old: Option<&Value>, place: &Place<'_>, outcome: &mut Outcome) {
        let mut closest: Option<Outcome> = None;
        for schema in schemas {
            let result = self.check(schema, value, old, place);
            if result.errors.is_empty() {
                outcome.merge(result);
                return;
            }
            keep_closest(&mut closest, result);
        }
        self.complain(place, "must validate at least one schema (anyOf)", outcome);
        outcome.merge(closest.unwrap_or_default());
    }

    fn one_of(&self, schemas: &[SchemaRef], value: &Value, old: Option<&Value>, place: &Place<'_>, outcome: &mut Outcome) {
        let mut closest: Option<Outcome> = None;
        let mut first: Option<Outcome> = None;
        let mut valid = 0;
        for schema in schemas {
            let result = self.check(schema, value, old, place);
            if result.errors.is_empty() {
                valid += 1;
                first.get_or_insert(result);
            } else {
                keep_closest(&mut closest, result);
            }
        }
        match valid {
            0 => {
                self.complain(place, "must validate one and only one schema (oneOf). Found none valid", outcome);
                outcome.merge(closest.unwrap_or_default());
            }
            1 => outcome.merge(first.unwrap_or_default()),
            _ => {
                let words = format!("must validate one and only one schema (oneOf). Found {valid} valid alternatives");
                self.complain(place, &words, outcome);
            }
        }
    }

    fn all_of(&self, schemas: &[SchemaRef], value: &Value, old: Option<&Value>, place: &Place<'_>, outcome: &mut Outcome) {
        let mut valid = 0;
        for schema in schemas {
            let result = self.check(schema, value, old, place);
            valid += usize::from(result.errors.is_empty());
            outcome.merge(result);
        }
        if valid != schemas.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            self.complain(place, &format!("must validate all the schemas (allOf){none}"), outcome);
        }
    }
}

fn keep_closest(closest: &mut Option<Outcome>, result: Outcome) {
    if closest.as_ref().is_none_or(|closest| result.matches > closest.matches) {
        *closest = Some(result);
    }
}
