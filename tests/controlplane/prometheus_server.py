"""A real Prometheus that scrapes the test control plane's usage metrics."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import urllib3

from tests.controlplane.process import GO, Server, free_ports
from tests.controlplane.usage_exporter import EXPORTERS, UsageExporter
from tests.controlplane.waiting import PATIENCE_SECONDS, wait_for


class PrometheusServer:
    """Keeps its data and its URL from one start to the next, as a restarted Prometheus does."""

    def __init__(
        self,
        binary: Path,
        exporter: UsageExporter | None,
        directory: Path,
        scrape_interval: str = "1s",
        more_jobs: Sequence[Mapping[str, Any]] = (),
        more_flags: Sequence[str] = (),
        *,
        variables: Mapping[str, str] = GO,
    ) -> None:
        """`more_jobs` are further scrape configurations, the only ones without an exporter."""
        self._binary = binary
        self._directory = directory
        self._flags = more_flags
        self._variables = variables
        self._server: Server | None = None
        self._http = urllib3.PoolManager(retries=False, timeout=PATIENCE_SECONDS)
        (port,) = free_ports(1)
        self._address = f"127.0.0.1:{port}"
        self.url = f"http://{self._address}"
        configuration = {
            "global": {"scrape_interval": scrape_interval, "scrape_timeout": scrape_interval},
            "scrape_configs": [
                *more_jobs,
                *(
                    {
                        "job_name": name,
                        "track_timestamps_staleness": True,  # the samples have their own
                        "http_sd_configs": [
                            {"url": exporter.discovery_url(name), "refresh_interval": "1s"}
                        ],
                    }
                    for name in EXPORTERS
                    if exporter is not None
                ),
            ],
        }
        directory.mkdir(parents=True, exist_ok=True)
        self._configuration = directory / "prometheus.json"
        self._configuration.write_text(json.dumps(configuration, indent=1))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Of the running process."""
        assert self._server is not None
        return self._server.pid

    @property
    def data(self) -> Path:
        """Where it keeps its blocks."""
        return self._directory / "data"

    def start(self) -> None:
        """Returns when queries are answered."""
        self._server = Server(
            "prometheus",
            [
                self._binary,
                f"--config.file={self._configuration}",
                f"--storage.tsdb.path={self.data}",
                f"--web.listen-address={self._address}",
                "--scrape.discovery-reload-interval=1s",
                "--log.level=warn",
                *self._flags,
            ],
            self._directory,
            self._variables,
        )
        self._server.wait_until("Prometheus is ready", self._is_ready)

    def stop(self) -> None:
        """Leaves nothing that listens, so that clients see a refused connection."""
        if self._server is not None:
            self._server.stop(grace=PATIENCE_SECONDS)
            self._server = None

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Returns the result of an instant query as the HTTP API gives it."""
        answer = self._http.request(
            "GET", f"{self.url}/api/v1/query", fields={"query": expression}
        ).json()
        if answer["status"] != "success":
            raise ValueError(f"{expression}: {answer['error']}")
        result: list[dict[str, Any]] = answer["data"]["result"]
        return result

    def wait_until_has(
        self, expression: str, timeout: float = PATIENCE_SECONDS
    ) -> list[dict[str, Any]]:
        """Waits for the first result, since a rate needs two scrapes."""
        return wait_for(f"Prometheus has {expression}", lambda: self.query(expression), timeout)

    def _is_ready(self) -> bool:
        try:
            return bool(self._http.request("GET", f"{self.url}/-/ready").status == 200)
        except urllib3.exceptions.HTTPError:
            return False
