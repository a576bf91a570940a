//! ResourceQuota status (KAPI-WL-01): the use of quotas by the objects of a namespace.
//!
//! ```text
//!   quotas ──names──► sources: copies of the resources that they measure, begun when first named
//!                        │ something uses less, or what they name comes to be served
//!                        ▼
//!                      Queue ──► sum ──► decide ──► status
//! ```
//! Admission charges an object before it is stored, so the sum may lag behind a quota for a moment. A decrease is written only once
//! every charge has had time to become an object; a quota that is charged without a pause is written after a while all the
//! same.

mod decide;
mod sources;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::api::DynamicObject;
use mainstay_kinds::quota::Quota;
use mainstay_kinds::resource_list::ResourceList;
use mainstay_runtime::{Key, Outcome, Queue};

use self::decide::{Facts, Step, decide};
use self::sources::{Measure, Sources};
use crate::Result;
use crate::discovery::Discovery;
use crate::live::Live;
use crate::object::Read as _;
use crate::replicaset::settle;
use crate::world::World;

/// The interval at which everything is summed again: deadlines pass without an event, and requests can be interrupted.
const RESYNC: Duration = Duration::from_secs(300);
/// The interval at which a quota that names an unserved resource is checked again. Kinds of CRDs wake it when they appear; those of other
/// servers may appear without an event.
const UNSERVED: Duration = Duration::from_secs(30);
/// The interval at which a quota is checked again while its sources are being listed.
const LISTING: Duration = Duration::from_millis(50);

/// The times of a quota's events.
#[derive(Clone, Copy, Default)]
struct Times {
    /// The last change of its usage.
    charged: Option<Timestamp>,
    /// The first request for a sum that was not written yet.
    asked: Option<Timestamp>,
}

#[derive(Clone)]
struct Controller {
    world: World,
    quotas: Live,
    sources: Arc<Sources>,
    times: Arc<Mutex<HashMap<Key, Times>>>,
}

/// Runs the controller.
pub async fn run(world: World, discovery: Discovery) {
    let quotas = world.follow("v1", "ResourceQuota", "resourcequotas", true);
    let queue: Queue<Key> = Queue::default();
    let sources = Arc::new(Sources::new(world.clone(), discovery.clone(), quotas.clone(), queue.clone()));
    let controller = Controller { world: world.clone(), quotas: quotas.clone(), sources, times: Arc::default() };
    quotas.ready().await;
    let (watching, wake) = (controller.clone(), queue.clone());
    quotas.on_change(move |change| watching.seen(change.before.as_deref(), change.now.as_deref(), &wake));
    let (following, wake) = (controller.clone(), queue.clone());
    tokio::join!(
        following.follow_kinds(&discovery, &wake),
        mainstay_runtime::run("resourcequota", queue, 2, world.env.clone(), world.stop.clone(), move |key| {
            let controller = controller.clone();
            async move { settle(controller.reconcile(&key).await) }
        }),
    );
}

impl Controller {
    /// Requests a sum for quotas that name an unserved resource, whenever the served kinds change.
    async fn follow_kinds(&self, discovery: &Discovery, queue: &Queue<Key>) {
        let mut kinds = discovery.changes();
        loop {
            tokio::select! {
                () = self.world.stop.cancelled() => return,
                changed = kinds.changed() => if changed.is_err() { return },
            }
            for quota in self.quotas.all() {
                let wanted = Quota::wanted(&self.quotas.value(&quota));
                if mainstay_kinds::quota::sources(&wanted.hard).iter().any(|source| !self.sources.has(source)) {
                    queue.add(Key::of(&quota));
                }
            }
        }
    }

    /// Notes when a quota is charged, and requests a sum if its spec differs from what it enforces.
    fn seen(&self, before: Option<&DynamicObject>, now: Option<&DynamicObject>, queue: &Queue<Key>) {
        let Some(quota) = now else {
            if let Some(gone) = before {
                self.times().remove(&Key::of(gone));
            }
            return;
        };
        let moment = self.world.env.now();
        let key = Key::of(quota);
        if before.is_none_or(|before| before.at("/status/used") != quota.at("/status/used")) {
            self.times().entry(key.clone()).or_default().charged = Some(moment);
        }
        if before.is_none_or(|before| before.at("/spec") != quota.at("/spec")) || quota.at("/spec/hard") != quota.at("/status/hard") {
            queue.add(key);
        }
    }

    fn times(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Times>> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn reconcile(&self, key: &Key) -> Result<Outcome> {
        let Some(quota) = self.quotas.get(key) else { return Ok(Outcome::Done) };
        let now = self.world.env.now();
        let times = {
            let mut all = self.times();
            let times = all.entry(key.clone()).or_default();
            times.asked.get_or_insert(now);
            *times
        };
        let value = self.quotas.value(&quota);
        let wanted = Quota::wanted(&value);
        let mut sum = ResourceList::default();
        let mut again = RESYNC;
        for source in mainstay_kinds::quota::sources(&wanted.hard) {
            match self.sources.sum(&wanted, &source, &key.namespace, now).await? {
                Measure::Sum(part) => sum.add(&part),
                Measure::Unserved => again = UNSERVED,
                Measure::Listing => return Ok(Outcome::After(LISTING)),
            }
        }
        match decide(&Facts { quota: &value, sum: &sum, charged: times.charged, asked: times.asked.unwrap_or(now), now }) {
            Step::Wait(wait) => return Ok(Outcome::After(wait)),
            Step::Write(status) => {
                self.quotas.write_status(&quota, &status).await?;
            }
            Step::Nothing => {}
        }
        if let Some(times) = self.times().get_mut(key) {
            times.asked = None;
        }
        Ok(Outcome::After(again))
    }
}
