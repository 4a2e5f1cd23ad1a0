"""The configurations of other programs: what they name is shown, and nothing is granted."""

import json
from pathlib import Path

import pytest

from silas.mcp.importing import ConfigurationUnreadable, read_configuration

CLAUDE = {
    "mcpServers": {
        "My Files": {"command": "/bin/true", "args": ["/srv"], "env": {"API_KEY": "sk-1"}},
        "everything": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-everything"]},
        "inline": {"command": "/bin/true", "args": ["--password", "hunter2hunter2"]},
        "filled": {"command": "/bin/true", "args": ["${HOME}/x"]},
    },
    "projects": {"/srv/app": {"mcpServers": {"remote": {"url": "https://mcp.example.org/mcp"}}}},
}
CODEX = """
[mcp_servers.docs]
command = "uvx"
args = ["mcp-server-docs"]
[mcp_servers.tickets]
url = "https://mcp.example.org/mcp"
bearer_token_env_var = "TICKETS_TOKEN"
"""


def test_of_claude_names_are_taken_over_and_no_value_of_a_variable(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text(json.dumps(CLAUDE))
    found = {each.name: each for each in read_configuration(tmp_path / "mcp.json")}
    files = found["my-files"]
    assert (files.program, files.arguments, files.variables) == (
        "/bin/true",
        ("/srv",),
        ("API_KEY",),
    )
    assert files.can_be_added
    assert found["remote"].url == "https://mcp.example.org/mcp"
    told = json.dumps([each.model_dump() for each in found.values()])
    assert "sk-1" not in told
    assert "hunter2" not in told
    for name, why in (
        ("everything", "npx fetches from npm"),
        ("inline", "credential"),
        ("filled", "${variables}"),
    ):
        assert why in found[name].problems[0]
        assert not found[name].can_be_added


def test_of_codex_the_toml_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CODEX)
    docs, tickets = read_configuration(tmp_path / "config.toml")
    assert "uvx fetches from PyPI" in docs.problems[0]
    assert (tickets.url, tickets.variables) == ("https://mcp.example.org/mcp", ("TICKETS_TOKEN",))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"mcpServers": []}', "[" * 100_000])
def test_what_is_no_configuration_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "mcp.json").write_text(text)
    with pytest.raises(ConfigurationUnreadable):
        read_configuration(tmp_path / "mcp.json")
