import copy

import msgspec

from tests.unit.policy_file.published import PUBLISHED, load


def test_a_profile_without_plugins_beside_the_one_with_load_aware_changes_nothing():
    document = copy.deepcopy(PUBLISHED)
    document["profiles"].insert(0, {"name": "empty"})
    found, expected = load(document).policy, load(PUBLISHED).policy
    assert msgspec.structs.replace(found, digest=expected.digest) == expected
