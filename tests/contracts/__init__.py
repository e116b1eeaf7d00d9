"""Behaviours stated once, for the fakes and for what they stand for."""

import pytest

pytest.register_assert_rewrite("tests.contracts.cluster_contract")
