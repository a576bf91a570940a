//! One call of a program: a process with limits on its time and its output.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use super::Operation;
use super::answer::Answer;

/// Most bytes of an answer.
const LARGEST: u64 = 1 << 20;
/// Bytes of stderr that an error tells.
const TOLD: usize = 2048;

/// The limits of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The time of a call until it is asked to end.
    pub call: Duration,
    /// The time from then until it is killed.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { call: Duration::from_secs(600), grace: Duration::from_secs(30) }
    }
}

/// Why a call has no answer. It is made again later.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The program cannot be started.
    #[error("{program} cannot be started")]
    Start {
        /// The program.
        program: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Its streams cannot be used.
    #[error("{operation}: the program cannot be spoken with")]
    Streams {
        /// The call.
        operation: &'static str,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// It took too long.
    #[error("{operation}: no answer within {}", mainstay_golang::duration_text(*.within))]
    TimedOut {
        /// The call.
        operation: &'static str,
        /// The limit.
        within: Duration,
    },
    /// It ended with an error.
    #[error("{operation}: the program ended with {status}: {told}")]
    Failed {
        /// The call.
        operation: &'static str,
        /// Its end.
        status: String,
        /// The end of what it wrote to stderr.
        told: String,
    },
    /// The answer is larger than allowed.
    #[error("{operation}: the answer has more than {LARGEST} bytes")]
    TooLarge {
        /// The call.
        operation: &'static str,
    },
    /// The answer has another form.
    #[error("{operation}: the answer is not of the expected form")]
    Form {
        /// The call.
        operation: &'static str,
        /// The mistake, with its place.
        #[source]
        source: serde_json::Error,
    },
}

/// Calls a program.
///
/// # Errors
/// It gives no answer.
pub async fn call(program: &Path, operation: Operation, input: &Value, limits: Limits) -> Result<Answer, CallError> {
    let name = operation.name();
    let mut command = Command::new(program);
    command.arg(name).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).process_group(0);
    let mut child = command.spawn().map_err(|source| CallError::Start { program: program.to_owned(), source })?;
    let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    // In every case, nothing of the call lives on.
    let _ended = Group(group);
    let spoken = tokio::time::timeout(limits.call, speak(&mut child, name, input.to_string())).await;
    if let Ok(answer) = spoken {
        return answer;
    }
    send(group, Signal::TERM);
    if tokio::time::timeout(limits.grace, child.wait()).await.is_err() {
        send(group, Signal::KILL);
    }
    Err(CallError::TimedOut { operation: name, within: limits.call })
}

/// The process group of a call, which is killed at the end.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        send(self.0, Signal::KILL);
    }
}

fn send(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group
        && let Err(error) = kill_process_group(group, signal)
        && error != rustix::io::Errno::SRCH
    {
        tracing::debug!(%error, "a provider's process group could not be signalled");
    }
}

async fn speak(child: &mut Child, operation: &'static str, input: String) -> Result<Answer, CallError> {
    let failed = |source| CallError::Streams { operation, source };
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A program that needs no input may close its end.
            match stdin.write_all(input.as_bytes()).await {
                Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => return Err(error),
                _ => {}
            }
        }
        Ok(())
    };
    let read = async {
        let mut answer = Vec::new();
        if let Some(stdout) = stdout {
            stdout.take(LARGEST + 1).read_to_end(&mut answer).await?;
        }
        Ok::<_, std::io::Error>(answer)
    };
    let tell = async {
        match stderr {
            Some(stderr) => end_of(stderr).await,
            None => Ok(Vec::new()),
        }
    };
    let (written, answer, told) = tokio::join!(write, read, tell);
    written.map_err(failed)?;
    let (answer, told) = (answer.map_err(failed)?, told.map_err(failed)?);
    if answer.len() as u64 > LARGEST {
        return Err(CallError::TooLarge { operation });
    }
    let status = child.wait().await.map_err(failed)?;
    if !status.success() {
        let told = String::from_utf8_lossy(&told).trim().to_owned();
        return Err(CallError::Failed { operation, status: status.to_string(), told });
    }
    serde_json::from_slice(&answer).map_err(|source| CallError::Form { operation, source })
}

/// Reads a stream to its end, and keeps the end.
async fn end_of(mut stream: impl AsyncRead + Unpin) -> std::io::Result<Vec<u8>> {
    let (mut end, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut piece).await?;
        if count == 0 {
            return Ok(end);
        }
        end.extend_from_slice(&piece[..count]);
        let surplus = end.len().saturating_sub(TOLD);
        end.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;

    use super::*;

    async fn answered(script: &str, limits: Limits) -> Result<Answer, CallError> {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        call(&program, Operation::Create, &json!({"machine": {"n": 1}}), limits).await
    }

    /// MACH-PROV-08: an answer is JSON and exit code 0; anything else is an error that tells the end of stderr, and nothing hangs.
    #[tokio::test]
    async fn calls_and_what_can_go_wrong() {
        let quick = Limits { call: Duration::from_millis(300), grace: Duration::from_millis(100) };
        let usual = Limits::default();
        let echoed = answered(r#"test "$1" = create && grep -q '"n":1' && echo '{"exists": true}'"#, usual).await.unwrap();
        assert_eq!(echoed.exists, Some(true));
        let failed = answered("head -c 5000 /dev/zero | tr '\\0' x >&2; echo no quota >&2; exit 3", usual).await.unwrap_err().to_string();
        assert!(failed.starts_with("create: the program ended with exit status: 3: xxx") && failed.ends_with("no quota"), "{failed}");
        assert!(failed.len() < 2200, "{}", failed.len());
        assert!(matches!(answered("echo nothing", usual).await, Err(CallError::Form { .. })));
        assert!(matches!(answered("yes", usual).await, Err(CallError::TooLarge { .. } | CallError::Failed { .. })));
        assert!(matches!(answered("trap '' TERM; sleep 60", quick).await, Err(CallError::TimedOut { .. })));
        assert!(matches!(answered("sleep 60 & wait", quick).await, Err(CallError::TimedOut { .. })));
        let none = call(Path::new("/does/not/exist"), Operation::Exists, &Value::Null, usual).await;
        assert!(matches!(none, Err(CallError::Start { .. })));
    }
}
