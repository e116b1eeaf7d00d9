"""Behaviours stated once, for the fakes and for what they stand for."""

import pytest

pytest.register_assert_rewrite(
    "tests.contracts.cluster_contract",
    "tests.contracts.lease_contract",
    "tests.contracts.state_store_contract",
)
