//! Reads mutated manifests with this crate and with Kubernetes' own libraries, and shows where they differ.
//!
//! ```text
//! (cd crates/yaml/tests/oracle && go build -o /tmp/oracle .)
//! cargo run --release -p mainstay-yaml --example differential -- /tmp/oracle CASES SEED FOLDER...
//! ```
//!
//! The folders hold manifests. Each case is a piece of one with some changes; a difference is made as small as it gets before it is shown.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use mainstay_yaml::{Options, parse_with, stream};
use serde_json::Value;

/// Cases that go out before answers are awaited.
const BATCH: usize = 64;
/// Differences that are shown.
const SHOWN: usize = 40;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [oracle, cases, seed, folders @ ..] = arguments.as_slice() else { panic!("ORACLE CASES SEED FOLDER...") };
    let mut seeds = Vec::new();
    for folder in folders {
        gather(Path::new(folder), &mut seeds);
    }
    seeds.sort();
    let seeds: Vec<String> = seeds.iter().filter_map(|path| std::fs::read_to_string(path).ok()).filter(|text| !text.is_empty()).collect();
    let mut oracle = Oracle::start(oracle);
    let mut dice = Dice(seed.parse::<u64>().unwrap() * 2 + 0x9e37_79b9_7f4a_7c15);
    let (cases, mut done, mut differences, mut refused, mut random) = (cases.parse::<usize>().unwrap(), 0, 0, 0, 0);
    while done < cases {
        let batch: Vec<String> = (0..BATCH.min(cases - done)).map(|_| dice.case(&seeds)).collect();
        for (text, answer) in batch.iter().zip(oracle.ask(&batch)) {
            done += 1;
            refused += usize::from(answer.get("error").is_some());
            random += usize::from(answer.get("random").is_some());
            let Some(problem) = difference(text, &answer) else { continue };
            differences += 1;
            if differences <= SHOWN {
                let small = shrink(text, &mut oracle, problem);
                let answer = oracle.ask(std::slice::from_ref(&small)).remove(0);
                println!("--- {problem}\n{small:?}\n  go:   {answer}\n  ours: {:?}", parse_with(&small, &Options::default()));
                println!("        {:?}", stream(&small).collect::<Vec<_>>());
            }
        }
    }
    println!("{done} cases: {differences} differ, {refused} refused by Go, {random} left to chance by Go");
    assert_eq!(differences, 0);
}

fn gather(path: &Path, found: &mut Vec<PathBuf>) {
    let Ok(folder) = std::fs::read_dir(path) else { return found.push(path.to_owned()) };
    for entry in folder.flatten() {
        let path = entry.path();
        if path.is_dir() {
            gather(&path, found);
        } else if path.extension().is_some_and(|ending| ["yaml", "yml", "json"].iter().any(|known| ending == *known)) {
            found.push(path);
        }
    }
}

/// What is different, if anything is.
fn difference(text: &str, answer: &Value) -> Option<&'static str> {
    if answer.is_null() {
        return None;
    }
    let ours = parse_with(text, &Options::default());
    let chance = answer.get("random").is_some();
    match (&ours, answer.get("error")) {
        (Ok(_), Some(_)) => return Some("refused by Go only"),
        (Err(_), None) => return Some("refused by us only"),
        (Ok(document), None) if !chance => {
            let value = answer.get("value").unwrap_or(&Value::Null);
            if !same(&document.value, value) {
                return Some("other value");
            }
            let strict = parse_with(text, &Options { strict: true, ..Options::default() });
            let json = text.trim_start().starts_with('{');
            if !json && strict.is_err() != answer.get("strict").is_some() {
                return Some("other strict verdict");
            }
        }
        _ => {}
    }
    let mut ours = Vec::new();
    let mut failed = false;
    for document in stream(text) {
        match document {
            Ok(document) => ours.push(document.value),
            Err(_) => failed = true,
        }
    }
    let theirs = answer["stream"].as_array().unwrap();
    if failed != answer.get("streamError").is_some() {
        return Some(if failed { "stream refused by us only" } else { "stream refused by Go only" });
    }
    if ours.len() != theirs.len() {
        return Some("other documents");
    }
    if !chance && !ours.iter().zip(theirs).all(|(ours, theirs)| same(ours, theirs)) {
        return Some("other value in a stream");
    }
    None
}

fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| same(ours, theirs))
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            ours.len() == theirs.len() && ours.iter().all(|(key, value)| theirs.get(key).is_some_and(|other| same(value, other)))
        }
        (Value::Number(ours), Value::Number(theirs)) => match (ours.as_i64(), theirs.as_i64()) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => ours.as_f64() == theirs.as_f64(),
        },
        _ => ours == theirs,
    }
}

/// Takes lines and letters away while the difference stays.
fn shrink(text: &str, oracle: &mut Oracle, problem: &str) -> String {
    let mut best = text.to_owned();
    for by_line in [true, false, true, false] {
        let mut size = if by_line { best.lines().count() / 2 } else { 16 };
        while size > 0 {
            let parts: Vec<String> =
                if by_line { best.split_inclusive('\n').map(str::to_owned).collect() } else { best.chars().map(String::from).collect() };
            if !by_line && parts.len() > 600 {
                break;
            }
            let mut at = 0;
            let mut parts = parts;
            while at < parts.len() {
                let mut fewer = parts.clone();
                fewer.drain(at..(at + size).min(parts.len()));
                let text = fewer.concat();
                let answer = oracle.ask(std::slice::from_ref(&text)).remove(0);
                if difference(&text, &answer) == Some(problem) {
                    parts = fewer;
                } else {
                    at += size;
                }
            }
            best = parts.concat();
            size /= 2;
        }
    }
    best
}

struct Oracle {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    fn start(path: &str) -> Self {
        let mut child = Command::new(path).arg("serve").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the oracle starts");
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, answers }
    }

    fn ask(&mut self, texts: &[String]) -> Vec<Value> {
        let texts: Vec<Vec<u8>> = texts.iter().map(|text| text.clone().into_bytes()).collect();
        let count = texts.len();
        let mut input = self.child.stdin.take().unwrap();
        let writer = std::thread::spawn(move || {
            let mut out = BufWriter::new(&mut input);
            for text in texts {
                out.write_all(&(text.len() as u32 + 1).to_le_bytes()).unwrap();
                out.write_all(&text).unwrap();
            }
            out.write_all(&0_u32.to_le_bytes()).unwrap();
            out.flush().unwrap();
            drop(out);
            input
        });
        let mut found = Vec::new();
        let mut line = Vec::new();
        for _ in 0..count {
            line.clear();
            self.answers.read_until(b'\n', &mut line).unwrap();
            // Go hands on JSON with half of a surrogate pair, which is no text: such an answer is passed over.
            found.push(serde_json::from_slice(&line).unwrap_or_default());
        }
        self.child.stdin = Some(writer.join().unwrap());
        found
    }
}

struct Dice(u64);

const WORDS: &[&str] = &[
    "y",
    "yes",
    "No",
    "on",
    "OFF",
    "true",
    "~",
    "null",
    "Null",
    "017",
    "0o17",
    "08",
    "0b11",
    "0b-11",
    "-0b1",
    "0x1F",
    "-0x1f",
    "1_000",
    "1_0.5_0",
    "+7",
    "-0",
    "-0.0",
    "1.",
    ".5",
    "._5",
    ".5_5",
    "5.",
    "1e3",
    "1E+3",
    "1e400",
    "-1e400",
    ".inf",
    "-.Inf",
    ".nan",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551616",
    "12345678901234567890",
    "1e21",
    "123456789012345678901",
    "0.0000001",
    "2001-01-01",
    "2001-1-1T1:1:1Z",
    "2001-12-14t21:59:43.10-05:00",
    "12:30:45",
    "1.2.3",
    "0x",
    "0b",
    "_1",
    "1_",
    "<<",
    "=",
    "!",
    "!!str 1",
    "!!int \"3\"",
    "!!float 3",
    "!!binary aGk=",
    "!!binary a",
    "!!null ''",
    "!!bool yes",
    "!!timestamp 2001-01-01",
    "!!timestamp x",
    "!x 3",
    "! 3",
    "!<tag:yaml.org,2002:int> 3",
    "!e!x 3",
    "!%41b c",
    "[a, b]",
    "{a: 1}",
    "{a, b: , : c}",
    "[a: b, ? c : d, ? e]",
    "[]",
    "{}",
    "'it''s'",
    "\"a\\x41\\u00e9\\U0001F600\\n\\\n  b\"",
    "\"\\ud800\"",
    "\"\\q\"",
    "\"\\/\"",
    "|",
    ">",
    "|-",
    ">+",
    "|2",
    ">-1",
    "|0",
    "| # c",
    "|x",
    "*a",
    "*b",
    "&a",
    "&a x",
    "&a [x]",
    "&b {x: 1}",
    "&a !!int 3",
    "!!int &a 3",
    "a b",
    "a #b",
    "a: b",
    "- x",
    "-",
    "?",
    ":",
    "? a",
    ": b",
    "\u{e9}",
    "\u{1f600}",
    "\u{85}",
    "\u{2028}",
    "\u{2029}",
    "\u{a0}",
    "\t",
    "a\tb",
    "%",
    "@",
    "`",
    "`a",
    "@a",
    "%a",
    "\"\"",
    "''",
    "'",
    "\"",
    "#",
    "# c",
    "a'b",
    "1 2",
    "a?b",
    "a,b",
    "a[b]",
    "{a:b}",
    "{a: b",
    "]",
    "}",
    ",",
    "\u{1}",
    "\u{7f}",
    "\u{fffe}",
    "\u{feff}x",
];

const LINES: &[&str] = &[
    "---",
    "--- ",
    "--- # c",
    "---\t",
    "--- a",
    "---a",
    "----",
    "...",
    "... ",
    "...a",
    "%YAML 1.1",
    "%YAML 1.2",
    "%YAML 1",
    "%TAG !e! tag:e,2000:",
    "%TAG ! tag:yaml.org,2002:",
    "%TAG !! tag:x,1:",
    "%FOO x",
    "# comment",
    "  # comment",
    "",
    " ",
    "\t",
    "\t# c",
    "<<: *a",
    "<<: [*a, *b]",
    "<<: {a: 1}",
    "!!merge <<: *b",
    "? a",
    ": b",
    "? [a]",
    "? - a",
    "- a",
    "-",
    "- - a",
    "a: 1",
    "a:",
    "*a : 1",
    "&k a: 1",
    "\"a\": 1",
    "'a' : 1",
    "{\"a\": 1}",
    "{a: 1}: b",
    "[]: x",
    "[a]: x",
    "1: a",
    "~: a",
    "1.5: a",
    ".inf: 1",
    "18446744073709551615: 1",
    "? |\n  a\n: b",
    "!!str : a",
    "!!int 3: a",
    "!!binary aGk=: x",
    "\u{feff}a: 1",
    "a: 'x\ny'",
    "a: \"x\n y\"",
    "a: x\ny",
    "a: x\n y",
];

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.roll() >> 11) as usize % end.max(1)
    }

    fn pick<'t, T: ?Sized>(&mut self, of: &[&'t T]) -> &'t T {
        of[self.below(of.len())]
    }

    /// Some lines of a file, changed.
    fn case(&mut self, seeds: &[String]) -> String {
        if self.below(4) == 0 {
            return self.soup();
        }
        let seed = &seeds[self.below(seeds.len())];
        let mut lines = self.window(seed);
        for _ in 0..=self.below(5) {
            self.change(&mut lines, seeds);
        }
        let mut text = lines.join("\n");
        if self.below(10) > 0 {
            text.push('\n');
        }
        match self.below(40) {
            0 => text.replace('\n', "\r\n"),
            1 => text.replace('\n', "\r"),
            2 if !text.starts_with('\u{feff}') => format!("\u{feff}{text}"),
            3 => text.replace("  ", "\t"),
            _ => text,
        }
    }

    /// Indicators, words and line ends in any order.
    fn soup(&mut self) -> String {
        const SPICES: &[&str] = &[
            "-", ":", "?", " ", " ", " ", "  ", "\n", "\n", "\n ", "\n  ", "- ", ": ", "? ", ", ", "a", "b", "1", "'", "\"", "[", "]", "{",
            "}", ",", "#", " #", "&a ", "*a", "!", "!!str ", "|", ">", "|\n", ">-\n", "%", "@", "\t", "\\", "<<: ", "\r\n", "\u{e9}",
            "...\n", "---\n", "~", "a: ", "- a\n", "\u{85}", "\u{2028}", "0",
        ];
        let most = if self.below(4) == 0 { 60 } else { 14 };
        let count = 1 + self.below(most);
        let mut text = String::new();
        for _ in 0..count {
            let some = if self.below(8) == 0 {
                self.pick(WORDS)
            } else if self.below(16) == 0 {
                self.pick(LINES)
            } else {
                self.pick(SPICES)
            };
            // Where Go's library looks for a second byte order mark depends on its buffers.
            if !(text.is_empty() && some.starts_with('\u{feff}')) {
                text.push_str(some);
            }
        }
        text
    }

    fn window(&mut self, seed: &str) -> Vec<String> {
        let all: Vec<&str> = seed.lines().collect();
        let from = self.below(all.len());
        let most = [4, 12, 40][self.below(3)];
        let lines = &all[from..(from + 1 + self.below(most)).min(all.len())];
        // Long lines (icons, licences) only take time.
        let lines = lines.iter().map(|line| line.chars().take(400).collect::<String>());
        let blank =
            lines.clone().filter(|line| !line.trim().is_empty()).map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
        let less = if self.below(8) > 0 { blank } else { 0 };
        lines.map(|line| line.get(less..).unwrap_or_default().to_owned()).collect()
    }

    fn change(&mut self, lines: &mut Vec<String>, seeds: &[String]) {
        if lines.is_empty() {
            lines.push(String::new());
        }
        let at = self.below(lines.len());
        let indent = lines[at].len() - lines[at].trim_start_matches(' ').len();
        match self.below(16) {
            0 => {
                let wanted = match self.below(3) {
                    0 => self.below(4),
                    1 => indent.saturating_sub(1 + self.below(3)),
                    _ => indent + 1 + self.below(3),
                };
                lines[at] = format!("{}{}", " ".repeat(wanted), lines[at].trim_start_matches(' '));
            }
            1 => {
                let line = self.pick(LINES);
                let blank = [0, indent, indent + 2][self.below(3)];
                let blank = " ".repeat(blank);
                lines.insert(at, line.lines().map(|line| format!("{blank}{line}")).collect::<Vec<_>>().join("\n"));
            }
            2..=4 => {
                // Another value behind the colon or dash.
                let end = lines[at].find(": ").map(|end| end + 2).or_else(|| lines[at].find("- ").map(|end| end + 2));
                let end = end.unwrap_or(lines[at].len());
                let word = self.pick(WORDS);
                let kept = if self.below(3) == 0 { lines[at][end..].to_owned() } else { String::new() };
                lines[at] = format!("{}{word}{}{kept}", &lines[at][..end], if self.below(2) == 0 { " " } else { "" });
            }
            5 => {
                let place = self.place(&lines[at]);
                let word = self.pick(WORDS);
                lines[at].insert_str(place, word);
            }
            6 => {
                let place = self.place(&lines[at]);
                let letter = self.pick(&[
                    " ", "\t", ":", "-", "?", "#", "'", "\"", "[", "]", "{", "}", ",", "&", "*", "!", "|", ">", "%", "\\", "\r", "\u{85}",
                    "\u{2028}",
                ]);
                lines[at].insert_str(place, letter);
            }
            7 => {
                let (one, two) = (self.place(&lines[at]), self.place(&lines[at]));
                lines[at].replace_range(one.min(two)..one.max(two), "");
            }
            8 => drop(lines.remove(at)),
            9 => {
                let line = lines[at].clone();
                lines.insert(at, line);
            }
            10 if at + 1 < lines.len() => {
                let next = lines.remove(at + 1);
                lines[at].push_str(&next);
            }
            11 => {
                // A line that is broken, with some indentation.
                let place = self.place(&lines[at]);
                let rest = lines[at].split_off(place);
                let blank = [0, indent.saturating_sub(2), indent, indent + 2, self.below(6)][self.below(5)];
                lines.insert(at + 1, format!("{}{}", " ".repeat(blank), rest.trim_start()));
            }
            12 | 13 => {
                // A quoted value, perhaps over several lines.
                let Some(end) = lines[at].find(": ").map(|end| end + 2).or_else(|| lines[at].find("- ").map(|end| end + 2)) else { return };
                let quote = self.pick(&["'", "\""]);
                let mut value = lines[at].split_off(end);
                if value.contains(' ') && self.below(2) == 0 {
                    let breaks = "\n".repeat(1 + self.below(2));
                    let blank = " ".repeat([0, indent.saturating_sub(2), indent, indent + 2][self.below(4)]);
                    value = value.replacen(' ', &format!("{breaks}{blank}"), 1 + self.below(3));
                }
                lines[at].push_str(&[quote, value.as_str(), quote].concat());
            }
            14 => {
                // A block scalar of what follows.
                let Some(end) = lines[at].find(':') else { return };
                let header = self.pick(&["|", ">", "|-", "|+", ">-", ">+", "|1", "|2", ">2-", "|+4"]);
                lines[at].truncate(end + 1);
                lines[at].push(' ');
                lines[at].push_str(header);
            }
            _ => {
                let seed = &seeds[self.below(seeds.len())];
                let more = self.window(seed);
                let take = self.below(6);
                lines.splice(at..at, more.into_iter().take(take));
            }
        }
        *lines = lines.join("\n").split('\n').map(str::to_owned).collect();
    }

    fn place(&mut self, line: &str) -> usize {
        let places: Vec<usize> = line.char_indices().map(|(at, _)| at).chain([line.len()]).collect();
        places[self.below(places.len())]
    }
}
