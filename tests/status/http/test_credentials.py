"""The sources of tokens, and their problems."""

from pathlib import Path

import pytest

from controllerd.config.model import HttpConfig, Secret
from controllerd.errors import ConfigError
from controllerd.status.http.credentials import Credentials, Rank, Tokens

TOKEN = "0123456789abcdef-token"


def rank(http: HttpConfig, token: str = TOKEN, **environment: str) -> Rank:
    return Tokens.configured(http, environment).rank_of(Credentials(token))


def test_a_token_is_the_value_itself_or_in_a_file_or_a_credential_of_systemd(tmp_path: Path) -> None:
    (tmp_path / "admin").write_text(f"{TOKEN}\n")

    assert rank(HttpConfig(admin_token=Secret(TOKEN))) is Rank.ADMIN
    assert rank(HttpConfig(read_token=Secret(f"file:{tmp_path}/admin"))) is Rank.READ
    assert rank(HttpConfig(admin_token=Secret("credential:admin")), CREDENTIALS_DIRECTORY=str(tmp_path)) is Rank.ADMIN


def test_an_invalid_token_has_no_rank() -> None:
    http = HttpConfig(admin_token=Secret(TOKEN))

    assert [rank(http, token) for token in ("", TOKEN.upper(), TOKEN + "x")] == [Rank.NONE] * 3
    assert rank(HttpConfig(), "") is Rank.NONE


@pytest.mark.parametrize(
    ("http", "environment", "problem"),
    [
        (HttpConfig(read_token=Secret("file:/nowhere/token")), {}, "http.read_token: file:/nowhere/token: cannot be"),
        (HttpConfig(admin_token=Secret("credential:a")), {}, "needs LoadCredential=a:PATH in the unit"),
        (HttpConfig(admin_token=Secret("credential:a")), {"CREDENTIALS_DIRECTORY": "/nowhere"}, "cannot be read"),
        (HttpConfig(admin_token=Secret(TOKEN), read_token=Secret(TOKEN)), {}, "readers could use every verb"),
    ],
)
def test_a_token_that_cannot_be_used_is_a_problem_that_does_not_show_it(
    http: HttpConfig, environment: dict[str, str], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem) as refused:
        Tokens.configured(http, environment)

    assert TOKEN not in str(refused.value)


def test_a_short_token_in_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("short")

    with pytest.raises(ConfigError, match="shorter than 16 characters; make one with") as refused:
        Tokens.configured(HttpConfig(read_token=Secret(f"file:{tmp_path}/token")), {})

    assert "short;" not in str(refused.value)
