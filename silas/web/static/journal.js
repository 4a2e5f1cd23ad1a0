// @ts-check
// The journal: what today is about, tasks, time, notes, ratings. Every change is signed by this device.
import { h, icon } from "/dom.js";
import { makeDesk } from "/journal_desk.js";
import { filesPart } from "/journal_files.js";
import { notesPart } from "/journal_notes.js";
import { recordPart } from "/journal_record.js";
import { ratingsPart } from "/journal_ratings.js";
import { tasksPart } from "/journal_tasks.js";
import { timePart } from "/journal_time.js";
import { timerBar, todayPart } from "/journal_today.js";
import { onChange } from "/state.js";

const PARTS = [
  { name: "today", label: "Today", make: todayPart },
  { name: "tasks", label: "Tasks", make: tasksPart },
  { name: "time", label: "Time", make: timePart },
  { name: "notes", label: "Notes", make: notesPart },
  { name: "ratings", label: "Ratings", make: ratingsPart },
  { name: "files", label: "Files", make: (_data, { files }) => files },
];
const EVERY_MILLISECONDS = 30_000;

/** The surface; it asks for its day when it is opened, and again when something has changed. */
export function journalView(page) {
  const note = h("p", { class: "journal-note", role: "status" });
  const timer = h("div", { class: "journal-timer" });
  const body = h("div", { class: "journal-body" });
  const tell = (text, action) => note.replaceChildren(...[text, action].filter(Boolean));
  const desk = makeDesk({ device: page.device, tell, done: () => load({ own: true }) });
  let part = "today";
  let data = null;
  let wanted = "today";
  let stale = true;
  let drawn = "";
  let pressed = false;
  /** @type {any} */
  let opened = null; // a record that is looked at, in the place of the part
  let failed = false;
  const files = filesPart(desk); // made once: what was counted stays when something changes elsewhere
  const isOpen = () => node.hasAttribute("data-current");

  const tabs = h(
    "div",
    { class: "journal-tabs", role: "group", "aria-label": "Parts of the journal" },
    PARTS.map(({ name, label }) =>
      h(
        "button",
        { type: "button", class: "quiet", "data-part": name, onclick: () => choose(name) },
        label,
      ),
    ),
  );
  const node = h(
    "section",
    { class: "surface journal", id: "journal", "aria-label": "Journal", tabindex: "-1" },
    h(
      "header",
      { class: "journal-head" },
      h("h2", {}, "Journal"),
      tabs,
      h(
        "button",
        {
          type: "button",
          class: "quiet close",
          "aria-label": "Close the journal",
          onclick: page.close,
        },
        icon("cross"),
      ),
    ),
    timer,
    note,
    body,
  );

  function choose(name) {
    part = name;
    opened = null;
    for (const button of tabs.children)
      button.setAttribute("aria-pressed", String(button.dataset.part === name));
    draw();
  }

  async function load({ own = false } = {}) {
    if (!isOpen()) {
      stale = true;
      return;
    }
    stale = false;
    try {
      data = await desk.read(wanted);
      if (opened) opened = await desk.look(`/record/${opened.record.id}`);
      failed = false;
    } catch (problem) {
      failed = true;
      tell(problem.message);
    }
    // Nobody loses what is being typed or tapped because something changed elsewhere.
    if (pressed || (!own && isTyping(body))) stale = true;
    else if (looks(data, opened) !== drawn) draw();
  }

  async function open(id) {
    try {
      opened = await desk.look(`/record/${encodeURIComponent(id)}`);
    } catch (problem) {
      return tell(problem.message);
    }
    tell("");
    draw();
    node.scrollTo(0, 0);
    node.focus({ preventScroll: true });
  }

  function back() {
    opened = null;
    draw();
  }

  function contents() {
    if (!data) return failed ? again(load) : skeleton();
    if (opened) return recordPart(opened, data, { ...desk, open, back });
    const shown = /** @type {any} */ (PARTS.find(({ name }) => name === part));
    return shown.make(data, { ...desk, goTo, open, files });
  }

  function draw() {
    const focused = placeOf(body, document.activeElement);
    drawn = looks(data, opened);
    timer.replaceChildren(...[data && timerBar(data, desk)].filter(Boolean));
    const unfolded = new Set(
      [...body.querySelectorAll("details[open][data-key]")].map((each) => each.dataset.key),
    );
    body.replaceChildren(contents());
    for (const each of body.querySelectorAll("details[data-key]"))
      each.open ||= unfolded.has(each.dataset.key);
    focusAt(body, focused);
  }

  function release() {
    pressed = false;
    if (stale && !isTyping(body)) load();
  }

  function goTo(day) {
    wanted = day;
    load();
  }

  body.addEventListener("focusout", () => setTimeout(() => stale && !isTyping(body) && load(), 0));
  node.addEventListener("pointerdown", () => (pressed = true));
  for (const end of ["pointerup", "pointercancel"])
    addEventListener(end, () => setTimeout(release, 0));
  onChange((what, detail) => {
    if (what === "journal") load();
    if (what === "record") open(detail);
  });
  setInterval(
    () =>
      isOpen() &&
      !document.hidden &&
      timer.replaceChildren(...[data && timerBar(data, desk)].filter(Boolean)),
    EVERY_MILLISECONDS,
  );
  choose(part);
  return { node, opened: load, woken: () => stale && load() };
}

// What is shown of a day; the time that passes alone is no reason to draw it anew.
const looks = (data, opened) => data && JSON.stringify([{ ...data, now: null }, opened]);

function isTyping(body) {
  const focused = /** @type {HTMLInputElement} */ (document.activeElement);
  const isField = "input:not([type=checkbox]):not([type=range]), textarea, select";
  const inside = body.contains(focused) && focused.matches(isField) && Boolean(focused.value);
  return (
    inside ||
    [...body.querySelectorAll("textarea")].some((each) => each.value !== each.defaultValue)
  );
}

// Everything is drawn anew, and whoever uses the keyboard stays where he was.
function placeOf(body, node) {
  if (node === body || !body.contains(node)) return null;
  const place = [];
  for (let here = node; here !== body; here = here.parentNode)
    place.unshift([...here.parentNode.children].indexOf(here));
  return { place, tag: node.tagName };
}

function focusAt(body, focused) {
  const node = focused?.place.reduce((here, index) => here?.children[index], body);
  if (node?.tagName === focused?.tag) node?.focus({ preventScroll: true });
}

const again = (load) =>
  h(
    "div",
    { class: "empty" },
    h("p", {}, "The journal cannot be read right now."),
    h(
      "button",
      { type: "button", class: "primary", onclick: () => load({ own: true }) },
      "Try again",
    ),
  );

const skeleton = () =>
  h(
    "div",
    { class: "skeleton", role: "status" },
    h("span", { class: "sr" }, "Loading"),
    h("i"),
    h("i"),
    h("i"),
  );
