//! OLM classic in the commands of the day: list, describe, install, approve, uninstall, plan, explain (MS-CLI-05, MS-EXPL-02).

pub mod approve;
pub mod describe;
pub mod explain;
pub mod install;
pub mod list;
pub mod preview;
pub mod tokens;
pub mod uninstall;
pub mod upgrade;

use mainstay_terminal::errors::{Exit, Failure};

/// The namespace that a command of OLM classic needs.
pub fn namespace<'a>(command: &str, given: Option<&'a str>) -> Result<&'a str, Failure> {
    given.ok_or_else(|| {
        Failure::new(Exit::Usage, command.to_owned(), "an operator of OLM classic is in a namespace, and none is named")
            .hint("-n NAMESPACE names it; mainstay list --classic shows what is installed")
    })
}
