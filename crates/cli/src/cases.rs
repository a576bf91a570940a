//! Many questions at once: one JSON question per input line, one JSON answer per output line, in order (MS-CLI-09).

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output::{self, Format};
use mainstay_terminal::screen::Kind;
use serde_json::{Value, json};

/// The longest line, in bytes.
const MAX_LINE: u64 = 16 << 20;

/// Refuses formats that answers to many questions do not have: they are JSON, one per line. `default` is the command's usual format.
pub fn check_format(format: &Format, default: &Format) -> Result<(), Failure> {
    if format == default || *format == Format::Json {
        return Ok(());
    }
    Err(Failure::new(Exit::Usage, "--cases", "answers in JSON, one answer a line").hint("leave -o out, or say -o json"))
}

/// Answers every line of a file, `-` for standard input. A line that cannot be read is answered with an error, too; the exit code then
/// says that the input was bad.
pub fn answer(path: &Path, mut question: impl FnMut(&Value) -> Result<Value, Failure>) -> Result<(), Failure> {
    let subject = format!("cases {}", path.display());
    let input: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(File::open(path).map_err(|error| Failure::failed(&subject, &error))?)
    };
    let mut input = BufReader::new(input);
    let mut bad = false;
    let mut outcome = Ok(());
    output::stream(Kind::Json, |out| {
        outcome = all(&mut input, out, &subject, &mut bad, &mut question);
        Ok(())
    })?;
    outcome?;
    if bad { Err(Failure::new(Exit::Failed, subject, "not every line could be answered; the answers say why")) } else { Ok(()) }
}

fn all(
    mut input: impl BufRead,
    out: &mut dyn Write,
    subject: &str,
    bad: &mut bool,
    question: &mut impl FnMut(&Value) -> Result<Value, Failure>,
) -> Result<(), Failure> {
    let mut line = Vec::new();
    for number in 1usize.. {
        line.clear();
        let length = (&mut input).take(MAX_LINE).read_until(b'\n', &mut line).map_err(|error| Failure::failed(subject, &error))?;
        if length == 0 {
            break;
        }
        if length as u64 == MAX_LINE {
            return Err(Failure::new(Exit::Failed, subject, format!("line {number} is longer than {MAX_LINE} bytes")));
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let answer = match serde_json::from_slice(&line) {
            Ok(case) => question(&case).unwrap_or_else(|failure| {
                *bad |= failure.exit == Exit::Failed;
                failure.to_json()
            }),
            Err(error) => {
                *bad = true;
                json!({"error": {"message": format!("line {number}: {error}")}})
            }
        };
        match writeln!(out, "{answer}") {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
            outcome => outcome.map_err(|error| Failure::failed("standard output", &error))?,
        }
    }
    Ok(())
}

/// A string of a case; absent and null are the same.
pub fn text(case: &Value, field: &str) -> Result<Option<String>, Failure> {
    match &case[field] {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        other => Err(Failure::new(Exit::Failed, "case", format!("field {field}: expected text, found {other}"))),
    }
}

/// A string that a case must have.
pub fn required(case: &Value, field: &str) -> Result<String, Failure> {
    text(case, field)?.ok_or_else(|| Failure::new(Exit::Failed, "case", format!("field {field} is missing")))
}

/// A list of strings of a case; `None` when absent or null.
pub fn list(case: &Value, field: &str) -> Result<Option<Vec<String>>, Failure> {
    match &case[field] {
        Value::Null => Ok(None),
        other => serde_json::from_value(other.clone())
            .map(Some)
            .map_err(|_| Failure::new(Exit::Failed, "case", format!("field {field}: expected a list of texts, found {other}"))),
    }
}
