"""The Python client against the embedded cluster: one function a subject; the test names the function to run."""
import copy
import sys
import threading
import time

from kubernetes import client, config, dynamic, watch
from kubernetes.client.rest import ApiException
from kubernetes.stream import stream

NAMESPACE = "default"


def refused(status, call, *arguments, **more):
    """The exception of a call that must be refused with this HTTP status."""
    try:
        call(*arguments, **more)
    except ApiException as error:
        assert error.status == status, f"wanted {status}, got {error.status}: {error.body}"
        return error
    raise AssertionError(f"{call} was not refused")


def config_map(name, **data):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"suite": "python"}), data=data)


def objects():
    """Create, read, list in pages, replace with a conflict, delete."""
    core = client.CoreV1Api()
    made = core.create_namespaced_config_map(NAMESPACE, config_map("one", colour="red"))
    assert made.metadata.uid and made.metadata.creation_timestamp and made.data == {"colour": "red"}
    assert refused(409, core.create_namespaced_config_map, NAMESPACE, config_map("one")).reason == "Conflict"
    for number in range(2, 8):
        core.create_namespaced_config_map(NAMESPACE, config_map(f"number-{number}"))
    page = core.list_namespaced_config_map(NAMESPACE, label_selector="suite=python", limit=3)
    names, revision = [item.metadata.name for item in page.items], page.metadata.resource_version
    assert len(names) == 3 and page.metadata.remaining_item_count is None
    while page.metadata._continue:
        page = core.list_namespaced_config_map(NAMESPACE, label_selector="suite=python", limit=3, _continue=page.metadata._continue)
        assert page.metadata.resource_version == revision, "all pages are of one revision"
        names += [item.metadata.name for item in page.items]
    assert names == ["number-2", "number-3", "number-4", "number-5", "number-6", "number-7", "one"], names
    only = core.list_namespaced_config_map(NAMESPACE, field_selector="metadata.name=one")
    assert [item.metadata.name for item in only.items] == ["one"]

    stale = copy.deepcopy(made)
    made.data["colour"] = "blue"
    replaced = core.replace_namespaced_config_map("one", NAMESPACE, made)
    assert int(replaced.metadata.resource_version) > int(stale.metadata.resource_version)
    assert "the object has been modified" in refused(409, core.replace_namespaced_config_map, "one", NAMESPACE, stale).body
    gone = core.delete_namespaced_config_map("one", NAMESPACE)
    assert gone["status"] == "Success"
    assert '"reason":"NotFound"' in refused(404, core.read_namespaced_config_map, "one", NAMESPACE).body
    core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="suite=python")
    assert not core.list_namespaced_config_map(NAMESPACE, label_selector="suite=python").items
    unnamed = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="Upper"))
    assert "metadata.name" in refused(422, core.create_namespaced_config_map, NAMESPACE, unnamed).body


def patches():
    """The three patches and server-side apply, each by the content type that the client sends for it."""
    core, apps = client.CoreV1Api(), client.AppsV1Api()
    core.create_namespaced_config_map(NAMESPACE, config_map("patched", a="1", b="2"))
    merged = core.patch_namespaced_config_map("patched", NAMESPACE, {"data": {"a": None, "c": "3"}}, _content_type="application/merge-patch+json")
    assert merged.data == {"b": "2", "c": "3"}
    listed = core.patch_namespaced_config_map("patched", NAMESPACE, [{"op": "test", "path": "/data/b", "value": "2"}, {"op": "move", "from": "/data/b", "path": "/data/d"}])
    assert listed.data == {"c": "3", "d": "2"}
    refused(422, core.patch_namespaced_config_map, "patched", NAMESPACE, [{"op": "test", "path": "/data/c", "value": "9"}])

    template = {"metadata": {"labels": {"app": "py"}}, "spec": {"containers": [{"name": "a", "image": "example.com/a:1"}, {"name": "b", "image": "example.com/b:1"}]}}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "py"}, "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "py"}}, "template": template}}
    apps.create_namespaced_deployment(NAMESPACE, body)
    change = {"spec": {"template": {"spec": {"containers": [{"name": "b", "image": "example.com/b:2"}]}}}}
    strategic = apps.patch_namespaced_deployment("py", NAMESPACE, change, _content_type="application/strategic-merge-patch+json")
    images = {container.name: container.image for container in strategic.spec.template.spec.containers}
    assert images == {"a": "example.com/a:1", "b": "example.com/b:2"}, "containers are merged by name"
    scale = apps.patch_namespaced_deployment_scale("py", NAMESPACE, {"spec": {"replicas": 2}})
    assert scale.spec.replicas == 2 and scale.kind == "Scale"

    def apply(manager, data, **more):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": data}
        return core.patch_namespaced_config_map("applied", NAMESPACE, body, field_manager=manager, _content_type="application/apply-patch+yaml", **more)

    assert apply("one", {"size": "1", "one": "yes"}).data == {"size": "1", "one": "yes"}
    assert 'conflict with \\"one\\"' in refused(409, apply, "two", {"size": "2"}).body
    taken = apply("two", {"size": "2"}, force=True)
    assert {entry.manager for entry in taken.metadata.managed_fields} == {"one", "two"}
    assert apply("one", {}).data == {"size": "2"}, "what nobody owns any more goes"


def watches():
    """Watches: from a list's revision, resumed where they ended, with time-outs on both sides, and from a revision that is gone."""
    core = client.CoreV1Api()
    begin = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    core.create_namespaced_config_map(NAMESPACE, config_map("seen", step="1"))
    core.patch_namespaced_config_map("seen", NAMESPACE, {"data": {"step": "2"}})
    watcher, seen = watch.Watch(), []
    for event in watcher.stream(core.list_namespaced_config_map, NAMESPACE, resource_version=begin, label_selector="suite=python", timeout_seconds=60):
        seen.append((event["type"], event["object"].data["step"]))
        if len(seen) == 2:
            watcher.stop()
    assert seen == [("ADDED", "1"), ("MODIFIED", "2")], seen
    resumed = watcher.resource_version

    def later():
        core.patch_namespaced_config_map("seen", NAMESPACE, {"data": {"step": "3"}})
        core.delete_namespaced_config_map("seen", NAMESPACE)

    threading.Timer(0.2, later).start()
    watcher, seen = watch.Watch(), []
    for event in watcher.stream(core.list_namespaced_config_map, NAMESPACE, resource_version=resumed, label_selector="suite=python", timeout_seconds=60):
        seen.append((event["type"], event["object"].data["step"]))
        if event["type"] == "DELETED":
            watcher.stop()
    assert seen == [("MODIFIED", "3"), ("DELETED", "3")], f"nothing twice, nothing missing: {seen}"

    now = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    assert not list(watch.Watch().stream(core.list_namespaced_config_map, NAMESPACE, resource_version=now, timeout_seconds=1)), "the server ends it"
    bookmarks = watch.Watch().stream(core.list_namespaced_config_map, NAMESPACE, resource_version=now, timeout_seconds=1, allow_watch_bookmarks=True)
    assert all(event["type"] == "BOOKMARK" for event in bookmarks)
    assert list(watch.Watch().stream(core.list_namespaced_config_map, NAMESPACE, resource_version=str(int(now) + 1000000), timeout_seconds=1)) == []


def dynamic_client():
    """The dynamic client: discovery, a kind of one's own, its status and a watch."""
    api = dynamic.DynamicClient(client.ApiClient())
    definitions = api.resources.get(api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition")
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"legs": {"type": "integer", "default": 4}}},
                                               "status": {"type": "object", "properties": {"fed": {"type": "boolean"}}}}}
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}}
    definitions.create(body={
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "cats.pets.example.com"},
        "spec": {"group": "pets.example.com", "scope": "Namespaced", "names": {"plural": "cats", "kind": "Cat"}, "versions": [version]}})
    deadline = time.monotonic() + 60
    while not any(one.type == "Established" and one.status == "True" for one in definitions.get(name="cats.pets.example.com").status.conditions or []):
        assert time.monotonic() < deadline, "the kind is not established"
        time.sleep(0.05)
    api.resources.invalidate_cache()
    cats = api.resources.get(api_version="pets.example.com/v1", kind="Cat")
    made = cats.create(body={"apiVersion": "pets.example.com/v1", "kind": "Cat", "metadata": {"name": "tom"}, "spec": {}}, namespace=NAMESPACE)
    assert made.spec.legs == 4
    fed = cats.status.patch(body={"status": {"fed": True}}, name="tom", namespace=NAMESPACE, content_type="application/merge-patch+json")
    assert fed.status.fed and fed.metadata.generation == 1
    applied = cats.server_side_apply(namespace=NAMESPACE, field_manager="py", body={
        "apiVersion": "pets.example.com/v1", "kind": "Cat", "metadata": {"name": "kit"}, "spec": {"legs": 3}})
    assert applied.metadata.managedFields[0].operation == "Apply"
    seen = [event["object"].metadata.name for event in cats.watch(namespace=NAMESPACE, timeout=1)]
    assert sorted(seen) == ["kit", "tom"], seen
    assert sorted(item.metadata.name for item in cats.get(namespace=NAMESPACE).items) == ["kit", "tom"]
    assert api.version["kubernetes"]["minor"] == "34"


def refusals():
    """What nodes that run nothing refuse, in words, and the log that they make up."""
    core = client.CoreV1Api()
    pod = {"metadata": {"name": "still"}, "spec": {"containers": [{"name": "still", "image": "example.com/still:1"}]}}
    core.create_namespaced_pod(NAMESPACE, pod)
    deadline = time.monotonic() + 60
    while core.read_namespaced_pod("still", NAMESPACE).status.phase != "Running":
        assert time.monotonic() < deadline, "the pod does not run"
        time.sleep(0.05)
    try:
        stream(core.connect_get_namespaced_pod_exec, "still", NAMESPACE, command=["ls"], stdout=True)
        raise AssertionError("exec was not refused")
    except ApiException as error:
        assert "501" in str(error) or "simulated" in str(error), error
    error = refused(501, core.connect_post_namespaced_pod_exec, "still", NAMESPACE, command=["ls"], stdout=True)
    assert "nodes of this cluster are simulated" in error.body
    assert "simulates its nodes" in core.read_namespaced_pod_log("still", NAMESPACE)
    review = client.AuthorizationV1Api().create_self_subject_access_review({"spec": {"resourceAttributes": {"verb": "delete", "resource": "nodes"}}})
    assert review.status.allowed
    token = core.create_namespaced_service_account_token("default", NAMESPACE, {"spec": {"audiences": [], "expirationSeconds": 600}})
    settings = client.Configuration.get_default_copy()
    settings.cert_file = settings.key_file = None
    settings.api_key = {"authorization": f"Bearer {token.status.token}"}
    account = client.CoreV1Api(client.ApiClient(settings))
    assert 'User \\"system:serviceaccount:default:default\\" cannot list resource \\"pods\\"' in refused(403, account.list_namespaced_pod, NAMESPACE).body


if __name__ == "__main__":
    config.load_kube_config()
    globals()[sys.argv[1]]()
    print("done")
