"""The documentation of the API as a page of our own: made from openapi.json, with nothing from elsewhere."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Field:
    """A parameter, or one field of a JSON object."""

    name: str
    type: str
    needed: bool
    about: str


@dataclass(frozen=True)
class Operation:
    """One thing that can be asked for."""

    method: str
    path: str
    summary: str
    parameters: list[Field] = field(default_factory=list)
    body: str = ""
    returns: str = ""
    answers: list[tuple[str, str]] = field(default_factory=list)
    example: str = ""


@dataclass(frozen=True)
class Schema:
    """One kind of JSON object."""

    name: str
    about: str
    fields: list[Field]


def operations(openapi: Mapping[str, Any], address: str) -> list[Operation]:
    """Return all operations of an OpenAPI description."""
    return [
        _operation(method, path, content, address)
        for path, methods in openapi["paths"].items()
        for method, content in methods.items()
    ]


def schemas(openapi: Mapping[str, Any]) -> list[Schema]:
    """Return the JSON objects of an OpenAPI description that are ours."""
    found = openapi.get("components", {}).get("schemas", {})
    return [
        Schema(name, content.get("description", ""), list(_fields(content)))
        for name, content in sorted(found.items())
        if content.get("properties") and not name.startswith(("Body_", "HTTPValidation", "Validation"))
    ]


def _operation(method: str, path: str, content: Mapping[str, Any], address: str) -> Operation:
    parameters = [
        Field(one["name"], _type(one["schema"]), one.get("required", False), one.get("description", ""))
        for one in content.get("parameters", [])
    ]
    bodies = content.get("requestBody", {}).get("content", {})
    body = ", ".join(f"{kind}: {_type(one['schema'])}" for kind, one in bodies.items())
    answers = [(status, one.get("description", "")) for status, one in content.get("responses", {}).items()]
    good = next((one for status, one in content["responses"].items() if status.startswith("2")), {})
    returned = next(iter(good.get("content", {}).values()), {}).get("schema", {})
    return Operation(
        method.upper(),
        path,
        content.get("summary", ""),
        parameters,
        body.replace("multipart/form-data: Body_explain_image_api_explain_image_post", "multipart/form-data: image"),
        _type(returned) if returned else "",
        answers,
        _curl(method, path, list(bodies), address),
    )


def _curl(method: str, path: str, bodies: list[str], address: str) -> str:
    where = f"'{address}{path.replace('{row}', '0')}'"
    verb = "" if method in ("get", "post") else f" -X {method.upper()}"
    if "multipart/form-data" in bodies:
        return f"curl{verb} -F image=@picture.png {where}"
    if "application/json" in bodies:
        content = {"label": "LABEL"} if method == "put" else {"row": 0}
        return f"curl{verb} -H 'Content-Type: application/json' -d '{json.dumps(content)}' {where}"
    return f"curl{verb} {where}"


def _fields(content: Mapping[str, Any]) -> Iterator[Field]:
    needed = content.get("required", [])
    for name, one in content["properties"].items():
        yield Field(name, _type(one), name in needed, one.get("description", ""))


def _type(schema: Mapping[str, Any]) -> str:
    """Return what a value is, in a few words."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(json.dumps(one) for one in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if schema.get("type") == "object":
        inner = schema.get("additionalProperties")
        return f"object of {_type(inner)}" if isinstance(inner, dict) and inner else "object"
    return str(schema.get("type", "anything"))
