// @ts-check
// One record: what it is, what it is linked to, and how it came about.
import { h, icon } from "/dom.js";
import { dayName, whenIn } from "/journal_desk.js";
import { links } from "/journal_notes.js";
import { visible } from "/visible.js";

const SHOWN = [
  ["status", "State"],
  ["priority", "Priority"],
  ["due_at", "Due"],
  ["date", "Day"],
  ["starts_at", "From"],
  ["ends_at", "To"],
  ["started_at", "From"],
  ["ended_at", "To"],
  ["dimension", "Rated"],
  ["value", "Value"],
  ["checked", "Ticked"],
  ["note", "Note"],
  ["body", "Text"],
];

/** The panel; `desk` also has `open` and `back`. */
export function recordPart(found, data, desk) {
  const { record } = found;
  const name = record.kind === "day_plan" ? dayName(record.date) : found.name;
  return h(
    "div",
    { class: "journal-part journal-record" },
    h(
      "button",
      { type: "button", class: "quiet back", onclick: desk.back },
      icon("chevron", "back-icon"),
      "Back",
    ),
    h("h3", {}, visible(name)),
    found.deleted &&
      h(
        "p",
        { class: "journal-none" },
        "It was deleted. ",
        h(
          "button",
          {
            type: "button",
            class: "quiet",
            onclick: () => desk.change("restore_record", { record_id: record.id }),
          },
          "Bring it back",
        ),
      ),
    h(
      "dl",
      { class: "facts" },
      facts(found, data).map(([label, value]) => [h("dt", {}, label), h("dd", {}, visible(value))]),
    ),
    links(found.links, desk),
    h("h4", {}, "How it came about"),
    history(found.history, data),
  );
}

function facts({ record, category }, data) {
  const own = SHOWN.map(([field, label]) => [label, told(record[field], data)]).filter(
    ([, value]) => value,
  );
  return [["What", words(record.kind)], ...(category ? [["Category", category]] : []), ...own];
}

function history(writes, data) {
  return h(
    "ol",
    { class: "writes" },
    writes.map((each) =>
      h(
        "li",
        {},
        h("p", { class: "note-meta" }, visible(`${whenIn(each.at, data)}, ${who(each.actor)}`)),
        h(
          "ul",
          {},
          each.changes.map(({ field, before, after }) =>
            h(
              "li",
              {},
              visible(
                each.first || !told(before, data)
                  ? `${words(field)}: ${told(after, data) || "nothing"}`
                  : `${words(field)}: ${told(before, data)} → ${told(after, data) || "nothing"}`,
              ),
            ),
          ),
        ),
      ),
    ),
  );
}

const who = (actor) =>
  actor === "owner" ? "you" : actor.startsWith("companion:") ? "a companion" : actor;
const words = (name) =>
  String(name)
    .replace(/_(id|ids|at)$/, "")
    .replaceAll("_", " ");

// A moment as people say it, a list in a line; nothing for what is empty.
function told(value, data) {
  if (value === null || value === undefined || value === "" || value === false) return "";
  if (value === true) return "yes";
  if (Array.isArray(value)) return value.map((each) => told(each, data)).join(", ");
  if (typeof value === "object") return "";
  return /^\d{4}-\d\d-\d\dT/.test(value) ? whenIn(value, data) : inWords(value);
}

const inWords = (value) =>
  /^[a-z]+(_[a-z]+)+$/.test(String(value)) ? words(value) : String(value);
