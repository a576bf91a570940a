//! A plan of a removal: the objects that go with an extension, and the extensions that need it.

use mainstay_diagnostics::Failure;
use mainstay_lifecycle::preview::{Change as Outcome, Object, Preview, named};
use mainstay_lifecycle::removal::Choices;
use mainstay_olm_v1_core::extension::account_name;

use super::{Planned, Planner, read};
use crate::change::Change;
use crate::uninstall;

impl Planner<'_, '_> {
    pub(super) async fn uninstall(&mut self, change: &Change, name: &str, choices: Choices) -> Result<Planned, Failure> {
        let extension = read(&self.existing(name).await?)?;
        let account = (extension.spec.namespace.clone(), account_name(&extension).to_owned());
        let (removal, step) = uninstall::plan(&mut self.view, extension, choices, self.progress).await?;
        let deleted = removal.own_deletions();
        let writes = deleted.iter().map(|target| Object { change: Outcome::Deleted, ..named(target) }).collect();
        let applicable = step.problem.is_none();
        let preview = Preview { subject: name.to_owned(), applicable, writes, steps: vec![step], ..Preview::default() };
        Ok(Planned {
            change: change.clone(),
            preview,
            writes: Vec::new(),
            afterwards: Vec::new(),
            path: Vec::new(),
            objects: Vec::new(),
            account,
            revisions: self.view.revisions(),
            choices: Vec::new(),
            notes: self.view.notes.clone(),
            rollback: None,
            removal: Some(removal),
        })
    }
}
