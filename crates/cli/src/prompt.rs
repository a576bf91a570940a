//! Questions at a terminal.

use mainstay_terminal::screen::{self, Kind};

/// Reads a line from the terminal without showing it; the line's end is part of it.
///
/// # Errors
/// Standard input is no terminal, or ends.
pub fn unseen(prompt: &str) -> std::io::Result<String> {
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    let stdin = std::io::stdin();
    screen::err(prompt, Kind::Text);
    let before = tcgetattr(&stdin)?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&stdin, OptionalActions::Flush, &silent)?;
    let mut line = String::new();
    let read = stdin.read_line(&mut line);
    // Echo is restored after any outcome.
    tcsetattr(&stdin, OptionalActions::Flush, &before)?;
    screen::err("\n", Kind::Text);
    read.map(|_| line)
}
