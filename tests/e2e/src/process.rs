//! Running programs, waiting for what they do, and how much memory they use.

use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// What a program said and how it ended.
#[derive(Debug, Clone)]
pub struct Output {
    /// The command line, for messages.
    pub command: String,
    /// The exit code; absent when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Output {
    /// The output of a program that must have succeeded.
    #[track_caller]
    pub fn ok(self) -> String {
        assert!(self.code == Some(0), "{self}");
        self.stdout
    }

    /// The error output of a program that must have failed.
    #[track_caller]
    pub fn refused(self) -> String {
        assert!(self.code != Some(0), "expected a refusal: {self}");
        self.stderr
    }

    /// What was said on both outputs, of a program that must have ended with this code.
    #[track_caller]
    pub fn exits(self, code: i32) -> String {
        assert!(self.code == Some(code), "expected exit code {code}: {self}");
        self.stdout + &self.stderr
    }
}

impl std::fmt::Display for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\nexit code: {:?}\nstdout: {}\nstderr: {}", self.command, self.code, self.stdout, self.stderr)
    }
}

/// A program that takes longer hangs, and would hold up all other tests.
const LONGEST: Duration = Duration::from_secs(600);

/// Runs a program with this input and collects its output.
#[track_caller]
pub fn run(command: &mut Command, input: &str) -> Output {
    use std::io::Write as _;

    let shown = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ");
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => panic!("{shown}: {error}"),
    };
    // A program that does not read its input closes the pipe; that is its own business.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
    let pid = child.id();
    let (ended, outcome) = mpsc::channel();
    thread::spawn(move || ended.send(child.wait_with_output()));
    let Ok(outcome) = outcome.recv_timeout(LONGEST) else {
        signal(pid, "KILL");
        panic!("{shown}: not ended after {} s", LONGEST.as_secs());
    };
    match outcome {
        Ok(output) => Output {
            command: shown,
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        },
        Err(error) => panic!("{shown}: {error}"),
    }
}

/// Asks until there is an answer. The last complaint is in the panic of a time-out.
#[track_caller]
pub fn eventually<T>(what: &str, limit: Duration, mut ask: impl FnMut() -> Result<T, String>) -> T {
    let begun = Instant::now();
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(complaint) if begun.elapsed() > limit => panic!("{what}: not after {} s: {complaint}", limit.as_secs()),
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Sends a signal (`TERM`, `INT`, `KILL`) to one process.
pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).stderr(Stdio::null()).status();
    assert!(status.is_ok(), "the program kill cannot be run");
}

/// Ends a process: politely, then after a minute by force. The exit code, absent where a signal ended it.
pub fn terminate(child: &mut Child) -> Option<i32> {
    if let Ok(Some(status)) = child.try_wait() {
        return status.code();
    }
    signal(child.id(), "TERM");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60) {
        if let Ok(Some(status)) = child.try_wait() {
            return status.code();
        }
        thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// Resident memory of a process in KiB.
pub fn resident_memory(pid: u32) -> Option<u64> {
    status_field(pid, "VmRSS:")
}

/// The most that a process ever had resident, in KiB.
pub fn peak_memory(pid: u32) -> Option<u64> {
    status_field(pid, "VmHWM:")
}

fn status_field(pid: u32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
