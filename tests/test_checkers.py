import json

import pytest

import checkers


@pytest.fixture
def npm(tmp_path, monkeypatch):
    """The calls of npm, which are noted and not made, and the status that they return."""
    calls, status = [], [0]
    monkeypatch.setattr(checkers, "NODE", tmp_path)
    monkeypatch.setattr(checkers, "npm", lambda *call: calls.append(call) or status[0])
    return calls, status


def put(name, version):
    facts = checkers.NODE / "node_modules" / name / "package.json"
    facts.parent.mkdir(parents=True)
    facts.write_text(json.dumps({"version": version}), encoding="utf-8")


def test_only_what_is_missing_or_of_another_version_is_fetched(npm):
    calls, _ = npm
    put("axe-core", checkers.PINS["axe-core"])
    put("@biomejs/biome", "0.0.1")
    assert checkers.main(["axe-core"]) == 0
    assert calls == []
    assert checkers.main([*checkers.PINS, "--", "biome", "ci"]) == 0
    (fetched, ran) = calls
    assert [f"{name}@{version}" for name, version in checkers.PINS.items() if name != "axe-core"] == list(fetched[3:])
    assert ran[-2:] == ("biome", "ci")


def test_a_failed_fetch_ends_in_words_and_the_status_of_a_checker_comes_back(npm):
    calls, status = npm
    status[0] = 1
    with pytest.raises(SystemExit, match="npm could not fetch"):
        checkers.main(["axe-core", "--", "never"])
    assert len(calls) == 1
    assert checkers.main(["--", "biome", "ci"]) == 1
