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
struct Gcp {
    zone: String,
}

impl FailureDomain {
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
            Platform::Gcp => read(list, |gcp: Gcp| Self::Gcp { zone: gcp.zone }),
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
            Self::Aws { .. } | Self::Azure { .. } | Self::Gcp { .. } => f.write_str(UNKNOWN),
            Self::Generic => f.write_str("FailureDomain{}"),
        }
    }
}

impl AwsReference {
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
