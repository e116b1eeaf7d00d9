"""Runs the credential plugin of a kubeconfig; the library waits for one without an end."""

import os
import signal
import subprocess
import sys
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import msgspec

from desched.api_objects.decoding import UNDECODABLE
from desched.api_objects.metadata import Wire
from desched.errors import ConfigurationError

PLUGIN_SECONDS = 30.0
ASKING_SECONDS = 300.0
"""How long a plugin may take, and how long if there is a person whom it may ask."""

_CLUSTER_EXTENSION = "client.authentication.k8s.io/exec"


class _Status(Wire):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None


class _Credential(Wire):
    status: _Status


_CREDENTIAL = msgspec.json.Decoder(_Credential)


def credentials_of(
    plugin: Mapping[str, Any], cluster: Mapping[str, Any], directory: str | None, owner: str
) -> dict[str, str]:
    """What the plugin returns, as fields of a user in a kubeconfig.

    It runs in the directory. `owner` says for messages in which file and for whom it is.

    Raises:
        ConfigurationError: it returns no credentials, or none in time.
    """
    name = f'The credential plugin "{plugin.get("command")}" {owner}'
    interactive = sys.stdout.isatty()
    seconds = ASKING_SECONDS if interactive else PLUGIN_SECONDS
    try:
        output = _output(plugin, cluster, directory, seconds, interactive=interactive)
        status = _CREDENTIAL.decode(output).status
    except subprocess.TimeoutExpired as error:
        raise ConfigurationError(
            f"{name} did not answer within {seconds:g} s; run it by hand to see what it waits for."
        ) from error
    except FileNotFoundError as error:
        hint = plugin.get("installHint")
        raise ConfigurationError(
            f"{name} is not installed here; install it." + (f" {hint}" if hint else "")
        ) from error
    except (OSError, subprocess.SubprocessError, LookupError, TypeError, *UNDECODABLE):
        status = _Status()
    credentials = {
        "token": status.token,
        "client-certificate-data": _base64(status.client_certificate_data),
        "client-key-data": _base64(status.client_key_data),
    }
    if not (status.token or status.client_certificate_data):
        raise ConfigurationError(
            f"{name} returned no credentials; run `kubectl version` to see its error, and log in "
            "again if it requires that."
        )
    return {field: value for field, value in credentials.items() if value}


def _base64(text: str | None) -> str:
    return b64encode((text or "").encode()).decode()


def _output(
    plugin: Mapping[str, Any],
    cluster: Mapping[str, Any],
    directory: str | None,
    seconds: float,
    *,
    interactive: bool,
) -> str:
    """What the plugin prints.

    Without a person it is killed with all that it has started; a child could hold its output open.
    """
    added = {variable["name"]: variable["value"] for variable in plugin.get("env") or ()}
    asked = {"KUBERNETES_EXEC_INFO": _request(plugin, cluster, interactive=interactive)}
    with subprocess.Popen(  # noqa: S603  (the user's own kubeconfig names it)
        [plugin["command"], *(plugin.get("args") or ())],
        stdin=None if interactive else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=None if interactive else subprocess.DEVNULL,
        text=True,
        cwd=directory,
        env={**os.environ, **added, **asked},  # noqa: TID251  (the user's, for his plugin)
        start_new_session=not interactive,
    ) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except BaseException:
            if interactive:
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, plugin["command"])
    return output


def _request(plugin: Mapping[str, Any], cluster: Mapping[str, Any], *, interactive: bool) -> str:
    """What the plugin is told, as Kubernetes' `ExecCredential`."""
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = dict(cluster)
        for extension in cluster.get("extensions") or ():
            if extension["name"] == _CLUSTER_EXTENSION:
                spec["cluster"]["config"] = extension["extension"]
    told = {"apiVersion": plugin.get("apiVersion"), "kind": "ExecCredential", "spec": spec}
    return msgspec.json.encode(told).decode()
