//! `mainstay registry login|logout`: passwords in the auth files that container tools share.

use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;

use clap::Args;
use mainstay_oci::{Client, ClientConfig, Credential, Credentials, Kept, log_in, log_out};
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::{images, output, runtime};

use crate::prompt;

/// The largest password, in bytes.
const MAX_PASSWORD: u64 = 64 << 10;

/// Arguments of `registry login`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay registry login quay.io --user dev
  pass show quay | mainstay registry login quay.io --user dev --password-stdin
  mainstay registry login registry.example:5000 --user ci --password-stdin --auth-file ./auth.json < password

The password is shown to the registry first, and kept only if it is accepted: by the credential helper that the auth file names, else in the
file, which only this user can read. Without --auth-file it is the file that speaks of the registry already, else REGISTRY_AUTH_FILE,
DOCKER_CONFIG/config.json or ~/.docker/config.json.")]
pub struct Login {
    /// The registry: HOST or HOST:PORT
    registry: String,
    /// The user name
    #[arg(long, short, value_name = "NAME")]
    user: String,
    /// Read the password from standard input
    #[arg(long)]
    password_stdin: bool,
    /// The auth file to write
    #[arg(long, value_name = "FILE")]
    auth_file: Option<PathBuf>,
}

/// Arguments of `registry logout`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay registry logout quay.io")]
pub struct Logout {
    /// The registry: HOST or HOST:PORT
    registry: String,
    /// The auth file to change; all that are read when not given
    #[arg(long, value_name = "FILE")]
    auth_file: Option<PathBuf>,
}

/// Verifies a password with a registry and saves it.
pub fn login(arguments: &Login) -> Result<(), Failure> {
    let registry = host(&arguments.registry)?;
    let subject = format!("registry {registry}");
    let failed = |error: mainstay_oci::Error| images::failure(&subject, &error);
    let file = match &arguments.auth_file {
        Some(file) => file.clone(),
        None => images::settings().login_file(&registry).map_err(failed)?.ok_or_else(|| {
            Failure::new(Exit::Failed, &subject, "there is no place for its password: HOME is not set").hint("--auth-file FILE names one")
        })?,
    };
    let password = password(arguments)?;
    runtime::block_on(async {
        let mut credentials = Credentials::default();
        let credential = Credential::Basic { user: arguments.user.clone(), password: password.clone() };
        credentials.insert(&registry, credential);
        let client =
            Client::new(ClientConfig { credentials, cache: None, ..images::settings().load().map_err(failed)? }).map_err(failed)?;
        client.log_in(&registry).await.map_err(failed)?;
        let kept = log_in(&file, &registry, &arguments.user, &password).await.map_err(failed)?;
        output::line(match kept {
            Kept::File => format!("registry {registry}: logged in as {}; kept in {}", arguments.user, file.display()),
            Kept::Helper(helper) => format!("registry {registry}: logged in as {}; kept by docker-credential-{helper}", arguments.user),
        })
    })
}

/// Removes a registry's password.
pub fn logout(arguments: &Logout) -> Result<(), Failure> {
    let registry = host(&arguments.registry)?;
    let subject = format!("registry {registry}");
    let files = match &arguments.auth_file {
        Some(file) => vec![file.clone()],
        None => images::settings().auth_files().to_vec(),
    };
    runtime::block_on(async {
        let mut changed = Vec::new();
        for file in files {
            if log_out(&file, &registry).await.map_err(|error| images::failure(&subject, &error))? {
                changed.push(file.display().to_string());
            }
        }
        if changed.is_empty() {
            return Err(Failure::new(Exit::NotFound, subject, "nothing is kept for it"));
        }
        output::line(format!("registry {registry}: logged out of {}", changed.join(", ")))
    })
}

/// The registry alone, in the form of references.
fn host(text: &str) -> Result<String, Failure> {
    let plain = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or(text).trim_end_matches('/');
    let parsed = mainstay_oci::Reference::parse(&format!("{plain}/any")).ok().filter(|reference| reference.repository() == "any");
    parsed.map(|reference| reference.registry().to_owned()).ok_or_else(|| {
        Failure::new(Exit::Usage, format!("registry {text:?}"), "is no host").hint("a registry is HOST or HOST:PORT, like quay.io")
    })
}

/// The password from standard input: all of it, or a line that is not shown on a terminal.
fn password(arguments: &Login) -> Result<String, Failure> {
    let failed = |error: std::io::Error| Failure::failed("password", &error);
    if !arguments.password_stdin && !std::io::stdin().is_terminal() {
        return Err(
            Failure::new(Exit::Usage, "password", "standard input is no terminal to ask at").hint("--password-stdin reads it from there")
        );
    }
    let text = if arguments.password_stdin {
        let mut text = String::new();
        std::io::stdin().take(MAX_PASSWORD).read_to_string(&mut text).map_err(failed)?;
        text
    } else {
        prompt::unseen(&format!("password of {}: ", arguments.user)).map_err(failed)?
    };
    let text = text.strip_suffix('\n').map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text));
    if text.is_empty() {
        return Err(Failure::new(Exit::Usage, "password", "it is empty"));
    }
    Ok(text.to_owned())
}
