//! The process between this program and a container's process, so that the latter never outlives the former: it starts the program in a
//! process group of its own, does what it is told on its standard input (a socket), and kills the group when that is closed, as it is
//! when this program ends in any way (KAPI-WL-07).
//!
//! ```text
//!   told:   term | kill                 answers:  pid PID | failed WHY, and at the end: exit CODE
//! ```

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// Runs a program (the first word) until it ends, or until the socket on standard input is closed.
pub fn supervise(words: Vec<OsString>) -> ExitCode {
    match attempt(words) {
        Ok(code) => code,
        Err(error) => {
            // The socket, or the program's end, is unavailable: there is no one left to tell.
            eprintln!("mainstay: {error}");
            ExitCode::FAILURE
        }
    }
}

fn attempt(words: Vec<OsString>) -> std::io::Result<ExitCode> {
    let mut control = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let mut words = words.into_iter();
    let program = words.next().unwrap_or_default();
    let started = Command::new(&program).args(words).stdin(Stdio::null()).process_group(0).spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) => {
            let why = error.to_string().replace('\n', " ");
            writeln!(control, "failed {}: {why}", program.to_string_lossy())?;
            return Ok(ExitCode::FAILURE);
        }
    };
    let group = pid(&child)?;
    writeln!(control, "pid {}", child.id())?;
    // Held while a signal is sent: the number of a group that is over may be another's.
    let over = Arc::new(Mutex::new(false));
    let (commands, seen) = (control.try_clone()?, over.clone());
    std::thread::spawn(move || obey(commands, group, &seen));
    // The child stays a zombie, and its group its own, until the rest of the group is killed.
    waitid(WaitId::Pid(group), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    let mut over = over.lock().unwrap_or_else(PoisonError::into_inner);
    // A group without another member cannot be signalled on every system.
    let _ = kill_process_group(group, Signal::KILL);
    *over = true;
    let status = child.wait()?;
    drop(over);
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(255);
    writeln!(control, "exit {code}")?;
    Ok(ExitCode::SUCCESS)
}

fn pid(child: &Child) -> std::io::Result<Pid> {
    let number = i32::try_from(child.id()).map_err(std::io::Error::other)?;
    Pid::from_raw(number).ok_or_else(|| std::io::Error::other("the process has no number"))
}

/// Does what it is told, and kills the group when the program has ended.
fn obey(commands: UnixStream, group: Pid, over: &Mutex<bool>) {
    let mut lines = BufReader::new(commands).lines();
    loop {
        let (signal, last) = match lines.next() {
            Some(Ok(line)) if line == "term" => (Signal::TERM, false),
            Some(Ok(_)) => (Signal::KILL, false),
            Some(Err(_)) | None => (Signal::KILL, true),
        };
        let over = over.lock().unwrap_or_else(PoisonError::into_inner);
        if *over {
            return;
        }
        // It may have ended this moment.
        let _ = kill_process_group(group, signal);
        if last {
            return;
        }
    }
}
