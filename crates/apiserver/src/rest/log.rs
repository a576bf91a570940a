//! `pods/NAME/log`, and why `exec` and its kin are refused.

use std::sync::Arc;

use axum::body::Body;
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::containers::{Containers, Log, LogOptions};
use crate::context::Context;
use crate::error::{ApiError, Cause, Result};
use crate::object::meta;
use crate::request::Query;
use crate::respond::{Answer, AnswerBody};

/// The annotation of pods that run as processes.
const PROCESS: &str = "mainstay.dev/process";

/// Answers with the log of a container: a process's own, or a line that says that the container is simulated.
pub async fn log(context: &Context) -> Result<Answer> {
    let info = &context.request.info;
    let pods = context.api.objects.built_in("", "pods")?;
    let mut options = options(&context.request.query, &info.name, Timestamp::now())?;
    let pod = context.api.objects.require(&pods, &info.namespace, &info.name).await?.value;
    let container = container(&pod, &options.container)?;
    if text(&pod["spec"]["nodeName"]).is_empty() {
        // No node has it, which is no mistake, and nothing to read.
        return Ok(Answer::bytes(StatusCode::NO_CONTENT, "", String::new()));
    }
    text(&container["name"]).clone_into(&mut options.container);
    let found = context
        .api
        .containers
        .as_ref()
        .map_or(Log::Simulated, |containers| containers.log(meta(&pod, "uid"), text(&container["image"]), &options));
    match found {
        Log::Simulated => Ok(Answer::bytes(StatusCode::OK, "text/plain", simulated(&pod))),
        Log::Missing => Err(ApiError::bad_request(missing(&pod, &options))),
        Log::Found(stream) => Ok(Answer {
            status: StatusCode::OK,
            headers: Vec::new(),
            content_type: "text/plain",
            body: AnswerBody::Stream(Body::from_stream(stream)),
        }),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn simulated(pod: &Value) -> String {
    let name = meta(pod, "name");
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or("Unknown");
    format!("this cluster simulates its nodes: pod {name} is {phase}, no container runs\n")
}

/// Says in the kubelet's words why there is no log.
fn missing(pod: &Value, options: &LogOptions) -> String {
    let (container, name) = (&options.container, meta(pod, "name"));
    if options.previous {
        return format!("previous terminated container {container:?} in pod {name:?} not found");
    }
    let lists = ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"];
    let statuses = lists.iter().flat_map(|list| pod["status"][*list].as_array().into_iter().flatten());
    let status = statuses.into_iter().find(|status| status["name"] == container.as_str());
    match status.and_then(|status| status.pointer("/state/waiting/reason")).and_then(Value::as_str) {
        Some(reason) => format!("container {container:?} in pod {name:?} is waiting to start: {reason}"),
        None => format!("container {container:?} in pod {name:?} is not available"),
    }
}

fn names(pod: &Value, list: &str) -> Vec<String> {
    pod["spec"][list].as_array().into_iter().flatten().map(|one| text(&one["name"]).to_owned()).collect()
}

/// Returns the container whose log is asked for; one that is the only one need not be named.
fn container<'a>(pod: &'a Value, name: &str) -> Result<&'a Value> {
    let containers = || pod["spec"]["containers"].as_array().into_iter().flatten();
    if name.is_empty() {
        let mut all = containers();
        if let (Some(only), None) = (all.next(), all.next()) {
            return Ok(only);
        }
        let (pod_name, main, init) = (meta(pod, "name"), names(pod, "containers"), names(pod, "initContainers"));
        let mut message = format!("a container name must be specified for pod {pod_name}, choose one of: [{}]", main.join(" "));
        if !init.is_empty() {
            message.extend([" or one of the init containers: [", &init.join(" "), "]"]);
        }
        return Err(ApiError::bad_request(message));
    }
    let others = ["initContainers", "ephemeralContainers"];
    let others = others.iter().flat_map(|list| pod["spec"][*list].as_array().into_iter().flatten());
    let found = containers().chain(others).find(|one| one["name"] == name);
    found.ok_or_else(|| ApiError::bad_request(format!("container {name} is not valid for pod {}", meta(pod, "name"))))
}

/// Reads PodLogOptions.
fn options(query: &Query, pod: &str, now: Timestamp) -> Result<LogOptions> {
    let mut causes = Vec::new();
    let mut number = |name: &str, least: i64| -> Result<Option<i64>> {
        let Some(text) = query.text(name) else { return Ok(None) };
        let number: i64 = text.parse().map_err(|_| ApiError::bad_request(format!("{name}: {text:?} is not a number")))?;
        if number < least {
            let why = if least == 0 { "must be greater than or equal to 0" } else { "must be greater than 0" };
            causes.push(Cause::invalid(name, &json!(number), why));
        }
        Ok(Some(number))
    };
    let (tail, limit, seconds) = (number("tailLines", 0)?, number("limitBytes", 1)?, number("sinceSeconds", 1)?);
    let time = query
        .text("sinceTime")
        .map(|text| text.parse::<Timestamp>().map_err(|_| ApiError::bad_request(format!("sinceTime: {text:?} is not a time of RFC 3339"))));
    let time = time.transpose()?;
    if time.is_some() && seconds.is_some() {
        causes.retain(|cause| cause.field != "sinceSeconds");
        // The path of nothing is shown so.
        causes.push(Cause::forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"));
    }
    // The gate that lets one stream be chosen is off.
    if query.text("stream").is_some() {
        causes.push(Cause::forbidden("stream", "may not be specified"));
    }
    if !causes.is_empty() {
        return Err(ApiError::invalid("", "PodLogOptions", pod, causes));
    }
    let since = seconds.map(|seconds| now.saturating_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN));
    let size = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
    Ok(LogOptions {
        container: query.first("container").unwrap_or_default().to_owned(),
        previous: query.flag("previous"),
        follow: query.flag("follow"),
        timestamps: query.flag("timestamps"),
        since: time.or(since),
        tail: size(tail),
        limit: size(limit),
    })
}

/// The refusal of `exec`, `attach`, `portforward` and `proxy`, with its reason and, if the pod has processes, what to do in its place.
pub async fn refusal(context: &Context) -> ApiError {
    let info = &context.request.info;
    let refuse =
        |why: &str| ApiError::new(StatusCode::NOT_IMPLEMENTED, "NotImplemented", format!("{} is not available: {why}", info.subresource));
    let simulated = "nodes of this cluster are simulated and run no containers";
    if info.resource != "pods" {
        return refuse(simulated);
    }
    let pod = match context.api.objects.built_in("", "pods") {
        Ok(pods) => context.api.objects.require(&pods, &info.namespace, &info.name).await,
        Err(error) => Err(error),
    };
    let pod = match pod {
        Ok(pod) => pod.value,
        Err(error) => return error,
    };
    if info.subresource == "proxy" && text(&pod["status"]["podIP"]).is_empty() {
        return ApiError::bad_request("address not allowed");
    }
    if info.subresource != "proxy" && text(&pod["spec"]["nodeName"]).is_empty() {
        return ApiError::bad_request(format!("pod {} does not have a host assigned", info.name));
    }
    match process(&pod, context.api.containers.as_ref()) {
        Some(processes) => refuse(&format!(
            "the pod's containers are processes of the machine that runs this cluster ({processes}); nothing is isolated, so commands and \
             connections for it work there"
        )),
        None => refuse(simulated),
    }
}

/// Returns the processes of a pod, in words.
fn process(pod: &Value, containers: Option<&Arc<dyn Containers>>) -> Option<String> {
    let containers = containers?;
    let mut all = pod["spec"]["containers"].as_array().into_iter().flatten();
    if !all.any(|one| containers.is_process(text(&one["image"]))) {
        return None;
    }
    let shown = pod.pointer("/metadata/annotations").and_then(|all| all[PROCESS].as_str());
    Some(shown.map_or_else(|| "none runs now".to_owned(), |pid| format!("process {pid}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn pod() -> Value {
        json!({
            "metadata": {"name": "p", "uid": "u"},
            "spec": {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}, {"name": "j"}]},
            "status": {"containerStatuses": [{"name": "a", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]},
        })
    }

    /// OLM0-ADMIN-45, OLM0-ADMIN-23: a pod of several containers without a name is refused with all names; one that it has not, with its own.
    #[test]
    fn containers_are_chosen() {
        let mut pod = pod();
        let refused = |pod: &Value, name: &str| container(pod, name).unwrap_err().message;
        assert_eq!(
            refused(&pod, ""),
            "a container name must be specified for pod p, choose one of: [a b] or one of the init containers: [i j]"
        );
        assert_eq!(refused(&pod, "c"), "container c is not valid for pod p");
        assert_eq!(
            (container(&pod, "b").unwrap()["name"].as_str(), container(&pod, "j").unwrap()["name"].as_str()),
            (Some("b"), Some("j"))
        );
        pod["spec"]["initContainers"] = Value::Null;
        assert_eq!(refused(&pod, ""), "a container name must be specified for pod p, choose one of: [a b]");
        pod["spec"]["containers"].as_array_mut().unwrap().pop();
        assert_eq!(container(&pod, "").unwrap()["name"], "a");
    }

    /// KAPI-WL-07: options of logs are read and refused as kube-apiserver does it; a log that is not there is told of as the kubelet does.
    #[test]
    fn options_are_read() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let read = |query: &str| options(&Query::parse(query), "p", now);
        let all = read("container=a&previous=true&follow&timestamps=1&tailLines=3&limitBytes=7&sinceSeconds=60").unwrap();
        let since = Some("2026-01-01T00:00:00Z".parse().unwrap());
        let expected =
            LogOptions { container: "a".into(), previous: true, follow: true, timestamps: true, since, tail: Some(3), limit: Some(7) };
        assert_eq!(all, expected);
        assert_eq!(read("sinceTime=2026-01-01T00:00:00Z").unwrap().since, since);
        for (query, why) in [
            ("tailLines=-1", "tailLines: Invalid value: -1: must be greater than or equal to 0"),
            ("limitBytes=0", "limitBytes: Invalid value: 0: must be greater than 0"),
            ("sinceSeconds=0", "sinceSeconds: Invalid value: 0: must be greater than 0"),
            ("sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z", "at most one of `sinceTime` or `sinceSeconds` may be specified"),
            ("tailLines=x", "tailLines: \"x\" is not a number"),
            ("sinceTime=yesterday", "sinceTime: \"yesterday\" is not a time of RFC 3339"),
        ] {
            let refused = read(query).unwrap_err().message;
            assert!(refused.contains(why), "{query}: {refused}");
        }
        let told =
            |container: &str, previous| missing(&pod(), &LogOptions { container: container.into(), previous, ..LogOptions::default() });
        assert_eq!(told("a", false), "container \"a\" in pod \"p\" is waiting to start: CrashLoopBackOff");
        assert_eq!(told("b", false), "container \"b\" in pod \"p\" is not available");
        assert_eq!(told("a", true), "previous terminated container \"a\" in pod \"p\" not found");
    }
}
