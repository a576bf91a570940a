//! Credential helpers: programs `docker-credential-NAME` that know passwords outside of any file.
//!
//! The protocol is Docker's: the program gets a word (`get`, `store`, `erase`). On its standard input it gets a server's name, or the credential
//! to keep, and it answers with JSON. It runs with limits on time and output, and only under a plain name, so that a file cannot name any program
//! of the machine.

use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::auth::Credential;
use crate::error::{Error, quoted};

const TIME: Duration = Duration::from_secs(30);
const MAX_OUTPUT: u64 = 64 << 10;
/// Message of helpers that have no credential, word by word.
const NOT_FOUND: &str = "credentials not found in native keychain";
/// The name that goes with a token instead of a password.
const TOKEN_USER: &str = "<token>";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    #[serde(default)]
    username: String,
    #[serde(default)]
    secret: String,
}

/// Asks the helper for the credential of a registry; `None` when it has none.
pub(crate) async fn ask(helper: &str, registry: &str) -> Result<Option<Credential>, Error> {
    let Some(text) = call(helper, registry, "get", server(registry)).await? else { return Ok(None) };
    // The answer itself is never shown.
    let answer: Answer =
        serde_json::from_str(&text).map_err(|_| refusal(helper, "gave an answer that is no JSON credential".to_owned()))?;
    Ok(match (answer.username.as_str(), answer.secret) {
        (_, secret) if secret.is_empty() => None,
        (TOKEN_USER, token) => Some(Credential::Identity { token }),
        (user, password) => Some(Credential::Basic { user: user.to_owned(), password }),
    })
}

/// Gives the helper a name and a password to keep.
pub(crate) async fn store(helper: &str, registry: &str, user: &str, password: &str) -> Result<(), Error> {
    let kept = serde_json::json!({"ServerURL": server(registry), "Username": user, "Secret": password});
    call(helper, registry, "store", &kept.to_string()).await.map(drop)
}

/// Tells the helper to remove a registry; returns true if it knew the registry.
pub(crate) async fn erase(helper: &str, registry: &str) -> Result<bool, Error> {
    Ok(call(helper, registry, "erase", server(registry)).await?.is_some())
}

fn refusal(helper: &str, problem: String) -> Error {
    Error::Configuration { subject: format!("credential helper docker-credential-{helper}"), problem }
}

/// Returns the helper's answer to a word and its input; `None` when it does not know the registry.
async fn call(helper: &str, registry: &str, word: &str, input: &str) -> Result<Option<String>, Error> {
    let program = format!("docker-credential-{helper}");
    let refuse = |problem: String| refusal(helper, problem);
    if helper.is_empty() || !helper.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.')) {
        return Err(refuse("is no plain name of a program".to_owned()));
    }
    let output = match tokio::time::timeout(TIME, run(&program, word, input)).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(refuse(format!("is named for registry {registry}, but there is no such program on the PATH")));
        }
        Ok(Err(error)) => return Err(refuse(format!("cannot be run: {error}"))),
        Err(_) => return Err(refuse(format!("gave no answer within {} seconds", TIME.as_secs()))),
    };
    let text = String::from_utf8_lossy(&output.text);
    if !output.succeeded {
        let words = quoted(text.trim()).chars().take(200).collect::<String>();
        return if words.contains(NOT_FOUND) { Ok(None) } else { Err(refuse(format!("failed for registry {registry}: {words}"))) };
    }
    Ok(Some(text.into_owned()))
}

/// Returns the server name of a registry; Docker Hub goes by the address that Docker once gave it.
fn server(registry: &str) -> &str {
    if registry == "docker.io" { "https://index.docker.io/v1/" } else { registry }
}

struct Output {
    succeeded: bool,
    text: Vec<u8>,
}

async fn run(program: &str, word: &str, text: &str) -> std::io::Result<Output> {
    let mut child = tokio::process::Command::new(program)
        .arg(word)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        match input.write_all(text.as_bytes()).await {
            // A helper that does not read its input still answers.
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => return Err(error),
            _ => {}
        }
    }
    let mut text = Vec::new();
    if let Some(output) = child.stdout.take() {
        output.take(MAX_OUTPUT).read_to_end(&mut text).await?;
    }
    Ok(Output { succeeded: child.wait().await?.success(), text })
}
