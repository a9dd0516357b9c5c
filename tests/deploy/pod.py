"""Starts a container of a pod as Kubernetes would, as far as that can be done without one: its command and arguments,
its environment, its user, a root that it cannot write, its volumes, its secrets as root's files for its group, the pod's
address in place of 0.0.0.0. All of it in a mount namespace of its own, which takes root.
"""

import contextlib
import os
import pathlib
import re
import shlex
import signal
import subprocess
from typing import Any

SYSTEM = ["usr", "bin", "sbin", "lib", "lib64", "proc", "dev"]
NSSWITCH = "hosts: files\npasswd: files\n"


class Pod:
    """One container. `volumes`: a folder for each volume by its name; `env`: what is not in the object."""

    def __init__(self, work: pathlib.Path, spec: dict[str, Any], container: dict[str, Any], address: str,
                 env: dict[str, str], volumes: dict[str, pathlib.Path], hosts: str, program: pathlib.Path,
                 changes: dict[str, str] | None = None):
        self.log = work / "log"
        self.address = address
        user = spec["securityContext"]["runAsUser"]
        values = {one["name"]: one.get("value", env.get(one["name"], "")) for one in container.get("env", [])}
        missing = [one["name"] for one in container.get("env", []) if "value" not in one and one["name"] not in env]
        if missing:
            raise SystemExit(f"container {container['name']}: nobody says what {', '.join(missing)} is")
        arguments = [self._argument(one, values, changes or {}) for one in container["args"]]
        root = work / "root"
        script = ["set -e", "umask 022", f"mkdir -p {root}", f"mount -t tmpfs tmpfs {root}", f"cd {root}",
                  "mkdir -p etc program tmp"]
        for name in SYSTEM:
            if os.path.islink("/" + name):
                script.append(f"ln -s {os.readlink('/' + name)} {name}")
            elif os.path.isdir("/" + name):
                script.append(f"mkdir {name} && mount --rbind /{name} {name}")
        script += [f"printf %s {shlex.quote(hosts)} >etc/hosts", f"printf %s {shlex.quote(NSSWITCH)} >etc/nsswitch.conf",
                   "for f in ld.so.cache alternatives; do cp -a /etc/$f etc/; done",
                   f"mount --bind {program.parent} program"]
        for mount in container.get("volumeMounts", []):
            at = mount["mountPath"].lstrip("/")
            script.append(f"mkdir -p {at} && mount --bind {volumes[mount['name']]} {at}")
        if container["securityContext"]["readOnlyRootFilesystem"]:
            script.append(f"mount -o remount,ro {root}")
        command = [f"/program/{program.name}", *arguments]
        inside = ["env", "-i", "PATH=/usr/bin:/bin", *(f"{key}={value}" for key, value in values.items()),
                  "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs",
                  "--bounding-set=-all", "--inh-caps=-all", *command]
        script.append(f"exec chroot . {shlex.join(inside)}")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-c", "\n".join(script)],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _argument(self, text: str, values: dict[str, str], changes: dict[str, str]) -> str:
        text = re.sub(r"\$\((\w+)\)", lambda name: values[name[1]], text)
        flag = text.partition("=")[0]
        if flag in changes:
            return f"{flag}={changes[flag]}"
        return text.replace("0.0.0.0", self.address)

    def terminate(self, limit: float) -> int | None:
        """Its exit status; None: it had to be killed."""
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(limit)
        self.kill()
        return None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def write_secret(folder: pathlib.Path, files: dict[str, bytes], group: int, mode: int) -> pathlib.Path:
    """As a volume of a Secret: the names are links into a folder that is replaced as one; root's, for fsGroup."""
    data = folder / "..2026"
    data.mkdir(parents=True)
    (folder / "..data").symlink_to(data.name)
    for name, content in files.items():
        (data / name).write_bytes(content)
        os.chown(data / name, 0, group)
        (data / name).chmod(mode)
        (folder / name).symlink_to(f"..data/{name}")
    return folder
