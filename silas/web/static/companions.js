// @ts-check
// Companions: who there is, how they are, what they ask; and the switch that stops them all.
import { companionPart } from "/companion.js";
import { creation } from "/companion_new.js";
import { health, meter, question } from "/companion_parts.js";
import { h, icon } from "/dom.js";
import { answerOf } from "/keys.js";
import { sessionFetch, signedFetch } from "/session.js";
import { changed, onChange, state } from "/state.js";
import { visible } from "/visible.js";

const CANNOT = "The companions cannot be read right now.";
const MANY = 12;
const GONE = 404;
const TALK = ".talk-composer";

/** `read(path)`, `change(call, arguments)`, and `look()`: `done`, as after each change that is not `quiet`. */
export function makeDesk({ device, tell, done }) {
  async function read(path = "") {
    const answer = await sessionFetch(`/api/companions${path}`).catch(() => null);
    if (!answer) throw new Error(CANNOT);
    return answerOf(answer, CANNOT);
  }
  async function change(call, args = {}, { quiet = false } = {}) {
    tell("");
    try {
      const told = await answerOf(
        await signedFetch(device, `/api/companions/${call}`, args),
        "This is not possible.",
      );
      if (!quiet) done();
      return told ?? true;
    } catch (problem) {
      tell(problem.message);
      return null;
    }
  }
  return { read, change, tell, device, look: done };
}

/** The surface. */
export function companionsView(page) {
  const note = h("p", { class: "companions-note", role: "status" });
  const body = h("div", { class: "companions-body" });
  const tell = (text) => note.replaceChildren(text);
  const desk = makeDesk({ device: page.device, tell, done: () => load({ own: true }) });
  const place = { agent: null, making: false, run: null };
  /** @type {any} */
  let data = null;
  let detail = null;
  let loads = 0;
  let failed = false;
  let unsent = false; // a form was filled in and not sent yet
  let wanted = false; // a look that was asked for here is drawn, whichever look brings it
  const isOpen = () => node.hasAttribute("data-current");
  const node = h(
    "section",
    { class: "surface companions", id: "companions", "aria-label": "Companions", tabindex: "-1" },
    h(
      "header",
      { class: "companions-head" },
      h("h2", {}, "Companions"),
      h(
        "button",
        {
          type: "button",
          class: "quiet close",
          "aria-label": "Close Companions",
          onclick: page.close,
        },
        icon("cross"),
      ),
    ),
    note,
    body,
  );

  // Also unseen, the line on top has to know whether there is something to stop.
  async function load({ own = false, unseen = false } = {}) {
    if (!isOpen() && !unseen) return;
    const mine = ++loads;
    wanted ||= own;
    try {
      const found = await desk.read();
      const shown = place.agent ? await living(desk, place.agent) : null;
      if (mine !== loads) return; // a newer look knows more
      data = found;
      detail = shown;
      failed = false;
      if (!detail) place.agent = null;
    } catch (problem) {
      failed = true;
      tell(problem.message);
    }
    reflect();
    if (place.making && !wanted) return; // a form that is drawn anew would lose the tap on its button
    // Nobody loses what is being typed, or was typed and not sent yet, because something changed.
    if (wanted || !isTyping()) draw();
  }

  function isTyping() {
    const here = document.activeElement;
    const isAsked = body.querySelector("[data-sure]"); // a second tap is waited for, on this very button
    const isForm = body.contains(here) && /^(INPUT|TEXTAREA|SELECT)$/.test(here?.tagName ?? "");
    return unsent || isAsked || (isForm && !here?.closest(TALK));
  }

  function reflect() {
    if (data) {
      state.companions = {
        count: data.total,
        stopped: data.switches.some(({ scope }) => scope === "global"),
        questions: data.questions.length,
      };
      changed("companions");
    }
  }

  function go(where) {
    Object.assign(place, { agent: null, making: false, run: null }, where);
    tell("");
    load({ own: true }).then(() => {
      node.scrollTo(0, 0);
      node.focus({ preventScroll: true });
    });
  }

  function draw() {
    wanted = unsent = false;
    const opened = new Set(
      [...body.querySelectorAll("details[open][data-key]")].map((each) => each.dataset.key),
    );
    // Who talks sees the answer while the next words are typed: they stay where they are.
    const here = /** @type {HTMLTextAreaElement | null} */ (document.activeElement);
    const talking = here?.closest(TALK) && here.tagName === "TEXTAREA" ? here : null;
    const place = talking?.selectionStart ?? 0;
    body.replaceChildren(...contents());
    /** @type {HTMLTextAreaElement | null} */
    const again = talking && body.querySelector(`${TALK} textarea`);
    again?.focus({ preventScroll: true });
    again?.setSelectionRange(place, place);
    for (const each of body.querySelectorAll("details[data-key]"))
      each.open ||= opened.has(each.dataset.key);
  }

  function contents() {
    if (!data && failed)
      return [
        h(
          "div",
          { class: "empty" },
          h("p", {}, CANNOT),
          h(
            "button",
            { type: "button", class: "primary", onclick: () => load({ own: true }) },
            "Try again",
          ),
        ),
      ];
    if (!data)
      return [
        h(
          "div",
          { class: "skeleton", role: "status" },
          h("span", { class: "sr" }, "Loading"),
          h("i"),
          h("i"),
          h("i"),
        ),
      ];
    if (place.making) return [creation(data, { ...desk, go })];
    if (detail)
      return [
        stopped(data, desk),
        companionPart(detail, data, { ...desk, go, show: page.show }),
      ].filter(Boolean);
    return [stopped(data, desk), questions(data, desk), list(data, go, desk)].filter(Boolean);
  }

  body.addEventListener(
    "input",
    ({ target }) => (unsent ||= Boolean(target.form) && !target.closest(TALK)),
  );
  onChange((what) => {
    if (["journal", "cards"].includes(what)) load();
    if (["setup", "companion_news"].includes(what)) load({ unseen: true });
  });
  draw();
  return { node, opened: () => load({ own: true }), woken: load, stop: () => stopAll(desk, load) };
}

/** The button in the line on top: one tap from every screen. */
export function stopButton(page) {
  const node = h("button", {
    type: "button",
    class: "quiet stop-all",
    hidden: true,
    onclick: () => page.stopCompanions(),
  });
  const reflect = () => {
    const { count = 0, stopped: off = false } = state.companions ?? {};
    node.hidden = count === 0;
    node.toggleAttribute("data-off", off);
    node.setAttribute(
      "aria-label",
      off ? "Companions are stopped: let them go on" : "Stop all companions at once",
    );
    node.title = off ? "Companions are stopped" : "Stop all companions; answers go on";
    node.replaceChildren(
      icon("stop"),
      h("span", { class: "wide-only" }, off ? "Companions stopped" : "Stop companions"),
    );
  };
  onChange((what) => what === "companions" && reflect());
  reflect();
  return node;
}

async function stopAll(desk, load) {
  await desk.change(
    state.companions?.stopped ? "resume_all" : "stop",
    state.companions?.stopped ? {} : { scope: "global" },
  );
  const data = await desk.read();
  state.companions = {
    ...state.companions,
    count: data.total,
    stopped: data.switches.some(({ scope }) => scope === "global"),
  };
  changed("companions");
  load();
}

const NOTHING_GOES_ON = "Nothing is begun, and nothing is written.";
const OTHERS_GO_ON = "Everything else goes on.";

function stopped(data, desk) {
  if (!data.switches.length) return null;
  const all = data.switches.some(({ scope }) => scope === "global");
  const names = data.switches.map(({ scope, target, target_name: name, reason }) => {
    const what =
      scope === "global"
        ? "All companions"
        : scope === "companion"
          ? (name ?? target)
          : `Calls of the class ${target.replaceAll("_", " ")}`;
    return reason ? `${what} (${reason})` : what;
  });
  return h(
    "div",
    { class: "companions-stopped", role: "status" },
    icon("stop"),
    h("p", {}, visible(`Stopped: ${names.join(", ")}. ${all ? NOTHING_GOES_ON : OTHERS_GO_ON}`)),
    h(
      "button",
      { type: "button", class: "primary", onclick: () => desk.change("resume_all") },
      "Let them go on",
    ),
  );
}

function questions(data, desk) {
  if (!data.questions.length) return null;
  return h(
    "section",
    { class: "companions-group" },
    h("h3", {}, "They ask you"),
    data.questions.map((each) => question(each, desk)),
  );
}

function list(data, go, desk) {
  const make = h(
    "button",
    { type: "button", class: data.total ? "" : "primary", onclick: () => go({ making: true }) },
    "New companion",
  );
  if (!data.total) {
    return h(
      "div",
      { class: "empty companions-empty" },
      h(
        "p",
        {},
        "A companion watches a part of your journal, reports on it and proposes what comes next. It sees the categories that you give it, and asks before it does anything of weight.",
      ),
      make,
    );
  }
  const rows = h("ul", { class: "companions-list" });
  const more = h("p", { class: "meta", role: "status" });
  const show = ({ companions, total }) => {
    rows.replaceChildren(...companions.map((each) => h("li", {}, line(each, go))));
    more.textContent =
      total > companions.length
        ? `${total - companions.length} more. Type a part of a name to find one.`
        : total
          ? ""
          : "Nobody is called like that.";
  };
  let turn = 0; // only the words that were typed last are answered
  const find = async (words) => {
    const mine = ++turn;
    try {
      const found = words ? await desk.read(`/find/${encodeURIComponent(words)}`) : data;
      if (mine === turn) show(found);
    } catch (problem) {
      desk.tell(problem.message);
    }
  };
  show(data);
  const finder =
    data.total > MANY &&
    h("input", {
      type: "text",
      maxlength: 120,
      "aria-label": "Find a companion",
      placeholder: "Find by name",
      oninput: (event) => find(event.target.value.trim()),
    });
  return h("section", { class: "companions-group" }, finder, rows, more, make);
}

// One that was ended, here or elsewhere, is not shown any more.
async function living(desk, id) {
  const found = await desk.read(`/of/${id}`).catch((problem) => {
    if (problem.status !== GONE) throw problem;
    return null;
  });
  return found?.companion.health === "destroyed" ? null : found;
}

function line(each, go) {
  const marks = [
    each.categories.map(({ name }) => name).join(", "),
    each.model_id ?? "no model",
    each.trouble?.blocks && each.trouble.text,
    each.open_questions && `${each.open_questions} to answer`,
    each.waiting_actions && `${each.waiting_actions} to decide`,
    each.report_fresh === false && "report is stale",
  ].filter(Boolean);
  return h(
    "button",
    { type: "button", class: "companion-line", onclick: () => go({ agent: each.id }) },
    h("span", { class: "companion-name" }, visible(each.display_name)),
    health(each),
    h("span", { class: "companion-marks" }, visible(marks.join(" · "))),
    meter(each.budget),
    icon("chevron"),
  );
}
