//! Operators that authenticate to a cloud by their service account's token: what they declare, and what they need from a Subscription
//! (OLM0-TOKEN-09, OLM0-TOKEN-10, OLM0-TOKEN-12, OLM0-TOKEN-15).

use mainstay_versions::Version;
use serde_json::Value;

/// The verbs on CredentialsRequests that an operator needs.
const VERBS: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];
/// The group of CredentialsRequests.
const GROUP: &str = "cloudcredential.openshift.io";

/// A cloud that accepts tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the clouds")]
pub enum TokenCloud {
    Aws,
    Azure,
    Gcp,
}

impl TokenCloud {
    /// The cloud of a cluster in token mode; `None` for a cluster that is on none, or in another mode (OLM0-TOKEN-03).
    pub fn of_cluster(credential: Option<&Value>, authentication: Option<&Value>, infrastructure: Option<&Value>) -> Option<Self> {
        let text = |object: Option<&Value>, pointer: &str| object.and_then(|object| object.pointer(pointer)?.as_str().map(str::to_owned));
        let manual = text(credential, "/spec/credentialsMode").as_deref() == Some("Manual");
        let has_issuer = text(authentication, "/spec/serviceAccountIssuer").is_some_and(|issuer| !issuer.is_empty());
        if !manual || !has_issuer {
            return None;
        }
        match text(infrastructure, "/status/platformStatus/type").as_deref() {
            Some("AWS") => Some(Self::Aws),
            Some("Azure") => Some(Self::Azure),
            Some("GCP") => Some(Self::Gcp),
            _ => None,
        }
    }

    /// The name in sentences.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aws => "AWS",
            Self::Azure => "Azure",
            Self::Gcp => "Google Cloud",
        }
    }

    /// The annotation by which a CSV declares that it can use tokens of this cloud (OLM0-TOKEN-09).
    pub const fn annotation(self) -> &'static str {
        match self {
            Self::Aws => "features.operators.openshift.io/token-auth-aws",
            Self::Azure => "features.operators.openshift.io/token-auth-azure",
            Self::Gcp => "features.operators.openshift.io/token-auth-gcp",
        }
    }

    /// The variables that the Subscription gives to the operator (OLM0-TOKEN-12).
    pub const fn variables(self) -> &'static [&'static str] {
        match self {
            Self::Aws => &["ROLEARN"],
            Self::Azure => &["CLIENTID", "TENANTID", "SUBSCRIPTIONID"],
            Self::Gcp => &["AUDIENCE", "SERVICE_ACCOUNT_EMAIL"],
        }
    }

    /// The first version of the platform whose credential operator writes Secrets for tokens of this cloud (OLM0-TOKEN-05).
    pub const fn since(self) -> Version {
        match self {
            Self::Aws => Version::new(4, 14, 0),
            Self::Azure => Version::new(4, 14, 8),
            Self::Gcp => Version::new(4, 17, 0),
        }
    }

    /// Returns true if the annotations of a CSV declare it.
    pub fn is_declared(self, annotations: &Value) -> bool {
        annotations.get(self.annotation()).and_then(Value::as_str) == Some("true")
    }
}

/// The reason why tokens do not work on a platform of this version; `None` if they do (OLM0-TOKEN-05).
pub fn unavailable(cloud: TokenCloud, platform: &Version) -> Option<String> {
    let since = cloud.since();
    platform.cmp_precedence(&since).is_lt().then(|| {
        format!(
            "this cluster is of version {platform}, and tokens open {} from {since} on: the Secret that the operator waits for never appears; upgrade \
             the cluster first, or make the Secret from its CredentialsRequest with ccoctl before the operator is installed",
            cloud.name()
        )
    })
}

/// The value of a variable in `spec.config.env`; a value from elsewhere is not known here.
fn value<'a>(env: &'a [Value], name: &str) -> Option<&'a str> {
    let found = env.iter().find(|variable| variable["name"] == name)?;
    Some(found["value"].as_str().unwrap_or(if found.get("valueFrom").is_some() { "?" } else { "" })).filter(|value| !value.is_empty())
}

/// The variables that a Subscription lacks. `env` is the list of `spec.config.env`.
pub fn missing(cloud: TokenCloud, env: &[Value]) -> Vec<&'static str> {
    cloud.variables().iter().copied().filter(|name| value(env, name).is_none()).collect()
}

/// The meaning of a variable, to ask a person for it.
pub fn question(variable: &str) -> &'static str {
    match variable {
        "ROLEARN" => "the ARN of the role that the operator takes (arn:aws:iam::ACCOUNT:role/NAME)",
        "CLIENTID" => "the client ID of the managed identity",
        "TENANTID" => "the tenant ID",
        "SUBSCRIPTIONID" => "the subscription ID",
        "AUDIENCE" => "the workload identity provider: PROJECT-NUMBER/POOL/PROVIDER, or the whole audience",
        "SERVICE_ACCOUNT_EMAIL" => "the e-mail address of the service account (NAME@PROJECT.iam.gserviceaccount.com)",
        _ => "its value",
    }
}

/// A value that has not the form of its variable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{variable} {value:?} has not the form {form}")]
pub struct InvalidValue {
    variable: String,
    value: String,
    form: &'static str,
}

/// The value of a variable as a person gave it: blanks go, `PROJECT-NUMBER/POOL/PROVIDER` becomes the audience that it stands for (OLM0-TOKEN-12).
///
/// # Errors
/// The value has not the form of the variable.
pub fn given(variable: &str, text: &str) -> Result<String, InvalidValue> {
    let text = text.trim();
    let value = match (variable, text.split('/').collect::<Vec<_>>().as_slice()) {
        ("AUDIENCE", [project, pool, provider]) if ![project, pool, provider].iter().any(|part| part.is_empty()) => {
            format!("//iam.googleapis.com/projects/{project}/locations/global/workloadIdentityPools/{pool}/providers/{provider}")
        }
        _ => text.to_owned(),
    };
    let invalid = |form| InvalidValue { variable: variable.to_owned(), value: value.clone(), form };
    if value.is_empty() {
        return Err(invalid("of a text that is not empty"));
    }
    match FORMS.iter().find(|(name, _, fits)| *name == variable && !fits(&value)) {
        Some((_, form, _)) => Err(invalid(form)),
        None => Ok(value),
    }
}

/// Obstacles of an operator that uses tokens, for people: variables that are missing or malformed, and updates that are not approved by hand.
/// `env` is the list of `spec.config.env`.
pub fn notes(cloud: TokenCloud, env: &[Value], approval: &str) -> Vec<String> {
    let mut notes = Vec::new();
    let missing = missing(cloud, env);
    if !missing.is_empty() {
        let flags: Vec<String> = missing.iter().map(|name| format!("--env {name}=...")).collect();
        notes.push(format!(
            "on this cluster the operator authenticates to {} by its token, and its Subscription lacks {} in spec.config.env ({})",
            cloud.name(),
            missing.join(", "),
            flags.join(" ")
        ));
    }
    for (name, form, fits) in FORMS {
        if cloud.variables().contains(&name)
            && let Some(value) = value(env, name).filter(|value| *value != "?")
            && !fits(value)
        {
            notes.push(format!("{name} {value:?} has not the form {form}"));
        }
    }
    if approval != "Manual" {
        notes.push(
            "with automatic approval a new version may need permissions in the cloud that its role does not have yet; installPlanApproval \
             Manual lets you give them first"
                .to_owned(),
        );
    }
    notes
}

/// A variable, its form, and the check of a value.
type Form = (&'static str, &'static str, fn(&str) -> bool);

/// Variables with a known form.
const FORMS: [Form; 3] = [
    ("ROLEARN", "arn:aws:iam::ACCOUNT:role/NAME", is_role),
    ("AUDIENCE", "//iam.googleapis.com/projects/NUMBER/locations/global/workloadIdentityPools/POOL/providers/PROVIDER", is_audience),
    ("SERVICE_ACCOUNT_EMAIL", "NAME@PROJECT.iam.gserviceaccount.com", is_email),
];

fn is_role(text: &str) -> bool {
    let parts: Vec<&str> = text.splitn(6, ':').collect();
    matches!(parts.as_slice(), ["arn", partition, "iam", "", account, role]
        if partition.starts_with("aws") && account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit())
            && role.strip_prefix("role/").is_some_and(|name| !name.is_empty()))
}

fn is_audience(text: &str) -> bool {
    let parts: Vec<&str> = text.split('/').collect();
    matches!(parts.as_slice(), ["", "", "iam.googleapis.com", "projects", number, "locations", "global", "workloadIdentityPools", pool, "providers", provider]
        if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) && !pool.is_empty() && !provider.is_empty())
}

fn is_email(text: &str) -> bool {
    let Some((name, domain)) = text.split_once('@') else { return false };
    !name.is_empty() && domain.strip_suffix(".iam.gserviceaccount.com").is_some_and(|project| !project.is_empty())
}

/// Parts that a CSV lacks that declares token authentication (OLM0-TOKEN-10, OLM0-TOKEN-11), for its author.
pub fn author_notes(csv: &Value) -> Vec<String> {
    let annotations = &csv["metadata"]["annotations"];
    let declared: Vec<TokenCloud> =
        [TokenCloud::Aws, TokenCloud::Azure, TokenCloud::Gcp].into_iter().filter(|cloud| cloud.is_declared(annotations)).collect();
    if declared.is_empty() {
        return Vec::new();
    }
    let mut notes = Vec::new();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let install = &csv["spec"]["install"]["spec"];
    let rules: Vec<Value> = list(&install["clusterPermissions"]).iter().flat_map(|permission| list(&permission["rules"])).collect();
    let has = |rule: &Value, field: &str, wanted: &str| list(&rule[field]).iter().any(|value| value == wanted || value == "*");
    let grants = |verb: &str| {
        rules.iter().any(|rule| has(rule, "apiGroups", GROUP) && has(rule, "resources", "credentialsrequests") && has(rule, "verbs", verb))
    };
    let missing: Vec<&str> = VERBS.into_iter().filter(|verb| !grants(verb)).collect();
    if !missing.is_empty() {
        notes.push(format!(
            "it declares token authentication, and its clusterPermissions lack {} on credentialsrequests of {GROUP}",
            missing.join(", ")
        ));
    }
    if declared.contains(&TokenCloud::Gcp) {
        let has_volume = |deployment: &Value| {
            list(&deployment["spec"]["template"]["spec"]["volumes"]).iter().any(|volume| volume["name"] == "bound-sa-token")
        };
        for deployment in list(&install["deployments"]).iter().filter(|deployment| !has_volume(deployment)) {
            notes.push(format!(
                "it declares {}, and deployment {} has no volume bound-sa-token, which nothing adds for this cloud",
                TokenCloud::Gcp.annotation(),
                deployment["name"].as_str().unwrap_or_default()
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    /// OLM0-TOKEN-12, OLM0-TOKEN-15: what a Subscription lacks is named, malformed values are told, and so are automatic updates.
    #[test]
    fn what_a_subscription_lacks() {
        let env = |pairs: &[(&str, &str)]| pairs.iter().map(|(name, value)| json!({"name": name, "value": value})).collect::<Vec<_>>();
        let good = env(&[("ROLEARN", "arn:aws:iam::123456789012:role/cache")]);
        assert_eq!(notes(TokenCloud::Aws, &good, "Manual"), Vec::<String>::new());
        assert!(notes(TokenCloud::Aws, &good, "Automatic")[0].contains("installPlanApproval Manual"));
        assert!(notes(TokenCloud::Aws, &env(&[("ROLEARN", "cache")]), "Manual")[0].contains("arn:aws:iam::ACCOUNT:role/NAME"));
        let lacks = notes(TokenCloud::Azure, &env(&[("TENANTID", "t"), ("CLIENTID", "")]), "Manual");
        assert!(lacks[0].contains("lacks CLIENTID, SUBSCRIPTIONID") && lacks[0].contains("--env CLIENTID=... --env SUBSCRIPTIONID=..."));
        let google = [
            ("AUDIENCE", "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q"),
            ("SERVICE_ACCOUNT_EMAIL", "a@p.iam.gserviceaccount.com"),
        ];
        assert_eq!(notes(TokenCloud::Gcp, &env(&google), "Manual"), Vec::<String>::new());
        let odd = env(&[("AUDIENCE", "openshift"), ("SERVICE_ACCOUNT_EMAIL", "a@gmail.com")]);
        assert_eq!(notes(TokenCloud::Gcp, &odd, "Manual").len(), 2);
        let elsewhere = [json!({"name": "ROLEARN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}})];
        assert_eq!(notes(TokenCloud::Aws, &elsewhere, "Manual"), Vec::<String>::new());
    }

    /// OLM0-TOKEN-05: before the release that brought a cloud's tokens the Secret never appears; from it on nothing is said.
    #[test]
    fn availability_by_version() {
        for (cloud, version, works) in [
            (TokenCloud::Aws, "4.13.40", false),
            (TokenCloud::Aws, "4.14.0-rc.1", false),
            (TokenCloud::Aws, "4.14.0", true),
            (TokenCloud::Azure, "4.14.7", false),
            (TokenCloud::Azure, "4.14.8", true),
            (TokenCloud::Gcp, "4.16.30", false),
            (TokenCloud::Gcp, "4.17.0", true),
            (TokenCloud::Gcp, "5.0.0", true),
        ] {
            let found = unavailable(cloud, &Version::parse(version).unwrap());
            assert_eq!(found.is_none(), works, "{cloud:?} {version}: {found:?}");
            if let Some(found) = found {
                assert!(found.contains(version) && found.contains(&cloud.since().to_string()) && found.contains("ccoctl"), "{found}");
            }
        }
    }

    /// OLM0-TOKEN-12: answers of a person become values; what has not the form of its variable is refused.
    #[test]
    fn answers_become_values() {
        let audience = "//iam.googleapis.com/projects/123/locations/global/workloadIdentityPools/pool/providers/provider";
        assert_eq!(given("AUDIENCE", "123/pool/provider"), Ok(audience.to_owned()));
        assert_eq!(given("AUDIENCE", audience), Ok(audience.to_owned()));
        assert_eq!(given("ROLEARN", " arn:aws:iam::123456789012:role/a\n"), Ok("arn:aws:iam::123456789012:role/a".to_owned()));
        for (variable, bad) in
            [("AUDIENCE", "a/b/c"), ("AUDIENCE", "123//c"), ("ROLEARN", "a"), ("CLIENTID", " "), ("SERVICE_ACCOUNT_EMAIL", "a@b")]
        {
            assert!(given(variable, bad).is_err(), "{variable} {bad}");
        }
        for cloud in [TokenCloud::Aws, TokenCloud::Azure, TokenCloud::Gcp] {
            assert_eq!(missing(cloud, &[]), cloud.variables());
            assert!(cloud.variables().iter().all(|variable| question(variable) != "its value"));
        }
    }

    /// OLM0-TOKEN-09, OLM0-TOKEN-10, OLM0-TOKEN-11: a CSV that declares tokens must be able to ask for credentials, and bring Google's volume itself.
    #[test]
    fn what_an_author_forgot() {
        let verbs = |verbs: &[&str]| json!([{"serviceAccountName": "a", "rules": [{"apiGroups": [GROUP], "resources": ["credentialsrequests"], "verbs": verbs}]}]);
        let csv = |annotation: &str, permissions: Value, volumes: Value| {
            json!({
                "metadata": {"annotations": {annotation: "true"}},
                "spec": {"install": {"spec": {
                    "clusterPermissions": permissions,
                    "deployments": [{"name": "d", "spec": {"template": {"spec": {"volumes": volumes}}}}],
                }}},
            })
        };
        let aws = TokenCloud::Aws.annotation();
        assert_eq!(author_notes(&csv(aws, verbs(&VERBS), json!([]))), Vec::<String>::new());
        assert!(author_notes(&csv(aws, verbs(&["get", "create"]), json!([])))[0].contains("lack delete, list, patch, update, watch"));
        assert_eq!(author_notes(&csv("other", json!([]), json!([]))), Vec::<String>::new());
        let google = author_notes(&csv(TokenCloud::Gcp.annotation(), verbs(&["*"]), json!([])));
        assert!(google[0].contains("deployment d has no volume bound-sa-token"), "{google:?}");
        assert!(author_notes(&csv(TokenCloud::Gcp.annotation(), verbs(&["*"]), json!([{"name": "bound-sa-token"}]))).is_empty());
    }
}
