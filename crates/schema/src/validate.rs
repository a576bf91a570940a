//! Validation of a value against its schema, in the exact words of Kubernetes (KAPI-CRD-02, KAPI-REST-04).
//!
//! ```text
//!   schema node ──┬── type, nullable
//!                 ├── anyOf, oneOf, allOf, not     (composite: the closest alternative's findings are shown)
//!                 ├── lengths, pattern, format, range, counts, enum
//!                 └── items, properties            (each with its own old value, for ratcheting)
//!   whole value ──── list-type set and map, embedded objects
//! ```
//!
//! An update is not held against an object for what was wrong before and was not touched ([`validate_update`]).

mod composite;
mod embedded;
mod lists;
mod scalar;

use std::fmt::Write as _;

use serde_json::Value;

use crate::field::{self, Error, Kind, Path};
use crate::model::{Additional, Schema, SchemaRef, Type};

pub use embedded::malformed;

/// Validates a value on its own. `path` stands before each finding's field; messages name the field from the value's root, as upstream does.
pub fn validate(schema: &Schema, value: &Value, path: &Path) -> Vec<Error> {
    let mut errors = Checker { base: path }.errors(schema, value, None);
    embedded::validate(schema, value, path, &mut errors);
    lists::validate(schema, value, path, &mut errors);
    errors
}

/// Validates the new value of an update: findings about parts that did not change are left out, as long as it is clear which old part a new one was.
pub fn validate_update(schema: &Schema, new: &Value, old: &Value, path: &Path) -> Vec<Error> {
    let mut errors = if new == old { Vec::new() } else { Checker { base: path }.errors(schema, new, Some(old)) };
    embedded::validate(schema, new, path, &mut errors);
    let mut list_errors = Vec::new();
    lists::validate(schema, new, path, &mut list_errors);
    if !list_errors.is_empty() {
        let mut before = Vec::new();
        lists::validate(schema, old, path, &mut before);
        if before.is_empty() {
            errors.extend(list_errors);
        }
    }
    errors
}

/// Validates a value on its own against the value rules only: no list types, no embedded objects. For defaults inside schemas.
pub fn validate_values(schema: &Schema, value: &Value, path: &Path) -> Vec<Error> {
    Checker { base: path }.errors(schema, value, None)
}

/// The further finding that says CEL rules were not evaluated, if these findings make that unsafe.
pub fn blocks_rules(errors: &[Error]) -> Option<Error> {
    errors
        .iter()
        .any(|error| matches!(error.kind, Kind::NotSupported | Kind::Required | Kind::TooLong | Kind::TooMany | Kind::TypeInvalid))
        .then(|| {
            Error::invalid(
                &Path::root(),
                Value::Null,
                "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
            )
        })
}

/// The place of the checker; a chain on the stack, written out only for a finding.
#[derive(Clone, Copy)]
struct Place<'a> {
    above: Option<&'a Place<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Property(&'a str),
    /// A key that is not declared; upstream writes its dot even at the root.
    Further(&'a str),
    Item(usize),
}

impl<'a> Place<'a> {
    const ROOT: Place<'static> = Place { above: None, step: Step::Root };

    fn below(&'a self, step: Step<'a>) -> Place<'a> {
        Place { above: Some(self), step }
    }

    /// The name that messages use.
    fn name(&self) -> String {
        let mut name = String::new();
        self.write(&mut name);
        name
    }

    fn write(&self, out: &mut String) {
        if let Some(above) = self.above {
            above.write(out);
        }
        match self.step {
            Step::Root => {}
            Step::Property(name) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
            Step::Further(key) => {
                out.push('.');
                out.push_str(key);
            }
            Step::Item(index) => {
                // Writing to a text cannot fail.
                let _ = write!(out, "[{index}]");
            }
        }
    }
}

/// The findings of one schema about one value. The count of checks that held tells which of several alternatives was the closest.
#[derive(Default)]
struct Outcome {
    errors: Vec<Error>,
    matches: u32,
}

impl Outcome {
    fn merge(&mut self, other: Outcome) {
        self.matches += other.matches;
        for error in other.errors {
            self.add(error);
        }
    }

    fn add(&mut self, error: Error) {
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }
}

struct Checker<'a> {
    base: &'a Path,
}

impl Checker<'_> {
    fn errors(&self, schema: &Schema, value: &Value, old: Option<&Value>) -> Vec<Error> {
        self.check(schema, value, old, &Place::ROOT).errors
    }

    /// The field of a finding.
    fn field(&self, name: &str) -> Path {
        let name = name.strip_prefix('.').unwrap_or(name);
        if name.is_empty() { self.base.clone() } else { self.base.child(name) }
    }

    fn invalid(&self, place: &Place<'_>, value: impl Into<field::BadValue>, rest: &str) -> Error {
        let name = place.name();
        Error::invalid(&self.field(&name), value, format!("{name} in body {rest}"))
    }

    fn check(&self, schema: &Schema, value: &Value, old: Option<&Value>, place: &Place<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        if value.is_null() {
            outcome.merge(self.check_type(schema, value, place));
            self.check_enum(schema, value, place, &mut outcome);
            return outcome;
        }
        // One match for each check that applies, whatever it finds.
        if schema.kind.is_some() || schema.int_or_string || schema.format.is_some() {
            outcome.merge(self.check_type(schema, value, place));
            outcome.matches += 1;
        }
        outcome.merge(self.check_composites(schema, value, old, place));
        outcome.matches += 1;
        match value {
            Value::String(text) => {
                self.check_text(schema, text, place, &mut outcome);
                outcome.matches += 1 + u32::from(schema.format.is_some());
            }
            Value::Number(number) => {
                self.check_number(schema, number, place, &mut outcome);
                outcome.matches += 2;
            }
            Value::Array(items) => {
                self.check_items(schema, items, old, place, &mut outcome);
                outcome.matches += 2;
            }
            _ => {}
        }
        self.check_enum(schema, value, place, &mut outcome);
        outcome.matches += 1;
        if let Value::Object(map) = value {
            self.check_object(schema, map, old, place, &mut outcome);
            outcome.matches += 1;
        }
        outcome.matches += 1;
        outcome
    }

    /// A part of a value, unless it is what it was.
    fn check_part(&self, schema: &SchemaRef, value: &Value, old: Option<&Value>, place: &Place<'_>, outcome: &mut Outcome) {
        if old == Some(value) {
            return;
        }
        outcome.merge(self.check(schema, value, old, place));
    }

    fn check_items(&self, schema: &Schema, items: &[Value], old: Option<&Value>, place: &Place<'_>, outcome: &mut Outcome) {
        if let Some(item_schema) = &schema.items {
            let counterparts = lists::Counterparts::new(schema, old);
            for (index, item) in items.iter().enumerate() {
                let old_item = counterparts.of(schema, item);
                self.check_part(item_schema, item, old_item, &place.below(Step::Item(index)), outcome);
            }
        }
        let count = items.len() as u64;
        if let Some(least) = schema.min_items.filter(|least| count < *least) {
            outcome.add(self.invalid(place, Value::from(count), &format!("should have at least {least} items")));
        }
        if let Some(most) = schema.max_items.filter(|most| count > *most) {
            outcome.add(Error::too_many(&self.field(&place.name()), count, most));
        }
        if schema.unique_items && items.iter().enumerate().any(|(index, item)| items[..index].contains(item)) {
            outcome.add(self.invalid(place, "", "shouldn't contain duplicates"));
        }
    }

    fn check_object(
        &self,
        schema: &Schema,
        map: &serde_json::Map<String, Value>,
        old: Option<&Value>,
        place: &Place<'_>,
        outcome: &mut Outcome,
    ) {
        let count = map.len() as u64;
        if let Some(least) = schema.min_properties.filter(|least| count < *least) {
            outcome.add(self.invalid(place, Value::from(count), &format!("should have at least {least} properties")));
            return;
        }
        if let Some(most) = schema.max_properties.filter(|most| count > *most) {
            outcome.add(Error::too_many(&self.field(&place.name()), count, most));
            return;
        }
        let old = old.and_then(Value::as_object);
        let further = map.iter().filter(|(key, _)| !schema.properties.contains_key(*key));
        match &schema.additional {
            Additional::Unstated | Additional::Any => {}
            Additional::Forbidden => {
                for (key, _) in further {
                    let name = place.name();
                    outcome.add(Error::invalid(&self.field(&name), key, format!("{name}.{key} in body is a forbidden property")));
                }
            }
            Additional::Schema(additional) => {
                for (key, member) in further {
                    self.check_part(additional, member, old.and_then(|old| old.get(key)), &place.below(Step::Further(key)), outcome);
                }
            }
        }
        // Objects are mostly smaller than their schemas, so the object leads.
        for (key, member) in map {
            if let Some(property) = schema.properties.get(key) {
                self.check_part(property, member, old.and_then(|old| old.get(key)), &place.below(Step::Property(key)), outcome);
            }
        }
        for name in &schema.required {
            if !map.contains_key(name) {
                outcome.add(Error::required(&self.field(&place.below(Step::Further(name)).name()), ""));
            }
        }
    }

    fn check_type(&self, schema: &Schema, value: &Value, place: &Place<'_>) -> Outcome {
        match scalar::wrong_type(schema, value) {
            None => Outcome { errors: Vec::new(), matches: 1 },
            Some((wanted, found)) => {
                let name = place.name();
                let detail = format!("{name} in body must be of type {wanted}: {}", mainstay_golang::quote(&found));
                Outcome { errors: vec![Error::type_invalid(&self.field(&name), found, detail)], matches: 0 }
            }
        }
    }

    fn check_enum(&self, schema: &Schema, value: &Value, place: &Place<'_>, outcome: &mut Outcome) {
        let Some(allowed) = schema.enumeration.as_deref().filter(|allowed| !allowed.is_empty()) else {
            return;
        };
        if allowed.iter().any(|allowed| scalar::same(allowed, value)) {
            return;
        }
        let shown: Vec<String> = allowed
            .iter()
            .map(|allowed| match allowed {
                Value::String(text) => text.clone(),
                other => field::go_json(other),
            })
            .collect();
        outcome.add(Error::not_supported(&self.field(&place.name()), value, &shown));
    }
}

/// The `type` keyword's text for a schema.
fn wanted_type(schema: &Schema) -> Option<&'static str> {
    if schema.int_or_string { Some("integer,string") } else { schema.kind.map(Type::as_str) }
}
