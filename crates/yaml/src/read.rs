//! Streams of documents, JSON or YAML.

use serde_json::Value;

use crate::compose::Composer;
use crate::{Document, Error, Options, json};

/// The first document of `text`; `Null` when there is none.
pub fn parse(text: &str) -> Result<Value, Error> {
    match stream(text).next() {
        None => Ok(Value::Null),
        Some(document) => document.map(|document| document.value),
    }
}

/// Every document of `text`, JSON or YAML, also mixed as kubectl allows: JSON values, then YAML after `---`.
pub fn stream(text: &str) -> Documents<'_> {
    stream_with(text, Options::default())
}

/// [`stream`] with limits and strictness of one's own.
pub fn stream_with(text: &str, options: Options) -> Documents<'_> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let state = if text.len() > options.max_bytes {
        let problem = format!("the text has {} bytes, more than the limit of {}", text.len(), options.max_bytes);
        State::Failed(Error { line: 1, column: 1, problem })
    } else if text.trim_start().starts_with(['{', '[']) {
        State::Json { rest: text, line: 1, first: true }
    } else {
        State::yaml(text, 1, options)
    };
    Documents { state, options }
}

/// The documents of one text. Nothing follows an error.
pub struct Documents<'a> {
    state: State<'a>,
    options: Options,
}

enum State<'a> {
    Json { rest: &'a str, line: usize, first: bool },
    Yaml { composer: Box<Composer<'a>>, before: usize, json: Option<Error> },
    Failed(Error),
    Done,
}

impl<'a> State<'a> {
    fn yaml(text: &'a str, line: usize, options: Options) -> Self {
        Self::Yaml { composer: Box::new(Composer::new(text, options)), before: line - 1, json: None }
    }
}

impl Iterator for Documents<'_> {
    type Item = Result<Document, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match std::mem::replace(&mut self.state, State::Done) {
                State::Done => return None,
                State::Failed(error) => return Some(Err(error)),
                State::Yaml { mut composer, before, json } => {
                    return match composer.document() {
                        Ok(None) => None,
                        Ok(Some(mut document)) => {
                            document.line += before;
                            for duplicate in &mut document.duplicates {
                                duplicate.line += before;
                            }
                            self.state = State::Yaml { composer, before, json: None };
                            Some(Ok(document))
                        }
                        Err(mut error) => {
                            error.line += before;
                            // Text that begins as JSON and is no YAML either is most likely JSON with a slip.
                            Some(Err(json.unwrap_or(error)))
                        }
                    };
                }
                State::Json { rest, line, first } => {
                    let trimmed = rest.trim_start();
                    let line = line + lines(&rest[..rest.len() - trimmed.len()]);
                    if trimmed.is_empty() {
                        return None;
                    }
                    if !trimmed.starts_with(['{', '[']) {
                        self.state = State::yaml(trimmed, line, self.options);
                        continue;
                    }
                    match json::first(trimmed, line) {
                        Ok((value, duplicates, used)) => {
                            if self.options.strict
                                && let Some(duplicate) = duplicates.first()
                            {
                                let problem = format!("duplicate field {:?}", duplicate.path);
                                return Some(Err(Error { line, column: 1, problem }));
                            }
                            let after = line + lines(&trimmed[..used]);
                            self.state = State::Json { rest: &trimmed[used..], line: after, first: false };
                            return Some(Ok(Document { value, line, duplicates }));
                        }
                        Err(problem) => {
                            let error = Error {
                                line: line + problem.line().max(1) - 1,
                                column: problem.column().max(1),
                                problem: without_position(&problem.to_string()),
                            };
                            if !first {
                                return Some(Err(error));
                            }
                            // A flow mapping of YAML looks like JSON at first sight.
                            self.state = State::yaml(trimmed, line, self.options);
                            if let State::Yaml { json, .. } = &mut self.state {
                                *json = Some(error);
                            }
                        }
                    }
                }
            }
        }
    }
}

fn lines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

fn without_position(text: &str) -> String {
    match text.rfind(" at line ") {
        Some(at) => text[..at].to_owned(),
        None => text.to_owned(),
    }
}
