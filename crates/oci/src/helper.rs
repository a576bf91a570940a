//! Credential helpers: programs `docker-credential-NAME` that know passwords which no file holds.
//!
//! The protocol is Docker's: the program gets the word `get` and a server's name on its standard input, and answers with JSON. It runs with
//! limits on time and output, and only under a plain name, so that a file cannot name any program of the machine.

use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::auth::Credential;
use crate::error::Error;

const TIME: Duration = Duration::from_secs(30);
const MAX_OUTPUT: u64 = 64 << 10;
/// What helpers say when they have nothing, word by word.
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

/// Asks the helper for the credential of a registry; nothing when it has none.
pub(crate) async fn ask(helper: &str, registry: &str) -> Result<Option<Credential>, Error> {
    let program = format!("docker-credential-{helper}");
    let refuse = |problem: String| Error::Configuration { subject: format!("credential helper {program}"), problem };
    if helper.is_empty() || !helper.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.')) {
        return Err(refuse("is no plain name of a program".to_owned()));
    }
    let output = match tokio::time::timeout(TIME, run(&program, server(registry))).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(refuse(format!("is named for registry {registry}, but there is no such program on the PATH")));
        }
        Ok(Err(error)) => return Err(refuse(format!("cannot be run: {error}"))),
        Err(_) => return Err(refuse(format!("gave no answer within {} seconds", TIME.as_secs()))),
    };
    let text = String::from_utf8_lossy(&output.text);
    if !output.succeeded {
        let words = text.trim().chars().take(200).collect::<String>();
        return if words.contains(NOT_FOUND) { Ok(None) } else { Err(refuse(format!("failed for registry {registry}: {words}"))) };
    }
    // The answer itself is never shown.
    let answer: Answer = serde_json::from_str(&text).map_err(|_| refuse("gave an answer that is no JSON credential".to_owned()))?;
    Ok(match (answer.username.as_str(), answer.secret) {
        (_, secret) if secret.is_empty() => None,
        (TOKEN_USER, token) => Some(Credential::Identity { token }),
        (user, password) => Some(Credential::Basic { user: user.to_owned(), password }),
    })
}

/// Docker Hub goes by the address that Docker once gave it.
fn server(registry: &str) -> &str {
    if registry == "docker.io" { "https://index.docker.io/v1/" } else { registry }
}

struct Output {
    succeeded: bool,
    text: Vec<u8>,
}

async fn run(program: &str, server: &str) -> std::io::Result<Output> {
    let mut child = tokio::process::Command::new(program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        match input.write_all(server.as_bytes()).await {
            // A helper that does not read what it is asked still answers.
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
