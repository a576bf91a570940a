//! `mainstay explain` for objects of OLM classic (MS-EXPL-02).

use jiff::Timestamp;
use mainstay_olm_classic_core::explain::Explanation;
use mainstay_terminal::errors::Failure;
use mainstay_terminal::output::{self, Format};

/// Prints an explanation.
pub fn show(format: &Format, answer: &Explanation) -> Result<(), Failure> {
    if format.is_table() {
        return output::print(&answer.text(Timestamp::now()));
    }
    let value = serde_json::to_value(answer).map_err(|error| Failure::failed(&answer.subject, &error))?;
    output::value(format, &value)
}
