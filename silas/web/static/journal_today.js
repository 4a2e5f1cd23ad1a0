// @ts-check
// Today: the plan and what was done on one axis of time, the timer, what is pinned and due.
import { h } from "/dom.js";
import {
  categorySelect,
  clockIn,
  dayName,
  dayOf,
  field,
  isClosed,
  lasting,
  later,
  subject,
  taskOf,
  taskSelect,
  tint,
} from "/journal_desk.js";
import { taskRow } from "/journal_tasks.js";
import { visible } from "/visible.js";

const HOUR = 3_600_000;
const [FIRST_HOUR, LAST_HOUR] = [7, 21];

/** What runs, and the button that stops it. */
export function timerBar(data, { change }) {
  const { running } = data;
  if (!running) return null;
  const spent = lasting(Date.now() - Number(new Date(running.started_at)));
  return h(
    "div",
    { class: "timer", role: "group", "aria-label": "The timer" },
    h("span", { class: "timer-dot", "aria-hidden": "true" }),
    h("span", { class: "timer-what" }, visible(subject(data, running))),
    h("span", { class: "timer-spent" }, spent),
    h(
      "button",
      { type: "button", class: "primary small", onclick: () => change("stop_task_timer") },
      "Stop",
    ),
  );
}

export function todayPart(data, desk) {
  const pinned = (data.plan?.pinned_task_ids ?? []).map((id) => taskOf(data, id)).filter(Boolean);
  const due = data.tasks.filter(
    (task) => !isClosed(task) && task.due_at && task.due_at < data.end && !pinned.includes(task),
  );
  return h(
    "div",
    { class: "journal-part" },
    days(data, desk),
    axis(data, desk),
    planForm(data, desk),
    group("Pinned", pinned, data, desk),
    group("Due", due, data, desk),
    !pinned.length && !due.length && h("p", { class: "journal-none" }, "Nothing is pinned or due."),
  );
}

function days(data, { goTo }) {
  const name = data.date === data.today ? `Today, ${dayName(data.date)}` : dayName(data.date);
  const step = (by, label, sign) =>
    h(
      "button",
      {
        type: "button",
        class: "quiet",
        "aria-label": label,
        onclick: () => goTo(later(data.date, by)),
      },
      sign,
    );
  return h(
    "div",
    { class: "journal-days" },
    step(-1, "The day before", "‹"),
    h("h3", {}, name),
    step(1, "The day after", "›"),
    data.date !== data.today &&
      h("button", { type: "button", class: "quiet", onclick: () => goTo("today") }, "Today"),
  );
}

function group(title, tasks, data, desk) {
  if (!tasks.length) return null;
  return h(
    "div",
    { class: "journal-group" },
    h("h4", {}, title),
    h(
      "ul",
      { class: "tasks" },
      tasks.map((task) => taskRow(task, data, desk)),
    ),
  );
}

// One hour is one row; what is planned lies on the left, what was done on the right.
function axis(data, desk) {
  const [begin, end] = [new Date(data.begin).getTime(), new Date(data.end).getTime()];
  const inside = (moment) => Math.min(end, Math.max(begin, new Date(moment).getTime()));
  const all = [
    ...data.blocks.map((each) => [inside(each.starts_at), inside(each.ends_at)]),
    ...data.entries.map((each) => [inside(each.started_at), inside(each.ended_at ?? data.now)]),
  ];
  const floor = (moment) => begin + Math.floor((moment - begin) / HOUR) * HOUR;
  const first = Math.min(begin + FIRST_HOUR * HOUR, ...all.map(([from]) => floor(from)));
  const last = Math.max(
    begin + LAST_HOUR * HOUR,
    ...all.map(([, until]) => floor(until - 1) + HOUR),
  );
  const shown = Math.min(end, last) - first;
  const place = (node, from, until) => {
    node.style.insetBlockStart = `${(100 * (from - first)) / shown}%`;
    if (until) node.style.blockSize = `${(100 * Math.max(until - from, HOUR / 5)) / shown}%`;
    return node;
  };
  const hours = [];
  for (let moment = first; moment < first + shown; moment += HOUR)
    hours.push(h("li", {}, h("span", {}, clockIn(moment, data.zone))));
  const lane = (className, label, nodes) =>
    h("ul", { class: `lane ${className}`, "aria-label": label }, nodes);
  const node = h(
    "div",
    { class: "axis" },
    h("ol", { class: "axis-hours", "aria-hidden": "true" }, hours),
    lane(
      "lane-plan",
      "Planned",
      data.blocks.map((each) =>
        place(block(each, data, desk), inside(each.starts_at), inside(each.ends_at)),
      ),
    ),
    lane(
      "lane-done",
      "Time spent",
      data.entries.map((each) =>
        place(spent(each, data), inside(each.started_at), inside(each.ended_at ?? data.now)),
      ),
    ),
  );
  node.style.setProperty("--hours", String(hours.length));
  const now = Date.now();
  if (now > first && now < first + shown)
    node.append(place(h("div", { class: "axis-now", "aria-hidden": "true" }), now));
  return node;
}

function block(each, data, { change }) {
  const remove = () =>
    change("upsert_day_plan_blocks", { plan_date: data.date, deletes: [each.id] });
  const what = subject(data, each);
  return h(
    "li",
    { class: "block", "data-tint": tint(data, each) },
    h("span", { class: "block-what" }, visible(what)),
    each.note && each.note !== what && h("span", { class: "block-note" }, visible(each.note)),
    h(
      "span",
      { class: "block-when" },
      `${clockIn(each.starts_at, data.zone)} to ${clockIn(each.ends_at, data.zone)}`,
    ),
    h(
      "button",
      {
        type: "button",
        class: "quiet block-remove",
        "aria-label": `Take ${what} out of the plan`,
        onclick: remove,
      },
      "×",
    ),
  );
}

function spent(each, data) {
  const until = each.ended_at ? clockIn(each.ended_at, data.zone) : "now";
  const what = subject(data, each);
  const length = Number(new Date(each.ended_at ?? data.now)) - Number(new Date(each.started_at));
  const marks = {
    "data-running": each.ended_at ? null : "",
    "data-short": length < HOUR / 3 ? "" : null,
  };
  return h(
    "li",
    { class: "spent", "data-tint": tint(data, each), ...marks },
    h("span", { class: "sr" }, `${what}, ${clockIn(each.started_at, data.zone)} to ${until}`),
    h("span", { class: "spent-what", "aria-hidden": "true" }, visible(what)),
  );
}

function planForm(data, { change }) {
  const next =
    data.date === data.today && dayOf(Date.now() + HOUR, data.zone) === data.date
      ? clockIn(Date.now() + HOUR, data.zone).slice(0, 2)
      : "09";
  const from = h("input", { type: "time", value: `${next}:00` });
  const to = h("input", {
    type: "time",
    value: `${String(Math.min(23, Number(next) + 1)).padStart(2, "0")}:00`,
  });
  const task = taskSelect(data);
  const category = categorySelect(data);
  const note = h("input", { maxlength: "500", autocomplete: "off" });
  const submit = (event) => {
    event.preventDefault();
    const wanted = {
      task_id: task.value || null,
      category_id: task.value ? null : category.value || null,
      note: note.value.trim(),
    };
    change(
      "upsert_day_plan_blocks",
      { plan_date: data.date, upserts: [wanted] },
      {
        "upserts.0.start_time": `${data.date} ${from.value}`,
        "upserts.0.end_time": `${data.date} ${to.value}`,
      },
    );
  };
  return h(
    "details",
    { class: "journal-more", "data-key": "plan" },
    h("summary", {}, "Plan a block"),
    h(
      "form",
      { class: "journal-form", onsubmit: submit },
      field("From", from),
      field("To", to),
      field("Task", task),
      field("Category", category),
      field("Note", note),
      h("button", { type: "submit", class: "primary" }, "Plan it"),
    ),
  );
}
