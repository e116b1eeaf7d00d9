"""No spelling of a credential is left in what a server said."""

import re
from base64 import b64encode
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from desched.adapters.redaction import SHORTEST, credentials_in, redacted


def with_lower_case_digits(encoded: str) -> str:
    return re.sub("%..", lambda digits: digits[0].lower(), encoded)


@given(st.text(st.characters(codec="utf-8", exclude_characters="*"), min_size=SHORTEST))
def test_no_spelling_of_a_secret_is_left(secret: str) -> None:
    spellings = [
        secret,
        quote(secret, safe=""),
        quote_plus(secret),
        with_lower_case_digits(quote(secret, safe="")),
        quote(secret),  # leaves slashes
        b64encode(secret.encode()).decode(),
        with_lower_case_digits(quote(b64encode(secret.encode()).decode())),
    ]

    said = redacted("|".join(spellings), [secret])
    assert not [spelling for spelling in spellings if spelling in said]


@pytest.mark.parametrize(
    "said",
    ["pa/ss+w:rd", "pa%2Fss%2Bw%3Ard", "pa%2fss%2bw%3ard", "pa%2Fss%2bw%3Ard", "pa/ss%2bw:rd"],
)
def test_whatever_is_encoded_in_whichever_case_is_hidden_and_nothing_else(said: str) -> None:
    assert redacted(f"/q?p={said}&a=%2f", ["pa/ss+w:rd"]) == "/q?p=***&a=%2f"


def test_letters_of_another_case_are_no_secret() -> None:
    assert redacted("PA/SS is not pa%2fSS", ["pa/ss"]) == "PA/SS is not pa%2fSS"


def test_a_secret_that_holds_another_is_hidden_as_a_whole() -> None:
    assert redacted("me:password", ["password", "me:password"]) == "***"


def test_what_is_too_short_to_be_a_secret_leaves_words_readable() -> None:
    assert redacted("no such tenant", ["", "no", "ten"]) == "no such tenant"


@pytest.mark.parametrize(
    ("header", "secret"),
    [
        ("Bearer abcdef", "abcdef"),
        ("abcdef", "abcdef"),
        ("session=abcdef==", "abcdef=="),
        (f"Basic {b64encode(b'me:pass:word').decode()}", "pass:word"),
        ("Basic no-base64!", "no-base64!"),
    ],
)
def test_the_credential_in_a_header_is_found(header: str, secret: str) -> None:
    assert secret in set(credentials_in(header))
    assert header in set(credentials_in(header))
