"""The policy in force, from a file that people edit; an invalid edit keeps the last good one."""

from collections.abc import Callable
from typing import NamedTuple

import structlog

from desched.errors import ConfigurationError
from desched.policy.policy import Policy
from desched.policy_file.difference import policy_differences
from desched.policy_file.loading import LoadedPolicy

_log = structlog.get_logger(__name__)


class PolicyReading(NamedTuple):
    """The result of reading the file.

    `problem` is why the file's content is not in force, empty if it is. `news` is true if the
    policy or the problem differs from the last reading; `changes` is then in what the policy in
    force differs from the one before, as lines.
    """

    policy: Policy
    warnings: tuple[str, ...] = ()
    problem: str = ""
    news: bool = True
    changes: tuple[str, ...] = ()


class PolicyFile:
    """A policy file that people edit while desched runs.

    `load` opens the path each time, so that it follows the symlinks that a ConfigMap mount swaps.
    """

    def __init__(self, load: Callable[[], LoadedPolicy]) -> None:
        self._load = load
        self._last_good: Policy | None = None  # a cycle ran with it
        self._last_valid: Policy | None = None  # and no cycle has refused it since
        self._last_content = ""  # the digest of what the file held, or what was wrong with it
        self._last_published: tuple[str, str] | None = None
        self._last_in_force: Policy | None = None

    def read(self) -> PolicyReading:
        """The policy to use now.

        Raises:
            ConfigurationError: the file is invalid, and no good policy was read before.
        """
        try:
            loaded = self._load()
        except ConfigurationError as error:
            self._last_content = str(error)
            return _instead(self._last_valid, error)
        if self._last_content != loaded.policy.digest:
            self._last_content = loaded.policy.digest
            self._last_valid = loaded.policy
        if self._last_in_force is None:
            self._last_in_force = loaded.policy
        return PolicyReading(loaded.policy, loaded.warnings)

    def read_edit(self) -> PolicyReading | None:
        """The policy to use now if the file changed since it was read last; None if it did not.

        A policy that a cycle refused is no edit: the file still holds it.

        Raises:
            ConfigurationError: the file is invalid, and no good policy was read before.
        """
        before = self._last_content
        reading = self.read()
        return reading if self._last_content != before else None

    def refuse(self, policy: Policy, error: ConfigurationError) -> PolicyReading:
        """The policy to use instead of one that does not fit this cluster.

        Raises:
            ConfigurationError: the same error, if there is no other policy.
        """
        if self._last_good is not None and self._last_good.digest == policy.digest:
            raise error
        reading = _instead(self._last_good, error)
        self._last_valid = reading.policy
        return reading

    def accept(self, reading: PolicyReading) -> None:
        """Keep the policy of a completed cycle as the last good one."""
        self._last_good = self._last_valid = reading.policy

    def mark_news(self, reading: PolicyReading) -> PolicyReading:
        """The reading with `news` and `changes` set, compared with the one that was marked last."""
        content = (reading.policy.digest, reading.problem)
        news = content != self._last_published
        self._last_published = content
        before, self._last_in_force = self._last_in_force, reading.policy
        changes = policy_differences(before, reading.policy) if before is not None and news else ()
        return reading._replace(news=news, changes=tuple(change.line for change in changes))


def _instead(policy: Policy | None, error: ConfigurationError) -> PolicyReading:
    if policy is None:
        raise error
    return PolicyReading(policy, problem=str(error))


def log_policy(reading: PolicyReading) -> None:
    """Log a reading if it is news, as an error if the file was refused."""
    if not reading.news:
        return
    if reading.problem:
        _log.error(
            "policy.refused",
            problem=reading.problem,
            in_force=reading.policy.digest,
            meaning="the last good policy stays in force until the file is fixed",
        )
        return
    changed = {"changes": list(reading.changes)} if reading.changes else {}
    _log.info(
        "policy.loaded", source=reading.policy.source, digest=reading.policy.digest, **changed
    )
    for warning in reading.warnings:
        _log.warning("policy.warned", warning=warning)
