"""The settings as a JSON Schema, so that editors can complete and check the file."""

from typing import Any

from silas.app.settings.models import Settings


def settings_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of `silas.yaml`."""
    schema = Settings.model_json_schema(by_alias=True)
    definitions = schema.pop("$defs")
    for definition in (schema, *definitions.values()):
        for name, each in definition.get("properties", {}).items():
            definition["properties"][name] = _or_empty(each, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Silas configuration",
        "type": "object",
        "properties": {"silas": schema},
        "additionalProperties": False,
        "$defs": definitions,
    }


def _or_empty(definition: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """A section whose lines are all commented out is null, which is as good as absent."""
    if "$ref" not in definition:
        return definition
    section = definitions[definition["$ref"].rpartition("/")[2]]
    return {
        "anyOf": [{"$ref": definition["$ref"]}, {"type": "null"}],
        "description": section.get("description", ""),
    }
