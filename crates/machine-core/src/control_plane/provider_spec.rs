//! Provider specs of machines: which place one names, and the same with another place.

use mainstay_golang::json_reader::{self, SyntaxError};
use mainstay_golang::typed::Misfit;
use serde_json::{Map, Value, json};

use super::failure_domain::{AwsFilter, AwsReference, FailureDomain, Platform};
use super::specs::{AWS, AZURE, GCP};

/// A provider spec that cannot be read, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// There is none.
    #[error("could not determine platform type: provider spec is nil")]
    Missing,
    /// It is no JSON, or its kind no text.
    #[error("could not determine platform type: could not unmarshal provider spec: {0}")]
    Kind(String),
    /// Two specs that are compared are of two platforms.
    #[error("mistmatched platform types")]
    Mismatch,
    /// A field has another type.
    #[error("failed to check for unknown fields in the provider spec: failed to unmarshal provider config: {0}")]
    Misfit(#[from] Misfit),
}

impl From<SyntaxError> for SpecError {
    fn from(error: SyntaxError) -> Self {
        Self::Kind(error.to_string())
    }
}

/// A provider spec, as upstream holds it: unknown fields are gone, what is always written is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderSpec {
    platform: Platform,
    value: Value,
}

impl ProviderSpec {
    /// Reads a provider spec.
    ///
    /// # Errors
    /// It is missing, no JSON, or has a field of another type.
    pub fn read(text: Option<&str>) -> Result<Self, SpecError> {
        let value = json_reader::parse(text.ok_or(SpecError::Missing)?.as_bytes())?;
        let platform = platform(&value)?;
        let spec = match platform {
            Platform::Aws => &AWS,
            Platform::Azure => &AZURE,
            Platform::Gcp => &GCP,
            Platform::Sim | Platform::Generic => return Ok(Self { platform, value }),
        };
        Ok(Self { platform, value: spec.round_trip(&value)? })
    }

    /// Returns the platform.
    pub fn platform(&self) -> Platform {
        self.platform
    }

    /// Returns the spec as it is written.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the place that it names.
    pub fn failure_domain(&self) -> FailureDomain {
        let text = |path: &str| self.value.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        match self.platform {
            Platform::Aws => FailureDomain::Aws { zone: text("/placement/availabilityZone"), subnet: aws_reference(&self.value["subnet"]) },
            Platform::Azure => FailureDomain::Azure { zone: text("/zone"), subnet: text("/subnet") },
            Platform::Gcp => FailureDomain::Gcp { zone: text("/zone") },
            Platform::Sim => FailureDomain::Sim { zone: text("/zone") },
            Platform::Generic => FailureDomain::Generic,
        }
    }

    /// Returns the spec with another place; what the place does not say stays. A place of another platform says nothing.
    #[must_use]
    pub fn with(&self, place: &FailureDomain) -> Self {
        let mut spec = self.clone();
        let mut set = |path: &[&str], value: Value| {
            if let Some((last, path)) = path.split_last() {
                let owner = path.iter().fold(&mut spec.value, |owner, name| &mut owner[*name]);
                owner[*last] = value;
            }
        };
        match (self.platform, place) {
            (Platform::Aws, FailureDomain::Aws { zone, subnet }) => {
                if !zone.is_empty() {
                    set(&["placement", "availabilityZone"], json!(zone));
                }
                if let Some(subnet) = subnet {
                    set(&["subnet"], written(subnet));
                }
            }
            (Platform::Azure, FailureDomain::Azure { zone, subnet }) => {
                if !zone.is_empty() {
                    set(&["zone"], json!(zone));
                }
                if !subnet.is_empty() {
                    set(&["subnet"], json!(subnet));
                }
            }
            (Platform::Gcp, FailureDomain::Gcp { zone }) | (Platform::Sim, FailureDomain::Sim { zone }) if !zone.is_empty() => {
                set(&["zone"], json!(zone));
            }
            _ => {}
        }
        spec
    }
}

impl ProviderSpec {
    /// Returns the differences to the spec of an existing machine, one text each: `PATH: WANTED != FOUND`. The image that a machine first booted
    /// from does not count, because the machine follows the release since then.
    ///
    /// # Errors
    /// The other spec is another platform's.
    pub fn differences(&self, found: &Self) -> Result<Vec<String>, SpecError> {
        if self.platform != found.platform {
            return Err(SpecError::Mismatch);
        }
        Ok(super::difference::differences(&self.without_image(), &found.without_image()))
    }

    fn without_image(&self) -> Value {
        let mut value = self.value.clone();
        match self.platform {
            Platform::Aws => value["ami"] = json!({}),
            Platform::Azure => value["image"] = json!({}),
            Platform::Gcp => {
                let disks = value.get_mut("disks").and_then(Value::as_array_mut).into_iter().flatten();
                disks.filter(|disk| disk.is_object()).for_each(|disk| disk["image"] = json!(""));
            }
            Platform::Sim | Platform::Generic => {}
        }
        value
    }

    /// Returns the spec without the place that it names, as a template with failure domains holds it.
    #[must_use]
    pub fn without_place(&self) -> Self {
        let mut spec = self.clone();
        let remove = |owner: Option<&mut Value>, field: &str| {
            if let Some(owner) = owner.and_then(Value::as_object_mut) {
                owner.remove(field);
            }
        };
        match self.platform {
            Platform::Aws => {
                remove(spec.value.get_mut("placement"), "availabilityZone");
                spec.value["subnet"] = json!({});
            }
            Platform::Azure => {
                remove(Some(&mut spec.value), "zone");
                spec.value["subnet"] = json!("");
            }
            Platform::Gcp => spec.value["zone"] = json!(""),
            Platform::Sim => remove(Some(&mut spec.value), "zone"),
            Platform::Generic => {}
        }
        spec
    }
}

/// Returns the place that a provider spec names.
///
/// # Errors
/// It is missing, no JSON, or has a field of another type.
pub fn place_of(text: Option<&str>) -> Result<FailureDomain, SpecError> {
    ProviderSpec::read(text).map(|spec| spec.failure_domain())
}

fn platform(spec: &Value) -> Result<Platform, SpecError> {
    let misfit = |text: String| SpecError::Kind(format!("json: cannot unmarshal {text}"));
    let type_name = |value: &Value| mainstay_golang::value::json_type(value);
    let fields = match spec {
        Value::Object(fields) => fields,
        Value::Null => return Ok(Platform::Generic),
        other => return Err(misfit(format!("{} into Go value of type providerconfig.providerSpecKind", type_name(other)))),
    };
    for name in ["apiVersion", "kind"] {
        match fields.get(name) {
            None | Some(Value::Null | Value::String(_)) => {}
            Some(other) => return Err(misfit(format!("{} into Go struct field providerSpecKind.{name} of type string", type_name(other)))),
        }
    }
    Ok(match fields.get("kind").and_then(Value::as_str) {
        Some("AWSMachineProviderConfig") => Platform::Aws,
        Some("AzureMachineProviderSpec") => Platform::Azure,
        Some("GCPMachineProviderSpec") => Platform::Gcp,
        Some("SimProviderConfig") => Platform::Sim,
        _ => Platform::Generic,
    })
}

/// The reference in an AWS spec, by what it has: ID before filters before ARN.
fn aws_reference(subnet: &Value) -> Option<AwsReference> {
    let text = |field: &str| subnet.get(field).and_then(Value::as_str).map(str::to_owned);
    if let Some(id) = text("id") {
        return Some(AwsReference { kind: "ID".to_owned(), id: Some(id), ..AwsReference::default() });
    }
    if let Some(filters) = subnet.get("filters").and_then(Value::as_array) {
        let filter = |filter: &Value| AwsFilter {
            name: filter["name"].as_str().unwrap_or_default().to_owned(),
            values: filter["values"].as_array().map(|values| values.iter().filter_map(Value::as_str).map(str::to_owned).collect()),
        };
        return Some(AwsReference {
            kind: "Filters".to_owned(),
            filters: Some(filters.iter().map(filter).collect()),
            ..AwsReference::default()
        });
    }
    text("arn").map(|arn| AwsReference { kind: "ARN".to_owned(), arn: Some(arn), ..AwsReference::default() })
}

/// The reference as an AWS spec holds it: only what its type names.
fn written(subnet: &AwsReference) -> Value {
    let mut written = Map::new();
    match subnet.kind.as_str() {
        "ID" => written.extend(subnet.id.iter().map(|id| ("id".to_owned(), json!(id)))),
        "ARN" => written.extend(subnet.arn.iter().map(|arn| ("arn".to_owned(), json!(arn)))),
        "Filters" => {
            let filters = subnet.filters.as_deref().unwrap_or_default().iter().map(|filter| {
                let mut written = Map::from_iter([("name".to_owned(), json!(filter.name))]);
                let values = filter.values.as_ref().filter(|values| !values.is_empty());
                written.extend(values.map(|values| ("values".to_owned(), json!(values))));
                Value::Object(written)
            });
            let filters: Vec<Value> = filters.collect();
            if !filters.is_empty() {
                written.insert("filters".to_owned(), Value::Array(filters));
            }
        }
        _ => {}
    }
    Value::Object(written)
}
