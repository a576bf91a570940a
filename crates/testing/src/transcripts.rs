//! The recorded requests to a kube-apiserver and its answers, `kube-transcripts`.

use serde_json::Value;

use crate::data;

/// A recorded scenario.
pub struct Transcript {
    /// `topic/scenario`.
    pub name: String,
    /// Requests with their answers, in their order.
    pub steps: Vec<Value>,
}

impl Transcript {
    fn parse(text: &str) -> Self {
        let mut transcript: Value = serde_json::from_str(text).expect("a transcript");
        let Value::Array(steps) = transcript["steps"].take() else { panic!("{}: no steps", transcript["name"]) };
        Self { name: transcript["name"].as_str().expect("a name").to_owned(), steps }
    }

    /// The transcript with valid names, `ns` and `sfx`, in place of the placeholders `${ns}` and `${sfx}`.
    #[must_use]
    pub fn with_names(self) -> Self {
        let text = Value::Array(self.steps).to_string().replace("${ns}", "ns").replace("${sfx}", "sfx");
        Self { name: self.name, steps: serde_json::from_str(&text).expect("steps") }
    }
}

/// One transcript by `topic/scenario`.
#[track_caller]
pub fn transcript(name: &str) -> Option<Transcript> {
    Some(Transcript::parse(&data::text(&format!("kube-transcripts/{name}.json"))?))
}

/// The steps of one transcript by `topic/scenario`.
#[track_caller]
pub fn steps(name: &str) -> Option<Vec<Value>> {
    Some(transcript(name)?.steps)
}

/// The transcripts of a topic, sorted by name.
#[track_caller]
pub fn topic(topic: &str) -> Option<Vec<Transcript>> {
    let files = data::files(&format!("kube-transcripts/{topic}"), "json")?;
    let read = |file| Transcript::parse(&std::fs::read_to_string(file).expect("a transcript"));
    Some(files.iter().map(read).collect())
}

/// All transcripts, sorted by name.
#[track_caller]
pub fn all() -> Option<Vec<Transcript>> {
    topic("")
}
