#!/usr/bin/env python3
"""Checks the Kubernetes objects of tools/deploy: what fits together, and by the schema if there is one.

  deploy_kubernetes.py --file FILE --moert PATH

Needs PyYAML. With the PyPI package kubernetes-validate, objects are compared with Kubernetes' schema too.
"""
import argparse
import importlib.util
import re
import subprocess

import yaml


def check_schema(objects):
    if not importlib.util.find_spec("kubernetes_validate"):
        print("schema: not checked")
        return
    import kubernetes_validate
    for item in objects:
        kubernetes_validate.validate(item, kubernetes_validate.latest_version(), strict=True)
    print("schema: held")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--file", required=True)
    p.add_argument("--moert", required=True)
    a = p.parse_args()
    with open(a.file) as file:
        objects = list(yaml.safe_load_all(file))
    check_schema(objects)
    by_kind = {item["kind"]: item["spec"] for item in objects}
    deployment, service = by_kind["Deployment"], by_kind["Service"]
    labels = deployment["template"]["metadata"]["labels"]
    for selector in (deployment["selector"]["matchLabels"], service["selector"],
                     by_kind["PodDisruptionBudget"]["selector"]["matchLabels"]):
        assert selector == labels, (selector, labels)

    pod = deployment["template"]["spec"]
    moert, = pod["containers"]
    options = dict(re.match(r"(--[\w-]+)=?(.*)", word).groups() for word in moert["args"] if word.startswith("--"))
    usage = subprocess.run([a.moert, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    unknown = set(options) - set(re.findall(r"--[\w-]+", usage))
    assert not unknown, f"moert serve has no {unknown}"
    # All that may take time after the end begins fits into what Kubernetes gives.
    pause = int(moert["lifecycle"]["preStop"]["exec"]["command"][-1])
    assert pod["terminationGracePeriodSeconds"] >= pause + int(options["--grace"]) + 10

    port, = moert["ports"]
    assert port["containerPort"] == int(options["--port"]) and service["ports"][0]["targetPort"] == port["name"]
    paths = {name: moert[name]["httpGet"]["path"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
    # Health is 503 while a replica loads or ends, which is no reason to kill it.
    assert paths == {"startupProbe": "/health", "readinessProbe": "/health", "livenessProbe": "/"}, paths

    mounted = {mount["mountPath"]: mount for mount in moert["volumeMounts"]}
    assert {mount["name"] for mount in mounted.values()} == {volume["name"] for volume in pod["volumes"]}
    assert [path for path, mount in mounted.items() if not mount.get("readOnly")] == ["/cache"], mounted
    for container in (moert, *pod["initContainers"]):
        rights = container["securityContext"]
        assert rights["readOnlyRootFilesystem"] and not rights["allowPrivilegeEscalation"], container["name"]
        assert rights["capabilities"] == {"drop": ["ALL"]}, container["name"]
    assert pod["securityContext"]["runAsNonRoot"]
    print("kubernetes: ok")


if __name__ == "__main__":
    main()
