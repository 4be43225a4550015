"""What a record looks like: schema.json says it, and is held against a record here, without a library."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

SCHEMA = json.loads(files("firstlight.measure").joinpath("schema.json").read_text("utf-8"))
VERSION = SCHEMA["$defs"]["facts"]["properties"]["record_schema"]["const"]
VERDICTS = SCHEMA["$defs"]["row"]["properties"]["metadata"]["properties"]["verdict"]["enum"]


def problems(content: Any) -> Iterator[str]:
    """Yield everything in which a file differs from a record, in words."""
    if not isinstance(content, dict) or content.get("version") != "1.0":
        yield 'not a record: "version" must be "1.0", pyperf\'s format'
        return
    meta = content.get("metadata")
    if not isinstance(meta, dict) or list(differences("", meta.get("record_schema"), {"const": VERSION})):
        yield f"not a record of schema {VERSION}: metadata.record_schema is missing or another"
        return
    different = list(differences("", content, SCHEMA))
    yield from different
    names = [] if different else [row["metadata"]["name"] for row in content["benchmarks"]]
    yield from (f"two rows are called {shown(name)}" for name in sorted(set(names)) if names.count(name) > 1)


def differences(place: str, value: Any, form: dict[str, Any]) -> Iterator[str]:
    """Yield everything in which a value is not of the form that a part of the schema gives it."""
    form = SCHEMA["$defs"][form["$ref"].rpartition("/")[2]] if "$ref" in form else form
    match form.get("type"):
        case "object" if isinstance(value, dict):
            known, patterns = form.get("properties", {}), form.get("patternProperties", {})
            yield from (f"{place}{key} is missing" for key in form.get("required", ()) if key not in value)
            for key, inner in value.items():
                matched = (of for pattern, of in patterns.items() if re.search(pattern, key))
                if inner_form := known.get(key) or next(matched, None):
                    yield from differences(f"{place}{key}.", inner, inner_form)
                else:
                    yield f"{place.rstrip('.') or 'the record'} has an unknown key {shown(key)}"
            return
        case "array" if isinstance(value, list):
            fits = form.get("minItems", 0) <= len(value) <= form.get("maxItems", math.inf)
            forms = form.get("prefixItems") or [form["items"]] * len(value)
            for number, (inner, inner_form) in enumerate(zip(value, forms, strict=False)):
                yield from differences(f"{place.rstrip('.')}[{number}].", inner, inner_form)
        case "string":
            fits = isinstance(value, str) and bool(re.search(form.get("pattern", ""), value))
        case "number" | "integer" as kind:
            fits = type(value) in (int, float) and form.get("exclusiveMinimum", -1) < value <= form["maximum"]
            fits = fits and value >= form.get("minimum", 0) and (kind == "number" or value == int(value))
        case None:
            fits = type(value) is not bool and value in form.get("enum", [form.get("const")])
        case _:
            fits = False
    if not fits:
        yield f"{place.rstrip('.')} cannot be {shown(value)}"


def shown(value: Any) -> str:
    """Return a value as a message may show it, whatever is in it."""
    return ascii(value)[:80]
