//! Why the cluster's version, or one of its operators, is as it is, and the one thing to do (MS-EXPL-02, COP-G-15, CVO-TRB-01 to CVO-TRB-08,
//! COP-TRB-01 to COP-TRB-03).

mod operator;
mod pools;
mod version;

use std::convert::Infallible;

use mainstay_lifecycle::explanation::{self, Evidence};
use serde_json::Value;

pub use operator::{OperatorFacts, operator};
pub use version::{VersionFacts, version};

use crate::cluster_version::{list, text, time};

/// An explanation. Its actions are commands alone.
pub type Explanation = explanation::Explanation<Infallible>;
/// An action of an explanation.
pub type Action = explanation::Action<Infallible>;

/// The conditions of an object as evidence.
fn conditions(object: &Value) -> impl Iterator<Item = Evidence> {
    list(&object["status"]["conditions"]).iter().map(|condition| {
        let words = [text(&condition["type"]), text(&condition["status"]), text(&condition["reason"])];
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let says = match text(&condition["message"]) {
            "" => words.join(" "),
            message => format!("{}: {message}", words.join(" ")),
        };
        Evidence { what: "condition".to_owned(), says, at: time(&condition["lastTransitionTime"]) }
    })
}
