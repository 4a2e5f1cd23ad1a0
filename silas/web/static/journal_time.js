// @ts-check
// Time: where the day went, and what was forgotten to be timed.
import { barChart, groupedChart } from "/charts.js";
import { h } from "/dom.js";
import {
  categoryOf,
  clockIn,
  dayName,
  field,
  lasting,
  subject,
  taskOf,
  taskSelect,
  tint,
} from "/journal_desk.js";
import { visible } from "/visible.js";

const length = (each, data) =>
  Number(new Date(each.ended_at ?? data.now)) - Number(new Date(each.started_at));

export function timePart(data, desk) {
  return h(
    "div",
    { class: "journal-part" },
    h("h3", { class: "journal-day" }, dayName(data.date)),
    sums(data),
    entries(data, desk),
    weeks(data, desk),
    logForm(data, desk),
    startForm(data, desk),
  );
}

// How much each category had, as a share of the longest.
function sums(data) {
  const byCategory = new Map();
  for (const each of data.entries) {
    const id = taskOf(data, each.task_id)?.category_id ?? each.category_id;
    const name = categoryOf(data, id)?.name ?? "Without a category";
    byCategory.set(name, {
      spent: (byCategory.get(name)?.spent ?? 0) + length(each, data),
      tint: tint(data, each),
    });
  }
  const most = Math.max(...[...byCategory.values()].map(({ spent }) => spent));
  if (!byCategory.size) return null;
  return h(
    "ul",
    { class: "sums" },
    [...byCategory].map(([name, { spent, tint: colour }]) => {
      const bar = h("span", { class: "sum-bar", "data-tint": colour, "aria-hidden": "true" });
      bar.style.inlineSize = `${Math.max(2, (100 * spent) / most)}%`;
      return h(
        "li",
        {},
        h("span", {}, visible(name)),
        h("span", { class: "sum-time" }, lasting(spent)),
        bar,
      );
    }),
  );
}

const WEEK = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const MINUTE = 60_000;

// Where the last weeks went, once somebody wants to know.
function weeks(data, { look }) {
  const box = h("div", { class: "weeks", role: "status" });
  const node = h(
    "details",
    { class: "journal-more", "data-key": "weeks" },
    h("summary", {}, "The last weeks"),
    box,
  );
  const show = async () => {
    try {
      box.replaceChildren(...charts(await look(`/spent/${data.date}`)));
    } catch (problem) {
      box.replaceChildren(h("p", { class: "journal-none" }, problem.message));
    }
  };
  node.addEventListener("toggle", () => node.open && show());
  return node;
}

const week = (begin) => WEEK.format(new Date(`${begin}T12:00`));

function charts({ weeks: spent, categories, tasks }) {
  return [...timeCharts(spent, categories), taskChart(tasks)];
}

function timeCharts(spent, categories) {
  if (!categories.length)
    return [h("p", { class: "journal-none" }, "No time is written down for these weeks.")];
  const inWeek = spent.map(({ begin, minutes }) => ({
    label: week(begin),
    value: minutes,
    words: lasting(minutes * MINUTE),
  }));
  const inCategory = categories.map(({ name, minutes }) => ({
    label: name ?? "None",
    value: minutes,
    words: lasting(minutes * MINUTE),
  }));
  return [
    barChart({ title: "Time in each week", of: "Week of", points: inWeek }),
    barChart({ title: "Time by category", of: "Category", points: inCategory }),
  ];
}

// Planned is what was due in a week or in the plan of one of its days.
function taskChart(tasks) {
  if (!tasks.some(({ planned, done }) => planned || done))
    return h("p", { class: "journal-none" }, "No task was planned or done in these weeks.");
  return groupedChart({
    title: "Tasks in each week",
    of: "Week of",
    columns: ["Planned", "Done"],
    rows: tasks.map(({ begin, planned, done }) => ({
      label: week(begin),
      values: [planned, done].map((value) => ({ value, words: String(value) })),
    })),
  });
}

function entries(data, { change }) {
  if (!data.entries.length)
    return h("p", { class: "journal-none" }, "No time is written down for this day.");
  return h(
    "ul",
    { class: "entries" },
    data.entries.map((each) => {
      const what = subject(data, each);
      return h(
        "li",
        { "data-tint": tint(data, each) },
        h(
          "span",
          { class: "entry-when" },
          `${clockIn(each.started_at, data.zone)} to ${each.ended_at ? clockIn(each.ended_at, data.zone) : "now"}`,
        ),
        h(
          "span",
          { class: "entry-what" },
          visible(what),
          each.note && each.note !== what && h("span", { class: "entry-note" }, visible(each.note)),
        ),
        h("span", { class: "entry-length" }, lasting(length(each, data))),
        h(
          "button",
          {
            type: "button",
            class: "quiet",
            "aria-label": `Delete ${what}`,
            onclick: () => change("delete_record", { record_id: each.id }),
          },
          "×",
        ),
      );
    }),
  );
}

function logForm(data, { change }) {
  const task = taskSelect(data);
  const from = h("input", { type: "time", value: "09:00" });
  const to = h("input", { type: "time", value: "10:00" });
  const note = h("input", { maxlength: "500", autocomplete: "off" });
  const submit = (event) => {
    event.preventDefault();
    const [wanted, said] = [
      { task_id: task.value || null, description: note.value.trim() },
      { started_at: `${data.date} ${from.value}`, ended_at: `${data.date} ${to.value}` },
    ];
    note.value = "";
    change("create_retrospective_time_entry", wanted, said);
  };
  return h(
    "details",
    { class: "journal-more", "data-key": "log" },
    h("summary", {}, "Write time down"),
    h(
      "form",
      { class: "journal-form", onsubmit: submit },
      field("From", from),
      field("To", to),
      field("Task", task),
      field("Note", note),
      h("button", { type: "submit", class: "primary" }, "Write it down"),
    ),
  );
}

function startForm(data, { change }) {
  if (data.running) return null;
  const task = taskSelect(data);
  const submit = (event) => {
    event.preventDefault();
    change("start_task_timer", { task_id: task.value || null });
  };
  return h(
    "details",
    { class: "journal-more", "data-key": "start" },
    h("summary", {}, "Start the timer"),
    h(
      "form",
      { class: "journal-form", onsubmit: submit },
      field("Task", task),
      h("button", { type: "submit", class: "primary" }, "Start"),
    ),
  );
}
