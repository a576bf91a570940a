"""Records who may do what at kube-apiserver: permissions x ways to write a request, and what each answer shows.

    python3 permissions.py SERVER TOKEN OUT.json.gz

SERVER is the https address of a kube-apiserver with RBAC and without controllers, which nobody else uses; TOKEN is its administrator's.
Whoever asks is a ServiceAccount of namespace `who` with one grant. Nothing is changed: what writes is a dry run.
"""

import gzip, http.client, json, random, ssl, sys, time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote, urlsplit

server, admin, out = sys.argv[1:4]
place = urlsplit(server)
unchecked = ssl.create_default_context()
unchecked.check_hostname = False
unchecked.verify_mode = ssl.CERT_NONE


def send(token, method, path, body=None, headers={}):
    """One request, its path as it stands."""
    connection = http.client.HTTPSConnection(place.hostname, place.port, context=unchecked, timeout=15)
    connection.putrequest(method, path, skip_host=False, skip_accept_encoding=True)
    for name, value in ([("authorization", f"Bearer {token}")] if token else []) + [(name, value) for name, value in headers]:
        connection.putheader(name, value)
    text = b"" if body is None else json.dumps(body).encode()
    if body is not None:
        connection.putheader("content-type", "application/merge-patch+json" if method == "PATCH" else "application/json")
    if text or method in ["POST", "PUT", "PATCH"]:
        connection.putheader("content-length", str(len(text)))
    connection.endheaders(text)
    answer = connection.getresponse()
    status, text = answer.status, answer.read()
    connection.close()
    return status, text


# Who there is: name -> (rules in namespace a, rules everywhere).

READ = ["get", "list", "watch"]
CORE = [""]


def rule(verbs, resources, names=None, groups=CORE):
    return {"verbs": verbs, "apiGroups": groups, "resources": resources, **({"resourceNames": names} if names else {})}


EVERYTHING = ["*"]
GROUP = ["example.com"]
USERS = {
    "nothing": ([], []),
    "get-one": ([rule(["get"], ["secrets"], ["one"])], []),
    "read-one": ([rule(READ, ["secrets", "namespaces"], ["one"])], []),
    "read-one-everywhere": ([], [rule(READ, ["secrets", "namespaces", "configmaps"], ["one"])]),
    "watch-one-everywhere": ([], [rule(["watch"], ["secrets"], ["one"])]),
    "list-one-everywhere": ([], [rule(["list"], ["secrets"], ["one"])]),
    "read-in-a": ([rule(READ, ["secrets"])], []),
    "watch-in-a": ([rule(["watch"], ["secrets", "namespaces"])], []),
    "list-in-a": ([rule(["list"], ["secrets", "namespaces"])], []),
    "namespaces-in-a": ([rule(READ, ["namespaces", "namespaces/status"])], []),
    "get-everywhere": ([], [rule(["get"], ["secrets", "namespaces"])]),
    "list-everywhere": ([], [rule(["list"], ["secrets", "namespaces"])]),
    "watch-everywhere": ([], [rule(["watch"], ["secrets", "namespaces"])]),
    "write-in-a": ([rule(["create", "update", "patch", "delete"], ["secrets", "pods", "bindings"])], []),
    "delete-in-a": ([rule(["delete"], ["secrets"])], []),
    "delete-all-in-a": ([rule(["deletecollection"], ["secrets"])], []),
    "delete-all-of-one": ([rule(["deletecollection", "delete"], ["secrets"], ["one"])], []),
    "every-verb-of-one": ([], [rule(EVERYTHING, EVERYTHING, ["one"], EVERYTHING)]),
    "proxy-verb": ([], [rule(["proxy"], EVERYTHING, None, EVERYTHING)]),
    "strange-verbs": ([], [rule(["", "head", "options", "HEAD", "GET", "post", "trace", "connect"], EVERYTHING, None, EVERYTHING)]),
    "empty-resource": ([], [rule(READ, [""], None, EVERYTHING)]),
    "subresources": ([rule(EVERYTHING, ["*/log", "pods/exec", "pods/status", "secrets/status", "*/scale", "services/proxy", "pods/eviction", "pods/binding"], None, EVERYTHING)], []),
    "things-in-a": ([rule(READ, ["things", "things/status"], None, GROUP)], []),
    "one-thing": ([], [rule(READ + ["deletecollection"], ["things", "wides"], ["one"], GROUP)]),
    "watch-things": ([], [rule(["watch"], ["things", "wides"], None, GROUP)]),
    "paths": ([], [{"verbs": ["get"], "nonResourceURLs": ["/metrics", "/api/v1/secrets", "/logs/*", "/debug/*", "/api/v1/namespaces/*"]}]),
    "every-path": ([], [{"verbs": ["get", "head"], "nonResourceURLs": ["*"]}]),
    "everything": ([], [rule(EVERYTHING, EVERYTHING, None, EVERYTHING), {"verbs": ["*"], "nonResourceURLs": ["*"]}]),
    "acts-as-reader": ([], [rule(["impersonate"], ["serviceaccounts"], ["read-in-a"])]),
    "acts-as-users": ([], [rule(["impersonate"], ["users"]), rule(["impersonate"], ["groups"], ["developers"]), rule(["impersonate"], ["userextras/scopes"], ["one"], ["authentication.k8s.io"])]),
    "acts-as-groups": ([rule(["impersonate"], ["serviceaccounts"])], [rule(["impersonate"], ["groups"]), rule(["impersonate"], ["uids"], None, ["authentication.k8s.io"])]),
}


def grants():
    yield "/api/v1/namespaces", {"metadata": {"name": "who"}}
    for name, (in_a, everywhere) in USERS.items():
        subject = {"kind": "ServiceAccount", "namespace": "who", "name": name}
        yield "/api/v1/namespaces/who/serviceaccounts", {"metadata": {"name": name}}
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        for kind, scope, rules in [("Role", "/namespaces/a", in_a), ("ClusterRole", "", everywhere)]:
            if rules:
                plural = kind.lower() + "s"
                yield f"{rbac}{scope}/{plural}", {"metadata": {"name": name}, "rules": rules}
                binding = {"metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}, "subjects": [subject]}
                yield f"{rbac}{scope}/{kind.lower()}bindings", binding


def crd(plural, kind, scope):
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}
    names = {"plural": plural, "kind": kind, "singular": kind.lower(), "listKind": kind + "List"}
    return {"metadata": {"name": f"{plural}.example.com"}, "spec": {"group": "example.com", "scope": scope, "names": names, "versions": [version]}}


def objects():
    for name in ["a", "b", "one"]:
        yield "/api/v1/namespaces", {"metadata": {"name": name}}
    for plural, kind, scope in [("things", "Thing", "Namespaced"), ("wides", "Wide", "Cluster")]:
        yield "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd(plural, kind, scope)
    for namespace, name in [("a", "one"), ("a", "two"), ("b", "one"), ("b", "three"), ("one", "four")]:
        for resource in ["secrets", "configmaps"]:
            yield f"/api/v1/namespaces/{namespace}/{resource}", {"metadata": {"name": name}}
        yield f"/apis/example.com/v1/namespaces/{namespace}/things", {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}}
    for name in ["one", "two"]:
        yield "/apis/example.com/v1/wides", {"apiVersion": "example.com/v1", "kind": "Wide", "metadata": {"name": name}}


# What is asked.

QUERIES = ["", "", "", "watch=1", "watch=true", "watch=TRUE", "watch=false", "watch=FALSE", "watch=0", "watch", "watch=", "watch=no", "Watch=1", "watch=0&watch=1",
           "watch=1&watch=0", "w%61tch=1", "watch=%31", "watch=1;x", "x=%zz&watch=1"]
SELECTORS = ["", "", "metadata.name=one", "metadata.name=one", "metadata.name==one", "metadata.name%3Done", "metadata.name%3D%3Done", "metadata.name=two",
             "metadata.name=one,metadata.name=two", "metadata.name=two,metadata.name=one", "metadata.name=one,metadata.namespace=a", "metadata.namespace=a",
             "metadata.namespace=b,metadata.name=one", "metadata.name!=one", "metadata.name=", "metadata.name", "metadata.name=one,", ",metadata.name=one",
             "metadata.name=o%5Cne", "metadata.name=one%5C,x", "metadata.name=one%5C", "metadata.name=a/b", "metadata.name=..", "metadata.name=%20one", "+metadata.name=one",
             "metadata.name=one,type=Opaque", "type=Opaque", "metadata.name=one,bogus=1", "METADATA.NAME=one"]
FURTHER = ["", "", "", "", "limit=abc", "limit=1", "limit=500", "resourceVersion=0", "labelSelector=!x", "labelSelector=%3D", "sendInitialEvents=abc", "continue=abc",
           "resourceVersionMatch=Exact", "pretty=1", "timeoutSeconds=abc", "limit="]


def query(r, names=True):
    selector = r.choice(SELECTORS) if names else ""
    parts = [r.choice(QUERIES), f"fieldSelector={selector}" if selector else "", r.choice(FURTHER)]
    if r.random() < 0.03:
        parts.append("fieldSelector=metadata.name=two")
    if r.random() < 0.3:
        r.shuffle(parts)
    parts = [part for part in parts if part]
    if not any("timeoutSeconds" in part for part in parts):
        parts.append("timeoutSeconds=1")
    return "&".join(parts)


BASES = ["/api/v1"] * 24 + ["/api/v1/watch"] * 20 + ["/api/v1/proxy", "/api/v1/redirect", "/API/v1", "//api/v1", "/api//v1", "/api/v1/", "/api/V1", "/apis/v1", "/api/v1/watch/watch",
                            "/api/v1/proxy/watch", "/api/v1/watch/proxy", "/api/v1/Watch", "/%61pi/v1", "/api%2Fv1", "/api/v1/%77atch", "/api/v1%2Fwatch", "/api/v2", "/apis//v1", "/api/v1/./watch",
                            "/api/v1/watch/..", "/api/v1/../v1", "/%2Fapi/v1"]
SCOPES = [""] * 12 + ["/namespaces/a"] * 18 + ["/namespaces/b"] * 6 + ["/namespaces/one", "/namespaces/", "/namespaces//", "/namespaces/a/", "/Namespaces/a", "/namespaces/a%2F", "/namespaces/%61", "/namespaces/*",
         "/namespaces/a/namespaces/b", "/namespaces/missing", "/namespaces/b/../a", "/namespaces/A"]
RESTS = ["/secrets"] * 30 + ["/secrets/one"] * 18 + ["/secrets/two", "/secrets/", "/secrets//", "/secrets/one/", "/secrets/one//", "//secrets", "/secrets//one", "/Secrets", "/SECRETS/one", "/%73ecrets", "/secrets%2Fone",
         "/secrets/%6Fne", "/secrets/one%2F", "/secrets/one/status", "/secrets/one/bogus", "/secrets/one/proxy", "/secrets/one/proxy/x/y", "/secrets/../secrets", "/secrets/..", "/secrets/.", "/secrets/*", "/secrets/one,two",
         "/secrets/one?x", "/secret", "/secrets.v1", "/secrets.", "/secrets;x", "/secrets/missing", "/secrets/status", "/secrets/watch", "", "/"]
SUBRESOURCES = ["/api/v1/namespaces/a/pods/one/log", "/api/v1/namespaces/a/pods/one/exec", "/api/v1/namespaces/a/pods/one/attach", "/api/v1/namespaces/a/pods/one/portforward", "/api/v1/namespaces/a/pods/one/proxy",
                "/api/v1/namespaces/a/pods/one/proxy/x/y", "/api/v1/namespaces/a/pods/http:one:80/proxy/", "/api/v1/namespaces/a/services/one/proxy", "/api/v1/namespaces/a/services/https:one:443/proxy/x", "/api/v1/nodes/one/proxy",
                "/api/v1/nodes/one/proxy/logs", "/api/v1/proxy/nodes/one", "/api/v1/proxy/namespaces/a/pods/one", "/api/v1/proxy/namespaces/a/services/one/x", "/api/v1/namespaces/a/pods/one/eviction", "/api/v1/namespaces/a/pods/one/binding",
                "/api/v1/namespaces/a/bindings", "/api/v1/namespaces/a/pods/one/status", "/api/v1/namespaces/a/pods/one/ephemeralcontainers", "/api/v1/namespaces/a/pods/one/resize", "/api/v1/namespaces/a/serviceaccounts/one/token",
                "/api/v1/namespaces/a/replicationcontrollers/one/scale", "/apis/apps/v1/namespaces/a/deployments/one/scale", "/apis/apps/v1/namespaces/a/deployments/one/status", "/api/v1/watch/namespaces/a/pods/one/log",
                "/api/v1/watch/namespaces/a/secrets/one/status", "/api/v1/watch/namespaces/a/status", "/api/v1/watch/namespaces/a/finalize", "/apis/example.com/v1/namespaces/a/things/one/status", "/apis/example.com/v1/namespaces/a/things/one/scale",
                "/apis/example.com/v1/watch/namespaces/a/things/one/status", "/api/v1/componentstatuses", "/api/v1/componentstatuses/one", "/api/v1/nodes/one/status", "/api/v1/namespaces/a/pods/one/LOG", "/api/v1/namespaces/a/pods/one/log/x"]
NAMESPACES = ["/api/v1/namespaces", "/api/v1/namespaces/", "/api/v1/namespaces/a", "/api/v1/namespaces/one", "/api/v1/namespaces/a/", "/api/v1/namespaces/a/status", "/api/v1/namespaces/a/finalize", "/api/v1/namespaces/a/bogus",
              "/api/v1/namespaces/a/namespaces", "/api/v1/namespaces/a/namespaces/a", "/api/v1/namespaces/a/namespaces/b", "/api/v1/watch/namespaces", "/api/v1/watch/namespaces/", "/api/v1/watch/namespaces/a", "/api/v1/watch/namespaces/one",
              "/api/v1/watch/namespaces/b", "/api/v1/watch/namespaces/a/namespaces", "/api/v1/namespaces/status", "/api/v1/namespaces/a/status/x", "/api/v1/watch", "/api/v1/watch/"]
PATHS = ["/", "//", "", "/api", "/api/", "/apis", "/apis/", "/api/v1", "/api/v1/", "//api/v1", "/apis/apps", "/apis/apps/", "/apis/apps/v1", "/apis/apps/v1/", "/apis/example.com", "/apis/example.com/v1", "/apis/nothing.example.com", "/apis/nothing.example.com/v1",
         "/version", "/version/", "/VERSION", "/healthz", "/healthz/", "/healthz/ping", "/healthz/etcd", "/livez", "/livez/ping", "/readyz", "/readyz/ping", "/readyz/", "/metrics", "/metrics/", "/metrics/x", "/metrics/slis", "/logs", "/logs/",
         "/debug/pprof", "/debug/pprof/", "/openapi/v2", "/openapi/v2/", "/openapi/v3", "/openapi/v3/", "/openapi/v3/api/v1", "/.well-known/openid-configuration", "/openid/v1/jwks", "/api/v1/../../metrics", "/x/../metrics", "/%6Detrics",
         "/metrics%2F", "/api%2Fv1%2Fsecrets", "/%61pi/v1/secrets", "/apis/../api/v1/secrets", "/mainstay", "/swagger.json", "/ui", "/static/x", "/apis/apiregistration.k8s.io", "/apis/apiregistration.k8s.io/v1", "/openapi", "/api/v1/namespaces/a/secrets/one/x/y/z",
         "/.well-known/", "/.well-known", "/openid", "/flagz", "/statusz"]


def body_of(method, path):
    name = path.split("?")[0].rstrip("/").split("/")[-1]
    if method == "PATCH":
        return {"metadata": {"labels": {"x": "y"}}}
    if method in ["POST", "PUT"]:
        custom = {"apiVersion": "example.com/v1", "kind": "Wide" if "/wides" in path else "Thing"} if "example.com" in path else {}
        return {**custom, "metadata": {"name": "new" if method == "POST" else name}}
    return None


def requests():
    """Method, path with query, body."""
    r = random.Random("paths")
    seen = set()

    def once(method, path):
        if "timeoutSeconds" not in path:
            path += ("&" if "?" in path else "?") + "timeoutSeconds=1"
        if method not in ["GET", "HEAD", "OPTIONS"]:
            path += ("&" if "?" in path else "?") + "dryRun=All"
        if (method, path) in seen or any(c in path for c in " \n"):
            return
        seen.add((method, path))
        yield method, path, body_of(method, path)

    for _ in range(620):
        path = r.choice(BASES) + r.choice(SCOPES) + r.choice(RESTS)
        path += ("&" if "?" in path else "?") + query(r)
        yield from once("GET", path)
    for _ in range(330):
        path = r.choice(BASES) + r.choice(SCOPES) + r.choice(RESTS)
        more = query(r) if r.random() < 0.3 else ""
        path += ("&" if "?" in path else "?") + more if more else ""
        yield from once(r.choice(["HEAD", "POST", "PUT", "PATCH", "DELETE", "DELETE", "DELETE", "OPTIONS", "POST"]), path)
    for _ in range(260):
        base = r.choice(["/apis/example.com/v1"] * 12 + ["/apis/example.com/v1/watch"] * 10 + ["/apis/example.com/v1/proxy", "/apis//example.com/v1", "/APIS/example.com/v1", "/apis/EXAMPLE.com/v1", "/apis/example.com/v2", "//apis/example.com/v1", "/apis/example.com%2Fv1"])
        rest = r.choice(["/things", "/things", "/things/one", "/wides", "/wides/one", "/things/", "/things/one/", "/things/one/status", "/things//", "/Things", "/wides/two", "/wides/", "/things/one/x", "/th%69ngs"])
        path = base + r.choice(["", "", "/namespaces/a", "/namespaces/a", "/namespaces/b", "/namespaces//", "/namespaces/missing"]) + rest
        more = query(r) if r.random() < 0.7 else ""
        yield from once(r.choice(["GET"] * 6 + ["HEAD", "POST", "PUT", "PATCH", "DELETE", "DELETE", "OPTIONS"]), path + (f"?{more}" if more else ""))
    for path in SUBRESOURCES:
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]:
            yield from once(method, path)
    for path in NAMESPACES:
        for method in ["GET", "GET", "GET", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]:
            more = query(r) if method == "GET" and r.random() < 0.75 else ""
            yield from once(method, path + (f"?{more}" if more else ""))
    for path in PATHS:
        for method in ["GET", "HEAD", "POST", "DELETE", "OPTIONS"]:
            if path:
                yield from once(method, path)


FITTING = [("", ["everything"]), ("ecrets", ["read-one-everywhere", "watch-one-everywhere", "list-one-everywhere", "read-in-a", "watch-everywhere", "list-everywhere"]), ("namespaces", ["namespaces-in-a"]), ("things", ["things-in-a", "one-thing", "watch-things"]), ("wides", ["one-thing", "watch-things"]), ("/pods/", ["subresources", "write-in-a"]), ("/proxy", ["proxy-verb", "subresources"])]
IMPERSONATED = [
    [], [("impersonate-user", "system:serviceaccount:who:read-in-a")], [("impersonate-user", "system:serviceaccount:who:nothing")], [("impersonate-user", "system:serviceaccount:a:x")], [("impersonate-user", "ann")],
    [("impersonate-user", "ann"), ("impersonate-group", "developers")], [("impersonate-user", "ann"), ("impersonate-group", "system:masters")], [("impersonate-group", "system:masters")], [("impersonate-uid", "7")],
    [("impersonate-extra-scopes", "one")], [("impersonate-user", "ann"), ("impersonate-extra-scopes", "one")], [("impersonate-user", "ann"), ("impersonate-extra-scopes", "two")], [("impersonate-user", "ann"), ("impersonate-extra-Scopes", "one")],
    [("impersonate-user", "ann"), ("impersonate-extra-other", "one")], [("impersonate-user", "ann"), ("impersonate-uid", "7")], [("impersonate-user", ""), ("impersonate-group", "developers")], [("impersonate-user", "ann"), ("impersonate-user", "bob")],
    [("impersonate-user", "system:anonymous")], [("impersonate-user", "system:serviceaccount:who:read-in-a"), ("impersonate-group", "developers")], [("impersonate-user", "system:serviceaccount:who:read-in-a"), ("impersonate-group", "system:masters")],
    [("impersonate-user", "system:serviceaccount:who")], [("impersonate-user", "system:serviceaccount:WHO:read-in-a")], [("impersonate-user", "system:serviceaccount:who:read-in-a:x")], [("Impersonate-User", "SYSTEM:serviceaccount:who:read-in-a")],
    [("impersonate-user", "ann"), ("impersonate-group", "")], [("impersonate-user", "ann"), ("impersonate-extra-scopes", "one"), ("impersonate-extra-scopes", "one")],
    [("x-remote-user", "admin"), ("x-remote-group", "system:masters")],
]
OWN = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


def questions():
    """What a user may ask about themselves: user, path, body."""
    authorization = "/apis/authorization.k8s.io/v1"
    r = random.Random("reviews")
    for user in USERS:
        for namespace in ["a", "b", "missing"]:
            yield user, f"{authorization}/selfsubjectrulesreviews", {"spec": {"namespace": namespace}}
        for _ in range(12):
            verb = r.choice(READ + ["deletecollection", "delete", "impersonate", "proxy", "*", "create", "head"])
            attributes = {"verb": verb, "resource": r.choice(["secrets", "secrets", "namespaces", "things", "pods", "*", ""]), "name": r.choice(["", "one", "one", "two"]), "namespace": r.choice(["", "a", "a", "b"])}
            attributes["group"] = r.choice(["example.com", "*", ""]) if attributes["resource"] == "things" else ""
            if r.random() < 0.3:
                attributes["subresource"] = r.choice(["status", "log", "scale", "*"])
            yield user, f"{authorization}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": attributes}}
        for _ in range(4):
            attributes = {"verb": r.choice(["get", "post", "*", "head"]), "path": r.choice(["/metrics", "/metrics/x", "/logs/x", "/api/v1/secrets", "*", "/healthz", "", "/debug"])}
            yield user, f"{authorization}/selfsubjectaccessreviews", {"spec": {"nonResourceAttributes": attributes}}


def shown(path, status, text):
    """What an answer shows: names for objects, else as little as tells one answer from another."""
    def name(value):
        metadata = value.get("metadata") or {}
        return "/".join(part for part in [metadata.get("namespace"), metadata.get("name")] if part)

    try:
        lines = [json.loads(line) for line in text.decode().splitlines()] if text.startswith(b'{"type"') else None
        if lines is not None:
            return {"events": sorted(f'{line["type"]} {name(line["object"])}' if line["type"] != "ERROR" else f'ERROR {line["object"].get("reason")}' for line in lines)}
        value = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    if value.get("kind") == "Status":
        return {"reason": value.get("reason"), **({"message": value.get("message")} if status in [400, 401, 403] else {})}
    if "reviews" in path:
        answer = value.get("status") or {}
        for rules in ["resourceRules", "nonResourceRules"]:
            if rules in answer:
                answer[rules] = sorted(answer[rules], key=lambda rule: json.dumps(rule, sort_keys=True))
        if "userInfo" in answer:
            answer["userInfo"].pop("uid", None)
            for key in list(answer["userInfo"].get("extra") or {}):
                if key.startswith("authentication.kubernetes.io/"):
                    answer["userInfo"]["extra"].pop(key)
        return {"answer": answer}
    if isinstance(value.get("items"), list) and value.get("kind", "").endswith("List"):
        return {"items": sorted(name(item) for item in value["items"] if name(item).split("/")[-1] not in HIDDEN)}
    return {"object": name(value)} if "metadata" in value else {}


# What differs from one cluster to another.
HIDDEN = ["kube-root-ca.crt", "kubernetes"]

world = list(objects()) + list(grants())
for path, body in world:
    for _ in range(100):
        status, text = send(admin, "POST", path, body)
        if status not in [403, 404, 429, 503]:
            break
        time.sleep(0.1)
    assert status in [200, 201, 409], (status, path, body, text)
tokens = {"anonymous": None}
for name in USERS:
    status, text = send(admin, "POST", f"/api/v1/namespaces/who/serviceaccounts/{name}/token", {"spec": {"expirationSeconds": 7200}})
    assert status == 201, text
    tokens[name] = json.loads(text)["status"]["token"]
time.sleep(3)

asked, r = [], random.Random("who asks")
for method, path, body in requests():
    fitting = {user for part, users in FITTING if part in path for user in users}
    for user in [user for user in tokens if user in fitting or r.random() < 0.07]:
        asked.append({"user": user, "method": method, "path": path, "body": body})
for user in ["acts-as-reader", "acts-as-users", "acts-as-groups", "nothing", "every-verb-of-one", "anonymous"]:
    for headers in IMPERSONATED:
        for method, path, body in [("GET", "/api/v1/namespaces/a/secrets", None), ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", OWN), ("GET", "/api/v1/watch/namespaces/a/secrets?timeoutSeconds=1", None)]:
            asked.append({"user": user, "method": method, "path": path, "body": body, "headers": headers})
asked += [{"user": user, "method": "POST", "path": path, "body": body} for user, path, body in questions()]


def answer(row):
    for _ in range(50):
        try:
            status, text = send(tokens[row["user"]], row["method"], row["path"], row["body"], row.get("headers", []))
        except TimeoutError:
            # A watch that knows no end.
            return None
        if status != 429 and not (status == 504):
            break
        time.sleep(0.2)
    return {**{key: value for key, value in row.items() if value}, "status": status, **shown(row["path"], status, text)}


with ThreadPoolExecutor(60) as pool:
    rows = [row for row in pool.map(answer, asked) if row]
assert [path for path, _ in world] and len(rows) > 5000
with gzip.GzipFile(out, "wb", mtime=0) as file:
    file.write(json.dumps({"world": world, "users": list(tokens), "rows": rows}, separators=(",", ":")).encode())
counts = {}
for row in rows:
    counts[row["status"]] = counts.get(row["status"], 0) + 1
print(len(rows), "answers", dict(sorted(counts.items())))
