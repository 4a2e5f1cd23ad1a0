"""A stored plan as text: for an agent that is to change it, and for the owner who compares two.

It is what a plan says, without what binding has filled in and what is so by default. Nothing is
decided by it: what is approved are the canonical bytes (`silas.work.models`).
"""

import difflib
from collections.abc import Sequence
from typing import Any

import yaml

from silas.work.models import PLAN_FIELDS, WorkItem, WorkItemType
from silas.work.store import WorkItemStore

_NOT_WRITTEN = ("body", "parent", "spawned_by", "skill_hashes", "interaction_mode")


def plan_markdown(root: WorkItem, tasks: Sequence[WorkItem] = ()) -> str:
    """The plan as an agent would write it."""
    front = _front_matter(root)
    if root.type is WorkItemType.PROJECT:
        front["tasks"] = [{**_front_matter(task), "body": task.body} for task in tasks]
    text = yaml.safe_dump(front, sort_keys=False, allow_unicode=True, width=1000)
    return f"---\n{text}---\n\n{root.body}"


async def stored_markdown(items: WorkItemStore, work_item_id: str) -> str:
    """The plan of a stored work item; empty if it is not there."""
    root = await items.get(work_item_id)
    if root is None:
        return ""
    found = [await items.get(name) for name in root.tasks]
    return plan_markdown(root, [task for task in found if task is not None])


def plan_difference(before: str, after: str) -> str:
    """What is different in the second plan, line by line; ids are no difference."""
    old, new = _without_ids(before), _without_ids(after)
    return "\n".join(difflib.unified_diff(old, new, "before", "now", lineterm="", n=1))


def _without_ids(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("id: ")]


def _front_matter(item: WorkItem) -> dict[str, Any]:
    front = item.model_dump(mode="json", include=set(PLAN_FIELDS), exclude_defaults=True)
    for name in _NOT_WRITTEN:
        front.pop(name, None)
    for check in front.get("verify", ()):
        check.pop("influenced_by", None)
    workspace = front.get("workspace", {})
    for name in ("identity", "files"):
        workspace.pop(name, None)
    return front
