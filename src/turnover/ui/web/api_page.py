"""The documentation of the API as a page of our own: made from openapi.json, with nothing from elsewhere."""

import json
from collections.abc import Mapping
from typing import Any

_UPLOAD = "Body_explain_image_api_explain_image_post"


def own_schemas(openapi: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the JSON objects of an OpenAPI description that are ours, by name."""
    schemas = openapi.get("components", {}).get("schemas", {})
    return [
        (name, schema)
        for name, schema in sorted(schemas.items())
        if schema.get("properties") and not name.startswith(("Body_", "HTTPValidation", "Validation"))
    ]


def body_words(operation: Mapping[str, Any]) -> str:
    """Return what to send with an operation; "" for nothing."""
    bodies = operation.get("requestBody", {}).get("content", {})
    return ", ".join(f"{kind}: {type_words(body['schema'])}" for kind, body in bodies.items()).replace(_UPLOAD, "image")


def returns_words(operation: Mapping[str, Any]) -> str:
    """Return what an operation answers with where it succeeds; "" for nothing."""
    success = next((answer for status, answer in operation["responses"].items() if status.startswith("2")), {})
    schema = next(iter(success.get("content", {}).values()), {}).get("schema")
    return type_words(schema) if schema else ""


def curl(operation: Mapping[str, Any], method: str, path: str, address: str) -> str:
    """Return an operation as a command to type."""
    bodies = operation.get("requestBody", {}).get("content", {})
    where = f"'{address}{path.replace('{row}', '0')}'"
    verb = "" if method in ("get", "post") else f" -X {method.upper()}"
    if "multipart/form-data" in bodies:
        return f"curl{verb} -F image=@picture.png {where}"
    if "application/json" in bodies:
        content = {"label": "LABEL"} if method == "put" else {"row": 0}
        return f"curl{verb} -H 'Content-Type: application/json' -d '{json.dumps(content)}' {where}"
    return f"curl{verb} {where}"


def type_words(schema: Mapping[str, Any]) -> str:
    """Return what a value is, in a few words."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(type_words, schema["anyOf"])))
    if "enum" in schema:
        return " or ".join(map(json.dumps, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {type_words(schema.get('items', {}))}"
    if schema.get("type") == "object":
        inner = schema.get("additionalProperties")
        return f"object of {type_words(inner)}" if isinstance(inner, dict) and inner else "object"
    return str(schema.get("type", "anything"))
