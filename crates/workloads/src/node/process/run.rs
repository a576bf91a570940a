//! One run of a container's process: its output, its probes, its end (KAPI-WL-07).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use mainstay_runtime::Env;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::check;
use super::error::ProcessError;
use super::launch::{Launch, Supervised};
use super::log::{self, LINE, Stream, Writer};
use super::probe::{Outcomes, Probe, Question};
use crate::events::Event;
use crate::node::observed::Exit;

/// The time in which the output of a process ends after the process.
const OUTPUT: Duration = Duration::from_secs(2);
/// The longest termination message, in bytes.
const MESSAGE: u64 = 4_096;
/// The longest output of a probe in an event, in bytes.
const TOLD: usize = 1_000;

/// The request to end a process within a grace period.
#[derive(Clone, Copy, Debug)]
pub struct Stop(pub Duration);

/// The probes of a container.
#[derive(Clone, Debug, Default)]
pub struct Probes {
    /// The startup probe: no other one asks before it succeeds.
    pub startup: Option<Probe>,
    /// The readiness probe.
    pub readiness: Option<Probe>,
    /// The liveness probe.
    pub liveness: Option<Probe>,
}

/// News of a run while it goes on.
pub trait Told: Send + Sync + 'static {
    /// The startup probe has succeeded, or the readiness has changed.
    fn state(&self, started: bool, ready: bool);
    /// Something happened that people want to know.
    fn event(&self, event: Event);
    /// A probe wants the process to end.
    fn stop(&self, grace: Option<Duration>);
}

/// The termination message of a container.
#[derive(Clone, Debug)]
pub struct Message {
    /// The file in which the process leaves it.
    pub path: std::path::PathBuf,
    /// Set if the end of the log stands for it after a failure.
    pub from_logs: bool,
}

/// Attends a process until its end.
pub async fn attend(
    mut process: Supervised,
    mut stops: mpsc::UnboundedReceiver<Stop>,
    output: (Arc<Writer>, &Path),
    message: &Message,
    env: &Env,
) -> Exit {
    let (log, directory) = output;
    let mut pumps = JoinSet::new();
    if let Some(out) = process.child.stdout.take() {
        pumps.spawn(pump(out, Stream::Stdout, log.clone(), env.clone()));
    }
    if let Some(err) = process.child.stderr.take() {
        pumps.spawn(pump(err, Stream::Stderr, log, env.clone()));
    }
    let mut deadline: Option<Instant> = None;
    let code = loop {
        let late = async {
            match deadline {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            code = process.end() => break code,
            Some(Stop(grace)) = stops.recv() => {
                if deadline.is_none() {
                    process.ask().await;
                }
                let at = Instant::now() + grace;
                deadline = Some(deadline.map_or(at, |present| present.min(at)));
            }
            () = late => {
                process.kill().await;
                deadline = Some(Instant::now() + OUTPUT);
            }
        }
    };
    // The supervisor ends with the process.
    let _ = process.child.wait().await;
    let _ = tokio::time::timeout(OUTPUT, async { while pumps.join_next().await.is_some() {} }).await;
    Exit { code, message: left(message, directory, code), at: env.now() }
}

/// Returns the termination message that a process left.
fn left(message: &Message, logs: &Path, code: i32) -> String {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    if let Ok(file) = std::fs::File::open(&message.path)
        && file.metadata().is_ok_and(|file| file.is_file())
    {
        // What cannot be read is no message.
        let _ = file.take(MESSAGE).read_to_end(&mut bytes);
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if text.is_empty() && message.from_logs && code != 0 { log::tail(logs) } else { text }
}

/// Writes a stream to the log, line by line.
async fn pump(stream: impl AsyncRead + Unpin, kind: Stream, log: Arc<Writer>, env: Env) {
    let mut stream = BufReader::with_capacity(LINE, stream);
    let mut line = Vec::new();
    let write = |whole, line: &[u8], at: Timestamp| {
        if let Err(error) = log.line(at, kind, whole, line) {
            tracing::warn!(%error, "the log of a process cannot be written");
        }
    };
    loop {
        let Ok(part) = stream.fill_buf().await else { return };
        if part.is_empty() {
            if !line.is_empty() {
                write(true, &line, env.now());
            }
            return;
        }
        let end = part.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(part.len()).min(LINE - line.len());
        line.extend_from_slice(&part[..taken]);
        let at_end = end == Some(taken);
        stream.consume(taken + usize::from(at_end));
        if at_end || line.len() == LINE {
            write(at_end, &line, env.now());
            line.clear();
        }
    }
}

/// Asks as the probes of a container say, until it is dropped or the process is to end. `launch` is the process, for commands beside it.
pub async fn probe(probes: Probes, launch: Launch, told: Arc<dyn Told>) {
    if let Some(startup) = &probes.startup {
        let mut outcomes = Outcomes::new(false);
        let verdict = ask(startup, "Startup", &launch, &*told, |success| outcomes.note(success, startup)).await;
        if !verdict {
            told.event(Event::normal("Killing", "Container failed startup probe, will be restarted"));
            told.stop(startup.grace.map(Duration::from_secs));
            return;
        }
    }
    let ready_at_once = probes.readiness.is_none();
    told.state(true, ready_at_once);
    let readiness = async {
        if let Some(probe) = &probes.readiness {
            let mut outcomes = Outcomes::new(false);
            let note = |success| {
                let before = outcomes.verdict();
                outcomes.note(success, probe);
                if outcomes.verdict() != before {
                    told.state(true, outcomes.verdict());
                }
                None
            };
            ask(probe, "Readiness", &launch, &*told, note).await;
        }
    };
    let liveness = async {
        if let Some(probe) = &probes.liveness {
            let mut outcomes = Outcomes::new(true);
            ask(probe, "Liveness", &launch, &*told, |success| outcomes.note(success, probe).filter(|success| !success)).await;
            told.event(Event::normal("Killing", "Container failed liveness probe, will be restarted"));
            told.stop(probe.grace.map(Duration::from_secs));
        }
    };
    tokio::join!(readiness, liveness);
}

/// Asks again and again until `note` says that it is decided.
async fn ask(probe: &Probe, name: &str, launch: &Launch, told: &dyn Told, mut note: impl FnMut(bool) -> Option<bool>) -> bool {
    tokio::time::sleep(probe.delay).await;
    loop {
        let outcome = tokio::time::timeout(probe.timeout, answer(&probe.question, launch)).await;
        let outcome = outcome.unwrap_or_else(|_| Err(format!("no answer within {} s", probe.timeout.as_secs()).into()));
        if let Err(why) = &outcome {
            let why: String = why.to_string().chars().take(TOLD).collect();
            told.event(Event::warning("Unhealthy", format!("{name} probe failed: {why}")));
        }
        if let Some(verdict) = note(outcome.is_ok()) {
            return verdict;
        }
        tokio::time::sleep(probe.period).await;
    }
}

async fn answer(question: &Question, launch: &Launch) -> Result<(), ProcessError> {
    match question {
        Question::Tcp { port } => check::tcp(*port).await.map(drop),
        Question::Http { tls, port, path, headers } => check::http(*tls, *port, path, headers).await,
        Question::Grpc { port, service } => check::grpc(*port, service).await,
        Question::Exec(words) => match (Launch { words: words.clone(), ..launch.clone() }).output().await? {
            (0, _) => Ok(()),
            (code, text) if text.is_empty() => Err(format!("command ended with exit code {code}").into()),
            (_, text) => Err(text.into()),
        },
    }
}
