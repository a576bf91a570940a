#!/usr/bin/env python3
"""A provider of machines whose instances are files in a folder: an example to begin with.

Parameters: folder (where the files are), size.
"""
import json
import os
import pathlib
import sys


def main() -> dict:
    operation, call = sys.argv[1], json.load(sys.stdin)
    value = call["machine"]["spec"]["providerSpec"]["value"]
    parameters = value.get("parameters") or {}
    if operation == "capabilities":
        return {"exists": False}
    folder = parameters.get("folder")
    if not folder:
        return {"error": {"reason": "InvalidConfiguration", "message": "parameters.folder is missing", "terminal": True}}
    if operation in ("validate", "default"):
        return {}
    # The key is the machine's own: a call that is made again finds what the first one made.
    instance = pathlib.Path(folder) / (call["idempotencyKey"] + ".json")
    if operation == "exists":
        return {"exists": instance.exists()}
    if operation == "delete":
        instance.unlink(missing_ok=True)
        return {}
    if operation == "create":
        os.makedirs(folder, exist_ok=True)
        instance.write_text(json.dumps({"name": call["machine"]["metadata"]["name"], "userData": call["userData"]}))
    elif not instance.exists():
        return {"error": {"message": "the instance is gone"}}
    return {
        "exists": True,
        "providerID": "folder:///" + call["idempotencyKey"],
        "addresses": [{"type": "Hostname", "address": call["machine"]["metadata"]["name"]}],
        "instanceState": "running",
        "labels": {"instanceType": parameters.get("size", "small")},
    }


json.dump(main(), sys.stdout)
