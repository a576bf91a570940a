//! HorizontalPodAutoscalers, in a cluster without metrics (KAPI-WL-01).

pub mod plan;

use std::time::Duration;

use kube::api::DynamicObject;
use mainstay_runtime::{Key, Outcome, Queue};
use serde_json::{Value, json};

use self::plan::NoScale;
use crate::Result;
use crate::api::Patch;
use crate::discovery::Discovery;
use crate::live::Live;
use crate::object::Read as _;
use crate::replicaset::settle;
use crate::world::{World, wake_self};

const COMPONENT: &str = "horizontal-pod-autoscaler";
/// The interval at which each autoscaler is evaluated.
const PERIOD: Duration = Duration::from_secs(15);

#[derive(Clone)]
struct Controller {
    world: World,
    autoscalers: Live,
    discovery: Discovery,
}

/// Runs the controller.
pub async fn run(world: World, discovery: Discovery) {
    let autoscalers = world.follow("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", true);
    let queue: Queue<Key> = Queue::default();
    autoscalers.ready().await;
    wake_self(&autoscalers, &queue);
    let (env, stop) = (world.env.clone(), world.stop.clone());
    let controller = Controller { world, autoscalers, discovery };
    mainstay_runtime::run(COMPONENT, queue, 1, env, stop, move |key| {
        let controller = controller.clone();
        async move { settle(controller.reconcile(&key).await) }
    })
    .await;
}

impl Controller {
    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some(autoscaler) = self.autoscalers.get(key).filter(|autoscaler| !autoscaler.deleting()) else { return Ok(Outcome::Done) };
        let scale = self.scale(&autoscaler).await?;
        let plan = plan::plan(&autoscaler, scale.as_ref(), self.world.env.now());
        if let Some(replicas) = plan.replicas
            && let Some((served, target)) = self.target(&autoscaler).await?
        {
            let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
            self.world.api.patch(&served, &target, "scale", &patch).await?;
        }
        for event in plan.events {
            self.world.events.tell(COMPONENT, self.autoscalers.served(), &autoscaler, event);
        }
        if *autoscaler.at("/status") != plan.status {
            self.autoscalers.write_status(&autoscaler, &plan.status).await?;
        }
        Ok(Outcome::After(PERIOD))
    }

    /// Returns the kind and place of the scale target; `None` if the kind is not found.
    async fn target(&self, autoscaler: &DynamicObject) -> Result<Option<(mainstay_runtime::Served, Key)>> {
        let of = |name: &str| autoscaler.at("/spec/scaleTargetRef")[name].as_str().unwrap_or_default().to_owned();
        let (version, kind) = (of("apiVersion"), of("kind"));
        let mut found = self.discovery.find(&version, &kind);
        if found.is_none() {
            self.discovery.refresh().await?;
            found = self.discovery.find(&version, &kind);
        }
        Ok(found.map(|kind| (kind.served, Key::new(autoscaler.namespace(), of("name")))))
    }

    /// Returns the target's scale, or the reason why it is unavailable.
    async fn scale(&self, autoscaler: &DynamicObject) -> Result<std::result::Result<Value, NoScale>> {
        let Some((served, target)) = self.target(autoscaler).await? else {
            let kind = autoscaler.text("/spec/scaleTargetRef/kind");
            let version = autoscaler.text("/spec/scaleTargetRef/apiVersion");
            return Ok(Err(NoScale(format!("no matches for kind {kind:?} in version {version:?}"))));
        };
        match self.world.api.get_subresource(&served, &target, "scale").await {
            Ok(scale) => Ok(Ok(scale)),
            Err(error) if error.is_not_found() => Ok(Err(NoScale(error.message()))),
            Err(error) => Err(error),
        }
    }
}
