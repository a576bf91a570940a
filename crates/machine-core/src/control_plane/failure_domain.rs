//! Failure domains: places in which machines fail together, by platform.

use std::fmt;

use mainstay_golang::sort_slice;
use serde::Deserialize;
use serde_json::Value;

/// A platform whose failure domains are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    /// Amazon Web Services.
    Aws,
    /// Microsoft Azure.
    Azure,
    /// Google Cloud.
    Gcp,
    /// The simulated provider of the embedded cluster (MACH-CPMS-06).
    Sim,
    /// Any other: a control plane without failure domains.
    Generic,
}

/// A place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailureDomain {
    /// In Amazon Web Services.
    Aws {
        /// Availability zone; empty if not said.
        zone: String,
        /// Subnet.
        subnet: Option<AwsReference>,
    },
    /// In Microsoft Azure.
    Azure {
        /// Zone; empty if not said.
        zone: String,
        /// Subnet; empty if not said.
        subnet: String,
    },
    /// In Google Cloud.
    Gcp {
        /// Zone; empty if not said.
        zone: String,
    },
    /// In the simulation.
    Sim {
        /// Zone; empty if not said.
        zone: String,
    },
    /// Nowhere in particular.
    Generic,
}

/// The way to find a resource of Amazon Web Services.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AwsReference {
    /// `ID`, `ARN` or `Filters`, as written.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its ID.
    pub id: Option<String>,
    /// Its ARN.
    pub arn: Option<String>,
    /// The criteria of a search.
    pub filters: Option<Vec<AwsFilter>>,
}

/// A criterion for resources of Amazon Web Services.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AwsFilter {
    /// Name of the filter.
    pub name: String,
    /// Its values.
    pub values: Option<Vec<String>>,
}

/// Failure domains that cannot be used, in upstream's words.
#[derive(Debug, thiserror::Error)]
pub enum FailureDomainError {
    /// The platform is named, and its list is not there.
    #[error("missing failure domain configuration")]
    Missing,
    /// The list has not the form of the platform's.
    #[error("failure domains cannot be read: {0}")]
    Form(#[from] serde_json::Error),
    /// The platform is one whose failure domains are not known here.
    #[error("unsupported platform type: {0}")]
    Unsupported(String),
    /// The template's place is another platform's.
    #[error("cannot combine failure domain with template failure domain: platform types do not match")]
    Platform,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Aws {
    placement: AwsPlacement,
    subnet: Option<AwsReference>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AwsPlacement {
    availability_zone: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Azure {
    zone: String,
    subnet: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Zoned {
    zone: String,
}

impl Platform {
    /// Returns the name that ControlPlaneMachineSets use, which in lower case is the field with its failure domains.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aws => "AWS",
            Self::Azure => "Azure",
            Self::Gcp => "GCP",
            Self::Sim => "Sim",
            Self::Generic => "",
        }
    }
}

impl FailureDomain {
    /// Reads `failureDomains` of a ControlPlaneMachineSet's template; there are none if it names no platform.
    ///
    /// # Errors
    /// The platform is not known, or its list is missing or has another form.
    pub fn of_template(domains: &Value) -> Result<Vec<Self>, FailureDomainError> {
        let name = domains.get("platform").and_then(Value::as_str).unwrap_or_default();
        if name.is_empty() {
            return Ok(Vec::new());
        }
        let known = [Platform::Aws, Platform::Azure, Platform::Gcp, Platform::Sim].into_iter().find(|platform| platform.name() == name);
        let platform = known.ok_or_else(|| FailureDomainError::Unsupported(name.to_owned()))?;
        Self::list(platform, domains.get(name.to_lowercase()).unwrap_or(&Value::Null))
    }

    /// Returns the place as a ControlPlaneMachineSet lists it; what is not said is left out.
    pub fn to_value(&self) -> Value {
        let said = |fields: &[(&str, &String)]| -> Value {
            let said = fields.iter().filter(|(_, text)| !text.is_empty());
            Value::Object(said.map(|(name, text)| ((*name).to_owned(), Value::String((*text).clone()))).collect())
        };
        match self {
            Self::Aws { zone, subnet } => {
                let mut value = Value::Object(serde_json::Map::new());
                if !zone.is_empty() {
                    value["placement"] = said(&[("availabilityZone", zone)]);
                }
                if let Some(subnet) = subnet {
                    value["subnet"] = subnet.to_value();
                }
                value
            }
            Self::Azure { zone, subnet } => said(&[("zone", zone), ("subnet", subnet)]),
            Self::Gcp { zone } | Self::Sim { zone } => said(&[("zone", zone)]),
            Self::Generic => Value::Object(serde_json::Map::new()),
        }
    }

    /// Reads a platform's list of failure domains.
    ///
    /// # Errors
    /// The list is not there, or has another form.
    pub fn list(platform: Platform, list: &Value) -> Result<Vec<Self>, FailureDomainError> {
        fn read<T: for<'de> Deserialize<'de>>(
            list: &Value,
            of: impl Fn(T) -> FailureDomain,
        ) -> Result<Vec<FailureDomain>, FailureDomainError> {
            let list = Option::<Vec<T>>::deserialize(list)?.ok_or(FailureDomainError::Missing)?;
            Ok(list.into_iter().map(of).collect())
        }
        match platform {
            Platform::Aws => read(list, |aws: Aws| Self::Aws { zone: aws.placement.availability_zone, subnet: aws.subnet }),
            Platform::Azure => read(list, |azure: Azure| Self::Azure { zone: azure.zone, subnet: azure.subnet }),
            Platform::Gcp => read(list, |gcp: Zoned| Self::Gcp { zone: gcp.zone }),
            Platform::Sim => read(list, |sim: Zoned| Self::Sim { zone: sim.zone }),
            Platform::Generic => Ok(Vec::new()),
        }
    }

    /// Returns this place with what it does not say filled in from the template's.
    ///
    /// # Errors
    /// The template's place is another platform's.
    pub fn complete(&self, template: &Self) -> Result<Self, FailureDomainError> {
        let filled = |own: &String, other: &String| if own.is_empty() { other.clone() } else { own.clone() };
        Ok(match (self, template) {
            (Self::Aws { zone, subnet }, Self::Aws { zone: template_zone, subnet: template_subnet }) => {
                Self::Aws { zone: filled(zone, template_zone), subnet: subnet.clone().or_else(|| template_subnet.clone()) }
            }
            (Self::Azure { zone, subnet }, Self::Azure { zone: template_zone, subnet: template_subnet }) => {
                Self::Azure { zone: filled(zone, template_zone), subnet: filled(subnet, template_subnet) }
            }
            (Self::Gcp { zone }, Self::Gcp { zone: template_zone }) => Self::Gcp { zone: filled(zone, template_zone) },
            (Self::Sim { zone }, Self::Sim { zone: template_zone }) => Self::Sim { zone: filled(zone, template_zone) },
            (Self::Generic, Self::Generic) => Self::Generic,
            _ => return Err(FailureDomainError::Platform),
        })
    }
}

/// Returns different places in the order of their texts.
pub fn distinct(places: &[FailureDomain]) -> Vec<FailureDomain> {
    let mut distinct: Vec<FailureDomain> = Vec::new();
    for place in places {
        if !distinct.contains(place) {
            distinct.push(place.clone());
        }
    }
    by_text(&mut distinct);
    distinct
}

/// Sorts places by their texts.
pub fn by_text(places: &mut [FailureDomain]) {
    sort_slice(places, |one, other| one.to_string() < other.to_string());
}

const UNKNOWN: &str = "<unknown>";

impl fmt::Display for FailureDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Aws { zone, subnet: None } if !zone.is_empty() => write!(f, "AWSFailureDomain{{AvailabilityZone:{zone}}}"),
            Self::Aws { zone, subnet: Some(subnet) } => match subnet.value() {
                Some(value) => {
                    let zone = if zone.is_empty() { String::new() } else { format!("AvailabilityZone:{zone}, ") };
                    write!(f, "AWSFailureDomain{{{zone}Subnet:{{Type:{}, Value:{value}}}}}", subnet.kind)
                }
                None => f.write_str(UNKNOWN),
            },
            Self::Azure { zone, subnet } if !zone.is_empty() || !subnet.is_empty() => {
                let said = [("Zone", zone), ("Subnet", subnet)];
                let said: Vec<String> =
                    said.iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| format!("{name}:{value}")).collect();
                write!(f, "AzureFailureDomain{{{}}}", said.join(", "))
            }
            Self::Gcp { zone } if !zone.is_empty() => write!(f, "GCPFailureDomain{{Zone:{zone}}}"),
            Self::Sim { zone } if !zone.is_empty() => write!(f, "SimFailureDomain{{Zone:{zone}}}"),
            Self::Aws { .. } | Self::Azure { .. } | Self::Gcp { .. } | Self::Sim { .. } => f.write_str(UNKNOWN),
            Self::Generic => f.write_str("FailureDomain{}"),
        }
    }
}

impl AwsReference {
    /// The reference as a ControlPlaneMachineSet writes it.
    fn to_value(&self) -> Value {
        let mut value = serde_json::json!({"type": self.kind});
        if let Some(id) = &self.id {
            value["id"] = Value::String(id.clone());
        }
        if let Some(arn) = &self.arn {
            value["arn"] = Value::String(arn.clone());
        }
        if let Some(filters) = &self.filters {
            value["filters"] = filters.iter().map(|filter| serde_json::json!({"name": filter.name, "values": filter.values})).collect();
        }
        value
    }

    /// The value that its type asks for, as Go prints it.
    fn value(&self) -> Option<String> {
        match self.kind.as_str() {
            "ARN" => self.arn.clone(),
            "ID" => self.id.clone(),
            "Filters" => self.filters.as_ref().map(|filters| {
                let filters = filters.iter().map(|filter| {
                    let values = filter.values.as_deref().unwrap_or_default().join(" ");
                    format!("{{Name:{} Values:[{values}]}}", filter.name)
                });
                format!("&[{}]", filters.collect::<Vec<_>>().join(" "))
            }),
            _ => None,
        }
    }
}
