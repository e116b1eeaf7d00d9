"""The policy in force: re-read every cycle; a bad edit leaves the last good one in force."""

from collections.abc import Callable
from typing import NamedTuple

import structlog

from desched.errors import ConfigurationError
from desched.policy.loading import LoadedPolicy
from desched.policy.policy import Policy

_log = structlog.get_logger(__name__)


class PolicyReading(NamedTuple):
    """What a look at the file led to.

    `problem` says why the file's present content is not in force, and is empty if it is; `news` is
    true if either differs from what was told last.
    """

    policy: Policy
    warnings: tuple[str, ...] = ()
    problem: str = ""
    news: bool = True


class PolicyFile:
    """A policy file that people edit while desched runs.

    `load` reads it anew by its path each time, so that the swapped symlinks of a ConfigMap mount
    are followed.
    """

    def __init__(self, load: Callable[[], LoadedPolicy]) -> None:
        self._load = load
        self._last_good: Policy | None = None  # a cycle has run by it
        self._last_read: Policy | None = None
        self._last_published: tuple[str, str] | None = None

    def read(self) -> PolicyReading:
        """The policy to use now.

        Raises:
            ConfigurationError: the file cannot be used, and no good policy was read before.
        """
        try:
            loaded = self._load()
        except ConfigurationError as error:
            return _instead(self._last_good or self._last_read, error)
        self._last_read = loaded.policy
        return PolicyReading(loaded.policy, loaded.warnings)

    def refuse(self, policy: Policy, error: ConfigurationError) -> PolicyReading:
        """The policy to use instead of one that does not suit this cluster.

        Raises:
            ConfigurationError: the same error, where there is no other policy.
        """
        if self._last_good is not None and self._last_good.digest == policy.digest:
            raise error
        return _instead(self._last_good, error)

    def accept(self, reading: PolicyReading) -> None:
        """Keep the policy, by which a cycle has run, as the last good one."""
        self._last_good = reading.policy

    def mark_news(self, reading: PolicyReading) -> PolicyReading:
        """The reading, marked with whether it is news after the ones told before."""
        content = (reading.policy.digest, reading.problem)
        news = content != self._last_published
        self._last_published = content
        return reading._replace(news=news)


def _instead(policy: Policy | None, error: ConfigurationError) -> PolicyReading:
    if policy is None:
        raise error
    return PolicyReading(policy, problem=str(error))


def log_policy(reading: PolicyReading) -> None:
    """Log a reading if it is news: loudly if the file was refused."""
    if not reading.news:
        return
    if reading.problem:
        _log.error(
            "policy.refused",
            problem=reading.problem,
            in_force=reading.policy.digest,
            meaning="the last good policy stays in force until the file is mended",
        )
        return
    _log.info("policy.loaded", source=reading.policy.source, digest=reading.policy.digest)
    for warning in reading.warnings:
        _log.warning("policy.warned", warning=warning)
