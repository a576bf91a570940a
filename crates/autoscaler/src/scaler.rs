//! The autoscaler itself: a pass every ten seconds while ClusterAutoscaler `default` is there and valid (COP-CAS-01, COP-CAS-03 to COP-CAS-05).

use std::sync::Arc;
use std::time::Duration;

use mainstay_apply::EventKind;
use mainstay_autoscaler_core::expander::{PRIORITIES, Priorities};
use mainstay_autoscaler_core::settings::{Expander, NAME, Settings, told};
use mainstay_autoscaler_core::status::{KEY, LAST_UPDATED, STATUS, read, status, written};
use mainstay_autoscaler_core::{Memory, Plan, Snapshot, plan};
use mainstay_objects::Expect;
use mainstay_runtime::{Key, Optional};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::Error;
use crate::act::Act;
use crate::kinds::{CLUSTER_AUTOSCALER, CONFIG_MAP, MACHINE, MACHINE_SET};
use crate::look::Eyes;
use crate::metrics::Measures;
use crate::shared::{Shared, Teller};

/// The interval of passes, as upstream's.
const INTERVAL: Duration = Duration::from_secs(10);
/// The interval at which copies that are not complete yet are asked again.
const SOON: Duration = Duration::from_millis(200);

/// Runs the passes.
pub(crate) async fn run(shared: Shared) {
    let woken = Arc::new(Notify::new());
    let follow = |kind: crate::kinds::KnownKind| {
        let woken = woken.clone();
        Optional::start(shared.writer.client(), kind.resource(), &shared.stop, move || woken.notify_one())
    };
    let autoscalers = follow(CLUSTER_AUTOSCALER).shown(shared.env.metrics());
    // Sets and machines are asked for only to know whether they are served.
    let served = [follow(MACHINE_SET), follow(MACHINE)];
    let measures = Measures::shown(&shared.env);
    let events = shared.recorder("cluster-autoscaler");
    let mut scaler = Scaler { shared: shared.clone(), events, measures, memory: Memory::default(), eyes: None, refused: Vec::new() };
    let mut settled = None;
    loop {
        let settings = scaler.settings(&autoscalers);
        let is_served = served.iter().all(|kind| kind.objects().is_some());
        let wait = match settings.filter(|_| is_served) {
            None => {
                scaler.close();
                settled = None;
                INTERVAL
            }
            Some(settings) if scaler.is_ready() => {
                // A change of the settings counts at once, any other change of sets in the next pass.
                settled = Some(settings.clone());
                Box::pin(scaler.pass(settings)).await;
                INTERVAL
            }
            Some(_) => SOON,
        };
        let until = tokio::time::Instant::now() + wait;
        loop {
            tokio::select! {
                () = shared.stop.cancelled() => return,
                () = tokio::time::sleep_until(until) => break,
                () = woken.notified() => if scaler.settings(&autoscalers) != settled { break },
            }
        }
    }
}

struct Scaler {
    shared: Shared,
    events: Teller,
    measures: Arc<Measures>,
    memory: Memory,
    /// The live copies, while there is something to do.
    eyes: Option<Eyes>,
    /// Names and versions of objects whose mistakes were told.
    refused: Vec<(String, String)>,
}

impl Scaler {
    /// Reads the settings; `None` if there are none, or none that are valid. Mistakes are told once for each version.
    fn settings(&mut self, autoscalers: &Optional) -> Option<Settings> {
        let objects = autoscalers.objects().filter(mainstay_runtime::Cache::is_ready)?.all();
        let mut found = None;
        let mut refused = Vec::new();
        for object in &objects {
            let Ok(value) = CLUSTER_AUTOSCALER.value(object) else { continue };
            match Settings::of(&value) {
                Ok(settings) => found = Some(settings),
                Err(errors) => {
                    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
                    let version = (text("/metadata/name"), text("/metadata/resourceVersion"));
                    if !self.refused.contains(&version) {
                        let note = format!("ClusterAutoscaler validation error: {}", told(&errors));
                        tracing::warn!(name = version.0, note, "a ClusterAutoscaler is not acted on");
                        self.events.tell(&value, EventKind::Warning, "FailedValidation", "Validate", note);
                    }
                    refused.push(version);
                }
            }
        }
        self.refused = refused;
        found
    }

    /// Ends the live copies; what is remembered would not be true later.
    fn close(&mut self) {
        if self.eyes.take().is_some() {
            tracing::info!("no valid ClusterAutoscaler {NAME}: nothing is scaled");
            self.memory = Memory::default();
            self.measures.idle();
        }
    }

    fn is_ready(&mut self) -> bool {
        let open = || Eyes::open(self.shared.writer.client(), &self.shared.env, &self.shared.stop);
        self.eyes.get_or_insert_with(open).are_ready()
    }

    async fn pass(&mut self, settings: Settings) {
        let Some(eyes) = &self.eyes else { return };
        let asks_priorities = settings.expanders.contains(&Expander::Priority);
        let (mut snapshot, rehearsed) = eyes.look(&self.shared.env, settings, &self.shared.namespace);
        if asks_priorities {
            snapshot.priorities = self.priorities().await;
        }
        let env = self.shared.env.clone();
        let memory = self.memory.clone();
        // A plan over many nodes takes its time, which no other task should wait for.
        let planned = tokio::task::spawn_blocking(move || {
            let mut pick = |count: usize| usize::try_from(env.random() % count.max(1) as u64).unwrap_or_default();
            let plan = plan(&snapshot, &memory, rehearsed, &mut pick);
            (snapshot, plan)
        });
        let (snapshot, plan) = match planned.await {
            Ok(planned) => planned,
            Err(error) => {
                tracing::error!(%error, "a plan ended abnormally");
                return;
            }
        };
        self.memory.learn(&plan);
        self.measures.looked(&snapshot, &plan);
        // Written before anything is done, so that what is done has its reason, and events have what they are about.
        let status = match self.report(&snapshot, &plan).await {
            Ok(status) => status,
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the status could not be written: nothing is done in this pass");
                return;
            }
        };
        let act = Act { shared: &self.shared, events: &self.events, measures: &self.measures, snapshot: &snapshot, plan: &plan, status };
        act.run(&mut self.memory).await;
    }

    /// Reads the priorities of sets; mistakes are told, and then the next chooser decides.
    async fn priorities(&self) -> Option<Priorities> {
        let place = CONFIG_MAP.at(&Key::new(&self.shared.namespace, PRIORITIES));
        let live = match self.shared.writer.get(&place).await {
            Ok(live) => live,
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the priorities of sets could not be read");
                return None;
            }
        };
        match Priorities::of(live.as_ref()) {
            Ok(priorities) => Some(priorities),
            Err(error) => {
                tracing::warn!(%error, "the priorities of sets cannot be used");
                if let Some(live) = &live
                    && self.measures.is_news(PRIORITIES, &error.to_string())
                {
                    self.events.tell(live, EventKind::Warning, "PriorityConfigMapInvalid", "Read", &error);
                }
                None
            }
        }
    }

    /// Writes ConfigMap `cluster-autoscaler-status` and returns it.
    async fn report(&self, snapshot: &Snapshot, plan: &Plan) -> Result<Value, Error> {
        let place = CONFIG_MAP.at(&Key::new(&self.shared.namespace, STATUS));
        let live = self.shared.writer.get(&place).await?;
        let before = live.as_ref().and_then(read);
        let text = written(&status(snapshot, plan, before.as_ref()));
        let object = json!({
            "apiVersion": "v1", "kind": CONFIG_MAP.kind,
            "metadata": {
                "namespace": place.namespace, "name": place.name,
                "annotations": {LAST_UPDATED: format!("{:.0}", snapshot.now)},
            },
            "data": {KEY: text},
        });
        Ok(match live {
            None => self.shared.writer.create(&object).await?,
            Some(_) => self.shared.writer.apply(&object, true, &Expect::default()).await?.0,
        })
    }
}
