#!/usr/bin/env python3
"""deploy/kubernetes: built, held against Kubernetes' schemas and each other, and its containers started.

    tests/deploy/kubernetes_test.py files           what the files say
    tests/deploy/kubernetes_test.py pods BUILD      what they do. BUILD: a build folder of everything, as build/release

There is no cluster: what a kubelet does with a pod is done as far as pod.py goes, in a network of the test's own, with the
certificates that the guide makes, a Redis that speaks TLS, and the processor for a card. Exit status 0: all of it holds; 77: no
pods can be started here, and nothing was tried. WARPSMITH_TEST_THOROUGH=1: the form of three planners is started, too; half a
minute more.
"""

import argparse
import copy
import json
import os
import pathlib
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from typing import Any, Callable

import yaml

import kustomize
from kustomize import Object, find
from pod import Pod, write_secret

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy" / "kubernetes"
GUIDE = ROOT / "docs" / "guide" / "kubernetes.md"
VALIDATOR = ROOT / ".cache" / "tools" / "bin" / "kubernetes-validate"
NEEDED = {"files": {"promtool": "prometheus"},
          "pods": {"haproxy": "haproxy", "redis-server": "redis-server", "openssl": "openssl", "ip": "iproute2",
                   "unshare": "util-linux", "setpriv": "util-linux"}}
NAMESPACES = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]
SKIPPED = 77
LIMIT_SECONDS = 90
OUTAGE_SECONDS = 12
# What a form has of others, which its guide has people make.
GIVEN = {("Secret", "warpsmith-planner-tls"), ("Secret", "warpsmith-worker-tls"), ("Secret", "warpsmith-redis"),
         ("ConfigMap", "warpsmith-redis")}


def say(what: str) -> None:
    print(f"kubernetes_test: {what}", flush=True)


def fail(what: str) -> None:
    sys.exit(f"kubernetes_test: FAILED: {what}")


def check(condition: bool, what: str) -> None:
    if not condition:
        fail(what)


def eventually(condition: Callable[[], bool], what: str, logs: list[pathlib.Path]) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            for log in logs:
                print(f"== {log}\n{log.read_text()[-3000:]}")
            fail(what)
        time.sleep(0.2)
    say(f"ok: {what}")


# ---- what the files say ------------------------------------------------------------------------------------------------


def kustomization_of(folder: pathlib.Path, form: str, scaled: bool) -> pathlib.Path:
    """One of somebody's own, with a copy of ours beside it."""
    if not (folder / "kubernetes").exists():
        shutil.copytree(DEPLOY, folder / "kubernetes")
    own = folder / (form + ("-keda" if scaled else ""))
    own.mkdir()
    lines: dict[str, Any] = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
                             "resources": [f"../kubernetes/{form}"]}
    if scaled:
        lines["components"] = ["../kubernetes/keda"]
    (own / "kustomization.yaml").write_text(yaml.safe_dump(lines))
    return own


def real_kustomize() -> list[str] | None:
    """A command that builds a folder: of version 5, which is what the files are written for."""
    for command in (["kustomize", "version"], ["kubectl", "version", "--client"]):
        if shutil.which(command[0]):
            said = subprocess.run(command, capture_output=True, text=True).stdout
            if re.search(r"\bv5\.", said):
                return ["kustomize", "build"] if command[0] == "kustomize" else ["kubectl", "kustomize"]
    return None


def by_name(objects: list[Object]) -> dict[str, Object]:
    named = {f"{one['kind']}/{one['metadata']['name']}": one for one in objects}
    check(len(named) == len(objects), "two objects have the same name")
    return named


def build_all(folder: pathlib.Path) -> dict[str, list[Object]]:
    real = real_kustomize()
    forms = {}
    for form in ("one", "three"):
        for scaled in (False, True):
            own = kustomization_of(folder, form, scaled)
            forms[own.name] = kustomize.build(own)
            if real:
                text = subprocess.run([*real, str(own)], capture_output=True, text=True, check=True).stdout
                theirs = by_name([one for one in yaml.safe_load_all(text) if one])
                check(theirs == by_name(forms[own.name]), f"{own.name}: `{' '.join(real)}` builds something else")
    say(f"ok: {len(forms)} forms are built" + (f", as by {' '.join(real)}" if real else "; no kustomize 5 here to compare with"))
    return forms


def validates(objects: list[Object], path: pathlib.Path) -> bool:
    path.write_text(yaml.safe_dump_all(objects))
    done = subprocess.run([VALIDATOR, "--strict", "--no-warn", path], capture_output=True, text=True)
    return done.returncode == 0


def check_schemas(forms: dict[str, list[Object]], folder: pathlib.Path) -> None:
    path = folder / "objects.yaml"
    known = {name: [one for one in objects if one["kind"] != "ScaledObject"] for name, objects in forms.items()}
    for name in ("one", "three"):
        check(validates(known[name], path), f"{name}: {VALIDATOR.name} --strict {path} says what is wrong")
    wrong = copy.deepcopy(known["one"])
    container(find(wrong, "StatefulSet", "warpsmith-worker"))["livenessProbe"]["failureTreshold"] = 6
    check(not validates(wrong, path), "a misspelt field is not found: nothing is validated")
    say("ok: Kubernetes' schemas take them")


def container(stateful_set: Object) -> dict[str, Any]:
    return stateful_set["spec"]["template"]["spec"]["containers"][0]


def check_references(name: str, objects: list[Object]) -> None:
    """What is named is there: labels that select, volumes, ports, config and secrets."""
    pods = {one["metadata"]["name"]: one["spec"]["template"] for one in objects if one["kind"] == "StatefulSet"}
    for one in objects:
        labels = one["metadata"].get("labels", {})
        where = f"{name}: {one['kind']} {one['metadata']['name']}"
        check("namespace" not in one["metadata"], f"{where} is of a namespace")
        for key in ("name", "component", "part-of"):
            check(f"app.kubernetes.io/{key}" in labels, f"{where} has no label {key}")
        spec = one.get("spec", {})
        for selector in (spec.get("selector", {}), spec.get("podSelector", {})):
            wanted = selector.get("matchLabels", selector) if one["kind"] != "PersistentVolumeClaim" else {}
            if wanted:
                check(any(wanted.items() <= pod["metadata"]["labels"].items() for pod in pods.values()), f"{where} selects nothing")
        if one["kind"] == "Service":
            pod = pods[one["metadata"]["name"]]
            ports = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
            check({port["targetPort"] for port in spec["ports"]} <= ports, f"{where} names ports that there are not")
    there = {(one["kind"], one["metadata"]["name"]) for one in objects} | GIVEN
    for set_name, pod in pods.items():
        where = f"{name}: StatefulSet {set_name}"
        claims = {one["metadata"]["name"] for one in find(objects, "StatefulSet", set_name)["spec"]["volumeClaimTemplates"]}
        volumes = {one["name"] for one in pod["spec"]["volumes"]} | claims
        for volume in pod["spec"]["volumes"]:
            for kind, key, field in (("Secret", "secret", "secretName"), ("ConfigMap", "configMap", "name"),
                                     ("PersistentVolumeClaim", "persistentVolumeClaim", "claimName")):
                if key in volume:
                    check((kind, volume[key][field]) in there, f"{where}: there is no {kind} {volume[key][field]}")
        for one in [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]:
            check({mount["name"] for mount in one["volumeMounts"]} <= volumes, f"{where}: a mount of no volume")
            check(one["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                             "capabilities": {"drop": ["ALL"]}}, f"{where}: {one['name']} may do more than it needs")
        check(find(objects, "StatefulSet", set_name)["spec"]["serviceName"] in {one["metadata"]["name"] for one in objects
                                                                               if one["kind"] == "Service"}, f"{where}: no service")


# What KEDA's documentation says of a ScaledObject; there is no schema of it here.
SCALED = {"scaleTargetRef": dict, "minReplicaCount": int, "maxReplicaCount": int, "pollingInterval": int, "cooldownPeriod": int,
          "advanced": dict, "triggers": list}
TRIGGER = {"serverAddress", "query", "threshold", "activationThreshold", "ignoreNullValues"}


def check_scaling(objects: list[Object], folder: pathlib.Path) -> None:
    spec = find(objects, "ScaledObject", "warpsmith-worker")["spec"]
    check(set(spec) == set(SCALED) and all(isinstance(spec[key], kind) for key, kind in SCALED.items()), "the ScaledObject's fields")
    target = spec["scaleTargetRef"]
    workers = find(objects, target["kind"], target["name"])
    check(workers["apiVersion"] == target["apiVersion"], "the ScaledObject's target is of another version")
    check("replicas" not in workers["spec"], "KEDA and the StatefulSet both say how many workers there are")
    check(0 <= spec["minReplicaCount"] < spec["maxReplicaCount"], "the ScaledObject's counts")
    (trigger,) = spec["triggers"]
    metadata = trigger["metadata"]
    check(trigger["type"] == "prometheus" and set(metadata) == TRIGGER, f"the trigger's settings: {sorted(metadata)}")
    check(all(isinstance(value, str) for value in metadata.values()), "a trigger's settings are texts")
    check(metadata["ignoreNullValues"] == "false", "a dead Prometheus would be no tasks")
    table = (ROOT / "planner/service/metrics.cc").read_text()
    for metric in re.findall(r"warpsmith_\w+", metadata["query"]):
        check(f'"{metric}"' in table, f"the query asks for {metric}, which the planner does not count")
    series = lambda instance, leads, queued, leased: [  # noqa: E731
        {"series": f'warpsmith_planner_leads{{instance="{instance}"}}', "values": leads},
        {"series": f'warpsmith_tasks{{instance="{instance}",arch="sm_90a",state="queued"}}', "values": queued},
        {"series": f'warpsmith_tasks{{instance="{instance}",arch="sm_80",state="leased"}}', "values": leased},
        {"series": f'warpsmith_tasks{{instance="{instance}",arch="any",state="queued"}}', "values": "0 0 0"},
        {"series": f'warpsmith_tasks{{instance="{instance}",arch="sm_90a",state="converged"}}', "values": queued}]
    # As its comment has it for one kind of card; of one that nobody has a task for there are none, and not no answer.
    of_kind = lambda arch: metadata["query"].replace("{state", f'{{arch=~"{arch}|any",state')  # noqa: E731
    check('arch=~"sm_90a|any",state=~' in (DEPLOY / "keda" / "scaled-object.yaml").read_text(), "the comment says nothing of kinds")
    # At 0 the first leads, at 1m the second, at 2m nobody.
    case = {"interval": "1m", "input_series": [*series("a:7480", "1 0 0", "5 5 5", "2 2 2"), *series("b:7480", "0 1 0", "0 4 4", "0 0 0")],
            "promql_expr_test": [{"expr": metadata["query"], "eval_time": at, "exp_samples": samples} for at, samples in
                                 (("0m", [{"labels": "{}", "value": 7}]), ("1m", [{"labels": "{}", "value": 4}]), ("2m", []))]
            + [{"expr": of_kind(arch), "eval_time": "0m", "exp_samples": [{"labels": "{}", "value": value}]} for arch, value in
               (("sm_90a", 5), ("sm_80", 2), ("sm_100a", 0))]}
    path = folder / "scaling.yaml"
    path.write_text(yaml.safe_dump({"tests": [case]}))
    done = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True)
    check(done.returncode == 0, f"the query: {done.stdout}{done.stderr}")
    say("ok: KEDA would scale by the tasks of who leads")


# ---- what they do ------------------------------------------------------------------------------------------------------


def run_guide(work: pathlib.Path, bin_folder: pathlib.Path) -> pathlib.Path:
    """The certificates, by the commands of the guide; where they are."""
    text = GUIDE.read_text()
    (block,) = [one for one in re.findall(r"```\n(.*?)```", text, re.S) if "warpsmith certs init" in one]
    commands = "\n".join(line for line in block.splitlines() if line.startswith("warpsmith certs"))
    # Here a pod listens to its address and no other, and dials itself there.
    commands += "".join(f"\nwarpsmith certs rotate warpsmith-planner-{i} --host 127.0.1.{i + 1}" for i in range(3))
    folder = work / "authority"
    folder.mkdir()
    subprocess.run(["sh", "-ec", commands], cwd=folder, check=True, capture_output=True,
                   env={**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}", "XDG_DATA_HOME": str(folder)})
    (certs,) = folder.glob("**/ca.crt")
    return certs.parent


class Cluster:
    """Pods of one form, each at an address of loopback."""

    def __init__(self, work: pathlib.Path, bin_folder: pathlib.Path, objects: list[Object], certs: pathlib.Path):
        self.work, self.bin, self.objects, self.certs = work, bin_folder, objects, certs
        self.pods: list[Pod] = []
        self.shared: dict[str, pathlib.Path] = {}
        replicas = range(find(objects, "StatefulSet", "warpsmith-planner")["spec"]["replicas"])
        self.hosts = "127.0.0.1 localhost\n" + "".join(
            f"127.0.1.{i + 1} warpsmith-planner-{i}.warpsmith-planner warpsmith-planner\n" for i in replicas)

    def start(self, role: str, index: int, changes: dict[str, str] | None = None) -> Pod:
        stateful_set = find(self.objects, "StatefulSet", f"warpsmith-{role}")
        spec, one = stateful_set["spec"]["template"]["spec"], container(stateful_set)
        group = spec["securityContext"]["fsGroup"]
        name = f"warpsmith-{role}-{index}"
        work = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.work))
        volumes = {}
        for mount in one["volumeMounts"]:
            volumes[mount["name"]] = self.volume(role, name, work, mount["name"], group, spec)
        env = {"POD_NAME": name, "POD_NAMESPACE": "warpsmith", "POD_INDEX": str(index), "NODE_NAME": "node-7"}
        address = f"127.0.{1 if role == 'planner' else 2}.{index + 1}"
        pod = Pod(work, spec, one, address, env, volumes, self.hosts, self.bin / f"warpsmith-{role}", changes)
        self.pods.append(pod)
        return pod

    def volume(self, role: str, pod: str, work: pathlib.Path, name: str, group: int, spec: dict[str, Any]) -> pathlib.Path:
        """What persists is by the pod's name, as a claim is; what is shared is one folder."""
        (source,) = [one for one in spec["volumes"] if one["name"] == name] or [{}]
        if "secret" in source:
            return write_secret(work / name, self.secret(role, source["secret"]["secretName"]), group, source["secret"]["defaultMode"])
        key = "shared" if "persistentVolumeClaim" in source else f"{pod}-{name}" if not source else ""
        folder = self.work / "volumes" / key if key else work / name
        folder.mkdir(parents=True, exist_ok=True)
        os.chown(folder, 0, group)
        folder.chmod(0o2775)
        return folder

    def secret(self, role: str, name: str) -> dict[str, bytes]:
        if name == "warpsmith-redis":
            return {"password": b"correct horse\n", "ca.crt": (self.work / "redis" / "redis.crt").read_bytes()}
        files = {file: (self.certs / file).read_bytes() for file in ("ca.crt", "crl.pem")}
        if role == "worker":
            return {**files, "worker.pem": (self.certs / "lab.pem").read_bytes()}
        return {**files, **{path.name: path.read_bytes() for path in self.certs.glob("warpsmith-planner-*.pem")}}

    def logs(self) -> list[pathlib.Path]:
        return [pod.log for pod in self.pods]

    def workers(self) -> list[str]:
        """Of who leads, by a name that has all planners' addresses; none while nobody answers."""
        hosts = self.work / "hosts"
        hosts.write_text(self.hosts)
        reader = self.certs / "ada.pem"
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-ec", f'mount --bind {hosts} /etc/hosts; exec "$0" "$@"', self.bin / "warpsmith",
             "--planner", "warpsmith-planner:7400", "--tls-ca", self.certs / "ca.crt", "--tls-crl", self.certs / "crl.pem",
             "--tls-cert", reader, "--tls-key", reader, "workers", "-o", "json"], capture_output=True, text=True)
        if done.returncode != 0:
            return []
        return sorted(one["id"] for one in json.loads(done.stdout).get("workers", []) if not one.get("lost"))

    def end(self) -> None:
        for pod in self.pods:
            if pod.process.poll() is None:
                pod.kill()


def ask(one: dict[str, Any], kind: str, pod: Pod) -> tuple[int, str]:
    """As a kubelet does: any certificate will do. Status and text; 0: no answer."""
    get = one[kind]["httpGet"]
    (port,) = [port["containerPort"] for port in one["ports"] if port["name"] == get["port"]]
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        url = f"{get['scheme'].lower()}://{pod.address}:{port}{get['path']}"
        with urllib.request.urlopen(url, context=context, timeout=one[kind]["timeoutSeconds"]) as answer:
            return answer.status, answer.read().decode().strip()
    except urllib.error.HTTPError as error:
        return error.code, ""
    except OSError:
        return 0, ""


def probe(one: dict[str, Any], kind: str, pod: Pod) -> int:
    return ask(one, kind, pod)[0]


WORKER_HERE = {"--device": "host", "--compile-jobs": "1"}


def run_one(cluster: Cluster) -> None:
    planner_object = find(cluster.objects, "StatefulSet", "warpsmith-planner")
    worker_object = find(cluster.objects, "StatefulSet", "warpsmith-worker")
    planner = cluster.start("planner", 0)
    for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
        eventually(lambda: probe(container(planner_object), kind, planner) == 200, f"one: the planner's {kind}", cluster.logs())
    worker = cluster.start("worker", 3, WORKER_HERE)
    for kind in ("startupProbe", "livenessProbe"):
        eventually(lambda: probe(container(worker_object), kind, worker) == 200, f"one: the worker's {kind}", cluster.logs())
    eventually(lambda: cluster.workers() == ["lab-task3"], "one: the worker has joined under its name", cluster.logs())
    grace = worker_object["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    check(worker.terminate(grace) == 0, f"the worker did not drain: {worker.log.read_text()}")
    check(cluster.workers() == [], "the worker is still there")
    worker = cluster.start("worker", 3, WORKER_HERE)
    eventually(lambda: cluster.workers() == ["lab-task3"], "one: another pod of that name goes on", cluster.logs())
    check(worker.terminate(grace) == 0, "the second worker did not drain")
    check(planner.terminate(planner_object["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]) == 0, "the planner's end")
    say("ok: one: all end in good order, within what they are given")


class Redis:
    """One that speaks TLS alone, and what the planners' pods reach it by."""

    def __init__(self, work: pathlib.Path, objects: list[Object]):
        self.work = work / "redis"
        self.work.mkdir()
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                        "-subj", "/CN=redis.test", "-addext", "subjectAltName=DNS:redis.test", "-keyout", self.work / "redis.key",
                        "-out", self.work / "redis.crt"], check=True, capture_output=True)
        tunnel = find(objects, "ConfigMap", "warpsmith-redis-tunnel")["data"]["haproxy.cfg"]
        tunnel = tunnel.replace("/etc/warpsmith-redis/ca.crt", str(self.work / "redis.crt"))
        # There is no name server here, and haproxy gives up a server whose name none answers for.
        check(" resolvers names" in tunnel, "haproxy follows no name server")
        (self.work / "haproxy.cfg").write_text(tunnel.replace(" resolvers names", ""))
        hosts = self.work / "hosts"
        hosts.write_text("127.0.0.1 localhost\n127.0.3.1 redis.test\n")
        tunnel_log = open(self.work / "haproxy.log", "ab")
        (stateful,) = [one for one in objects if one["kind"] == "StatefulSet" and one["metadata"]["name"] == "warpsmith-planner"]
        arguments = stateful["spec"]["template"]["spec"]["initContainers"][0]["args"]
        arguments = [str(self.work / "haproxy.cfg") if one == "/etc/haproxy/haproxy.cfg" else one for one in arguments]
        self.start()
        self.tunnel = subprocess.Popen(
            ["unshare", "--mount", "sh", "-ec", f'mount --bind {hosts} /etc/hosts; exec haproxy "$@"', "haproxy", *arguments],
            env={**os.environ, "REDIS_HOST": "redis.test", "REDIS_PORT": "6390"}, stdout=tunnel_log, stderr=tunnel_log)

    def start(self) -> None:
        with open(self.work / "log", "ab") as log:
            self.server = subprocess.Popen(
                ["redis-server", "--port", "0", "--tls-port", "6390", "--bind", "127.0.3.1", "--tls-cert-file", self.work / "redis.crt",
                 "--tls-key-file", self.work / "redis.key", "--tls-ca-cert-file", self.work / "redis.crt", "--tls-auth-clients", "no",
                 "--requirepass", "correct horse", "--dir", self.work, "--appendonly", "yes", "--appendfsync", "always",
                 "--no-appendfsync-on-rewrite", "no", "--maxmemory-policy", "noeviction"], stdout=log, stderr=log)

    def stop(self) -> None:
        self.server.kill()
        self.server.wait()

    def end(self) -> None:
        self.stop()
        self.tunnel.kill()
        self.tunnel.wait()


def run_three(cluster: Cluster, redis: Redis) -> None:
    try:
        check_three(cluster, redis)
    finally:
        redis.end()


def check_three(cluster: Cluster, redis: Redis) -> None:
    one = container(find(cluster.objects, "StatefulSet", "warpsmith-planner"))
    planners = [cluster.start("planner", i) for i in range(3)]
    for i, planner in enumerate(planners):
        eventually(lambda: probe(one, "readinessProbe", planner) == 200, f"three: planner {i} is ready, though one leads", cluster.logs())
    worker = cluster.start("worker", 0, WORKER_HERE)
    eventually(lambda: cluster.workers() == ["lab-task0"], "three: the worker finds who leads by the name of all", cluster.logs())
    follower = next(i for i, planner in enumerate(planners) if ask(one, "readinessProbe", planner)[1] == "follows")
    redis.stop()
    # One that is started meanwhile waits for its store: it is alive, and not ready.
    planners[follower].terminate(60)
    late = planners[follower] = cluster.start("planner", follower)
    eventually(lambda: probe(one, "livenessProbe", late) == 200, "three: who waits for Redis is alive", cluster.logs())
    check(probe(one, "readinessProbe", late) == 503, "a planner that waits for Redis says that it is ready")
    # Looked at for longer than a leader's lease.
    for _ in range(OUTAGE_SECONDS):
        time.sleep(1)
        for i, planner in enumerate(planners):
            check(probe(one, "livenessProbe", planner) == 200, f"planner {i} is not alive without Redis: {planner.log.read_text()[-2000:]}")
    say("ok: three: all are alive without Redis")
    redis.start()
    for i, planner in enumerate(planners):
        eventually(lambda: probe(one, "readinessProbe", planner) == 200, f"three: planner {i} is ready again", cluster.logs())
        check(planner.process.poll() is None, f"planner {i} ended for Redis: {planner.log.read_text()[-2000:]}")
    eventually(lambda: cluster.workers() == ["lab-task0"], "three: the worker goes on", cluster.logs())
    check(worker.terminate(30) == 0, f"the worker did not drain: {worker.log.read_text()[-2000:]}")
    for planner in planners:
        check(planner.terminate(60) == 0, f"a planner's end: {planner.log.read_text()[-2000:]}")
    say("ok: three: all end in good order")


def need_tools(part: str) -> None:
    for tool, package in NEEDED[part].items():
        if not shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
            fail(f"no {tool} here: install Debian's {package} (scripts/install-deps.sh --tests does)")


def test_files(work: pathlib.Path) -> None:
    if not VALIDATOR.exists():
        fail(f"no {VALIDATOR}: scripts/install-deps.sh --tests makes it")
    forms = build_all(work)
    check_schemas(forms, work)
    for name, objects in forms.items():
        check_references(name, objects)
        if name.endswith("-keda"):
            check_scaling(objects, work)


def test_pods(work: pathlib.Path, bin_folder: pathlib.Path) -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    work.chmod(0o755)
    forms = build_all(work)
    certs = run_guide(work, bin_folder)
    one = Cluster(pathlib.Path(tempfile.mkdtemp(dir=work)), bin_folder, forms["one"], certs)
    three = Cluster(pathlib.Path(tempfile.mkdtemp(dir=work)), bin_folder, forms["three"], certs)
    for cluster in (one, three):
        cluster.work.chmod(0o755)
    try:
        run_one(one)
        if os.environ.get("WARPSMITH_TEST_THOROUGH"):
            run_three(three, Redis(three.work, forms["three"]))
    finally:
        one.end()
        three.end()


def enter_namespaces() -> None:
    """Starts this once more, in some of its own."""
    if os.geteuid() != 0 or subprocess.run([*NAMESPACES, "true"], capture_output=True).returncode != 0:
        say("not root, or without namespaces: no pod is started")
        sys.exit(SKIPPED)
    os.execvp(NAMESPACES[0], [*NAMESPACES, sys.executable, *sys.argv, "--inside"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parts = parser.add_subparsers(dest="part", required=True)
    parts.add_parser("files")
    pods = parts.add_parser("pods")
    pods.add_argument("build", type=pathlib.Path)
    pods.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    need_tools(options.part)
    if options.part == "pods" and not options.inside:
        enter_namespaces()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="warpsmith_kubernetes_") as folder:
        if options.part == "files":
            test_files(pathlib.Path(folder))
        else:
            test_pods(pathlib.Path(folder), options.build.resolve() / "bin")
    say(f"all of it holds, in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
