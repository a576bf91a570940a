//! A plan of a removal: the objects that go with an extension, and the extensions that need it.

use mainstay_api::olm_v1::ClusterExtension;
use mainstay_diagnostics::Failure;
use mainstay_lifecycle::preview::{Change as Outcome, Object, Preview, named};
use mainstay_lifecycle::revision::History;
use mainstay_olm_v1_core::extension::account_name;
use mainstay_olm_v1_core::extension::facts::Fact;
use mainstay_olm_v1_core::extension::owned::Tie;
use mainstay_olm_v1_core::extension::preview;
use serde_json::Value;

use super::{Planned, Planner, read};
use crate::change::Change;
use crate::extensions::reference;
use crate::facts::instances;
use crate::view::AssumedPermissions;
use crate::{extensions, ownership, uninstall};

impl Planner<'_, '_> {
    pub(super) async fn uninstall(
        &mut self,
        change: &Change,
        name: &str,
        keep_crds: Option<bool>,
        even_if_needed: bool,
    ) -> Result<Planned, Failure> {
        let live = self.existing(name).await?;
        let typed = read(&live)?;
        let mut snapshot = self.view.begin(&typed, &AssumedPermissions::Live).await?;
        let applied = snapshot.history.as_ref().map(preview::applied).unwrap_or_default();
        let facts = applied.iter().cloned().map(Fact::Live).collect();
        self.view.fetch(&mut snapshot, facts, self.progress).await;
        let owned = self.owned(&typed, snapshot.history.is_ok()).await?;
        for (crd, _) in owned.iter().flatten().filter(|(object, _)| object["kind"] == "CustomResourceDefinition") {
            let found = instances(self.view.session, crd).await.map_err(|failure| failure.to_line());
            self.view.extra.instances.insert(crd["metadata"]["name"].as_str().unwrap_or_default().to_owned(), found);
        }
        let mut objects: Vec<Value> =
            snapshot.history.iter().flat_map(History::may_be_live).flat_map(|revision| revision.record.objects.iter().cloned()).collect();
        objects.extend(owned.iter().flatten().map(|(object, _)| object.clone()));
        self.view.extra.owned = Some(owned);
        let (others, unknown) = extensions::others(self.view.session, name).await?;
        self.view.notes.extend(unknown);
        let needs = self.view.needed_by(&mut snapshot, &objects, &others, self.progress).await;
        let step = preview::needed(preview::uninstall(&snapshot, &self.view.extra, keep_crds), &needs, even_if_needed);
        // The command itself deletes the extension and, last, the objects that install created for its account.
        let mut deleted = vec![reference(name)];
        match uninstall::installer(self.view.session, name).await {
            Ok(made) => deleted.extend(made),
            Err(failure) => self.view.notes.push(format!("what install made for its account: {}", failure.to_line())),
        }
        let writes = deleted.iter().map(|target| Object { change: Outcome::Deleted, ..named(target) }).collect();
        let preview =
            Preview { subject: name.to_owned(), applicable: step.problem.is_none(), writes, steps: vec![step], ..Preview::default() };
        Ok(Planned {
            change: change.clone(),
            preview,
            writes: Vec::new(),
            path: Vec::new(),
            objects: Vec::new(),
            account: (typed.spec.namespace.clone(), account_name(&typed).to_owned()),
            revisions: self.view.revisions(),
            choices: Vec::new(),
            notes: self.view.notes.clone(),
            rollback: None,
        })
    }

    /// Returns the objects that the extension owns on the cluster: its CRDs, and all objects if no record names them.
    async fn owned(&mut self, extension: &ClusterExtension, recorded: bool) -> Result<Result<Vec<(Value, Tie)>, String>, Failure> {
        self.progress.doing("look at what it owns on the cluster");
        let mut owned = match ownership::definitions(self.view.session, extension).await {
            Ok(owned) => owned,
            Err(failure) => return Ok(Err(failure.to_line())),
        };
        if !recorded {
            let kinds = self.view.kinds().await?;
            let (objects, notes) = ownership::objects(self.view.session, extension, kinds).await;
            owned.extend(objects.into_iter().filter(|(object, _)| object["kind"] != "CustomResourceDefinition"));
            self.view.notes.extend(notes);
        }
        Ok(Ok(owned))
    }
}
