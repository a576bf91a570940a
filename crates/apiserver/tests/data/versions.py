"""Records what kube-apiserver makes of random writes to objects that are served in several versions.

    python3 versions.py SERVER TOKEN OUT.json.gz

SERVER is the https address of a kube-apiserver without controllers. The converter of the CRD listens on a free port of 127.0.0.1.
"""

import base64, copy, gzip, json, os, random, ssl, subprocess, sys, tempfile, threading, time, urllib.error, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

server, token, out = sys.argv[1:4]
unchecked = ssl.create_default_context()
unchecked.check_hostname = False
unchecked.verify_mode = ssl.CERT_NONE

TYPES = {"apply": "application/apply-patch+yaml", "merge": "application/merge-patch+json"}


def call(method, path, body=None, kind="application/json"):
    request = urllib.request.Request(server + path, method=method, data=None if body is None else json.dumps(body).encode())
    request.add_header("authorization", f"Bearer {token}")
    request.add_header("content-type", kind)
    try:
        with urllib.request.urlopen(request, context=unchecked) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        text = error.read()
        return error.code, json.loads(text) if text.startswith(b"{") else {}


def plain(answer):
    """Without what differs from run to run; owners in a fixed order."""
    if answer.get("kind") == "Status":
        causes = (answer.get("details") or {}).get("causes")
        return {"message": answer.get("message"), "reason": answer.get("reason"), **({"causes": causes} if causes else {})}
    answer = copy.deepcopy(answer)
    metadata = answer["metadata"]
    for name in ["uid", "resourceVersion", "creationTimestamp"]:
        metadata.pop(name, None)
    for entry in metadata.get("managedFields") or []:
        entry.pop("time", None)
    metadata.get("managedFields", []).sort(key=lambda entry: json.dumps(entry, sort_keys=True))
    return answer


class Sequence:
    """What happens to one object, with the answers; after each write it is read in every version."""

    def __init__(self, kind, name, paths):
        self.kind, self.name, self.paths, self.steps = kind, name, paths, []

    def write(self, verb, version, manager, body, force=False, sub=""):
        path = self.paths[version]
        target = path if verb == "create" else f"{path}/{self.name}{sub}"
        query = f"?fieldManager={manager}" + ("&force=true" if force else "")
        method = {"create": "POST", "update": "PUT"}.get(verb, "PATCH")
        sent = copy.deepcopy(body)
        if verb == "update":
            # Whoever replays this says which revision it follows, too.
            sent["metadata"]["resourceVersion"] = self.live(version)[1]["metadata"]["resourceVersion"]
        status, answer = call(method, target + query, sent, TYPES.get(verb, "application/json"))
        step = {"verb": verb, "version": version, "path": target + query, "body": body, "status": status, "answer": plain(answer)}
        if status < 300:
            step["reads"] = {version: plain(call("GET", f"{path}/{self.name}")[1]) for version, path in self.paths.items()}
        self.steps.append(step)
        return status, answer

    def live(self, version):
        return call("GET", f"{self.paths[version]}/{self.name}")

    def done(self):
        return {"kind": self.kind, "steps": self.steps}


# Autoscalers.

def metric(r):
    utilization = {"type": "Utilization", "averageUtilization": r.choice([20, 50, 80])}
    average = {"type": "AverageValue", "averageValue": r.choice(["100Mi", "1", "500m"])}
    value = {"type": "Value", "value": r.choice(["10", "2k"])}
    identity = {"name": r.choice(["q", "rps"]), **({"selector": {"matchLabels": {"a": "b"}}} if r.random() < 0.4 else {})}
    thing = {"kind": "Service", "name": "s", "apiVersion": "v1"}
    return r.choice([
        {"type": "Resource", "resource": {"name": "cpu", "target": utilization}},
        {"type": "Resource", "resource": {"name": "cpu", "target": utilization}},
        {"type": "Resource", "resource": {"name": "cpu", "target": average}},
        {"type": "Resource", "resource": {"name": "memory", "target": r.choice([utilization, average])}},
        {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c", "target": r.choice([utilization, average])}},
        {"type": "Pods", "pods": {"metric": identity, "target": average}},
        {"type": "Object", "object": {"describedObject": thing, "metric": identity, "target": r.choice([value, average])}},
        {"type": "External", "external": {"metric": identity, "target": r.choice([value, average])}},
    ])


def behavior(r):
    rules = {}
    if r.random() < 0.5:
        rules["selectPolicy"] = r.choice(["Max", "Min", "Disabled"])
    if r.random() < 0.5:
        rules["stabilizationWindowSeconds"] = r.choice([0, 60])
    if r.random() < 0.5:
        rules["policies"] = [{"type": r.choice(["Pods", "Percent"]), "value": 4, "periodSeconds": 30}]
    return {r.choice(["scaleUp", "scaleDown"]): rules}


def autoscaler(r, version, name, partial):
    spec = {"maxReplicas": r.choice([5, 7]), "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}
    if r.random() < 0.3:
        spec["minReplicas"] = r.choice([1, 2])
    if version == "v1":
        if r.random() < 0.6:
            spec["targetCPUUtilizationPercentage"] = r.choice([20, 50, 80])
    else:
        if r.random() < 0.7:
            spec["metrics"] = [metric(r) for _ in range(r.choice([1, 1, 2, 3]))]
        if r.random() < 0.3:
            spec["behavior"] = behavior(r)
    if partial:
        for field in ["maxReplicas", "scaleTargetRef"]:
            if r.random() < 0.7:
                spec.pop(field)
    metadata = {"name": name}
    if r.random() < 0.3:
        metadata["labels"] = {r.choice(["a", "b"]): r.choice(["1", "2"])}
    if r.random() < 0.2:
        metadata["annotations"] = {r.choice(["note", "autoscaling.alpha.kubernetes.io/metrics", "autoscaling.alpha.kubernetes.io/behavior"]): "text"}
    return {"apiVersion": f"autoscaling/{version}", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec}


def observed(r, version):
    status = {"currentReplicas": r.choice([0, 1, 2]), "desiredReplicas": r.choice([0, 3])}
    if version == "v1":
        if r.random() < 0.6:
            status["currentCPUUtilizationPercentage"] = r.choice([10, 60])
        return status
    if r.random() < 0.6:
        current = {"averageUtilization": 40, "averageValue": "200m"}
        status["currentMetrics"] = r.sample([
            {"type": "Resource", "resource": {"name": "cpu", "current": current}},
            {"type": "Resource", "resource": {"name": "memory", "current": {"averageValue": "10Mi"}}},
            {"type": "Pods", "pods": {"metric": {"name": "q"}, "current": {"averageValue": "3"}}},
            {"type": "Object", "object": {"metric": {"name": "q"}, "current": {"value": "3"}, "describedObject": {"kind": "Service", "name": "s"}}},
            {"type": "External", "external": {"metric": {"name": "q"}, "current": {"value": "3"}}},
            {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c", "current": current}},
        ], r.choice([1, 2, 4]))
    if r.random() < 0.5:
        status["conditions"] = [{"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "Ready"}]
    return status


def play(r, sequence, body, status, updates):
    version = r.choice(["v1", "v2"])
    first = r.choice(["create", "apply"])
    sequence.write(first, version, "m0", body(version, False))
    for _ in range(r.randint(2, 6)):
        version = r.choice(["v1", "v2"])
        manager = r.choice(["m0", "m1", "m2"])
        chance = r.random()
        if chance < 0.6:
            sequence.write("apply", version, manager, body(version, True), force=r.random() < 0.4)
        elif chance < 0.75:
            patch = body(version, True)
            sequence.write("merge", version, manager, {"spec": patch.get("spec", {}), "metadata": {"labels": {"p": "q"}}} if updates else patch)
        elif status and chance < 0.87:
            code, live = sequence.live(version)
            if code == 200:
                sequence.write("merge", version, manager, {"status": status(version)}, sub="/status")
        else:
            code, live = sequence.live(version)
            if code == 200:
                wanted = body(version, False)
                wanted["metadata"] = {key: value for key, value in live["metadata"].items() if key not in ["resourceVersion", "uid", "creationTimestamp", "managedFields"]} | wanted["metadata"]
                sequence.write("update", version, manager, wanted)
    return sequence.done()


def autoscalers(count):
    paths = {version: f"/apis/autoscaling/{version}/namespaces/ns/horizontalpodautoscalers" for version in ["v1", "v2"]}
    for seed in range(count):
        r = random.Random(f"autoscaler {seed}")
        name = f"h{seed}"
        yield play(r, Sequence("HorizontalPodAutoscaler", name, paths), lambda version, partial: autoscaler(r, version, name, partial), lambda version: observed(r, version), True)


# Events.

def event(r, version, name):
    """Most of an event cannot be changed; who owns it can."""
    core = version == "v1"
    fixed = random.Random(name)
    names = {"regarding": "involvedObject", "note": "message", "reportingController": "reportingComponent"}
    fields = {"regarding": {"kind": "Pod", "name": "p", "namespace": "ns"}, "note": fixed.choice(["one", "two"]), "reason": "Because", "type": "Normal",
              "reportingController": "example.com/c", "reportingInstance": "i", "action": "Act", "eventTime": "2026-01-01T00:00:00.000000Z"}
    if r.random() < 0.3:
        fields.pop("note")
    if r.random() < 0.3:
        fields["series"] = {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}
    body = {names.get(key, key) if core else key: value for key, value in fields.items()}
    return {"apiVersion": "v1" if core else "events.k8s.io/v1", "kind": "Event", "metadata": {"name": name, "namespace": "ns", "labels": {"l": r.choice(["1", "2"])}}, **body}


def events(count):
    paths = {"v1": "/api/v1/namespaces/ns/events", "v2": "/apis/events.k8s.io/v1/namespaces/ns/events"}
    for seed in range(count):
        r = random.Random(f"event {seed}")
        name = f"e{seed}"
        yield play(r, Sequence("Event", name, paths), lambda version, partial: event(r, version, name), None, False)


# Custom kinds: `spec.n` of v1 is `spec.count` of v2, either by a webhook, or nobody knows of it.

def convert(review):
    desired = review["request"]["desiredAPIVersion"]
    source, target = ("n", "count") if desired.endswith("v2") else ("count", "n")
    objects = []
    for thing in review["request"]["objects"]:
        thing["apiVersion"] = desired
        if source in (thing.get("spec") or {}):
            thing["spec"][target] = thing["spec"].pop(source)
        objects.append(thing)
    response = {"uid": review["request"]["uid"], "result": {"status": "Success"}, "convertedObjects": objects}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response}


class Converter(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        answer = json.dumps(convert(json.loads(body))).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def converter():
    folder = tempfile.mkdtemp()
    key, cert = os.path.join(folder, "key"), os.path.join(folder, "cert")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=c",
                    "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    listener = ThreadingHTTPServer(("127.0.0.1", 0), Converter)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    listener.socket = context.wrap_socket(listener.socket, server_side=True)
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    return {"url": f"https://127.0.0.1:{listener.server_port}/convert", "caBundle": base64.b64encode(open(cert, "rb").read()).decode()}


def definition(group, webhook, field):
    def version(name):
        spec = {field[name]: {"type": "integer"}, "other": {"type": "string"}, "items": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "size": {"type": "integer"}}}}}
        return {"name": name, "served": name != "v3", "storage": name == "v1", "subresources": {"status": {}}, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object", "properties": spec}, "status": {"type": "object", "properties": {"seen": {"type": "integer"}}}}}}}
    conversion = {"strategy": "None"}
    if webhook:
        conversion = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": webhook}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"things.{group}"}, "spec": {
        "group": group, "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}, "conversion": conversion,
        "versions": [version(name) for name in field]}}


def thing(r, group, field, version, name):
    spec = {}
    if r.random() < 0.7:
        spec[field[version]] = r.choice([1, 2])
    if r.random() < 0.5 or not spec:
        spec["other"] = r.choice(["x", "y"])
    if r.random() < 0.5:
        spec["items"] = [{"name": one, "size": r.choice([1, 2])} for one in r.sample(["a", "b", "c"], r.choice([1, 2]))]
    return {"apiVersion": f"{group}/{version}", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


def things(count, group, webhook, field):
    status, answer = call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(group, webhook, field))
    assert status == 201, answer
    paths = {version: f"/apis/{group}/{version}/namespaces/ns/things" for version in ["v1", "v2"]}
    while any(call("GET", path)[0] != 200 for path in paths.values()):
        time.sleep(0.2)
    time.sleep(2)
    for seed in range(count):
        r = random.Random(f"{group} {seed}")
        name = f"t{seed}"
        yield play(r, Sequence(group, name, paths), lambda version, partial: thing(r, group, field, version, name), lambda version: {"seen": r.choice([1, 2])}, True)


def main():
    call("POST", "/api/v1/namespaces", {"metadata": {"name": "ns"}})
    renamed, same = {"v1": "n", "v2": "count"}, {"v1": "n", "v2": "n", "v3": "n"}
    recorded = {
        "sequences": [
            *autoscalers(120), *events(40),
            *things(60, "webhook.example.com", converter(), renamed),
            *things(40, "none.example.com", None, same),
        ],
    }
    with gzip.GzipFile(out, "wb", mtime=0) as file:
        file.write(json.dumps(recorded, separators=(",", ":")).encode())


main()
