//! The walk of KAPI-CLIENT-01: every command of kubectl that a user may type, with every kubectl that is there.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use mainstay_e2e::{Cluster, Output, eventually, every_kubectl, need_embedded, need_kubectl, run, terminate};
use serde_json::{Value, json};

const NODES: &[&str] = &["--components", "controllers,scheduler,nodes"];
const CONTROLLERS: &[&str] = &["--components", "controllers", "--nodes", "0"];

/// One kubectl on one cluster, in a namespace of its own.
struct Walk<'a> {
    cluster: &'a Cluster,
    kubectl: &'a Path,
    namespace: String,
}

impl Walk<'_> {
    #[track_caller]
    fn with(&self, line: &str, input: &str) -> Output {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut command = self.cluster.command(self.kubectl);
        run(command.current_dir(self.cluster.folder()).args(["--namespace", &self.namespace]).args(words), input)
    }

    /// Runs a command line (words hold no spaces) that must succeed.
    #[track_caller]
    fn ok(&self, line: &str) -> String {
        self.with(line, "").ok()
    }

    /// Runs a command line whose output must hold these texts.
    #[track_caller]
    fn says(&self, line: &str, texts: &[&str]) -> String {
        let said = self.ok(line);
        for text in texts {
            assert!(said.contains(text), "{text:?} is missing in `{line}`: {said}");
        }
        said
    }

    /// Runs a command line that must fail with these words.
    #[track_caller]
    fn refused(&self, line: &str, texts: &[&str]) {
        let output = self.with(line, "");
        let said = output.clone().refused();
        for text in texts {
            assert!(said.contains(text), "{text:?} is missing: {output}");
        }
    }

    #[track_caller]
    fn get(&self, what: &str) -> Value {
        serde_json::from_str(&self.ok(&format!("get {what} -o json"))).unwrap()
    }

    /// Writes a manifest below the cluster's folder, where commands run.
    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.cluster.folder().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }
}

/// Takes a walk with every kubectl on a cluster.
fn walk(arguments: &[&str], subject: impl Fn(&Walk<'_>)) {
    let Some(()) = need_embedded() else { return };
    let Some(()) = need_kubectl() else { return };
    let cluster = Cluster::up(arguments);
    for (number, kubectl) in every_kubectl().iter().enumerate() {
        let walk = Walk { cluster: &cluster, kubectl, namespace: format!("walk-{number}") };
        walk.ok(&format!("create namespace {}", walk.namespace));
        cluster.until("the namespace has its account", &["serviceaccount", "default", "-n", &walk.namespace], |_| true);
        subject(&walk);
        walk.ok(&format!("delete namespace {} --wait=false", walk.namespace));
    }
}

/// KAPI-CLIENT-01, KAPI-DISC-01, KAPI-DISC-02, KAPI-REST-02, KAPI-SRV-02: looking around: what is served, explained, listed, chosen and printed.
#[test]
fn looking() {
    walk(CONTROLLERS, |kubectl| {
        kubectl.says("version", &["Server Version: v1.34"]);
        kubectl.says("cluster-info", &["Kubernetes control plane", "is running at", kubectl.cluster.server()]);
        kubectl.says("api-versions", &["apps/v1", "rbac.authorization.k8s.io/v1", "policy/v1"]);
        kubectl.says("api-resources", &["deployments", "deploy", "customresourcedefinitions", "crd,crds"]);
        let cluster_wide = kubectl.ok("api-resources --namespaced=false --verbs=list,watch -o name --sort-by=name");
        assert!(cluster_wide.contains("nodes") && !cluster_wide.contains("configmaps"), "{cluster_wide}");
        kubectl.says("explain deployment.spec.strategy --recursive", &["KIND:       Deployment", "maxSurge", "<IntOrString>"]);
        kubectl.says("explain hpa.spec --api-version=autoscaling/v1", &["VERSION:    v1", "maxReplicas", "-required-"]);
        kubectl.says("get --raw /readyz?verbose", &["readyz check passed"]);
        kubectl.says("get --raw /version", &["\"minor\":\"34\""]);

        for (name, size) in [("a", "1"), ("b", "3"), ("c", "2")] {
            kubectl.ok(&format!("create configmap {name} --from-literal=size={size}"));
        }
        kubectl.ok("label configmaps a b tier=front");
        kubectl.ok("annotate configmap a note=seen");
        assert_eq!(kubectl.ok("get configmaps -l tier=front -o name"), "configmap/a\nconfigmap/b\n");
        assert_eq!(kubectl.ok("get cm -l tier!=front,!x --field-selector metadata.name!=kube-root-ca.crt -o name"), "configmap/c\n");
        assert_eq!(kubectl.ok("get cm --field-selector=metadata.name=b -o jsonpath={.items[*].data.size}"), "3");
        assert_eq!(kubectl.ok("get cm a b -o jsonpath={range.items[*]}{.metadata.name}={.data.size};{end}"), "a=1;b=3;");
        let columns = kubectl.ok("get cm a c -o custom-columns=N:.metadata.name,S:.data.size --no-headers");
        assert_eq!(columns.split_whitespace().collect::<Vec<_>>(), ["a", "1", "c", "2"]);
        assert_eq!(kubectl.ok("get cm a -o go-template={{.data.size}}"), "1");
        assert_eq!(kubectl.ok("get cm a b c --sort-by=.data.size -o name"), "configmap/a\nconfigmap/c\nconfigmap/b\n");
        assert_eq!(kubectl.ok("get cm --chunk-size=1 -o name").lines().count(), 4, "pages of one make the whole list");
        kubectl.says("get cm a --show-labels -L tier", &["LABELS", "TIER", "tier=front"]);
        kubectl.says("get cm a -o yaml", &["kind: ConfigMap", "size: \"1\""]);
        kubectl.says("get cm a -o yaml --show-managed-fields", &["managedFields:", "f:size"]);
        kubectl.says("describe configmap a", &["Annotations:  note: seen", "size:"]);
        kubectl.says("get cm,sa -o wide", &["configmap/a", "serviceaccount/default"]);
        kubectl.says("get namespaces --watch --request-timeout=1s", &["kube-system"]);
        kubectl.refused("get cm nothing", &["Error from server (NotFound): configmaps \"nothing\" not found"]);
        kubectl.refused("get nonsense", &["the server doesn't have a resource type \"nonsense\""]);
        assert_eq!(kubectl.ok("get cm nothing --ignore-not-found"), "");
        kubectl.ok("cluster-info dump --output-directory=dump --namespaces=default");
        assert!(kubectl.cluster.folder().join("dump/nodes.json").is_file());
        kubectl.says("config view", &["DATA+OMITTED"]);
        kubectl.says("config get-contexts", &["kubernetes-admin@mainstay"]);
        kubectl.says("config current-context", &["kubernetes-admin@mainstay"]);
    });
}

/// KAPI-CLIENT-01, KAPI-WATCH-01: a watch prints what happens, as it happens.
#[test]
fn watching() {
    walk(CONTROLLERS, |kubectl| {
        let mut command = kubectl.cluster.command(kubectl.kubectl);
        command.args(["-n", &kubectl.namespace, "get", "configmaps", "--watch-only", "--output-watch-events", "--no-headers"]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        // The watch begins at a moment of its own; the first event shows that it did.
        let begun = std::thread::scope(|scope| {
            let first = scope.spawn(|| lines.next().unwrap());
            let mut number = 0;
            while !first.is_finished() {
                kubectl.ok(&format!("create configmap begin-{number}"));
                number += 1;
            }
            first.join().unwrap()
        });
        assert!(begun.starts_with("ADDED") && begun.contains("begin-"), "{begun}");
        kubectl.ok("create configmap late");
        kubectl.ok("label configmap late a=b");
        kubectl.ok("delete configmap late");
        let seen: Vec<String> = lines.by_ref().filter(|line| line.contains("late")).take(3).collect();
        let events: Vec<&str> = seen.iter().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(events, ["ADDED", "MODIFIED", "DELETED"]);
        child.kill().unwrap();
        child.wait().unwrap();
    });
}

/// KAPI-CLIENT-01, KAPI-PATCH-01, KAPI-SSA-01: creating, applying, comparing, patching, replacing, deleting.
#[test]
fn writing() {
    walk(CONTROLLERS, |kubectl| {
        let map = |size: &str| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d", "labels": {"app": "d"}}, "data": {"size": size}})
                .to_string()
        };
        kubectl.file("d.json", &map("1"));
        kubectl.says("apply -f d.json", &["configmap/d created"]);
        assert_eq!(kubectl.with("diff -f d.json", "").exits(0), "");
        kubectl.file("d.json", &map("2"));
        for line in ["diff -f d.json", "diff -f d.json --server-side --force-conflicts"] {
            let difference = kubectl.with(line, "").exits(1);
            assert!(difference.contains("-  size: \"1\"") && difference.contains("+  size: \"2\""), "{difference}");
        }
        kubectl.says("apply -f d.json --dry-run=server", &["configmap/d configured (server dry run)"]);
        assert_eq!(kubectl.get("cm d")["data"]["size"], "1");
        kubectl.says("apply -f d.json", &["configmap/d configured"]);
        kubectl.says("apply view-last-applied cm/d", &["size: \"2\""]);
        kubectl.says("apply --server-side -f d.json", &["configmap/d serverside-applied"]);
        let managers = kubectl.get("cm d --show-managed-fields")["metadata"]["managedFields"].clone();
        assert!(managers.as_array().unwrap().iter().all(|one| one["operation"] == "Apply"), "client-side ownership moved: {managers:#}");
        let conflict = kubectl.with("apply --server-side --field-manager=other -f -", &map("3"));
        assert!(conflict.clone().refused().contains("conflict with \"kubectl\""), "{conflict}");
        kubectl.with("apply --server-side --field-manager=other --force-conflicts -f -", &map("3")).ok();
        kubectl.says("apply set-last-applied -f d.json", &["no changes required"]);
        kubectl.says("replace -f d.json", &["configmap/d replaced"]);
        let uid = kubectl.get("cm d")["metadata"]["uid"].clone();
        kubectl.says("replace --force -f d.json", &["configmap/d replaced"]);
        assert_ne!(kubectl.get("cm d")["metadata"]["uid"], uid);
        kubectl.refused("create -f d.json", &["Error from server (AlreadyExists)", "configmaps \"d\" already exists"]);
        kubectl.ok("patch cm d --type=merge -p {\"data\":{\"colour\":\"red\"}}");
        kubectl.ok("patch cm d --type=json -p [{\"op\":\"copy\",\"from\":\"/data/colour\",\"path\":\"/data/paint\"}]");
        kubectl.ok("patch cm d -p {\"data\":{\"colour\":null}}");
        assert_eq!(kubectl.get("cm d")["data"], json!({"size": "2", "paint": "red"}));
        kubectl.refused(
            "patch cm d --type=json -p [{\"op\":\"test\",\"path\":\"/data/paint\",\"value\":\"blue\"}]",
            &["The request is invalid"],
        );
        let editor = kubectl.file("editor", "#!/bin/sh\nsed -i 's/paint: red/paint: green/' \"$1\"\n");
        std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut edit = kubectl.cluster.command(kubectl.kubectl);
        run(edit.env("KUBE_EDITOR", &editor).args(["-n", &kubectl.namespace, "edit", "configmap", "d"]), "").ok();
        assert_eq!(kubectl.get("cm d")["data"]["paint"], "green");
        kubectl.refused("label cm d app=e", &["already has a value (d), and --overwrite is false"]);
        kubectl.ok("label cm d app=e --overwrite");
        kubectl.ok("label cm d app-");
        kubectl.ok("annotate cm d a=b --resource-version=1 --dry-run=client");
        kubectl.refused("annotate cm d a=b --resource-version=1", &["the object has been modified"]);

        kubectl.file("base/kustomization.yaml", "resources: [d.json]\nnamePrefix: k-\nconfigMapGenerator: [{name: g, literals: [a=b]}]\n");
        kubectl.file("base/d.json", &map("1"));
        kubectl.says("kustomize base", &["name: k-d", "name: k-g-"]);
        kubectl.says("apply -k base", &["configmap/k-d created"]);
        assert_eq!(kubectl.with("diff -k base", "").exits(0), "");
        kubectl.says("delete -k base", &["configmap \"k-d\" deleted"]);
        kubectl.with("apply -f -", &map("1").replace("\"d\"", "\"old\"").replace("{\"app\":\"old\"}", "{\"app\":\"p\"}")).ok();
        let kept = map("1").replace("\"name\":\"d\"", "\"name\":\"kept\"").replace("{\"app\":\"d\"}", "{\"app\":\"p\"}");
        let pruned = kubectl.with("apply -f - --prune -l app=p --prune-allowlist=core/v1/ConfigMap", &kept).ok();
        assert!(pruned.contains("configmap/kept created") && pruned.contains("configmap/old pruned"), "{pruned}");

        for (line, answer) in [
            ("create secret generic s --from-literal=a=b", "secret/s created"),
            ("create serviceaccount robot", "serviceaccount/robot created"),
            ("create quota q --hard=configmaps=50", "resourcequota/q created"),
            ("create role r --verb=get,list --resource=pods", "role.rbac.authorization.k8s.io/r created"),
            ("create rolebinding rb --role=r --user=jane", "rolebinding.rbac.authorization.k8s.io/rb created"),
            ("create service nodeport np --tcp=80:8080", "service/np created"),
            ("create service externalname en --external-name=a.example.com", "service/en created"),
            ("create ingress i --rule=a.example.com/=np:80", "ingress.networking.k8s.io/i created"),
            ("create poddisruptionbudget p --selector=app=web --min-available=1", "poddisruptionbudget.policy/p created"),
            ("create configmap dry --from-literal=a=b --dry-run=server", "configmap/dry created (server dry run)"),
        ] {
            kubectl.says(line, &[answer]);
        }
        kubectl.says("set selector service/np app=other", &["selector updated"]);
        kubectl.says("set subject rolebinding/rb --user=bob", &["subjects updated"]);
        kubectl.says("describe role r", &["pods", "[get list]"]);
        kubectl.says("describe service np", &["NodePort:", "8080/TCP"]);
        kubectl.says("describe ingress i", &["a.example.com", "np:80"]);
        kubectl.refused(
            "create deployment bad --image=x --replicas=-1",
            &["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
        );
        kubectl.refused("create configmap Upper", &["is invalid: metadata.name: Invalid value: \"Upper\""]);

        kubectl.ok("delete cm d --wait --timeout=30s");
        assert_eq!(kubectl.ok("delete cm d --ignore-not-found"), "");
        kubectl.says("delete cm -l app=p", &["configmap \"kept\" deleted"]);
        kubectl.says("delete svc,ingress --all", &["service \"np\" deleted", "ingress.networking.k8s.io \"i\" deleted"]);
    });
}

/// KAPI-CLIENT-01, KAPI-WL-01, KAPI-REST-05: running things: roll-outs in all their forms, scale, wait, jobs, and what simulated nodes say and refuse.
#[test]
fn running() {
    walk(NODES, |kubectl| {
        kubectl.ok("create deployment web --image=example.com/web:1 --replicas=2");
        kubectl.says("rollout status deployment/web --timeout=90s", &["successfully rolled out"]);
        kubectl.says("get all -o wide", &["pod/web-", "2/2", "example.com/web:1", "pod-template-hash="]);
        kubectl.says("expose deployment web --port=80 --target-port=8080", &["service/web exposed"]);
        kubectl.ok("set image deployment/web web=example.com/web:2");
        kubectl.ok("annotate deployment web kubernetes.io/change-cause=two");
        kubectl.says("rollout status deployment/web --timeout=90s", &["successfully rolled out"]);
        let history = kubectl.ok("rollout history deployment/web");
        assert!(history.lines().any(|line| line.split_whitespace().eq(["2", "two"])), "{history}");
        kubectl.says("rollout history deployment/web --revision=1", &["example.com/web:1"]);
        kubectl.says("rollout undo deployment/web", &["rolled back"]);
        kubectl.ok("rollout status deployment/web --timeout=90s");
        assert_eq!(kubectl.get("deployment web")["spec"]["template"]["spec"]["containers"][0]["image"], "example.com/web:1");
        kubectl.says("rollout pause deployment/web", &["paused"]);
        kubectl.refused("rollout restart deployment/web", &["paused"]);
        kubectl.says("rollout resume deployment/web", &["resumed"]);
        kubectl.says("rollout restart deployment/web", &["restarted"]);
        kubectl.ok("rollout status deployment/web --timeout=90s");
        kubectl.ok("set env deployment/web A=b");
        kubectl.says("set env deployment/web --list", &["A=b"]);
        kubectl.ok("set resources deployment/web --limits=cpu=200m,memory=64Mi");
        kubectl.ok("set serviceaccount deployment/web default");
        kubectl.ok("autoscale deployment web --min=1 --max=4 --cpu-percent=50");
        kubectl.says("get hpa", &["Deployment/web", "50%"]);
        kubectl.ok("scale deployment/web --replicas=3 --current-replicas=2");
        kubectl.refused("scale deployment/web --replicas=4 --current-replicas=2", &["Expected replicas to be 2, was 3"]);
        kubectl.ok("patch deployment web --subresource=scale --type=merge -p {\"spec\":{\"replicas\":1}}");
        kubectl.says("wait deployment/web --for=jsonpath={.status.readyReplicas}=1 --timeout=90s", &["condition met"]);
        kubectl.ok("rollout status deployment/web --timeout=90s");
        kubectl.says("describe deployment web", &["NewReplicaSet:", "Scaled up replica set", "web-"]);
        kubectl.says("events --for=deployment/web", &["ScalingReplicaSet"]);
        kubectl.says("get events --field-selector=reason=ScalingReplicaSet", &["deployment/web"]);

        kubectl.ok("run one --image=example.com/one:1 --labels=app=one");
        for condition in ["condition=Ready", "jsonpath={.status.phase}=Running", "create"] {
            kubectl.says(&format!("wait pod/one --for={condition} --timeout=60s"), &["condition met"]);
        }
        kubectl.refused("wait pod/one --for=condition=Never --timeout=1s", &["timed out waiting for the condition on pods/one"]);
        kubectl.says("get pods --field-selector=status.phase=Running,metadata.name=one", &["1/1"]);
        kubectl.says("describe pod one", &["Successfully assigned", "ContainersReady"]);
        kubectl.says("logs one", &["this cluster simulates its nodes: pod one is Running, no container runs"]);
        kubectl.says("logs deployment/web --tail=1", &["no container runs"]);
        let simulated = "nodes of this cluster are simulated and run no containers";
        for line in ["exec one -- ls", "attach one", "cp one:/etc/hosts hosts", "port-forward pod/one 8080:80"] {
            kubectl.refused(line, &[simulated]);
        }
        kubectl.refused("top nodes", &["Metrics API not available"]);
        kubectl.refused("top pods", &["Metrics API not available"]);
        kubectl.ok("debug one --image=example.com/tools:1 --target=one --profile=general --attach=false");
        assert_eq!(kubectl.get("pod one")["spec"]["ephemeralContainers"][0]["targetContainerName"], "one");
        kubectl.says("debug node/worker-1 --image=example.com/tools:1 --profile=general --attach=false", &["Creating debugging pod"]);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| kubectl.ok("wait pod/one --for=delete --timeout=60s"));
            kubectl.ok("delete pod one --now");
            waiting.join().unwrap();
        });

        kubectl.ok("create job j --image=example.com/j:1");
        kubectl.says("wait job/j --for=condition=complete --timeout=60s", &["condition met"]);
        kubectl.ok("create cronjob cj --image=example.com/j:1 --schedule=@yearly");
        kubectl.ok("create job manual --from=cronjob/cj");
        kubectl.says("wait job/manual --for=condition=complete --timeout=60s", &["condition met"]);
        kubectl.says("get jobs,cronjobs", &["job.batch/j", "1/1", "@yearly"]);
        kubectl.ok("delete deployment web --cascade=foreground --timeout=60s");
        assert!(kubectl.get("rs,pods -l app=web")["items"].as_array().unwrap().is_empty(), "foreground: dependents first");
        kubectl.ok("delete all --all --timeout=60s");
    });
}

/// KAPI-CLIENT-01, KAPI-WL-02, KAPI-REST-05: taking a node out of service and back.
#[test]
fn nodes() {
    walk(NODES, |kubectl| {
        kubectl.ok("wait nodes --all --for=condition=Ready --timeout=60s");
        kubectl.says("get nodes -o wide", &["control-plane", "simulated"]);
        kubectl.ok("create deployment web --image=example.com/web:1 --replicas=4");
        kubectl.ok("rollout status deployment/web --timeout=90s");
        kubectl.says("cordon worker-1", &["cordoned"]);
        kubectl.says("get node worker-1", &["SchedulingDisabled"]);
        kubectl.says("drain worker-1 --ignore-daemonsets --delete-emptydir-data --force --timeout=90s", &["drained"]);
        kubectl.ok("rollout status deployment/web --timeout=90s");
        let there = format!("pods --field-selector=spec.nodeName=worker-1,metadata.namespace={}", kubectl.namespace);
        eventually("nothing is left on the node", Duration::from_secs(60), || {
            let left = kubectl.get(&there);
            if left["items"].as_array().unwrap().is_empty() { Ok(()) } else { Err(format!("{left:#}")) }
        });
        kubectl.says("uncordon worker-1", &["uncordoned"]);
        kubectl.says("taint nodes worker-1 a=b:NoSchedule", &["tainted"]);
        kubectl.says("describe node worker-1", &["a=b:NoSchedule", "Allocatable:", "KubeletReady"]);
        kubectl.says("taint nodes worker-1 a=b:NoSchedule-", &["untainted"]);
        kubectl.says("label node worker-1 disk=fast", &["labeled"]);
        kubectl.ok("label node worker-1 disk-");
        kubectl.ok("delete deployment web --timeout=60s");
    });
}

/// KAPI-CLIENT-01, KAPI-AUTHZ-03, KAPI-AUTH-01: who one is and may; tokens, certificates, a proxy.
#[test]
fn access() {
    walk(CONTROLLERS, |kubectl| {
        let namespace = kubectl.namespace.as_str();
        kubectl.says("auth whoami", &["admin", "system:masters"]);
        kubectl.says("auth can-i --list", &["*.*", "[*]"]);
        assert_eq!(kubectl.ok("auth can-i create deployments.apps").trim(), "yes");
        let account = format!("system:serviceaccount:{namespace}:robot");
        kubectl.ok("create serviceaccount robot");
        assert_eq!(kubectl.with(&format!("auth can-i list pods --as={account}"), "").exits(1).trim(), "no");
        let roles = json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "look", "namespace": namespace},
             "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]},
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "look", "namespace": namespace},
             "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "look"},
             "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": namespace}]},
        ]});
        let reconciled = kubectl.with("auth reconcile -f -", &roles.to_string()).ok();
        assert!(reconciled.contains("role.rbac.authorization.k8s.io/look reconciled"), "{reconciled}");
        assert_eq!(kubectl.ok(&format!("auth can-i list pods --as={account}")).trim(), "yes");
        let token = kubectl.ok("create token robot --duration=1h");
        // With a certificate in the kubeconfig as well, the certificate would count.
        let raw = kubectl.ok("config view --raw -o jsonpath={.clusters[0].cluster.certificate-authority-data}");
        let login = |user: &Value| {
            let config = json!({
                "apiVersion": "v1", "kind": "Config", "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": kubectl.cluster.server(), "certificate-authority-data": raw}}],
                "users": [{"name": "u", "user": user}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            });
            kubectl.file("login", &config.to_string());
        };
        login(&json!({"token": token.trim()}));
        kubectl.says("--kubeconfig=login auth whoami", &[&account]);
        kubectl.ok("--kubeconfig=login get pods");
        kubectl.refused("--kubeconfig=login get secrets", &[&format!("User \"{account}\" cannot list resource \"secrets\"")]);
        login(&json!({"token": "nonsense"}));
        kubectl.refused("--kubeconfig=login get pods", &["You must be logged in to the server"]);

        let mut proxy = kubectl.cluster.command(kubectl.kubectl);
        let mut proxy =
            proxy.args(["proxy", "--port=0"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut begun = String::new();
        BufReader::new(proxy.stdout.take().unwrap()).read_line(&mut begun).unwrap();
        let address = begun.trim().rsplit(' ').next().unwrap();
        let mut stream = TcpStream::connect(address).unwrap_or_else(|error| panic!("{begun}: {error}"));
        stream.write_all(b"GET /api/v1/namespaces/default HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        terminate(&mut proxy);
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.contains("\"kind\":\"Namespace\"") || answer.contains("\"kind\": \"Namespace\""),
            "{answer}"
        );
    });
}
