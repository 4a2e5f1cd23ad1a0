"""What the settings are called, what kind of value each one takes, and their JSON Schema."""

import inspect
import types
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from silas.kernel.yaml_positions import YamlError, load_yaml
from silas.settings.fields import NullIfUnset
from silas.settings.models import Settings
from silas.settings.problems import KeyPath

Shape = Literal["section", "map", "list", "value"]


class ValueKind(NamedTuple):
    """What is known about the value at one place."""

    shape: Shape
    type: Any
    nullable: bool = False
    null_if_unset: bool = False

    @property
    def is_secret(self) -> bool:
        return self.type is SecretStr

    @property
    def is_path(self) -> bool:
        return self.type is Path

    @property
    def is_text(self) -> bool:
        return self.type in (str, SecretStr, Path)


ROOT = ValueKind("section", Settings)


def kind_of(annotation: Any) -> ValueKind:
    """The kind of value that a type annotation asks for."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *metadata = get_args(annotation)
        return _marked(kind_of(inner), metadata)
    if origin in (Union, types.UnionType):
        inner = next(each for each in get_args(annotation) if each is not types.NoneType)
        return kind_of(inner)._replace(nullable=True)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return ValueKind("section", annotation)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return ValueKind("map", annotation)
    return ValueKind("list" if origin in (tuple, list) else "value", annotation)


def children(kind: ValueKind) -> Mapping[str, ValueKind]:
    """The kinds of the keys of a section, under the names that they have in the file."""
    return _children(kind.type) if kind.shape == "section" else {}


@cache
def _children(section: type[BaseModel]) -> Mapping[str, ValueKind]:
    return {
        field.alias or name: _marked(kind_of(field.annotation), field.metadata)
        for name, field in section.model_fields.items()
    }


def _marked(kind: ValueKind, metadata: Iterable[Any]) -> ValueKind:
    marked = any(isinstance(each, NullIfUnset) for each in metadata)
    return kind._replace(null_if_unset=kind.null_if_unset or marked)


def child(kind: ValueKind, part: str | int) -> ValueKind | None:
    """The kind of one key of a section or map, or of one item of a list; None if there is none."""
    if kind.shape == "section":
        return children(kind).get(str(part))
    if kind.shape == "map":
        return kind_of(get_args(kind.type)[1])
    if kind.shape == "list":
        return kind_of(get_args(kind.type)[0])
    return None


def kind_at(key: KeyPath) -> ValueKind | None:
    """The kind of value that belongs at this place; None if there is no such setting."""
    kind: ValueKind | None = ROOT
    for part in key:
        kind = child(kind, part) if kind else None
    return kind


def walk(
    kind: ValueKind = ROOT, key: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], ValueKind]]:
    """Every section and setting with its kind, in the order of the file."""
    for name, each in children(kind).items():
        yield (*key, name), each
        yield from walk(each, (*key, name))


def typed(kind: ValueKind, text: str) -> Any:
    """What a text means where this kind of value is expected; the text itself if nothing."""
    if kind.shape != "value" or kind.is_text or kind.type is Any:
        return text
    try:
        value = load_yaml(text).value
    except YamlError:
        return text
    return text if isinstance(value, dict | list) else value


def field_at(key: KeyPath) -> FieldInfo | None:
    """What the section says about one of its settings; None for anything else."""
    parent = kind_at(key[:-1]) if key else None
    if parent is None or parent.shape != "section":
        return None
    fields: Mapping[str, FieldInfo] = parent.type.model_fields
    return next((field for name, field in fields.items() if (field.alias or name) == key[-1]), None)


def description_of(key: KeyPath) -> str:
    """What a setting or a section is for, in a sentence or two."""
    kind, field = kind_at(key), field_at(key)
    if kind and kind.shape == "section":
        return inspect.cleandoc(kind.type.__doc__ or "")
    return (field.description or "") if field else ""


def default_of(key: KeyPath) -> Any:
    """The default of a setting, in JSON's types; None if there is none."""
    field = field_at(key)
    if field is None or field.is_required():
        return None
    return to_jsonable_python(field.get_default(call_default_factory=True), by_alias=True)


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
