#!/usr/bin/env python3
"""Holds the forms in which Warpsmith is started against each other: systemd, Slurm, Kubernetes, and compose where it is there.

    tests/deploy/forms_test.py BUILD      BUILD: a build folder with the programs, as build/release

Each form's files are read for the settings of one table (SETTINGS). What two forms say of one setting is the same; a worker's
grace ends before it is killed; every flag is one of the program's. Each rule is then broken on purpose in a copy of the
files, which has to be found. Exit status 0: all of it holds.
"""

import argparse
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from typing import Any

import yaml

import compose
import kustomize
from kustomize import find

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Slurm's own, from SIGTERM to SIGKILL, where its administrator says nothing else (KillWait of slurm.conf).
SLURM_KILL_WAIT = 30

Settings = dict[str, Any]

# What each is, and the forms that have to say it. A form may say others, too.
SETTINGS: dict[str, tuple[str, ...]] = {
    "planner.dir": ("kubernetes",),  # in containers; services have one each of their own name
    "planner.port": ("systemd", "kubernetes"),
    "planner.http_port": ("systemd", "kubernetes"),
    "planner.start_seconds": ("systemd", "kubernetes"),  # until it has to be ready
    "planner.watchdog_seconds": ("systemd", "kubernetes"),  # not well for so long, it is started again
    "planner.stop_seconds": ("systemd", "kubernetes"),  # from the signal until it is killed
    "planner.stop_signal": ("systemd", "kubernetes"),
    "planner.files": ("systemd",),  # file descriptors; Kubernetes leaves them to the container's runtime
    "planner.user": ("kubernetes",),  # where it is a number
    "worker.dir": ("kubernetes",),
    "worker.planner_port": ("systemd", "kubernetes"),
    "worker.http_port": ("kubernetes",),
    "worker.start_seconds": ("systemd", "kubernetes"),
    "worker.watchdog_seconds": ("systemd", "kubernetes"),
    "worker.grace_seconds": ("systemd", "slurm", "kubernetes"),
    "worker.stop_seconds": ("systemd", "slurm", "kubernetes"),
    "worker.stop_signal": ("systemd", "slurm", "kubernetes"),
    "worker.files": ("systemd",),
    "worker.shared_bytes": ("kubernetes",),  # of /dev/shm; a host's own is half of its memory
    "worker.user": ("kubernetes",),
}
TLS_FLAGS = {"--tls-ca", "--tls-crl", "--tls-cert", "--tls-key"}


def seconds(text: str) -> int:
    """As systemd and compose have them: "5min", "2m", "30s", "30"."""
    found = re.fullmatch(r"(\d+)\s*(min|m|s|)", str(text))
    if not found:
        sys.exit(f"'{text}' is no time")
    return int(found[1]) * (60 if found[2] in ("min", "m") else 1)


def size(text: str) -> int:
    found = re.fullmatch(r"(\d+)\s*([KMG])?(i?b?)?", str(text), re.I)
    if not found:
        sys.exit(f"'{text}' is no size")
    return int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[(found[2] or "").upper()]


def port(address: str) -> int:
    return int(address.rpartition(":")[2])


def flags_of(words: list[str]) -> dict[str, str]:
    """Of "--flag=value" and "--flag value"."""
    flags: dict[str, str] = {}
    for i, word in enumerate(words):
        if word.startswith("--"):
            flag, equals, value = word.partition("=")
            following = words[i + 1] if i + 1 < len(words) else ""
            flags[flag] = value if equals or following.startswith("--") else following
    return flags


def of_flags(role: str, flags: dict[str, str], default_grace: int) -> Settings:
    settings: Settings = {}
    if "--listen" in flags:
        settings[f"{role}.port"] = port(flags["--listen"])
    if "--listen-http" in flags:
        settings[f"{role}.http_port"] = port(flags["--listen-http"])
    if role == "worker":
        settings["worker.planner_port"] = port(flags["--planner"])
        settings["worker.grace_seconds"] = int(flags.get("--grace", default_grace))
    return settings


# ---- the forms ---------------------------------------------------------------------------------------------------------


class Form:
    def __init__(self) -> None:
        self.settings: Settings = {}
        self.flags: list[tuple[str, list[str]]] = []  # of which program
        self.images: set[str] = set()  # of others

    def add(self, role: str, words: list[str], default_grace: int) -> None:
        flags = flags_of(words)
        self.flags.append((role, list(flags)))
        self.tell(of_flags(role, flags, default_grace))

    def tell(self, settings: Settings) -> None:
        """Where a form says a setting twice, it is the same."""
        for name, value in settings.items():
            known = self.settings.setdefault(name, value)
            if known != value:
                self.settings[name] = f"{known}, and {value} elsewhere"


def read_systemd(root: pathlib.Path, grace: int) -> Form:
    form = Form()
    folder = root / "deploy" / "systemd"
    for role, unit in (("planner", "warpsmith-planner.service"), ("worker", "warpsmith-worker@.service")):
        text = (folder / unit).read_text()
        values = dict(re.findall(r"^(\w+)=(.*)$", text, re.M))
        examples = (folder / f"warpsmith-{role}.default").read_text()
        variables = dict(one.split("=", 1) for one in shlex.split(values["Environment"]))
        command = values["ExecStart"].replace("%S", "/var/lib").replace("$WARPSMITH_OPTIONS", "")
        command = re.sub(r"\$\{(\w+)\}", lambda name: variables[name[1]], command)
        (options,) = re.findall(r"^#WARPSMITH_OPTIONS=(.*)$", examples, re.M)  # what is proposed
        form.add(role, shlex.split(command + " " + options), grace)
        form.tell({
            f"{role}.start_seconds": seconds(values["TimeoutStartSec"]),
            f"{role}.watchdog_seconds": seconds(values["WatchdogSec"]),
            f"{role}.stop_seconds": seconds(values["TimeoutStopSec"]),
            f"{role}.stop_signal": values.get("KillSignal", "SIGTERM"),
            f"{role}.files": int(values["LimitNOFILE"]),
        })
    return form


def read_slurm(root: pathlib.Path, grace: int) -> Form:
    form = Form()
    text = (root / "deploy" / "slurm" / "worker.sbatch").read_text()
    (lead,) = re.findall(r"^#SBATCH --signal=B:(\w+)@(\d+)$", text, re.M)
    (said,) = re.findall(r"^grace=\$\{WARPSMITH_GRACE:-(\d+)\}$", text, re.M)
    command = re.search(r'^"\$program" ((?:.*\\\n)*.*)', text, re.M)
    assert command is not None
    form.flags.append(("worker", re.findall(r"--[a-z][a-z-]*", command[1])))
    form.settings = {"worker.grace_seconds": int(said), "worker.stop_signal": f"SIG{lead[0]}",
                     # Cancelled or preempted, it has less time than at its end.
                     "worker.stop_seconds": min(SLURM_KILL_WAIT, int(lead[1]))}
    return form


def read_kubernetes(root: pathlib.Path, grace: int) -> Form:
    form = Form()
    for folder in ("three", "one"):
        objects = kustomize.build(root / "deploy" / "kubernetes" / folder)
        for role in ("planner", "worker"):
            pod = find(objects, "StatefulSet", f"warpsmith-{role}")["spec"]["template"]["spec"]
            one = pod["containers"][0]
            form.add(role, one["args"], grace)
            form.tell({f"{role}.dir": flags_of(one["args"])["--dir"]})
            form.images |= {other["image"] for other in pod.get("initContainers", [])}
            patience = {kind: one[kind]["periodSeconds"] * one[kind]["failureThreshold"] for kind in ("startupProbe", "livenessProbe")}
            form.tell({
                f"{role}.start_seconds": patience["startupProbe"],
                f"{role}.watchdog_seconds": patience["livenessProbe"],
                f"{role}.stop_seconds": pod["terminationGracePeriodSeconds"],
                f"{role}.stop_signal": one.get("lifecycle", {}).get("stopSignal", "SIGTERM"),
                f"{role}.user": f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}",
            })
            ports = {port["name"]: port["containerPort"] for port in one["ports"]}
            if ports["http"] != form.settings[f"{role}.http_port"]:
                form.settings[f"{role}.http_port"] = f"{ports['http']}, and another in its arguments"
            for volume in pod["volumes"]:
                if volume["name"] == "shm":
                    form.tell({"worker.shared_bytes": size(volume["emptyDir"]["sizeLimit"])})
    return form


def read_compose(root: pathlib.Path, grace: int) -> Form | None:
    folder = root / "docker"
    if not (folder / "compose.yml").exists():
        return None
    form = Form()
    images = (folder / "Dockerfile").read_text()
    users = set(re.findall(r"^USER (.*)$", images, re.M)) - {"0:0"}  # while it installs
    signals = set(re.findall(r"^STOPSIGNAL (.*)$", images, re.M))
    for service in yaml.safe_load((folder / "compose.yml").read_text())["services"].values():
        started = service.get("entrypoint", [service.get("image", "").partition(":")[0]])
        role = next((role for role in ("planner", "worker") if f"warpsmith-{role}" in started), None)
        if role is None:
            continue
        form.add(role, service["command"], grace)
        form.tell({
            f"{role}.user": service.get("user", ", ".join(users)),
            f"{role}.stop_signal": service.get("stop_signal", ", ".join(signals)),
            f"{role}.stop_seconds": seconds(service.get("stop_grace_period", "10s")),  # compose's own
            f"{role}.files": service["ulimits"]["nofile"],
        })
        (folder_of_role,) = [one.split(":")[1] for one in service["volumes"] if ":/var/lib/" in one]
        form.tell({f"{role}.dir": folder_of_role})
        if role == "worker":
            form.tell({"worker.shared_bytes": size(service.get("shm_size", "64m"))})
    return form


def read_all(root: pathlib.Path, grace: int) -> dict[str, Form]:
    read = {"systemd": read_systemd(root, grace), "slurm": read_slurm(root, grace), "kubernetes": read_kubernetes(root, grace),
            "compose": read_compose(root, grace)}
    return {name: form for name, form in read.items() if form is not None}


# ---- the rules ---------------------------------------------------------------------------------------------------------


def wanted_shared_bytes(root: pathlib.Path) -> int:
    """What a worker asks for (worker/device/lacks.h)."""
    (shift,) = re.findall(r"kSharedBytes = int64_t\{1\} << (\d+);", (root / "worker/device/lacks.h").read_text())
    return 1 << int(shift)


def errors_in(forms: dict[str, Form], flags: dict[str, set[str]], shared_bytes: int) -> list[str]:
    errors = []
    for setting, obliged in SETTINGS.items():
        said = {name: form.settings[setting] for name, form in forms.items() if setting in form.settings}
        for name in obliged:
            if name not in said:
                errors.append(f"{setting}: {name} does not say it")
        # How soon a worker is killed is each form's own, but for what is held against its grace below.
        if setting != "worker.stop_seconds" and len(set(map(str, said.values()))) > 1:
            errors.append(f"{setting}: " + ", ".join(f"{name} says {value}" for name, value in said.items()))
    for name, form in forms.items():
        for setting in form.settings:
            if setting not in SETTINGS:
                errors.append(f"{setting}: {name} says it, and it is in no table")
        grace, stop = form.settings.get("worker.grace_seconds"), form.settings.get("worker.stop_seconds")
        if grace is not None and stop is not None and not grace < stop:
            errors.append(f"worker.stop_seconds: {name} kills a worker after {stop} s, and its grace is {grace} s")
        if form.settings.get("worker.shared_bytes", shared_bytes) < shared_bytes:
            errors.append(f"worker.shared_bytes: {name} gives less than a worker asks for")
        for image in form.images:
            if not compose.of_one_version(image):
                errors.append(f"images: {name} has {image}, which is not of one version")
        for role, used in form.flags:
            for flag in used:
                if flag not in flags[role]:
                    errors.append(f"flags: {name} starts warpsmith-{role} with {flag}, which it does not have")
            absent = TLS_FLAGS - set(used)
            if absent and absent != TLS_FLAGS:
                errors.append(f"flags: {name} gives warpsmith-{role} TLS without {', '.join(sorted(absent))}")
    return errors


def help_of(bin_folder: pathlib.Path) -> tuple[dict[str, set[str]], int]:
    """Each program's flags, and a worker's grace where it is given none."""
    texts = {role: subprocess.run([bin_folder / f"warpsmith-{role}", "--help"], capture_output=True, text=True, check=True).stdout
             for role in ("planner", "worker")}
    (grace,) = re.findall(r"--grace [^\n]*=(\d+)", texts["worker"])
    return {role: set(re.findall(r"--[a-z][a-z-]*", text)) for role, text in texts.items()}, int(grace)


# What is broken, in which file, and the setting that has to be named for it.
SYSTEMD, KUBERNETES, COMPOSE = "deploy/systemd/warpsmith-", "deploy/kubernetes/base/", "docker/compose.yml"
BROKEN = [
    (SYSTEMD + "planner.service", "LISTEN=127.0.0.1:7400", "LISTEN=127.0.0.1:7401", "planner.port"),
    (SYSTEMD + "planner.default", "--listen-http 127.0.0.1:7480", "--listen-http 127.0.0.1:7490", "planner.http_port"),
    (SYSTEMD + "planner.service", "TimeoutStartSec=10min", "TimeoutStartSec=5min", "planner.start_seconds"),
    (SYSTEMD + "planner.service", "WatchdogSec=5min", "WatchdogSec=50", "planner.watchdog_seconds"),
    (SYSTEMD + "planner.service", "TimeoutStopSec=2min", "TimeoutStopSec=1min", "planner.stop_seconds"),
    (SYSTEMD + "planner.service", "KillMode=mixed", "KillMode=mixed\nKillSignal=SIGQUIT", "planner.stop_signal"),
    (SYSTEMD + "planner.service", "LimitNOFILE=131072", "", "planner.files"),
    (SYSTEMD + "worker@.service", "TimeoutStopSec=30", "TimeoutStopSec=15", "worker.stop_seconds"),
    (SYSTEMD + "worker@.service", "WatchdogSec=1min", "WatchdogSec=2min", "worker.watchdog_seconds"),
    (SYSTEMD + "worker@.service", "--device %i", "--card %i", "flags"),
    ("deploy/slurm/worker.sbatch", "GRACE:-20", "GRACE:-60", "worker.grace_seconds"),
    ("deploy/slurm/worker.sbatch", "B:TERM@120", "B:TERM@10", "worker.stop_seconds"),
    ("deploy/slurm/worker.sbatch", "B:TERM@120", "B:USR1@120", "worker.stop_signal"),
    ("deploy/slurm/worker.sbatch", '--grace "$grace"', '--patience "$grace"', "flags"),
    (KUBERNETES + "planner.yaml", "--listen=0.0.0.0:7400", "--listen=0.0.0.0:7401", "planner.port"),
    (KUBERNETES + "planner.yaml", "containerPort: 7480", "containerPort: 7481", "planner.http_port"),
    (KUBERNETES + "planner.yaml", "failureThreshold: 30", "failureThreshold: 3", "planner.watchdog_seconds"),
    (KUBERNETES + "planner.yaml", "failureThreshold: 60", "failureThreshold: 6", "planner.start_seconds"),
    (KUBERNETES + "planner.yaml", "terminationGracePeriodSeconds: 120", "terminationGracePeriodSeconds: 30", "planner.stop_seconds"),
    (KUBERNETES + "planner.yaml", "- --tls-crl=/etc/warpsmith/crl.pem", "", "flags"),
    (KUBERNETES + "worker.yaml", "terminationGracePeriodSeconds: 30", "terminationGracePeriodSeconds: 20", "worker.stop_seconds"),
    (KUBERNETES + "worker.yaml", "--grace=20", "--grace=25", "worker.grace_seconds"),
    (KUBERNETES + "worker.yaml", "--planner=warpsmith-planner:7400", "--planner=warpsmith-planner:7480", "worker.planner_port"),
    (KUBERNETES + "worker.yaml", "sizeLimit: 8Gi", "sizeLimit: 64Mi", "worker.shared_bytes"),
    (KUBERNETES + "worker.yaml", "failureThreshold: 6", "failureThreshold: 60", "worker.watchdog_seconds"),
    ("deploy/kubernetes/three/planner-patch.yaml", "haproxy:2.8.29", "haproxy:2.8", "images"),
    ("deploy/kubernetes/three/planner-patch.yaml", ":2.8.29@sha256", "@sha256", "images"),
    (COMPOSE, "--listen-http\n      - 0.0.0.0:7480", "--listen-http\n      - 0.0.0.0:7490", "planner.http_port"),
    (COMPOSE, "stop_grace_period: 2m", "stop_grace_period: 1m", "planner.stop_seconds"),
    (COMPOSE, "nofile: 131072", "nofile: 1024", "planner.files"),
    (COMPOSE, "stop_grace_period: 30s", "stop_grace_period: 10s", "worker.stop_seconds"),
    (COMPOSE, "planner-1:7400,planner-2:7400\n      - --name", "planner-1:7400,planner-2:7402\n      - --name", "worker.planner_port"),
    (COMPOSE, "shm_size: 8gb", "shm_size: 64mb", "worker.shared_bytes"),
    (COMPOSE, "- --advertise-http", "- --advertise-https", "flags"),
    ("docker/Dockerfile", "USER 7400:7400", "USER 7401:7401", "planner.user"),
    ("docker/Dockerfile", "STOPSIGNAL SIGTERM", "STOPSIGNAL SIGINT", "planner.stop_signal"),
]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    flags, grace = help_of(parser.parse_args().build / "bin")
    shared_bytes = wanted_shared_bytes(ROOT)
    forms = read_all(ROOT, grace)
    errors = errors_in(forms, flags, shared_bytes)
    if errors:
        sys.exit("\n".join(f"forms_test: FAILED: {error}" for error in errors))
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for part in ("deploy", "docker"):
            if (ROOT / part).exists():
                shutil.copytree(ROOT / part, root / part)
        broken = [one for one in BROKEN if "compose" in forms or not one[0].startswith("docker/")]
        for file, old, new, setting in broken:
            text = (root / file).read_text()
            if old not in text:
                sys.exit(f"forms_test: FAILED: {file} has no '{old}' to break")
            (root / file).write_text(text.replace(old, new, 1))  # one of several is enough
            try:
                found = errors_in(read_all(root, grace), flags, shared_bytes)
            except KeyError as error:  # a setting that is not there
                found = [f"{setting}: there is no {error}"]
            if not any(error.startswith(setting + ":") for error in found):
                sys.exit(f"forms_test: FAILED: '{new}' in {file} is not found: {found}")
            (root / file).write_text(text)
    print(f"forms_test: {len(SETTINGS)} settings of {', '.join(forms)} agree; {len(broken)} that were broken were found")


if __name__ == "__main__":
    main()
