"""A watch over a websocket with Python's websocket client: events, pings, the end of the watch, and taking one's leave."""
import json
import ssl

import websocket
from kubernetes import client, config

MAPS = "/api/v1/namespaces/default/configmaps"

config.load_kube_config()
settings = client.Configuration.get_default_copy()
core = client.CoreV1Api()
options = {"ca_certs": settings.ssl_ca_cert, "certfile": settings.cert_file, "keyfile": settings.key_file, "cert_reqs": ssl.CERT_REQUIRED}


def connect(query, **more):
    return websocket.create_connection(settings.host.replace("https", "wss") + MAPS + "?watch=true&" + query, sslopt=options, timeout=60, **more)


def event(socket):
    opcode, data = socket.recv_data()
    assert opcode == websocket.ABNF.OPCODE_TEXT, opcode
    return json.loads(data)


def make(name):
    core.create_namespaced_config_map("default", client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"suite": "sockets"})))


make("one")
socket = connect("labelSelector=suite%3Dsockets", subprotocols=["base64.binary.k8s.io"])
assert socket.getsubprotocol() == "base64.binary.k8s.io"
assert event(socket)["object"]["metadata"]["name"] == "one"
socket.ping("hello")
opcode, data = socket.recv_data(control_frame=True)
assert (opcode, data) == (websocket.ABNF.OPCODE_PONG, b"hello"), (opcode, data)
for number in range(20):
    make(f"more-{number}")
core.delete_collection_namespaced_config_map("default", label_selector="suite=sockets,!none", field_selector="metadata.name=one")
seen = [event(socket) for _ in range(21)]
assert [one["object"]["metadata"]["name"] for one in seen] == [f"more-{number}" for number in range(20)] + ["one"], seen
assert seen[-1]["type"] == "DELETED"
socket.close(timeout=60)
assert not socket.connected

ending = connect("timeoutSeconds=1&fieldSelector=metadata.name%3Dnone")
opcode, data = ending.recv_data()
assert (opcode, data) == (websocket.ABNF.OPCODE_CLOSE, b"\x03\xe8"), (opcode, data)

try:
    connect("", suppress_origin=True)
    raise AssertionError("a websocket without an origin was taken")
except websocket.WebSocketBadStatusException as error:
    assert error.status_code == 403, error
print("done")
