"""The OpenAPI description of one run: rows, labels, columns and forms of a question are those that this run takes."""

from typing import Any

from .answering import ALL, PREDICTED
from .inputs import columns_of
from .site import Site

_FINITE = {"type": "number", "minimum": -1e300, "maximum": 1e300}
_NULL = {"type": "null"}
_NUMBER = r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$"


def describe_run(openapi: dict[str, Any], site: Site) -> dict[str, Any]:
    """Return an OpenAPI description in which what the run lacks is not allowed; the description itself is changed."""
    labels = list(site.run.label_names)
    rows = {"minimum": 0, "maximum": len(site.run.rows) - 1}
    examples_of = {"enum": [PREDICTED, ALL, *([] if site.run.rows.groups else labels)]}
    right = {"type": "string", "pattern": _NUMBER} if site.run.rows.numeric else {"type": "string", "enum": labels}
    narrowed: dict[str, dict[str, Any]] = {
        "row": rows,
        "label": {"enum": ["", *labels]},
        "examples_of": examples_of,
    }
    for operations in openapi["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                parameter["schema"] |= narrowed.get(parameter["name"], {})
    schemas = openapi["components"]["schemas"]
    schemas["NewMark"]["properties"]["label"] = {"anyOf": [right, _NULL]}
    question = schemas["Question"]
    question["properties"]["examples_of"] |= examples_of
    question["properties"]["row"] = {"anyOf": [{"type": "integer", **rows}, _NULL]}
    question["oneOf"] = _forms(site, {"type": "integer", **rows})
    return openapi


def _forms(site: Site, row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the forms that a question may have: a row, and what else the kind of the run takes."""
    by_row = _form(row=row)
    if site.run.kind == "text":
        # Something else than blanks.
        return [by_row, _form(text={"type": "string", "pattern": r"\S"})]
    if site.run.kind == "image":
        return [by_row]
    values = {
        "type": "object",
        "properties": {
            column.name: {"anyOf": [_FINITE if column.categories is None else {"type": "string"}, _NULL]}
            for column in columns_of(site.run)
        },
        "additionalProperties": False,
    }
    return [by_row, _form(values=values), _form(row=row, values=values)]


def _form(**given: dict[str, Any]) -> dict[str, Any]:
    absent = {name: _NULL for name in ("text", "row", "values") if name not in given}
    return {"required": list(given), "properties": given | absent}
