"""A small operator, with Python's own library: it makes a Service and a ConfigMap of each Gadget, as a pod would do it.

It finds the API by KUBERNETES_SERVICE_HOST, and its account where pods find it, below MAINSTAY_ROOT."""

import http.server
import json
import os
import ssl
import sys
import threading
import time
import urllib.error
import urllib.request

ACCOUNT = os.environ["MAINSTAY_ROOT"] + "/var/run/secrets/kubernetes.io/serviceaccount/"
SERVER = "https://{}:{}".format(os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"])


def ask(method, path, body=None):
    with open(ACCOUNT + "token") as token:
        headers = {"Authorization": "Bearer " + token.read(), "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(SERVER + path, data=data, headers=headers, method=method)
    with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=ACCOUNT + "ca.crt"), timeout=10) as answer:
        return json.load(answer)


def make(path, body):
    try:
        ask("POST", path, body)
        print("made {} {}".format(body["kind"], body["metadata"]["name"]), flush=True)
    except urllib.error.HTTPError as error:
        if error.code != 409:
            raise


def reconcile(gadget):
    metadata = gadget["metadata"]
    owner = {"apiVersion": gadget["apiVersion"], "kind": gadget["kind"], "name": metadata["name"], "uid": metadata["uid"], "controller": True}
    common = {"name": metadata["name"], "ownerReferences": [owner]}
    core = "/api/v1/namespaces/" + metadata["namespace"]
    labels = {"gadget": metadata["name"]}
    make(core + "/services", {"apiVersion": "v1", "kind": "Service", "metadata": common, "spec": {"ports": [{"port": 80}], "selector": labels}})
    make(core + "/configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": common, "data": {"size": str(gadget["spec"].get("size"))}})
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "gadget", "image": "example.com/operand:1"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    apps = "/apis/apps/v1/namespaces/" + metadata["namespace"]
    make(apps + "/deployments", {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": common, "spec": spec})


class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()

    def log_message(self, *_):
        pass


def main():
    # Nothing is isolated: the port is one of the machine's, which the variable names.
    health = http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT_8081"])), Health)
    threading.Thread(target=health.serve_forever, daemon=True).start()
    print("started with {} in {}".format(" ".join(sys.argv[1:]), os.environ["OPERATOR_NAMESPACE"]), flush=True)
    while True:
        try:
            for gadget in ask("GET", "/apis/gadgets.example.com/v1/gadgets")["items"]:
                reconcile(gadget)
        except (OSError, KeyError) as error:
            print("again: {}".format(error), file=sys.stderr, flush=True)
        time.sleep(0.3)


main()
