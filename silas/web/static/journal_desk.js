// @ts-check
// How the journal is read and changed, and how its times and names are written.
import { h } from "/dom.js";
import { answerOf, nonce } from "/keys.js";
import { sessionFetch, signedFetch } from "/session.js";

/** `read(day)`, `change(operation, arguments, said)` and `send(path, body)`; `done` is called after each change. */
export function makeDesk({ device, tell, done }) {
  async function change(operation, args = {}, said = {}) {
    tell("");
    try {
      let due = null; // when it is due, or comes first: a reminder can be meant for then
      for (const [place, words] of Object.entries(said)) {
        const value =
          place.endsWith("remind_at") && due && WHEN_DUE.test(words)
            ? { value: due, due }
            : await understood(operation, place, words);
        due = value.due ?? due;
        put(args, place.split("."), value.value);
      }
      // The same id if the answer is lost and it is sent again: it is done once.
      const body = { arguments: args, operation_id: `page-${nonce()}` };
      const send = () => signedFetch(device, `/api/journal/${operation}`, body);
      const told = await answerOf(await send().catch(send), "The journal does not take this.");
      if (operation === "delete_record") tell("Deleted. ", undo(args.record_id));
      done();
      return told.payload;
    } catch (problem) {
      tell(problem.message);
      return null;
    }
  }
  const undo = (id) =>
    h(
      "button",
      {
        type: "button",
        class: "quiet",
        onclick: () => change("restore_record", { record_id: id }),
      },
      "Bring it back",
    );
  const send = async (path, body) =>
    answerOf(
      await signedFetch(device, `/api/journal${path}`, body),
      "The journal does not take this.",
    );
  return { read, look, change, send, tell, done };
}

const CANNOT = "The journal cannot be read right now.";

async function look(path) {
  const answer = await sessionFetch(`/api/journal${path}`).catch(() => null);
  if (!answer) throw new Error(CANNOT);
  return answerOf(answer, CANNOT);
}

const read = (day) => look(`/day/${day}`);

const ABOUT_THE_PAST = new Set(["create_retrospective_time_entry", "update_time_entry"]);

/** Words for "remind me when it is due". */
export const WHEN_DUE = /^(?:when )?(?:it is )?due$/i;

// A time in words is understood by Silas, in the owner's zone, whatever the zone of this browser.
async function understood(operation, place, words) {
  if (place.endsWith("repeats")) {
    const found = await look(`/recurrence/${encodeURIComponent(words)}`);
    return { value: found.repeats, due: found.first };
  }
  const isDue = place.endsWith("due_at");
  const meaning = isDue
    ? "due"
    : place.endsWith("remind_at")
      ? "reminder"
      : ABOUT_THE_PAST.has(operation)
        ? "past"
        : "future";
  const { moment } = await look(`/moment/${meaning}/${encodeURIComponent(words)}`);
  return { value: moment, due: isDue ? moment : null };
}

// Writes the value at a place such as `upserts.0.end_time`; every step on the way is there already.
function put(target, place, value) {
  const last = place.pop();
  place.reduce((each, part) => each[part], target)[last] = value;
}

/** A time of day in the owner's zone. */
export const clockIn = (moment, zone) =>
  new Intl.DateTimeFormat(undefined, {
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
    timeZone: zone,
  }).format(new Date(moment));

/** A moment as people say it. */
export function whenIn(moment, { zone, today }) {
  const day = dayOf(moment, zone);
  const time = clockIn(moment, zone);
  const name =
    day === today
      ? "today"
      : day === later(today, 1)
        ? "tomorrow"
        : day === later(today, -1)
          ? "yesterday"
          : dayName(day);
  return time === "23:59" ? name : `${name} ${time}`;
}

/** The date of a moment in the owner's zone, as `2026-03-01`. */
export const dayOf = (moment, zone) =>
  new Intl.DateTimeFormat("en-CA", {
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    timeZone: zone,
  }).format(new Date(moment));

/** The date some days later. */
export function later(day, days) {
  const date = new Date(`${day}T12:00:00Z`);
  date.setUTCDate(date.getUTCDate() + days);
  return date.toISOString().slice(0, 10);
}

export const dayName = (day) =>
  new Intl.DateTimeFormat(undefined, {
    weekday: "short",
    day: "numeric",
    month: "short",
    timeZone: "UTC",
  }).format(new Date(`${day}T12:00:00Z`));

/** `1 h 05`, `25 min`. */
export function lasting(milliseconds) {
  const minutes = Math.max(0, Math.round(milliseconds / 60_000));
  return minutes < 60
    ? `${minutes} min`
    : `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")}`;
}

export const taskOf = (data, id) => data.tasks.find((task) => task.id === id);
export const categoryOf = (data, id) => data.categories.find((category) => category.id === id);
export const isClosed = (task) => ["done", "rejected"].includes(task.status);

/** What a block or a stretch of time is about. */
export function subject(data, each) {
  return (
    taskOf(data, each.task_id)?.title ??
    categoryOf(data, each.category_id)?.name ??
    (each.note || "Time")
  );
}

/** The number of the colour of a category: the same one every day. */
export function tint(data, each) {
  const id = taskOf(data, each.task_id)?.category_id ?? each.category_id;
  const index = data.categories.findIndex((category) => category.id === id);
  return index < 0 ? "none" : String(index % 6);
}

let numbers = 0;

/** A field with its label above it. */
export function field(label, control) {
  control.id ||= `journal-field-${++numbers}`;
  return h("div", { class: "journal-field" }, h("label", { for: control.id }, label), control);
}

/** Tasks to choose from; the first choice is none. */
export const taskSelect = (data, none = "No task") =>
  h(
    "select",
    {},
    h("option", { value: "" }, none),
    data.tasks
      .filter((task) => !isClosed(task))
      .map((task) => h("option", { value: task.id }, task.title)),
  );

export function categorySelect(data, chosen = null) {
  const node = h(
    "select",
    {},
    h("option", { value: "" }, "No category"),
    data.categories.map(({ id, name }) => h("option", { value: id }, name)),
  );
  node.value = chosen ?? "";
  return node;
}
