//! The MachineConfigs `99-POOL-generated-registries` of Image configuration and mirror sets (MACH-MC-06, MACH-DISR-02).

use mainstay_machine_config_core::base::{registries, signature_policy};
use mainstay_machine_config_core::generated::{File, machine_config};
use mainstay_machine_config_core::registries::files::{POLICY_JSON, REGISTRIES_CONF, SEARCH_DROP_IN, Sources, files};
use mainstay_machine_config_core::registries::rules::{MirrorRules, RegistrySources, RuleObject};
use mainstay_runtime::{Optional, Outcome};
use serde_json::Value;

use crate::Error;
use crate::controller::Operator;
use crate::places::{controlled_by, name};
use crate::release::VERSION;

const BUILT_IN: &str = "machineconfiguration.openshift.io/mco-built-in";

impl Operator {
    /// Keeps the registries of the pools that each cluster has.
    pub(crate) async fn registries(&self) -> Result<Outcome, Error> {
        let kinds = [&self.images, &self.digest_mirrors, &self.tag_mirrors, &self.old_mirrors, &self.versions];
        if !self.is_known() || kinds.iter().any(|kind| !kind.is_known()) {
            return Ok(Outcome::Done);
        }
        let image = Self::named(&self.images, "cluster")?;
        let lists = image.as_ref().map(|image| image["spec"]["registrySources"].clone()).unwrap_or_default();
        let sources = Sources {
            release_image: self.release()?.image,
            registries: serde_json::from_value::<Option<RegistrySources>>(lists)?.unwrap_or_default(),
            rules: MirrorRules::of(rules(&self.old_mirrors)?, rules(&self.digest_mirrors)?, rules(&self.tag_mirrors)?),
            registries_conf: registries().to_owned(),
            policy_json: signature_policy().to_owned(),
        };
        let made = files(&sources);
        // A cluster without a release has no image to protect.
        if let Some(error) = made.lists_error.as_ref().filter(|_| !sources.release_image.is_empty()) {
            tracing::warn!(%error, "lists of registries are not as they were asked for");
        }
        let mut content = Vec::new();
        match made.registries_conf {
            Some(Ok(text)) => content.push(File::new(REGISTRIES_CONF, text)),
            Some(Err(error)) => return Ok(refused(&error)),
            None => {}
        }
        match made.policy_json {
            Some(Ok(text)) => content.push(File::new(POLICY_JSON, text)),
            Some(Err(error)) => return Ok(refused(&error)),
            None => {}
        }
        content.extend(made.search.map(|text| File::new(SEARCH_DROP_IN, text)));
        for pool in Self::all(&self.pools, "MachineConfigPool")? {
            if pool["metadata"]["labels"].get(BUILT_IN).is_none() {
                continue;
            }
            let mut config = machine_config(&format!("99-{}-generated-registries", name(&pool)), name(&pool), &content, &[], VERSION);
            config["metadata"]["ownerReferences"] = controlled_by(&pool);
            self.keep(&config).await?;
        }
        Ok(Outcome::Done)
    }
}

/// Rules that cannot be used change nothing; upstream logs them, too.
fn refused(error: &dyn std::error::Error) -> Outcome {
    tracing::error!(%error, "could not Create/Update MachineConfig of registries");
    Outcome::Blocked
}

fn rules(kind: &Optional) -> Result<Vec<RuleObject>, Error> {
    Operator::bare(kind)?.into_iter().map(|object: Value| Ok(serde_json::from_value(object)?)).collect()
}
