//! Starting a program under its supervisor, and talking with that (KAPI-WL-07).

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as Pair;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command};

use super::environment::Environment;
use super::error::ProcessError;

/// The word that makes the program a supervisor.
pub const SUPERVISE: &str = "supervise-process";
/// The time in which a program starts or fails to.
const START: Duration = Duration::from_secs(30);
/// The most that is kept of the output of a probe's command, in bytes.
const OUTPUT: usize = 10 << 10;

/// A program to start.
#[derive(Clone, Debug)]
pub struct Launch {
    /// This program, which supervises others when its first word is [`SUPERVISE`].
    pub supervisor: PathBuf,
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Its whole environment.
    pub environment: Environment,
    /// Its working directory; this program's own if there is none.
    pub directory: Option<PathBuf>,
}

/// A program that runs under its supervisor. When this is dropped, the program and all that it started is killed.
pub struct Supervised {
    /// The supervisor.
    pub child: Child,
    /// The ID of the program's process, and of its group.
    pub pid: u32,
    told: Lines<BufReader<OwnedReadHalf>>,
    control: OwnedWriteHalf,
}

impl Launch {
    /// Starts the program.
    ///
    /// # Errors
    /// The reason why it does not run.
    pub async fn start(&self) -> Result<Supervised, ProcessError> {
        let failed = |error: std::io::Error| format!("the process cannot be started: {error}");
        let (ours, theirs) = Pair::pair().map_err(failed)?;
        ours.set_nonblocking(true).map_err(failed)?;
        let mut command = Command::new(&self.supervisor);
        command.arg(SUPERVISE).args(&self.words).env_clear().envs(self.environment.all());
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let child = command.spawn().map_err(failed)?;
        // The command holds the other end of the socket.
        drop(command);
        let (read, control) = UnixStream::from_std(ours).map_err(failed)?.into_split();
        let mut told = BufReader::new(read).lines();
        let first = tokio::time::timeout(START, told.next_line()).await;
        let first = first.map_err(|_| "the process did not start in time".to_owned())?.map_err(failed)?.unwrap_or_default();
        match first.split_once(' ') {
            Some(("pid", pid)) => {
                let pid = pid.parse().map_err(|_| "the process has no number".to_owned())?;
                Ok(Supervised { child, pid, told, control })
            }
            Some(("failed", why)) => Err(why.to_owned().into()),
            _ => Err("its supervisor ended".into()),
        }
    }

    /// Runs the program to its end: its exit code, and the beginning of what it wrote.
    ///
    /// # Errors
    /// The reason why it does not run.
    pub async fn output(&self) -> Result<(i32, String), ProcessError> {
        let mut running = self.start().await?;
        let (out, err) = (running.child.stdout.take(), running.child.stderr.take());
        let (mut text, more) = tokio::join!(beginning(out), beginning(err));
        let code = running.end().await;
        text.extend(more);
        Ok((code, String::from_utf8_lossy(&text).trim().to_owned()))
    }
}

/// Reads all that a pipe gives, and keeps its beginning.
async fn beginning(pipe: Option<impl tokio::io::AsyncRead + Unpin>) -> Vec<u8> {
    let Some(mut pipe) = pipe else { return Vec::new() };
    let (mut kept, mut part) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = pipe.read(&mut part).await {
        kept.extend_from_slice(&part[..count.min(OUTPUT.saturating_sub(kept.len()))]);
    }
    kept
}

impl Supervised {
    /// Waits for the end of the program, and returns its exit code.
    pub async fn end(&mut self) -> i32 {
        let code = match self.told.next_line().await {
            Ok(Some(line)) => line.strip_prefix("exit ").and_then(|code| code.parse().ok()),
            Ok(None) | Err(_) => None,
        };
        // A supervisor that was killed did not kill its group.
        if code.is_none()
            && let Some(group) = i32::try_from(self.pid).ok().and_then(Pid::from_raw)
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
        code.unwrap_or(137)
    }

    /// Asks the program to end: SIGTERM to its group.
    pub async fn ask(&mut self) {
        self.tell("term\n").await;
    }

    /// Kills the program's group.
    pub async fn kill(&mut self) {
        self.tell("kill\n").await;
    }

    async fn tell(&mut self, word: &str) {
        if let Err(error) = self.control.write_all(word.as_bytes()).await {
            tracing::debug!(%error, pid = self.pid, "the supervisor of a process has ended");
        }
    }
}
