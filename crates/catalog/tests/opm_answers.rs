//! Catalogs with one thing wrong each, and what `opm` says of them.
//!
//! `data/opm-answers.jsonl` was made by us: each `text` was written as `c.json` of a directory of its own, on which `opm validate` and
//! `opm render` of operator-registry v1.65.0 ran. `refused` is the message of the first (null when it accepted), `rendered` what the
//! second printed (null when it refused).
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::BTreeSet;

use mainstay_catalog::{Extent, Format, Invalid, Limits, MemorySource, Part, render_parts, validate_source};
use serde::Deserialize;

#[derive(Deserialize)]
struct Answer {
    case: String,
    text: String,
    refused: Option<String>,
    rendered: Option<String>,
}

/// Where the answers differ, and why.
const OTHERWISE: &[(&str, &str)] = &[
    ("skiprange", "CATLG-25, and a recorded answer: a skip range that cannot be read is refused"),
    ("dep-noschema", "CATLG-24: upstream mixes up the two values of its message"),
    ("prop-null", "CATLG-11: the value of a property is not null"),
    ("prop-notype", "CATLG-11: the type of a property is not empty"),
    ("bom", "a byte order mark makes upstream read the first object as YAML and drop the others"),
    ("trailing-comma", "upstream reads damaged JSON as YAML and drops what follows the first object"),
    ("missing-value", "as trailing-comma"),
    ("comments-json", "as trailing-comma"),
    ("nl-in-str", "as trailing-comma"),
    ("icon-empty", "an icon without data stays one, of no bytes"),
];

/// The lines of a tree, its branches left out: upstream leaves their order open.
fn lines(text: &str) -> BTreeSet<&str> {
    text.lines().map(|line| line.trim_start_matches(['│', '├', '└', '─', ' '])).collect()
}

/// CATLG-22, CATLG-23, CATLG-24, CATLG-25, CATLG-26, CATLG-10: accepted and refused is what `opm` accepts and refuses, rules are named in
/// its words, and what it renders is rendered byte for byte.
#[test]
fn answers_of_opm() {
    let answers: Vec<Answer> = include_str!("data/opm-answers.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(answers.len() > 100);
    let mut differ = Vec::new();
    for answer in &answers {
        let source = MemorySource::of("c.json", answer.text.as_str());
        let verdict = validate_source(&source, &Limits::default(), Extent::Opm);
        let mut text = Vec::new();
        let rendered = render_parts(&[Part::Source(&source)], &Limits::default(), Format::Json, &mut text);
        let rendered = rendered.ok().map(|()| String::from_utf8(text).unwrap());
        let agree = match (&verdict, &answer.refused) {
            (Ok(()), None) | (Err(Invalid::Load(_)), Some(_)) => true,
            (Err(Invalid::Rules(found)), Some(words)) => lines(&found.to_string()) == lines(words),
            _ => false,
        };
        if !agree || rendered != answer.rendered {
            differ.push(answer.case.as_str());
            let known = OTHERWISE.iter().any(|(case, _)| *case == answer.case);
            assert!(
                known,
                "{}:\nopm      {:?}\nmainstay {verdict:?}\nopm      {:?}\nmainstay {rendered:?}",
                answer.case, answer.refused, answer.rendered
            );
        }
    }
    let listed: BTreeSet<&str> = OTHERWISE.iter().map(|(case, _)| *case).collect();
    assert_eq!(differ.into_iter().collect::<BTreeSet<_>>(), listed, "a difference that is listed is none any more");
}
