// @ts-check
// Tasks by category, each with its checklists; quick to add, one tap to finish.
import { h } from "/dom.js";
import { WHEN_DUE, categorySelect, field, isClosed, lasting, whenIn } from "/journal_desk.js";
import { visible } from "/visible.js";

const STATUS_WORDS = {
  open: "Open",
  groomed: "Groomed",
  in_progress: "In progress",
  blocked: "Blocked",
  on_hold: "On hold",
  done: "Done",
  rejected: "Rejected",
};
const PRIORITIES = ["P0", "P1", "P2", "P3"];
const opened = new Set(); // tasks whose details are shown, across drawings

export function tasksPart(data, desk) {
  const groups = [...data.categories, { id: null, name: "Without a category" }]
    .map((category) => [category, data.tasks.filter((task) => task.category_id === category.id)])
    .filter(([, tasks]) => tasks.length);
  return h(
    "div",
    { class: "journal-part" },
    addForm(data, desk),
    groups.map(([category, tasks]) =>
      h(
        "div",
        { class: "journal-group" },
        h("h3", {}, visible(category.name)),
        h(
          "ul",
          { class: "tasks" },
          tasks.map((task) => taskRow(task, data, desk)),
        ),
      ),
    ),
    !groups.length && h("p", { class: "journal-none" }, "No tasks yet. The first one goes above."),
  );
}

function addForm(data, { change }) {
  const title = h("input", {
    maxlength: "500",
    autocomplete: "off",
    enterkeyhint: "done",
    placeholder: "Squats",
  });
  const due = h("input", { maxlength: "60", autocomplete: "off", placeholder: "tomorrow 9am" });
  const every = h("input", { maxlength: "80", autocomplete: "off", placeholder: "every monday" });
  const remind = h("input", { maxlength: "60", autocomplete: "off", placeholder: "when due" });
  const category = categorySelect(data);
  const fresh = h("input", { maxlength: "100", autocomplete: "off", placeholder: "or a new one" });
  const submit = async (event) => {
    event.preventDefault();
    if (!title.value.trim()) return title.focus();
    const said = saidTimes({ due_at: due, repeats: every, remind_at: remind });
    const made = fresh.value.trim()
      ? await change("create_category", { name: fresh.value.trim() })
      : null;
    if (fresh.value.trim() && !made) return;
    const done = await change(
      "create_task",
      { title: title.value.trim(), category_id: made?.category_id ?? (category.value || null) },
      said,
    );
    if (done) for (const input of [title, due, every, remind, fresh]) input.value = "";
  };
  return h(
    "form",
    { class: "journal-form", onsubmit: submit },
    field("New task", title),
    field("Due", due),
    field("Repeats", every),
    field("Remind me", remind),
    field("Category", category),
    field("New category", fresh),
    h("button", { type: "submit", class: "primary" }, "Add"),
  );
}

// What was typed about times, by the field that it is for; what is empty is not said.
function saidTimes(inputs, prefix = "") {
  const typed = Object.entries(inputs).map(([name, input]) => [prefix + name, input.value.trim()]);
  return Object.fromEntries(typed.filter(([, words]) => words));
}

/** One task: its check box, what it is, and everything about it on demand. */
export function taskRow(task, data, desk) {
  const { change } = desk;
  const closed = isClosed(task);
  const box = h("input", {
    type: "checkbox",
    checked: closed,
    "aria-label": `${task.title}: done`,
  });
  ticked(box, () =>
    change("update_task_fields", {
      task_id: task.id,
      fields: { status: box.checked ? "done" : "open" },
    }),
  );
  const details = h(
    "details",
    { class: "task-details", open: opened.has(task.id) },
    h("summary", {}, h("span", { class: "task-title" }, visible(task.title)), marks(task, data)),
    more(task, data, desk),
  );
  details.addEventListener("toggle", () =>
    details.open ? opened.add(task.id) : opened.delete(task.id),
  );
  return h(
    "li",
    { class: "task", "data-status": task.status, "data-priority": task.priority },
    box,
    details,
  );
}

// A box whose change was refused goes back to what is so.
function ticked(box, change) {
  box.addEventListener("change", async () => {
    if (!(await change())) box.checked = !box.checked;
  });
}

function marks(task, data) {
  const items = task.checklists.flatMap((list) => list.items);
  const late = task.due_at && !isClosed(task) && Number(new Date(task.due_at)) < Date.now();
  const told = [
    !["open", "done"].includes(task.status) && STATUS_WORDS[task.status],
    task.priority !== "P2" && task.priority,
    items.length && `${items.filter((item) => item.checked).length}/${items.length}`,
    task.estimate_minutes && lasting(task.estimate_minutes * 60_000),
  ].filter(Boolean);
  return h(
    "span",
    { class: "task-marks" },
    told.map((text) => h("span", {}, text)),
    task.due_at &&
      h(
        "span",
        { class: late ? "task-late" : "" },
        `${late ? "late, " : ""}${whenIn(task.due_at, data)}`,
      ),
    task.every && h("span", {}, visible(task.every)),
    task.reminder && h("span", {}, `reminder ${whenIn(task.reminder, data)}`),
    task.labels.map((label) => h("span", { class: "task-label" }, visible(label))),
  );
}

function more(task, data, desk) {
  const { change } = desk;
  const pins = data.plan?.pinned_task_ids ?? [];
  const isPinned = pins.includes(task.id);
  const button = (label, run) =>
    h("button", { type: "button", class: "quiet", onclick: run }, label);
  const pin = { plan_date: data.date, [isPinned ? "unpin" : "task_ids"]: [task.id] };
  return h(
    "div",
    { class: "task-more" },
    task.body && h("p", { class: "task-body" }, visible(task.body)),
    task.checklists.map((list) => checklist(list, desk)),
    addItem(task, desk),
    h(
      "div",
      { class: "task-actions" },
      data.running?.task_id === task.id
        ? button("Stop the timer", () => change("stop_task_timer"))
        : !isClosed(task) &&
            button("Start the timer", () => change("start_task_timer", { task_id: task.id })),
      button(isPinned ? "Take off this day" : "Pin to this day", () =>
        change("pin_day_plan_tasks", pin),
      ),
      task.reminder &&
        button("Cancel the reminder", () =>
          change("update_task_fields", { task_id: task.id, fields: { remind_at: null } }),
        ),
      button("How it came about", () => desk.open(task.id)),
      button("Delete", () => change("delete_record", { record_id: task.id })),
    ),
    editForm(task, data, desk),
  );
}

function checklist(list, { change }) {
  return h(
    "fieldset",
    { class: "checklist" },
    h("legend", {}, visible(list.title)),
    list.items.map((item) => {
      const box = h("input", { type: "checkbox", checked: item.checked });
      ticked(box, () =>
        change("update_checklist_items", { updates: [{ id: item.id, checked: box.checked }] }),
      );
      return h("label", { class: "checklist-item" }, box, h("span", {}, visible(item.text)));
    }),
  );
}

function addItem(task, { change }) {
  const text = h("input", {
    maxlength: "500",
    autocomplete: "off",
    "aria-label": `A new item for ${task.title}`,
    placeholder: "Add an item",
  });
  const submit = async (event) => {
    event.preventDefault();
    const said = text.value.trim();
    if (!said) return;
    text.value = "";
    await change("add_multiple_checklist_items", { task_id: task.id, items: [said] });
  };
  return h(
    "form",
    { class: "add-item", onsubmit: submit },
    text,
    h("button", { type: "submit", class: "quiet" }, "Add"),
  );
}

function editForm(task, data, { change }) {
  const select = (values, chosen) => {
    const node = h(
      "select",
      {},
      values.map(([value, label]) => h("option", { value }, label)),
    );
    node.value = chosen;
    return node;
  };
  const title = h("input", { maxlength: "500", autocomplete: "off", value: task.title });
  const status = select(Object.entries(STATUS_WORDS), task.status);
  const priority = select(
    PRIORITIES.map((each) => [each, each]),
    task.priority,
  );
  const category = categorySelect(data, task.category_id);
  const due = h("input", {
    maxlength: "60",
    autocomplete: "off",
    placeholder: task.due_at ? whenIn(task.due_at, data) : "next friday",
  });
  const every = h("input", {
    maxlength: "80",
    autocomplete: "off",
    value: task.every ?? "",
    placeholder: "every monday",
  });
  const remind = h("input", {
    maxlength: "60",
    autocomplete: "off",
    placeholder: task.reminder ? whenIn(task.reminder, data) : "when due",
  });
  const submit = (event) => {
    event.preventDefault();
    const fields = {
      title: title.value.trim(),
      status: status.value,
      priority: priority.value,
      category_id: category.value || null,
    };
    const said = saidTimes({ due_at: due, repeats: every, remind_at: remind }, "fields.");
    if (every.value.trim() === (task.every ?? "")) delete said["fields.repeats"];
    else if (!every.value.trim()) fields.repeats = null;
    if (WHEN_DUE.test(said["fields.remind_at"] ?? "") && Object.keys(said).length === 1) {
      fields.remind_at = task.due_at;
      delete said["fields.remind_at"];
    }
    due.value = remind.value = "";
    change("update_task_fields", { task_id: task.id, fields }, said);
  };
  return h(
    "details",
    { class: "journal-more", "data-key": `change-${task.id}` },
    h("summary", {}, "Change"),
    h(
      "form",
      { class: "journal-form", onsubmit: submit },
      field("Title", title),
      field("Status", status),
      field("Priority", priority),
      field("Category", category),
      field("Due", due),
      field("Repeats", every),
      field("Remind me", remind),
      h("button", { type: "submit", class: "primary" }, "Save"),
    ),
  );
}
