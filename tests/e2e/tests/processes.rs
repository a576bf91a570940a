//! `--run-image`: containers that are processes of this machine, with kubectl (KAPI-WL-07, OLM0-USER-13).
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead as _, Read as _};
use std::net::TcpListener;
use std::time::Duration;

use mainstay_e2e::bundles::{Toy, publish};
use mainstay_e2e::{Cluster, Registry, eventually, here, mainstay, need_embedded, need_kubectl, program, run};
use serde_json::{Value, json};

const WITHOUT_OLM: &str = "controllers,scheduler,nodes";

/// A pod of one container that runs a shell script.
fn pod(name: &str, script: &str, container: &Value, spec: &Value) -> Value {
    let mut main = json!({"name": "main", "image": "example.com/shell:1", "command": ["/bin/sh", "-c", script]});
    for (field, value) in container.as_object().into_iter().flatten() {
        main[field] = value.clone();
    }
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": {"containers": [main], "terminationGracePeriodSeconds": 5}});
    for (field, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    pod
}

fn state(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]["state"]
}

fn process(pod: &Value) -> Option<u32> {
    pod["metadata"]["annotations"]["mainstay.dev/process"].as_str()?.parse().ok()
}

fn is_alive(pid: u32) -> bool {
    std::process::Command::new("kill").args(["-0", &pid.to_string()]).stderr(std::process::Stdio::null()).status().unwrap().success()
}

fn until_dead(pid: u32) {
    eventually("the process is gone", Duration::from_secs(30), || if is_alive(pid) { Err(format!("{pid} is alive")) } else { Ok(()) });
}

fn until_logged(cluster: &Cluster, arguments: &[&str], wanted: &str) -> String {
    eventually("the log", Duration::from_secs(60), || {
        let output = cluster.kubectl(&[&["logs"], arguments].concat());
        if output.stdout.contains(wanted) { Ok(output.stdout) } else { Err(output.to_string()) }
    })
}

/// KAPI-WL-07: a container of a mapped image is a process with the container's command, environment and volumes; its log, its annotation and
/// its end are real; volumes follow their sources.
#[test]
fn a_container_is_a_process() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let cluster = Cluster::up(&["--components", WITHOUT_OLM, "--run-image", "*/shell:*=sh"]);
    assert!(cluster.log().contains("*/shell:* = sh; nothing is isolated"), "{}", cluster.log());
    cluster.kubectl(&["create", "configmap", "settings", "--from-literal=mode=fast"]).ok();
    cluster.kubectl(&["create", "secret", "generic", "login", "--from-literal=password=s3"]).ok();
    let script = "echo mode=$MODE password=$PASSWORD node=$NODE cpu=$CPU prefixed=$CM_mode greeting=$GREETING word=$0; cd $MAINSTAY_ROOT
        echo file=$(cat etc/settings/mode) token=$(wc -c < var/run/secrets/kubernetes.io/serviceaccount/token) ns=$(cat var/run/secrets/kubernetes.io/serviceaccount/namespace)
        echo labels=$(cat etc/pod/labels) shared=$(ls cache) >&2
        grep -q tokenFile $KUBECONFIG && echo server=$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT
        while true; do echo mode:$(cat etc/settings/mode); sleep 1; done";
    let from = |source: Value| json!({"valueFrom": source});
    let env: Vec<Value> = [
        ("MODE", from(json!({"configMapKeyRef": {"name": "settings", "key": "mode"}}))),
        ("PASSWORD", from(json!({"secretKeyRef": {"name": "login", "key": "password"}}))),
        ("NODE", from(json!({"fieldRef": {"fieldPath": "spec.nodeName"}}))),
        ("CPU", from(json!({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}))),
        ("GREETING", json!({"value": "hello-$(MODE)"})),
    ]
    .into_iter()
    .map(|(name, mut rest)| {
        rest["name"] = json!(name);
        rest
    })
    .collect();
    let container = json!({
        "args": ["$(GREETING)"], "env": env, "envFrom": [{"prefix": "CM_", "configMapRef": {"name": "settings"}}],
        "resources": {"limits": {"cpu": "250m"}},
        "volumeMounts": [{"name": "settings", "mountPath": "/etc/settings"}, {"name": "pod", "mountPath": "/etc/pod"}, {"name": "cache", "mountPath": "/cache"}],
    });
    let volumes = json!({"volumes": [
        {"name": "settings", "configMap": {"name": "settings"}}, {"name": "cache", "emptyDir": {}},
        {"name": "pod", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    ]});
    cluster.apply(&pod("one", script, &container, &volumes).to_string());
    let running =
        cluster.until("the pod runs as a process", &["pod", "one"], |pod| state(pod)["running"].is_object() && process(pod).is_some());
    let pid = process(&running).unwrap();
    assert!(is_alive(pid));
    assert!(running["status"]["containerStatuses"][0]["containerID"].as_str().unwrap().starts_with("process://"));
    let log = until_logged(&cluster, &["one"], "mode:fast");
    let node = running["spec"]["nodeName"].as_str().unwrap();
    assert!(log.contains(&format!("mode=fast password=s3 node={node} cpu=250 prefixed=fast greeting=hello-fast word=hello-fast")), "{log}");
    assert!(log.contains("file=fast token=") && !log.contains("token=0") && log.contains("ns=default"), "{log}");
    assert!(log.contains("labels=app=\"one\" shared=") && log.contains("server=127.0.0.1:"), "{log}");
    assert_eq!(cluster.kubectl(&["logs", "one", "--tail=1"]).ok().lines().count(), 1);
    let stamped = cluster.kubectl(&["logs", "one", "--timestamps", "--limit-bytes=12"]).ok();
    assert!(stamped.len() == 12 && stamped.starts_with("20"), "{stamped}");
    assert!(
        cluster
            .kubectl(&["logs", "one", "--previous"])
            .refused()
            .contains("previous terminated container \"main\" in pod \"one\" not found")
    );

    let folder = cluster.data_dir().join("pods");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&folder).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o700);
    cluster.kubectl(&["patch", "configmap", "settings", "--type=merge", "-p", r#"{"data":{"mode":"slow"}}"#]).ok();
    until_logged(&cluster, &["one"], "mode:slow");

    let refused = cluster.kubectl(&["exec", "one", "--", "true"]).refused();
    assert!(refused.contains(&format!("are processes of the machine that runs this cluster (process {pid})")), "{refused}");
    cluster.apply(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "not-mapped"}, "spec": {"containers": [{"name": "a", "image": "other:1"}]}}).to_string());
    cluster.until("it is simulated", &["pod", "not-mapped"], |pod| pod["status"]["phase"] == "Running");
    assert!(cluster.kubectl(&["logs", "not-mapped"]).ok().contains("this cluster simulates its nodes"));
    assert!(
        cluster
            .kubectl(&["exec", "not-mapped", "--", "true"])
            .refused()
            .contains("nodes of this cluster are simulated and run no containers")
    );
    cluster.kubectl(&["delete", "pod", "one"]).ok();
    until_dead(pid);
    eventually("its directory is gone", Duration::from_secs(20), || {
        let left = std::fs::read_dir(&folder).unwrap().count();
        if left == 0 { Ok(()) } else { Err(format!("{left} directories")) }
    });
}

/// KAPI-WL-07: exit codes, termination messages, restarts with back-off, restart policies and grace periods are the process's own; what cannot
/// be given to a process is said.
#[test]
fn processes_end() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let cluster =
        Cluster::up(&["--components", WITHOUT_OLM, "--run-image", "*/shell:*=sh", "--run-image", "*/missing:*=sh /no/such/script"]);
    let never = json!({"restartPolicy": "Never"});
    cluster
        .apply(&pod("fails", "echo gone wrong; exit 7", &json!({"terminationMessagePolicy": "FallbackToLogsOnError"}), &never).to_string());
    let failed = cluster.until("it fails", &["pod", "fails"], |pod| pod["status"]["phase"] == "Failed");
    assert_eq!((&state(&failed)["terminated"]["exitCode"], &state(&failed)["terminated"]["message"]), (&json!(7), &json!("gone wrong\n")));
    cluster.apply(&pod("tells", "printf done > $MAINSTAY_ROOT/dev/termination-log", &json!({}), &never).to_string());
    let told = cluster.until("it succeeds", &["pod", "tells"], |pod| pod["status"]["phase"] == "Succeeded");
    assert_eq!(state(&told)["terminated"]["message"], "done");
    // Kubernetes makes one dollar sign of two.
    cluster.apply(&pod("killed", "kill -9 $$$$", &json!({}), &never).to_string());
    let killed = cluster.until("it is killed", &["pod", "killed"], |pod| pod["status"]["phase"] == "Failed");
    assert_eq!(state(&killed)["terminated"]["exitCode"], 137);
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": {"template": {"spec": {"restartPolicy": "Never",
        "containers": [{"name": "main", "image": "example.com/shell:1", "args": ["-c", "echo worked"]}]}}}});
    cluster.apply(&job.to_string());
    cluster.until("the Job completes", &["job", "job"], |job| job["status"]["succeeded"] == 1);
    until_logged(&cluster, &["job/job"], "worked");

    cluster.apply(&pod("again", "echo run; exit 3", &json!({}), &json!({})).to_string());
    let again = cluster.until("it waits for its third run", &["pod", "again"], |pod| {
        state(pod)["waiting"]["reason"] == "CrashLoopBackOff" && pod["status"]["containerStatuses"][0]["restartCount"] == 1
    });
    assert_eq!(again["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 3);
    assert_eq!(cluster.kubectl(&["logs", "again", "--previous"]).ok(), "run\n");
    assert_eq!(process(&again), None, "no process runs");

    // One that does not heed SIGTERM is killed after the grace period, with all that it started.
    let stubborn = "trap '' TERM; sleep 1000 & echo child=$!; while true; do sleep 0.1; done";
    cluster.apply(&pod("stubborn", stubborn, &json!({}), &json!({"terminationGracePeriodSeconds": 1})).to_string());
    let log = until_logged(&cluster, &["stubborn"], "child=");
    let child = log.trim().trim_start_matches("child=").parse().unwrap();
    cluster.kubectl(&["delete", "pod", "stubborn"]).ok();
    until_dead(child);
    let polite = "trap 'echo bye; exit 0' TERM; echo up; while true; do sleep 0.1; done";
    cluster.apply(&pod("polite", polite, &json!({}), &json!({"terminationGracePeriodSeconds": 1000})).to_string());
    until_logged(&cluster, &["polite"], "up");
    let mut follower = cluster.command(&mainstay_e2e::kubectl().unwrap());
    let mut follower = follower.args(["logs", "-f", "polite"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    // It follows from its first line on; a pod that is gone before has no log.
    let mut followed = std::io::BufReader::new(follower.stdout.take().unwrap());
    let mut line = String::new();
    followed.read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    cluster.kubectl(&["delete", "pod", "polite"]).ok();
    followed.read_to_string(&mut line).unwrap();
    assert!(follower.wait().unwrap().success(), "{line}");

    for (name, container, spec, reason, message) in [
        (
            "host",
            json!({}),
            json!({"volumes": [{"name": "etc", "hostPath": {"path": "/etc"}}]}),
            "CreateContainerConfigError",
            "hostPath volumes are not available",
        ),
        (
            "master",
            json!({"securityContext": {"privileged": true}}),
            json!({}),
            "CreateContainerError",
            "privileged containers are not run",
        ),
        (
            "lacks",
            json!({"envFrom": [{"secretRef": {"name": "later"}}]}),
            json!({}),
            "CreateContainerConfigError",
            "secret \"later\" not found",
        ),
    ] {
        cluster.apply(&pod(name, "true", &container, &spec).to_string());
        let stuck = cluster.until(name, &["pod", name], |pod| state(pod)["waiting"]["reason"] == reason);
        assert!(state(&stuck)["waiting"]["message"].as_str().unwrap().contains(message), "{stuck:#}");
    }
    cluster.kubectl(&["create", "secret", "generic", "later", "--from-literal=a=b"]).ok();
    cluster.until("it starts when the Secret is there", &["pod", "lacks"], |pod| {
        !pod["status"]["containerStatuses"][0]["lastState"].is_null() && state(pod)["waiting"]["reason"] != "CreateContainerConfigError"
    });
    let init = json!({"initContainers": [{"name": "setup", "image": "setup:1"}], "restartPolicy": "Never"});
    cluster.apply(&pod("init", "true", &json!({}), &init).to_string());
    cluster.until("it runs after the simulated one", &["pod", "init"], |pod| pod["status"]["phase"] == "Succeeded");
    eventually("the event", Duration::from_secs(20), || {
        let events = cluster.kubectl(&["get", "events", "--field-selector", "reason=SkippedInitContainer"]).ok();
        if events.contains("init container setup is simulated") { Ok(()) } else { Err(events) }
    });
}

/// Answers requests by HTTP on a port of its own: 200 for /up as long as the file is there.
fn serve(flag: std::path::PathBuf) -> u16 {
    use std::io::{Read as _, Write as _};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 2048];
            let _ = stream.read(&mut request);
            let status = if flag.exists() { "200 OK" } else { "503 Service Unavailable" };
            let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    port
}

/// KAPI-WL-07: probes ask the process: by HTTP, by a connection and by a command; a startup probe holds the others back; a failing liveness
/// probe restarts the container.
#[test]
fn processes_are_probed() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let cluster = Cluster::up(&["--components", WITHOUT_OLM, "--run-image", "*/shell:*=sh"]);
    let flag = cluster.folder().join("up");
    let port = serve(flag.clone());
    let fast = |mut probe: Value| {
        probe["periodSeconds"] = json!(1);
        probe["failureThreshold"] = json!(2);
        probe["timeoutSeconds"] = json!(5);
        probe
    };
    let forever = "echo $$ > $MAINSTAY_ROOT/alive; echo run; while true; do sleep 0.1; done";
    let container = json!({
        "env": [{"name": "PORT_8080", "value": port.to_string()}], "ports": [{"name": "web", "containerPort": 8080}],
        "startupProbe": fast(json!({"tcpSocket": {"port": "web"}})),
        "readinessProbe": fast(json!({"httpGet": {"port": "web", "path": "/up"}})),
        "livenessProbe": fast(json!({"exec": {"command": ["sh", "-c", "test -f $MAINSTAY_ROOT/alive"]}})),
    });
    cluster.apply(&pod("probed", forever, &container, &json!({})).to_string());
    let ready = |pod: &Value| pod["status"]["containerStatuses"][0]["ready"].clone();
    let started =
        cluster.until("it is started and not ready", &["pod", "probed"], |pod| pod["status"]["containerStatuses"][0]["started"] == true);
    assert_eq!(ready(&started), false);
    eventually("the event", Duration::from_secs(30), || {
        let events = cluster.kubectl(&["get", "events", "--field-selector", "reason=Unhealthy"]).ok();
        if events.contains("Readiness probe failed: HTTP probe failed with statuscode: 503") { Ok(()) } else { Err(events) }
    });
    std::fs::write(&flag, "").unwrap();
    cluster.until("it is ready", &["pod", "probed"], |pod| ready(pod) == true);
    std::fs::remove_file(&flag).unwrap();
    cluster.until("it is not ready any more", &["pod", "probed"], |pod| ready(pod) == false);
    let uid = started["metadata"]["uid"].as_str().unwrap();
    std::fs::remove_file(cluster.data_dir().join("pods").join(uid).join("roots/main/alive")).unwrap();
    let restarted = cluster.until("it is restarted", &["pod", "probed"], |pod| {
        pod["status"]["containerStatuses"][0]["restartCount"] == 1 && state(pod)["running"].is_object()
    });
    assert_eq!(restarted["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 143);
    let events = cluster.kubectl(&["get", "events", "--field-selector", "reason=Killing"]).ok();
    assert!(events.contains("Container main failed liveness probe, will be restarted"), "{events}");
}

/// KAPI-WL-07: no process outlives the cluster, also when that is killed; after a restart on the same data pods run again.
#[test]
fn processes_end_with_the_cluster() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let mut cluster = Cluster::up(&["--components", WITHOUT_OLM, "--run-image", "*/shell:*=sh"]);
    let script = "sleep 1000 & echo child=$!; wait";
    cluster.apply(&pod("lasts", script, &json!({}), &json!({})).to_string());
    let child =
        |cluster: &Cluster| -> u32 { until_logged(cluster, &["lasts"], "child=").trim().trim_start_matches("child=").parse().unwrap() };
    let first = child(&cluster);
    let pid = process(&cluster.until("it runs", &["pod", "lasts"], |pod| process(pod).is_some())).unwrap();
    cluster.kill();
    until_dead(pid);
    until_dead(first);
    cluster.start_again();
    let back = cluster.until("it runs again", &["pod", "lasts"], |found| {
        process(found).is_some_and(|now| now != pid) && state(found)["running"].is_object()
    });
    assert_eq!(back["status"]["containerStatuses"][0]["restartCount"], 1);
    assert_eq!(back["status"]["containerStatuses"][0]["lastState"]["terminated"]["reason"], "Unknown");
    let (second, pid) = (child(&cluster), process(&back).unwrap());
    assert_eq!(cluster.stop(), Some(0));
    until_dead(pid);
    until_dead(second);
}

/// KAPI-WL-07, MS-CLI-11: an API that others reach runs no programs unless that is allowed; a program that is not there is named at once.
#[test]
fn mappings_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let up = |arguments: &[&str]| {
        let data = folder.path().join("data");
        run(std::process::Command::new(mainstay()).args(["up", "--data-dir"]).arg(data).args(arguments), "").exits(2)
    };
    let refused = up(&["--listen", "0.0.0.0:0", "--run-image", "a=sh"]);
    assert!(refused.contains("--run-image: cannot be used with --listen 0.0.0.0:0") && refused.contains("--allow-processes"), "{refused}");
    let missing = up(&["--listen", "127.0.0.1:0", "--run-image", "a=no-such-program-here"]);
    assert!(missing.contains("program \"no-such-program-here\" of image \"a\" is not found in PATH"), "{missing}");
    for (arguments, other) in [(["--nodes", "0"], "--nodes 0"), (["--components", "controllers"], "--components without nodes")] {
        let refused = up(&[&arguments[..], &["--run-image", "a=sh"]].concat());
        assert!(refused.contains(&format!("--run-image: cannot be used with {other}")), "{refused}");
    }
    assert!(up(&["--run-image", "a"]).contains("\"a\" is not IMAGE=PROGRAM [ARG...]"));
}

/// OLM0-USER-13, OLM0-USER-03, KAPI-WL-07: an operator that OLM classic installed reconciles a custom resource into a Service, a ConfigMap and
/// pods, because a program stands for its image; without it, it is said to be simulated, with the image that would act.
#[test]
fn an_operator_of_olm_acts() {
    let (Some(()), Some(())) = (need_kubectl(), need_embedded()) else { return };
    let Some(mapping) = operator_mapping() else { return };
    for real in [true, false] {
        let cluster = Cluster::up(&["--run-image", if real { &mapping } else { "example.com/none=sh" }]);
        let _registry = subscribe(&cluster, "gadgets");
        let explained = cluster.mainstay(&["explain", "csv", "gadget.v1.0.0", "-n", "gadgets"]).ok();
        if !real {
            assert!(
                explained.contains("the operator is simulated") && explained.contains("image example.com/gadget:1.0.0 would act"),
                "{explained}"
            );
            let by_subscription = cluster.mainstay(&["explain", "subscription", "gadget", "-n", "gadgets"]).ok();
            assert!(by_subscription.contains("image example.com/gadget:1.0.0 would act"), "{by_subscription}");
            continue;
        }
        assert!(!explained.contains("simulated"), "{explained}");
        until_logged(&cluster, &["deployment/gadget", "-n", "gadgets"], "started with --own-word --leader-elect in gadgets");
        cluster.apply(&gadget("first", "default"));
        let made = cluster.until("the operator makes a ConfigMap", &["configmap", "first"], |map| map["data"]["size"] == "3");
        assert_eq!(made["metadata"]["ownerReferences"][0]["kind"], "Gadget");
        cluster.until("the operator makes a Service", &["service", "first"], |service| service["spec"]["clusterIP"].is_string());
        cluster.until("the operand runs", &["deployment", "first"], |deployment| deployment["status"]["availableReplicas"] == 1);
        cluster.kubectl(&["delete", "gadget", "first"]).ok();
        cluster.until_gone(&["service", "first"]);
    }
}

/// A custom resource of the operator.
pub fn gadget(name: &str, namespace: &str) -> String {
    json!({"apiVersion": "gadgets.example.com/v1", "kind": "Gadget", "metadata": {"name": name, "namespace": namespace}, "spec": {"size": 3}}).to_string()
}

/// The mapping of the operator's image to a program in Python; none, with a visible skip, without Python.
pub fn operator_mapping() -> Option<String> {
    let python = program("python3")?;
    Some(format!("example.com/gadget:*={} -u {} --own-word", python.display(), here("python/gadget_operator.py").display()))
}

/// Installs the operator by a Subscription into a namespace, which is made unless it is there, and waits until it has succeeded.
pub fn subscribe(cluster: &Cluster, namespace: &str) -> Registry {
    let registry = Registry::ours();
    let mut toy = Toy::new("gadget", "1.0.0");
    let mut csv = toy.csv();
    let strategy = &mut csv["spec"]["install"]["spec"];
    strategy["clusterPermissions"][0]["rules"].as_array_mut().unwrap().extend([
        json!({"apiGroups": [""], "resources": ["services", "configmaps"], "verbs": ["create"]}),
        json!({"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["create"]}),
    ]);
    let container = &mut strategy["deployments"][0]["spec"]["template"]["spec"]["containers"][0];
    container["command"] = json!(["/manager"]);
    container["args"] = json!(["--leader-elect"]);
    container["env"] = json!([{"name": "OPERATOR_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}]);
    container["readinessProbe"] = json!({"httpGet": {"path": "/readyz", "port": 8081}, "periodSeconds": 1});
    toy.more.push(("manifests/csv.yaml".to_owned(), csv));
    let bundles = cluster.folder().join("bundles");
    toy.write(&bundles);
    let image = publish(&registry, &bundles, cluster.folder(), "latest");
    // Applied again, it would lose what the test has given it.
    if cluster.get(&["namespace", namespace]).is_none() {
        cluster.kubectl(&["create", "namespace", namespace]).ok();
    }
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for object in [
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"name": "team", "namespace": "openshift-marketplace"}, "spec": {"sourceType": "grpc", "image": image}}),
        json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"name": "all", "namespace": namespace}, "spec": {}}),
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": {"name": "gadget", "namespace": namespace},
            "spec": {"name": "gadget", "channel": "stable", "source": "team", "sourceNamespace": "openshift-marketplace",
                "config": {"env": [{"name": "PORT_8081", "value": free.to_string()}]}}}),
    ] {
        cluster.apply(&object.to_string());
    }
    cluster.until("the operator is installed", &["csv", "gadget.v1.0.0", "-n", namespace], |csv| csv["status"]["phase"] == "Succeeded");
    registry
}
