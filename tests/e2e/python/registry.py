"""A standard gRPC client of api.Registry, in another language than the server's: grpcio, with messages learned by reflection.

registry.py small ADDRESS      what the test's own catalog must answer
registry.py walk ADDRESS       every package, channel, bundle and API of any catalog, each asked for by itself; prints how many
"""

import json
import sys

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase


class Registry:
    """The methods of a service as reflection describes them."""

    def __init__(self, channel):
        self.channel = channel
        self.database = ProtoReflectionDescriptorDatabase(channel)
        self.service = DescriptorPool(self.database).FindServiceByName("api.Registry")

    def __getattr__(self, name):
        method = self.service.methods_by_name[name]
        request, answer = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
        kind = self.channel.unary_stream if method.server_streaming else self.channel.unary_unary
        call = kind(
            f"/{self.service.full_name}/{name}", request_serializer=request.SerializeToString, response_deserializer=answer.FromString
        )

        def ask(**fields):
            found = call(request(**fields), timeout=30)
            return list(found) if method.server_streaming else found

        return ask


def same(found, expected):
    assert found == expected, f"\nfound    {found}\nexpected {expected}"


def refused(ask, text, **fields):
    try:
        found = ask(**fields)
    except grpc.RpcError as error:
        same((error.code(), error.details()), (grpc.StatusCode.UNKNOWN, text))
    else:
        raise AssertionError(f"expected {text!r}, found {found}")


def small(registry, channel):
    services = sorted(registry.database.get_services())
    assert "api.Registry" in services and "grpc.health.v1.Health" in services, services
    health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=30)
    same(health.status, health_pb2.HealthCheckResponse.SERVING)

    same([package.name for package in registry.ListPackages()], ["gadget", "widget"])
    package = registry.GetPackage(name="gadget")
    same([(c.name, c.csvName) for c in package.channels], [("beta", "gadget.v2.0.0"), ("stable", "gadget.v1.1.0")])
    same(package.defaultChannelName, "stable")

    bundle = registry.GetBundle(pkgName="gadget", channelName="stable", csvName="gadget.v1.1.0")
    same((bundle.csvName, bundle.version, bundle.bundlePath), ("gadget.v1.1.0", "1.1.0", "quay.io/e2e/gadget.v1.1.0"))
    csv = json.loads(bundle.csvJson)
    same((csv["kind"], csv["metadata"]["name"], csv["spec"]["displayName"]), ("ClusterServiceVersion", "gadget.v1.1.0", "Gadget"))
    same([json.loads(each)["metadata"]["name"] for each in bundle.object], ["gadget.v1.1.0"])
    same(registry.GetBundleForChannel(pkgName="gadget", channelName="beta").csvName, "gadget.v2.0.0")
    bundles = registry.ListBundles()
    same([(b.channelName, b.csvName, b.replaces, b.csvJson) for b in bundles][0], ("beta", "gadget.v2.0.0", "gadget.v1.1.0", ""))
    same(len(bundles), 4)

    def entries(found):
        return [(e.packageName, e.channelName, e.bundleName, e.replaces) for e in found]

    newest = ("gadget", "stable", "gadget.v1.1.0", "gadget.v1.0.0")
    same(entries(registry.GetChannelEntriesThatReplace(csvName="gadget.v1.0.0")), [newest])
    same(registry.GetBundleThatReplaces(csvName="gadget.v1.0.0", pkgName="gadget", channelName="stable").csvName, "gadget.v1.1.0")
    gadget = {"group": "e2e.io", "version": "v1", "kind": "Gadget"}
    same(len(registry.GetChannelEntriesThatProvide(**gadget)), 3)
    latest = entries(registry.GetLatestChannelEntriesThatProvide(**gadget))
    same(latest, [("gadget", "beta", "gadget.v2.0.0", "gadget.v1.1.0"), newest])
    same(registry.GetDefaultBundleThatProvides(**gadget).csvName, "gadget.v1.1.0")

    refused(registry.GetPackage, 'package "x" not found', name="x")
    refused(registry.GetChannelEntriesThatReplace, "no channel entries found that replace x", csvName="x")
    print("done")


def walk(registry, _channel):
    bundles = apis = 0
    for package in registry.ListPackages():
        for channel in registry.GetPackage(name=package.name).channels:
            head = registry.GetBundleForChannel(pkgName=package.name, channelName=channel.name)
            same((head.csvName, head.packageName, head.channelName), (channel.csvName, package.name, channel.name))
    for listed in registry.ListBundles():
        bundle = registry.GetBundle(pkgName=listed.packageName, channelName=listed.channelName, csvName=listed.csvName)
        same((bundle.csvName, bundle.version, bundle.properties), (listed.csvName, listed.version, listed.properties))
        same(json.loads(bundle.csvJson)["metadata"]["name"], bundle.csvName)
        bundles += 1
        for api in listed.providedApis:
            providers = registry.GetChannelEntriesThatProvide(group=api.group, version=api.version, kind=api.kind)
            assert (listed.channelName, listed.csvName) in {(entry.channelName, entry.bundleName) for entry in providers}, listed.csvName
            apis += 1
    print(f"bundles {bundles} apis {apis}")


if __name__ == "__main__":
    subject, address = sys.argv[1:]
    with grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", -1)]) as channel:
        {"small": small, "walk": walk}[subject](Registry(channel), channel)
