//! The logs of a container's runs, in the form of container runtimes: `TIME stdout|stderr F|P TEXT`, where P is a part of a long line
//! (KAPI-WL-07).

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

/// The size of a log file at which the next one begins, in bytes; two of them are kept of each run.
const LARGEST: u64 = 5 << 20;
/// The longest line that is kept whole, in bytes, the same as of container runtimes.
pub const LINE: usize = 16 << 10;
/// The lines of a log that stand for a termination message, and their size in bytes.
const TAIL: (usize, usize) = (80, 2_048);

/// One of the two streams of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    fn word(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// The writer of one run's log.
#[derive(Debug)]
pub struct Writer(Mutex<Written>);

#[derive(Debug)]
struct Written {
    path: PathBuf,
    file: File,
    size: u64,
}

impl Writer {
    /// Begins the log of a run; those of runs before the last one are removed.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn begin(directory: &Path, attempt: i64) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        for (number, path) in runs(directory) {
            if number + 1 < attempt {
                fs::remove_file(older(&path)).or_else(absent)?;
                fs::remove_file(path)?;
            }
        }
        let path = directory.join(format!("{attempt}.log"));
        let file = open(&path)?;
        let size = file.metadata()?.len();
        Ok(Self(Mutex::new(Written { path, file, size })))
    }

    /// Writes a line, or a part of one.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn line(&self, at: Timestamp, stream: Stream, whole: bool, text: &[u8]) -> io::Result<()> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if log.size >= LARGEST {
            fs::rename(&log.path, older(&log.path))?;
            log.file = open(&log.path)?;
            log.size = 0;
        }
        let mut line = format!("{at:.9} {} {} ", stream.word(), if whole { 'F' } else { 'P' }).into_bytes();
        line.extend_from_slice(text);
        line.push(b'\n');
        log.file.write_all(&line)?;
        log.size += line.len() as u64;
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

fn older(path: &Path) -> PathBuf {
    path.with_extension("log.1")
}

fn absent(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Returns the runs that have a log, in order.
fn runs(directory: &Path) -> Vec<(i64, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut all: Vec<(i64, PathBuf)> =
        entries.filter_map(|entry| Some((entry.file_name().to_str()?.strip_suffix(".log")?.parse().ok()?, entry.path()))).collect();
    all.sort();
    all
}

/// The part of a log that is asked for.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Lines from this time on.
    pub since: Option<Timestamp>,
    /// The last lines of those.
    pub tail: Option<usize>,
    /// The most bytes of the answer.
    pub limit: Option<usize>,
    /// Begins lines with their times.
    pub timestamps: bool,
    /// One stream alone.
    pub stream: Option<Stream>,
}

/// A log while it is read.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    file: Option<File>,
    query: Query,
    left: Option<usize>,
    /// Bytes behind the last end of a line.
    rest: Vec<u8>,
    /// True within a line whose parts come one by one.
    inside: bool,
}

impl Reader {
    /// Opens the log of a container's last run, or of the one before it. `None` if there is none.
    pub fn open(directory: &Path, previous: bool, query: Query) -> Option<Self> {
        let mut runs = runs(directory);
        let mut last = runs.pop()?;
        if previous {
            last = runs.pop()?;
        }
        let left = query.limit;
        Some(Self { path: last.1, file: None, query, left, rest: Vec::new(), inside: false })
    }

    /// Reads what is there at first: the end of the log, if the query wants no more.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn first(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = fs::read(older(&self.path)).or_else(|error| absent(error).map(|()| Vec::new()))?;
        let mut file = File::open(&self.path)?;
        file.read_to_end(&mut bytes)?;
        self.file = Some(file);
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.rest = bytes.split_off(end);
        let lines: Vec<Line<'_>> = lines(&bytes).filter(|line| self.wants(line)).collect();
        let begin = self.query.tail.map_or(0, |tail| {
            let mut count = 0;
            let ends = lines.iter().enumerate().rev().filter(|(_, line)| line.whole);
            for (at, _) in ends {
                count += 1;
                if count > tail {
                    return at + 1;
                }
            }
            0
        });
        // The parts of a line that is not at its end count as a line, too.
        let begin = if self.query.tail == Some(0) { lines.len() } else { begin };
        let mut out = Vec::new();
        for line in &lines[begin..] {
            show(line, &self.query, &mut self.inside, &mut out);
        }
        Ok(self.within(out))
    }

    /// Reads what has been added since.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn more(&mut self) -> io::Result<Vec<u8>> {
        let Some(file) = &mut self.file else { return self.first() };
        let mut bytes = std::mem::take(&mut self.rest);
        (&mut *file).take(LARGEST * 2).read_to_end(&mut bytes)?;
        let moved = match fs::metadata(&self.path) {
            Ok(present) => present.ino() != file.metadata()?.ino(),
            Err(_) => false,
        };
        if moved {
            let mut next = File::open(&self.path)?;
            // What was added before the file was replaced comes first.
            file.read_to_end(&mut bytes)?;
            (&mut next).take(LARGEST * 2).read_to_end(&mut bytes)?;
            self.file = Some(next);
        }
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.rest = bytes.split_off(end);
        let mut out = Vec::new();
        for line in lines(&bytes) {
            if self.wants(&line) {
                show(&line, &self.query, &mut self.inside, &mut out);
            }
        }
        Ok(self.within(out))
    }

    /// Returns true if the answer has all the bytes that it may have.
    pub fn full(&self) -> bool {
        self.left == Some(0)
    }

    fn wants(&self, line: &Line<'_>) -> bool {
        self.query.stream.is_none_or(|stream| stream.word().as_bytes() == line.stream)
            && self.query.since.is_none_or(|since| line.at().is_none_or(|at| at >= since))
    }

    fn within(&mut self, mut out: Vec<u8>) -> Vec<u8> {
        if let Some(left) = &mut self.left {
            out.truncate(*left);
            *left -= out.len();
        }
        out
    }
}

struct Line<'a> {
    time: &'a [u8],
    stream: &'a [u8],
    whole: bool,
    text: &'a [u8],
}

impl Line<'_> {
    fn at(&self) -> Option<Timestamp> {
        std::str::from_utf8(self.time).ok()?.parse().ok()
    }
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = Line<'_>> {
    bytes.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut parts = line.splitn(4, |byte| *byte == b' ');
        let (time, stream, tag, text) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        Some(Line { time, stream, whole: tag == b"F", text })
    })
}

fn show(line: &Line<'_>, query: &Query, inside: &mut bool, out: &mut Vec<u8>) {
    if query.timestamps && !*inside {
        out.extend_from_slice(line.time);
        out.push(b' ');
    }
    out.extend_from_slice(line.text);
    if line.whole {
        out.push(b'\n');
    }
    *inside = !line.whole;
}

/// Returns the end of the last run's log, as it stands for a termination message.
pub fn tail(directory: &Path) -> String {
    let query = Query { tail: Some(TAIL.0), ..Query::default() };
    let text = Reader::open(directory, false, query).and_then(|mut reader| reader.first().ok()).unwrap_or_default();
    String::from_utf8_lossy(&text[text.len().saturating_sub(TAIL.1)..]).into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    fn all(directory: &Path, previous: bool, query: Query) -> String {
        Reader::open(directory, previous, query)
            .map_or_else(|| "none".to_owned(), |mut reader| String::from_utf8(reader.first().unwrap()).unwrap())
    }

    /// KAPI-WL-07: a log is read by its end, its times, its streams and its size; of two runs, each by itself.
    #[test]
    fn logs_are_read() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("logs");
        assert_eq!(all(&directory, false, Query::default()), "none");
        let first = Writer::begin(&directory, 0).unwrap();
        first.line(at(0), Stream::Stdout, true, b"one").unwrap();
        first.line(at(1), Stream::Stderr, false, b"tw").unwrap();
        first.line(at(1), Stream::Stderr, true, b"o").unwrap();
        first.line(at(2), Stream::Stdout, true, b"").unwrap();
        for (query, expected) in [
            (Query::default(), "one\ntwo\n\n"),
            (Query { tail: Some(2), ..Query::default() }, "two\n\n"),
            (Query { tail: Some(0), ..Query::default() }, ""),
            (Query { tail: Some(9), ..Query::default() }, "one\ntwo\n\n"),
            (Query { since: Some(at(1)), ..Query::default() }, "two\n\n"),
            (Query { limit: Some(5), ..Query::default() }, "one\nt"),
            (Query { stream: Some(Stream::Stderr), ..Query::default() }, "two\n"),
            (
                Query { timestamps: true, tail: Some(2), ..Query::default() },
                "2026-01-01T00:00:01.000000000Z two\n2026-01-01T00:00:02.000000000Z \n",
            ),
        ] {
            assert_eq!(all(&directory, false, query.clone()), expected, "{query:?}");
        }
        assert_eq!(all(&directory, true, Query::default()), "none");
        Writer::begin(&directory, 1).unwrap().line(at(3), Stream::Stdout, true, b"again").unwrap();
        assert_eq!(
            (all(&directory, false, Query::default()).as_str(), all(&directory, true, Query::default()).as_str()),
            ("again\n", "one\ntwo\n\n")
        );
        Writer::begin(&directory, 2).unwrap();
        assert_eq!((all(&directory, false, Query::default()).as_str(), all(&directory, true, Query::default()).as_str()), ("", "again\n"));
        assert_eq!(runs(&directory).len(), 2, "older ones are gone");
    }

    /// KAPI-WL-07: a log that grows is followed over its rotation, and never holds more than two files.
    #[test]
    fn logs_are_rotated() {
        let place = tempfile::tempdir().unwrap();
        let log = Writer::begin(place.path(), 0).unwrap();
        log.line(at(0), Stream::Stdout, true, b"first").unwrap();
        let mut reader = Reader::open(place.path(), false, Query::default()).unwrap();
        assert_eq!(reader.first().unwrap(), b"first\n");
        assert_eq!(reader.more().unwrap(), b"");
        let line = vec![b'x'; LINE];
        let mut written = 0_usize;
        let mut read = 0;
        while written < 3 * usize::try_from(LARGEST).unwrap() {
            log.line(at(1), Stream::Stdout, true, &line).unwrap();
            written += line.len() + 1;
            read += reader.more().unwrap().len();
        }
        assert_eq!(read, written);
        let size: u64 = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
        assert!(size < 2 * LARGEST + 2 * LINE as u64, "{size}");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2);
        log.line(at(2), Stream::Stderr, true, b"last").unwrap();
        assert_eq!(reader.more().unwrap(), b"last\n");
        assert!(tail(place.path()).ends_with("x\nlast\n"));
    }
}
