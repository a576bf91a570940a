//! `mainstay adm credentials render` (COP-CRED-08).

use std::path::{Path, PathBuf};

use clap::Args;
use mainstay_catalog::Source as _;
use mainstay_cloud_credential_core::Cloud;
use mainstay_cloud_credential_core::render::{self, File, Settings};
use mainstay_terminal::errors::{Exit, Failure, note};
use mainstay_terminal::output;
use serde_json::Value;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay adm credentials render --cloud aws --credentials-requests-dir requests --output-dir out --name prod \\
    --identity-provider-arn arn:aws:iam::123456789012:oidc-provider/issuer.example.com/prod
  mainstay adm credentials render --cloud azure --credentials-requests-dir requests --output-dir out --name prod --region eastus \\
    --subscription-id S --tenant-id T --issuer https://issuer.example.com/prod
  mainstay adm credentials render --cloud gcp --credentials-requests-dir requests --output-dir out --name prod --project p \\
    --project-number 123456789012 --workload-identity-pool prod

For each request: manifests/NAMESPACE-SECRET-credentials.yaml, the Secret to be applied; JSON documents for the cloud; and a script that makes
the role or identity. Nothing is asked of a cluster or a cloud. Requests without token fields get the path of the platform.

Exit codes: 0 all are written, 1 some cannot be rendered, each is named, and nothing is written.")]
pub struct Arguments {
    /// The cloud
    #[arg(long, value_enum)]
    cloud: CloudName,
    /// The folder with CredentialsRequests, as YAML or JSON
    #[arg(long, value_name = "DIR")]
    credentials_requests_dir: PathBuf,
    /// The folder that is written; made if it is missing
    #[arg(long, value_name = "DIR", default_value = ".")]
    output_dir: PathBuf,
    /// The name with which everything in the cloud begins
    #[arg(long, value_name = "NAME", value_parser = crate::named::namespace)]
    name: String,
    /// The issuer of tokens, Authentication/cluster spec.serviceAccountIssuer [default with aws: from --identity-provider-arn]
    #[arg(long, value_name = "URL")]
    issuer: Option<String>,
    /// The identity provider for the issuer
    #[arg(long, value_name = "ARN", help_heading = "aws")]
    identity_provider_arn: Option<String>,
    /// The region
    #[arg(long, value_name = "REGION", help_heading = "azure")]
    region: Option<String>,
    /// The subscription
    #[arg(long, value_name = "ID", help_heading = "azure")]
    subscription_id: Option<String>,
    /// The tenant
    #[arg(long, value_name = "ID", help_heading = "azure")]
    tenant_id: Option<String>,
    /// The project
    #[arg(long, value_name = "ID", help_heading = "gcp")]
    project: Option<String>,
    /// The number of the project
    #[arg(long, value_name = "NUMBER", help_heading = "gcp")]
    project_number: Option<String>,
    /// The pool of workload identities, whose provider has the same name
    #[arg(long, value_name = "NAME", help_heading = "gcp")]
    workload_identity_pool: Option<String>,
}

/// A cloud that accepts tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum CloudName {
    Aws,
    Azure,
    Gcp,
}

/// Renders all requests, or none.
pub fn render(arguments: &Arguments) -> Result<(), Failure> {
    let settings = Settings {
        cloud: match arguments.cloud {
            CloudName::Aws => Cloud::Aws,
            CloudName::Azure => Cloud::Azure,
            CloudName::Gcp => Cloud::Gcp,
        },
        name: arguments.name.clone(),
        issuer: arguments.issuer.clone(),
        identity_provider: arguments.identity_provider_arn.clone(),
        region: arguments.region.clone(),
        subscription: arguments.subscription_id.clone(),
        tenant: arguments.tenant_id.clone(),
        project: arguments.project.clone(),
        project_number: arguments.project_number.clone(),
        pool: arguments.workload_identity_pool.clone(),
    };
    let requests = requests(&arguments.credentials_requests_dir)?;
    if requests.is_empty() {
        let subject = format!("--credentials-requests-dir {}", arguments.credentials_requests_dir.display());
        return Err(Failure::new(Exit::Failed, subject, "it has no CredentialsRequest"));
    }
    let (mut files, mut refused) = (Vec::new(), Vec::new());
    for (number, request) in requests.iter().enumerate() {
        match render::render(request, number, &settings) {
            Ok(rendered) => files.extend(rendered),
            Err(error) => refused.push(error.to_string()),
        }
    }
    if !refused.is_empty() {
        let failure =
            Failure::new(Exit::Failed, "credentials", format!("{} of {} requests cannot be rendered", refused.len(), requests.len()));
        return Err(refused.into_iter().fold(failure, Failure::because));
    }
    for file in &files {
        write(&arguments.output_dir, file)?;
        output::line(arguments.output_dir.join(&file.path).display().to_string())?;
    }
    note("hint: run the scripts in their order, look at the Secrets below manifests, and kubectl apply -f them");
    Ok(())
}

/// The CredentialsRequests of a folder, by path.
fn requests(folder: &Path) -> Result<Vec<Value>, Failure> {
    let subject = format!("--credentials-requests-dir {}", folder.display());
    let source = mainstay_catalog_store::DirectorySource::of_user(folder).map_err(|error| Failure::failed(&subject, &error))?;
    let mut paths = source.paths().map_err(|error| Failure::failed(&subject, &error))?;
    paths.sort();
    let mut all = Vec::new();
    for path in paths.iter().filter(|path| [".yaml", ".yml", ".json"].iter().any(|ending| path.ends_with(ending))) {
        let subject = folder.join(path).display().to_string();
        let bytes = source.read(path).map_err(|error| Failure::failed(&subject, &error))?;
        let text = std::str::from_utf8(&bytes).map_err(|error| Failure::failed(&subject, &error))?;
        for document in mainstay_yaml::stream(text) {
            let value = document.map_err(|error| Failure::failed(&subject, &error))?.value;
            if value["kind"] == "CredentialsRequest" {
                all.push(value);
            }
        }
    }
    Ok(all)
}

/// Writes a file; Secrets are for their owner alone.
fn write(folder: &Path, file: &File) -> Result<(), Failure> {
    use std::io::Write as _;
    use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
    let path = folder.join(&file.path);
    let failed = |error: std::io::Error| Failure::failed(path.display().to_string(), &error);
    if let Some(parent) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(failed)?;
    }
    let mode = match (file.is_secret, file.is_script) {
        (true, _) => 0o600,
        (false, true) => 0o755,
        (false, false) => 0o644,
    };
    let mut out = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&path).map_err(failed)?;
    // Also a file that was there before.
    out.set_permissions(std::fs::Permissions::from_mode(mode)).map_err(failed)?;
    out.write_all(file.text.as_bytes()).map_err(failed)
}
