//! Identities in a cloud for operators that authenticate by their service account's token (OLM0-TOKEN-12, OLM0-CONSOLE-08).

use clap::Args;
use mainstay_olm_classic_core::token_auth::{given, question};
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::progress;

/// Flags of the variables.
#[derive(Debug, Default, Args)]
pub struct TokenArguments {
    /// The AWS role that the operator takes, with --classic: ROLEARN
    #[arg(long, value_name = "ARN", requires = "classic")]
    role_arn: Option<String>,
    /// The client ID of an Azure identity, with --classic: CLIENTID
    #[arg(long, value_name = "ID", requires = "classic")]
    client_id: Option<String>,
    /// The Azure tenant, with --classic: TENANTID
    #[arg(long, value_name = "ID", requires = "classic")]
    tenant_id: Option<String>,
    /// The Azure subscription, with --classic: SUBSCRIPTIONID
    #[arg(long, value_name = "ID", requires = "classic")]
    subscription_id: Option<String>,
    /// The Google Cloud workload identity provider, with --classic: AUDIENCE
    #[arg(long, value_name = "PROJECT-NUMBER/POOL/PROVIDER", requires = "classic")]
    audience: Option<String>,
    /// The Google Cloud service account, with --classic: SERVICE_ACCOUNT_EMAIL
    #[arg(long, value_name = "EMAIL", requires = "classic")]
    service_account_email: Option<String>,
}

impl TokenArguments {
    /// The variables that were given.
    pub fn variables(&self) -> Result<Vec<(String, String)>, Failure> {
        let flags = [
            ("--role-arn", "ROLEARN", &self.role_arn),
            ("--client-id", "CLIENTID", &self.client_id),
            ("--tenant-id", "TENANTID", &self.tenant_id),
            ("--subscription-id", "SUBSCRIPTIONID", &self.subscription_id),
            ("--audience", "AUDIENCE", &self.audience),
            ("--service-account-email", "SERVICE_ACCOUNT_EMAIL", &self.service_account_email),
        ];
        let mut variables = Vec::new();
        for (flag, name, text) in flags {
            let Some(text) = text else { continue };
            let value = given(name, text).map_err(|error| Failure::new(Exit::Usage, flag, error.to_string()))?;
            variables.push((name.to_owned(), value));
        }
        Ok(variables)
    }
}

/// Asks a person for variables; an empty answer leaves one out, and a malformed one is asked again.
pub fn ask(missing: &[&str]) -> Result<Vec<(String, String)>, Failure> {
    let mut variables = Vec::new();
    for name in missing {
        while let Some(answer) =
            progress::ask(&format!("{name}, {} (empty leaves it out)", question(name)))?.filter(|answer| !answer.is_empty())
        {
            match given(name, &answer) {
                Ok(value) => {
                    variables.push(((*name).to_owned(), value));
                    break;
                }
                Err(error) => note(error.to_string()),
            }
        }
    }
    Ok(variables)
}
