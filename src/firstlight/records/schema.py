"""What a record looks like: schema.json says it, and is held against a record here."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from firstlight.records import drawing

SCHEMA = json.loads(files("firstlight.records").joinpath("schema.json").read_text("utf-8"))
VERSION = SCHEMA["$defs"]["facts"]["properties"]["record_schema"]["const"]
VALIDATOR = Draft202012Validator(SCHEMA)


def problem(content: Any) -> str | None:
    """Return in what a file differs most from a record, in words; None if it is one."""
    error = best_match(VALIDATOR.iter_errors(content))
    if error:
        return f"{error.json_path}: {error.message}".encode("ascii", "backslashreplace").decode()[:300]
    for key, svg in content.get("figures", {}).items():
        if wrong := drawing.problem(svg):
            return f"$.figures.{key}: {wrong}"
    names = [row["metadata"]["name"] for row in content["benchmarks"]]
    return next((f"two rows are called {name!r}" for name in names if names.count(name) > 1), None)
