//! The answer of a program.

use std::time::Duration;

use mainstay_golang::parse_duration;
use mainstay_machine_core::lifecycle::Instance;
use mainstay_machine_core::machine::Address;
use serde::Deserialize;
use serde_json::Value;

use crate::provider::ProviderError;

/// Most addresses of an instance.
const ADDRESSES: usize = 50;
/// The wait after an answer that asks for one and says no duration that can be read.
const WAIT: Duration = Duration::from_secs(30);

/// An answer. Fields of later versions are left out.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Answer {
    /// True if the instance exists.
    pub exists: Option<bool>,
    #[serde(rename = "providerID")]
    provider_id: Option<String>,
    addresses: Vec<AnsweredAddress>,
    instance_state: Option<String>,
    provider_status: Option<Value>,
    labels: AnsweredLabels,
    requeue_after: Option<String>,
    error: Option<AnsweredError>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct AnsweredAddress {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AnsweredLabels {
    instance_type: Option<String>,
    region: Option<String>,
    zone: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct AnsweredError {
    reason: String,
    message: String,
    terminal: bool,
}

impl Answer {
    /// Returns the answer, unless it is an error or asks for another call.
    ///
    /// # Errors
    /// The program says so.
    pub fn judge(self) -> Result<Self, ProviderError> {
        let wait = self.requeue_after.as_deref().map(|text| parse_duration(text).unwrap_or(WAIT));
        let Some(error) = &self.error else {
            return match wait {
                None => Ok(self),
                Some(wait) => Err(ProviderError::RequeueAfter { wait, message: "the program asks to be called again".to_owned() }),
            };
        };
        let message = match (error.reason.as_str(), error.message.as_str()) {
            ("", message) => message.to_owned(),
            (reason, "") => reason.to_owned(),
            (reason, message) => format!("{reason}: {message}"),
        };
        Err(match wait {
            _ if error.terminal => ProviderError::InvalidConfiguration(message),
            Some(wait) => ProviderError::RequeueAfter { wait, message },
            None => ProviderError::Retryable(message),
        })
    }

    /// Returns the program's account of the instance.
    pub fn instance(self) -> Instance {
        Instance {
            provider_id: self.provider_id.filter(|id| !id.is_empty()),
            addresses: self.addresses.into_iter().take(ADDRESSES).map(|one| Address::new(&one.kind, one.address)).collect(),
            state: self.instance_state,
            instance_type: self.labels.instance_type,
            region: self.labels.region,
            zone: self.labels.zone,
            provider_status: self.provider_status.filter(Value::is_object),
            simulated: false,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn judged(value: Value) -> Result<Answer, ProviderError> {
        serde_json::from_value::<Answer>(value).unwrap().judge()
    }

    /// MACH-PROV-08: accounts, errors that end a machine, errors that pass, and requests to come again.
    #[test]
    fn answers() {
        let told = json!({"exists": true, "providerID": "x:///1", "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}], "labels": {"zone": "z"}, "more": 1});
        let instance = judged(told).unwrap().instance();
        assert_eq!((instance.provider_id.as_deref(), instance.zone.as_deref(), instance.addresses.len()), (Some("x:///1"), Some("z"), 1));
        let refused = judged(json!({"error": {"reason": "NoSuchImage", "message": "img", "terminal": true}})).unwrap_err();
        assert_eq!(refused, ProviderError::InvalidConfiguration("NoSuchImage: img".to_owned()));
        assert_eq!(judged(json!({"error": {"message": "busy"}})).unwrap_err(), ProviderError::Retryable("busy".to_owned()));
        let later = judged(json!({"requeueAfter": "5s", "error": {"reason": "Booting"}})).unwrap_err();
        assert_eq!(later, ProviderError::RequeueAfter { wait: Duration::from_secs(5), message: "Booting".to_owned() });
        assert!(matches!(judged(json!({"requeueAfter": "soon"})), Err(ProviderError::RequeueAfter { wait: WAIT, .. })));
    }
}
