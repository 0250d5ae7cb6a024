"""A real Elasticsearch, which .ci/components gets; a test that uses one is skipped where it is not there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.components import component, free_ports

if TYPE_CHECKING:
    from typing_extensions import Self

_STARTING = 180.0
"""Seconds, on a machine that is busy with other tests."""
_NOBODY = 65534
"""It refuses to run as root."""


class Elasticsearch:
    """Runs within a with block, of a copy of its own, and listens at 127.0.0.1."""

    def __init__(self) -> None:
        self._home = component("Elasticsearch").parent.parent
        self._http = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._folder = Path(tempfile.mkdtemp(prefix="elasticsearch."))  # pytest's own are root's alone
        self._url = ""
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        copy = self._folder / "home"
        shutil.copytree(self._home, copy)
        http, transport = free_ports(2)
        self._url = f"http://127.0.0.1:{http}"
        (copy / "config/elasticsearch.yml").write_text(
            "discovery.type: single-node\nxpack.security.enabled: false\nnetwork.host: 127.0.0.1\n"
            f"http.port: {http}\ntransport.port: {transport}\n"
            "cluster.routing.allocation.disk.threshold_enabled: false\n"
        )
        java = shutil.which("java")
        assert java is not None
        is_root = os.getuid() == 0
        if is_root:
            for path in (self._folder, *self._folder.rglob("*")):
                os.chown(path, _NOBODY, _NOBODY)
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [copy / "bin/elasticsearch"],
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(self._folder),
                    "ES_JAVA_HOME": str(Path(java).resolve().parent.parent),
                    "ES_JAVA_OPTS": "-Xms512m -Xmx512m",
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=_NOBODY if is_root else None,
                group=_NOBODY if is_root else None,
                extra_groups=[] if is_root else None,
            )
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _wait(self) -> None:
        assert self._process
        deadline = time.monotonic() + _STARTING
        while True:
            try:
                self.call("GET", "/_cluster/health?wait_for_status=yellow")
                return
            except OSError:
                told = (self._folder / "log").read_text(errors="replace")[-3000:]
                assert self._process.poll() is None, f"it ended instead of starting:\n{told}"
                assert time.monotonic() < deadline, f"it did not start:\n{told}"
                time.sleep(0.2)

    def __exit__(self, *_: object) -> None:
        assert self._process
        self._process.terminate()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def call(self, method: str, path: str, body: str = "") -> dict[str, Any]:
        """The JSON that it answers.

        Raises:
            OSError: it does not, or refuses.
        """
        kind = "application/x-ndjson" if "_bulk" in path else "application/json"
        request = urllib.request.Request(
            self._url + path, body.encode() or None, {"Content-Type": kind}, method=method
        )
        with self._http.open(request, timeout=60) as answer:
            told = json.load(answer)
        assert isinstance(told, dict)
        return told
