"""The signature by which Amazon's managed Prometheus knows desched; only the extra `aws` has this.

It is made with the credentials that Amazon's own tools would use: of the pod's account, of the
machine, or of variables and files.
"""

from typing import Any
from urllib.parse import urlsplit, urlunsplit

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import Session
from requests import PreparedRequest

from desched.errors import ConfigurationError, ObservationError, ObservationSource

SERVICE = "aps"


class AwsSignature:
    """Signs requests for a region; without one, for that of Amazon's configuration."""

    def __init__(self, region: str) -> None:
        self._session = Session()
        self._credentials: Any = None
        self._region = region or self._session.get_config_variable("region")
        if not self._region:
            raise ConfigurationError(
                "metrics.stack: amp requires a region, which the host of the URL does not name; "
                "set the variable AWS_REGION."
            )

    def __call__(self, request: PreparedRequest) -> None:
        """Put the signature into the headers.

        Raises:
            ObservationError: there are no credentials.
        """
        # AWS reads a plus as itself where it checks the signature, and not as a space.
        parts = urlsplit(request.url or "")
        request.url = urlunsplit(parts._replace(query=parts.query.replace("+", "%20")))
        signed = AWSRequest(request.method, request.url, data=request.body)
        SigV4Auth(self._current(), SERVICE, self._region).add_auth(signed)
        request.headers.update(signed.headers.items())

    def _current(self) -> Any:
        """The credentials, which the library renews before they expire."""
        problem = "none are found"
        try:
            if self._credentials is None:
                self._credentials = self._session.get_credentials()
            if self._credentials is not None:
                return self._credentials.get_frozen_credentials()
        except (BotoCoreError, ClientError) as error:
            problem = type(error).__name__
        raise ObservationError(
            ObservationSource.PROMETHEUS,
            f"AWS gives desched no credentials ({problem}); let the account of its pod act as a "
            "role with the policy AmazonPrometheusQueryAccess (EKS Pod Identity, or IAM roles for "
            "service accounts).",
        )
