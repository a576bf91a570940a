//! Deployments, DaemonSets, Jobs and CronJobs.

use serde_json::{Map, Value, json};

use super::ApplyError;
use super::value::{Merge, get, get_map, is_nothing, part};
use super::{metadata, pod};

pub(super) fn deployment(merge: &mut Merge, live: &mut Map<String, Value>, wanted: &Map<String, Value>) {
    let (live, wanted) = (part(live, "spec"), get_map(wanted, "spec"));
    put_or(merge, live, wanted, "replicas", &json!(1));
    merge.set_all(live, wanted, &["selector", "paused", "minReadySeconds"]);
    merge.set_if_given(live, wanted, "revisionHistoryLimit");
    merge.set_if_given(live, wanted, "progressDeadlineSeconds");
    merge.put(live, "strategy", &strategy(get(wanted, "strategy")));
    pod::template(merge, live, wanted);
}

fn strategy(wanted: &Value) -> Value {
    const ROLLING: &str = "RollingUpdate";
    if !is_nothing(&wanted["type"]) && wanted["type"] != ROLLING {
        return wanted.clone();
    }
    let share = |field: &str| match &wanted["rollingUpdate"][field] {
        Value::Null => json!("25%"),
        given => given.clone(),
    };
    json!({"type": ROLLING, "rollingUpdate": {"maxUnavailable": share("maxUnavailable"), "maxSurge": share("maxSurge")}})
}

pub(super) fn daemon_set(merge: &mut Merge, live: &mut Map<String, Value>, wanted: &Map<String, Value>) {
    let (live, wanted) = (part(live, "spec"), get_map(wanted, "spec"));
    merge.set(live, wanted, "selector");
    pod::template(merge, live, wanted);
}

pub(super) fn job(merge: &mut Merge, live: &mut Map<String, Value>, wanted: &Map<String, Value>) -> Result<(), ApplyError> {
    let (live, wanted) = (part(live, "spec"), get_map(wanted, "spec"));
    if !get(wanted, "selector").is_null() {
        return Err(ApplyError::JobSelector);
    }
    merge.set_all(live, wanted, &["parallelism", "completions", "activeDeadlineSeconds"]);
    put_or(merge, live, wanted, "backoffLimit", &json!(6));
    merge.set_all(live, wanted, &["manualSelector", "ttlSecondsAfterFinished"]);
    put_or(merge, live, wanted, "suspend", &json!(false));
    pod::template(merge, live, wanted);
    put_or(merge, live, wanted, "completionMode", &json!("NonIndexed"));
    merge.set(live, wanted, "podFailurePolicy");
    Ok(())
}

fn put_or(merge: &mut Merge, live: &mut Map<String, Value>, wanted: &Map<String, Value>, field: &str, default: &Value) {
    let given = get(wanted, field);
    merge.put(live, field, if is_nothing(given) { default } else { given });
}

pub(super) fn cron_job(merge: &mut Merge, live: &mut Map<String, Value>, wanted: &Map<String, Value>) -> Result<(), ApplyError> {
    let (live, wanted) = (part(live, "spec"), get_map(wanted, "spec"));
    merge.set(live, wanted, "startingDeadlineSeconds");
    put_or(merge, live, wanted, "suspend", &json!(false));
    put_or(merge, live, wanted, "successfulJobsHistoryLimit", &json!(3));
    put_or(merge, live, wanted, "failedJobsHistoryLimit", &json!(1));
    merge.set_all(live, wanted, &["schedule", "timeZone"]);
    put_or(merge, live, wanted, "concurrencyPolicy", &json!("Allow"));
    let (live, wanted) = (part(live, "jobTemplate"), get_map(wanted, "jobTemplate"));
    metadata::merge(merge, part(live, "metadata"), get_map(wanted, "metadata"));
    job(merge, live, wanted)
}
