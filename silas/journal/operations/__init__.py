"""What people and companions do with the journal: each operation once, and within its scope.

Every operation takes `scope` and `actor`, and `operation_id` if it may be asked for again. It
returns an `Outcome`; outside of its scope it changes nothing and raises `OutOfScope`.
"""

from silas.journal.operations.checklists import (
    ItemUpdate,
    add_multiple_checklist_items,
    create_checklist,
    move_checklist_items,
    move_checklist_items_to_new_task,
    update_checklist_items,
)
from silas.journal.operations.days import (
    BlockInput,
    get_or_create_day_plan,
    pin_day_plan_tasks,
    replan_day_blocks,
    upsert_day_plan_blocks,
)
from silas.journal.operations.importing import TaskInput, import_records, import_tasks
from silas.journal.operations.records import (
    create_category,
    create_note,
    create_or_update_rating,
    delete_record,
    link_records,
    restore_record,
    update_category,
    update_note,
)
from silas.journal.operations.scoped import By
from silas.journal.operations.tasks import (
    TaskFields,
    assign_task_labels,
    conclude_task_with_rollover,
    create_follow_up_task,
    create_task,
    set_task_language,
    update_task_due_date,
    update_task_estimate,
    update_task_fields,
    update_task_priority,
)
from silas.journal.operations.time import (
    TimeFields,
    annotate_time_entry,
    create_retrospective_time_entry,
    start_task_timer,
    stop_task_timer,
    update_time_entry,
)

__all__ = [
    "BlockInput",
    "By",
    "ItemUpdate",
    "TaskFields",
    "TaskInput",
    "TimeFields",
    "add_multiple_checklist_items",
    "annotate_time_entry",
    "assign_task_labels",
    "conclude_task_with_rollover",
    "create_category",
    "create_checklist",
    "create_follow_up_task",
    "create_note",
    "create_or_update_rating",
    "create_retrospective_time_entry",
    "create_task",
    "delete_record",
    "get_or_create_day_plan",
    "import_records",
    "import_tasks",
    "link_records",
    "move_checklist_items",
    "move_checklist_items_to_new_task",
    "pin_day_plan_tasks",
    "replan_day_blocks",
    "restore_record",
    "set_task_language",
    "start_task_timer",
    "stop_task_timer",
    "update_category",
    "update_checklist_items",
    "update_note",
    "update_task_due_date",
    "update_task_estimate",
    "update_task_fields",
    "update_task_priority",
    "update_time_entry",
    "upsert_day_plan_blocks",
]
