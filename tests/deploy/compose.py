"""docker/compose.yml, read strictly: what is not known here is an error.

    compose.py check BIN                          # against rules, and the programs in the folder BIN
    compose.py run SERVICE [IMAGE [ARGUMENT...]]  # by podman, as far as one machine can tell; IMAGE
                                                  # stands in for the service's
    compose.py end                                # all that has been run, and its volumes

A container of `run` is called as its service, with PROJECT- before it (the environment's
COMPOSE_PROJECT); it publishes no ports and is not started again.
"""
import os
import re
import resource
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).resolve().parents[2] / "docker" / "compose.yml"
PROJECT = os.environ.get("COMPOSE_PROJECT", "warpsmith-test")
OURS = {"warpsmith", "warpsmith-planner", "warpsmith-worker:pytorch"}
PROGRAMS = {"warpsmith", "warpsmith-planner", "warpsmith-worker"}
ENTRYPOINTS = {"warpsmith-planner": "warpsmith-planner", "warpsmith-worker": "warpsmith-worker"}
KNOWN = {
    "build", "cap_add", "cap_drop", "command", "depends_on", "deploy", "entrypoint", "environment",
    "healthcheck", "hostname", "image", "logging", "network_mode", "ports", "profiles", "read_only",
    "restart", "secrets", "security_opt", "shm_size", "stop_grace_period", "tmpfs", "ulimits", "user",
    "volumes",
}
ENDS = {"prepare", "cli"}  # the others go on
# Where a service has none.
LIMITS = {"nofile": 65536, "nproc": 4096}

Service = dict[str, Any]


def load() -> dict[str, Any]:
    return yaml.safe_load(FILE.read_text())


def seconds(text: str) -> int:
    match = re.fullmatch(r"(\d+)([sm])", text)
    if not match:
        raise SystemExit(f"compose.py: '{text}' is no time that is known here: 30s, 2m")
    return int(match[1]) * {"s": 1, "m": 60}[match[2]]


# ---- against rules -------------------------------------------------------------------------------


def sources(service: Service) -> Iterator[tuple[str, str]]:
    for volume in service.get("volumes", []):
        source, target = volume.split(":")[:2]
        yield source, target


def flags(service: Service) -> tuple[str, list[str]] | None:
    """The program of ours that is started, and the flags that it is given."""
    words = service.get("entrypoint", []) + service.get("command", [])
    programs = [word for word in words if word in PROGRAMS]
    program = programs[0] if programs else ENTRYPOINTS.get(service["image"].split(":")[0])
    if program is None or service["image"] not in OURS:
        return None
    return program, [word for word in words if re.fullmatch(r"--[a-z-]+", word)]


def confined(name: str, service: Service) -> Iterator[str]:
    if service.get("read_only") is not True:
        yield "its root can be written"
    if service.get("cap_drop") != ["ALL"]:
        yield "it keeps capabilities"
    if service.get("security_opt") != ["no-new-privileges:true"]:
        yield "it may gain privileges"
    if service.get("cap_add") and name != "prepare":
        yield "it is given capabilities"
    if name not in ENDS and service.get("restart") != "unless-stopped":
        yield "it is not started again"
    for port in service.get("ports", []):
        if not port.startswith("127.0.0.1:"):
            yield f"port {port} is for the whole network"


def of_one_version(image: str) -> bool:
    """Whether others' image is the same tomorrow."""
    return re.search(r":[\w.-]*\d+\.\d+\.\d+[\w.-]*(@sha256:[0-9a-f]{64})?$", image) is not None


def whole(service: Service, compose: dict[str, Any], generated: set[Path]) -> Iterator[str]:
    image = service["image"]
    if image not in OURS and not of_one_version(image):
        yield f"image {image} is not of one version"
    if image in OURS and "build" not in service:
        yield f"nobody builds {image}"
    if image not in OURS and "healthcheck" not in service:
        yield "nobody asks whether it is well"
    for source, _ in sources(service):
        if source.startswith("."):
            path = (FILE.parent / source).resolve()
            if not path.exists() and path not in generated:
                yield f"{source} is not there"
        elif source not in compose["volumes"]:
            yield f"volume {source} is not declared"
    for other in service.get("depends_on", []):
        if other not in compose["services"]:
            yield f"it depends on {other}, which is not there"
    for secret in service.get("secrets", []):
        if secret not in compose["secrets"]:
            yield f"secret {secret} is not declared"


def understood(service: Service, bin_folder: Path) -> Iterator[str]:
    started = flags(service)
    if started is None:
        return
    program, given = started
    text = subprocess.run([bin_folder / program, "--help"], check=True, capture_output=True, text=True).stdout
    for flag in given:
        if not re.search(rf"{flag}\b(?!-)", text):
            yield f"{program} has no {flag}"


def scrapes_alike() -> Iterator[str]:
    """Rules and dashboards go by names of jobs and labels: docker/prometheus.yml has those of deploy/prometheus."""
    here, there = (
        {job["job_name"]: job for job in yaml.safe_load(path.read_text())["scrape_configs"]}
        for path in (FILE.parent / "prometheus.yml", FILE.parents[1] / "deploy" / "prometheus" / "prometheus.yml")
    )
    if set(here) != set(there):
        yield f"jobs {sorted(here)} and {sorted(there)}"
        return
    for name, job in here.items():
        for key in ("relabel_configs", "metric_relabel_configs"):
            if job.get(key) != there[name].get(key):
                yield f"{key} of {name} are others"
        labels = [[target.get("labels") for target in each.get("static_configs", [])] for each in (job, there[name])]
        if labels[0] != labels[1]:
            yield f"labels of {name} are others"


def check(bin_folder: Path) -> int:
    compose = load()
    # Made by who deploys.
    generated = {FILE.parent / "grafana-password"}
    wrong: list[str] = []
    for name, service in compose["services"].items():
        unknown = set(service) - KNOWN
        if unknown:
            wrong.append(f"{name}: {', '.join(sorted(unknown))}: not known to tests/deploy/compose.py")
        for rule in (confined(name, service), whole(service, compose, generated), understood(service, bin_folder)):
            wrong += [f"{name}: {what}" for what in rule]
    used = {source for service in compose["services"].values() for source, _ in sources(service)}
    wrong += [f"volume {name} is nobody's" for name in compose["volumes"] if name not in used]
    wrong += [f"prometheus.yml and deploy/prometheus/prometheus.yml: {what}" for what in scrapes_alike()]
    for line in wrong:
        print(f"docker/compose.yml: {line}", file=sys.stderr)
    return 1 if wrong else 0


# ---- by podman -----------------------------------------------------------------------------------


def limit(name: str, value: int) -> str:
    """Who has no right to raise a limit gives what there is."""
    hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[1]
    allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
    return f"{name}={allowed}:{allowed}"


def podman_arguments(name: str, service: Service) -> list[str]:
    given = ["--name", f"{PROJECT}-{name}"]
    mode = service.get("network_mode", "")
    if mode == "none":
        given += ["--network", "none"]
    elif mode.startswith("service:"):
        given += ["--network", f"container:{PROJECT}-{mode.removeprefix('service:')}"]
    else:
        given += ["--network", PROJECT, "--network-alias", name]
    for key, flag in {"user": "--user", "hostname": "--hostname"}.items():
        if key in service:
            given += [flag, service[key]]
    if service.get("read_only"):
        # Podman's own memory over /tmp and /run is more than Docker gives.
        given += ["--read-only", "--read-only-tmpfs=false"]
    for key, flag in {"cap_drop": "--cap-drop", "cap_add": "--cap-add", "tmpfs": "--tmpfs",
                      "security_opt": "--security-opt"}.items():
        for value in service.get(key, []):
            given += [flag, value]
    for key, value in service.get("environment", {}).items():
        given += ["--env", f"{key}={value}"]
    # Podman has limits of its own, above what some may give.
    for key, value in (LIMITS | service.get("ulimits", {})).items():
        given += ["--ulimit", limit(key, value)]
    if "shm_size" in service:
        given += ["--shm-size", service["shm_size"].removesuffix("b")]
    if "stop_grace_period" in service:
        given += ["--stop-timeout", str(seconds(service["stop_grace_period"]))]
    test = service.get("healthcheck", {}).get("test")
    if test:
        given += ["--health-cmd", shlex.join(test[1:])]
    for volume in service.get("volumes", []):
        source, rest = volume.split(":", 1)
        place = str((FILE.parent / source).resolve()) if source.startswith(".") else f"{PROJECT}_{source}"
        given += ["--volume", f"{place}:{rest}"]
    return given


def run(name: str, image: str = "", *arguments: str) -> int:
    service = load()["services"][name]
    command = ["podman", "run", *podman_arguments(name, service)]
    command += ["--rm", "--interactive"] if name in ENDS else ["--detach"]
    words = service.get("command", [])
    entrypoint = service.get("entrypoint")
    if entrypoint:
        command += ["--entrypoint", entrypoint[0]]
        words = entrypoint[1:] + words
    command += [image or f"localhost/{service['image']}", *words, *arguments]
    return subprocess.run(command).returncode


def end() -> int:
    subprocess.run(f"podman ps -aq --filter name='^{PROJECT}-' | xargs -r podman rm -f -v -t 1", shell=True, check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run(f"podman volume ls -q --filter name='^{PROJECT}_' | xargs -r podman volume rm -f", shell=True,
                   check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["podman", "network", "rm", "-f", PROJECT], check=False, stdout=subprocess.DEVNULL)
    return 0


def main() -> int:
    match sys.argv[1:]:
        case ["check", folder]:
            return check(Path(folder))
        case ["run", name, *rest]:
            return run(name, *rest)
        case ["end"]:
            return end()
    raise SystemExit(__doc__)


if __name__ == "__main__":
    sys.exit(main())
