// @ts-check
// Memory: what Silas remembers, where it came from and how sure it is; put right, or forgotten.
import { h, icon } from "/dom.js";
import { answerOf, nonce, sign } from "/keys.js";
import { sessionFetch, signedFetch } from "/session.js";
import { onChange } from "/state.js";
import { visible } from "/visible.js";

const SAID_SHOWN = 5;
const SHORT = 60;
const OPS = { store: "Kept", update: "Changed", delete: "Deleted", link: "Linked" };
const DATE = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "long", year: "numeric" });

const read = async (path) =>
  answerOf(
    await sessionFetch(`/api/memory/${path}`),
    "What is remembered cannot be read right now.",
  );

const short = (text) => {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > SHORT ? `${line.slice(0, SHORT)}…` : line;
};

/** The surface; `page` is what every view has at hand. */
export function memoryView(page) {
  const view = makeParts(page);
  const { list, more, words, note } = view;
  let raw = false;
  let after = null;
  let asked = 0;
  let loaded = false;

  const change = async (path, value) =>
    answerOf(await signedFetch(page.device, `/api/memory/${path}`, value), "That did not work.");
  const told = (text, ...actions) => note.replaceChildren(h("span", {}, visible(text)), ...actions);
  const work = async (run) => {
    try {
      await run();
    } catch (problem) {
      told(problem.message);
    }
  };

  // Each answer is to the last question: one that comes late is dropped.
  async function load({ further = false, gently = false } = {}) {
    const mine = ++asked;
    const question = words.value.trim();
    const lane = raw ? "said" : "remembered";
    list.setAttribute("aria-busy", "true");
    const found = await read(
      question
        ? `find/${lane}/${encodeURIComponent(question)}`
        : `page/${lane}/${further && after ? after : "newest"}`,
    ).finally(() => mine === asked && list.removeAttribute("aria-busy"));
    if (mine !== asked || (gently && busy())) return;
    loaded = true;
    after = found.next;
    const rows = found.memories.map((each) => row(each));
    if (further) list.append(...rows);
    else list.replaceChildren(...(rows.length ? rows : [nothing(question)]));
    more.hidden = !after;
    if (further) rows[0]?.querySelector("button")?.focus();
    if (question && !further) told(`${rows.length} found.`);
  }

  const row = (shown) => {
    const { memory } = shown;
    const place = h("div", { class: "memory-place" });
    const node = h(
      "li",
      { class: "memory-item", "data-memory": memory.memory_id },
      h("p", { class: "memory-text" }, visible(shown.text)),
      h(
        "p",
        { class: "memory-facts" },
        h("span", {}, visible(shown.origin)),
        h("time", { datetime: memory.created_at }, DATE.format(new Date(memory.created_at))),
        h("span", {}, visible(shown.sureness)),
        shown.pinned && h("span", { class: "tag" }, "Pinned"),
      ),
      place,
    );
    const rest = () => {
      place.replaceChildren(
        ...[
          shown.correctable &&
            h(
              "button",
              {
                type: "button",
                class: "quiet",
                "aria-label": `Correct: ${short(shown.text)}`,
                onclick: () => place.replaceChildren(correcting(shown, node, rest)),
              },
              "Correct",
            ),
          h(
            "button",
            {
              type: "button",
              class: "quiet decline",
              "aria-label": `Forget: ${short(shown.text)}`,
              onclick: () => work(() => askToForget(shown, node, place, rest)),
            },
            "Forget",
          ),
        ].filter(Boolean),
      );
    };
    rest();
    return node;
  };

  function correcting({ memory }, node, rest) {
    const text = h(
      "textarea",
      { id: `correct-${memory.memory_id}`, rows: "3", maxlength: "10000" },
      memory.content,
    );
    const leave = () => {
      rest();
      node.querySelector("button")?.focus();
    };
    const save = async (event) => {
      event.preventDefault();
      await work(async () => {
        const done = await change("correct", { memory_id: memory.memory_id, text: text.value });
        await refreshed(node, memory.memory_id);
        told("Corrected: these are your words now.", undoing(done.change_id));
      });
    };
    setTimeout(() => text.focus());
    return h(
      "form",
      { class: "memory-form", onsubmit: save },
      h("label", { for: text.id }, "In your own words"),
      text,
      h(
        "div",
        { class: "memory-buttons" },
        h("button", { type: "submit", class: "primary small" }, "Save"),
        h("button", { type: "button", class: "quiet", onclick: leave }, "Leave it as it is"),
      ),
    );
  }

  async function askToForget({ memory }, node, place, rest) {
    const going = await change("forgetting", { memory_ids: [memory.memory_id] });
    const yes = h("button", { type: "button", class: "primary small" }, "Forget it for good");
    yes.addEventListener("click", () => work(() => forget(memory, going, node)));
    const keep = () => {
      rest();
      node.querySelector("button")?.focus();
    };
    place.replaceChildren(
      h(
        "div",
        { class: "memory-forget", role: "group", "aria-label": "Forget this" },
        h("p", {}, whatGoes(going)),
        said(going),
        h(
          "div",
          { class: "memory-buttons" },
          yes,
          h("button", { type: "button", class: "quiet", onclick: keep }, "Keep it"),
        ),
      ),
    );
    yes.focus();
  }

  async function forget(memory, going, node) {
    const done = await change("forget_these", {
      memory_ids: [memory.memory_id],
      ...(going.confirmed.length ? { confirmed: await confirmation(page.device, going) } : {}),
    });
    const next = node.nextElementSibling ?? node.previousElementSibling;
    node.remove();
    for (const each of going.memories)
      list.querySelector(`[data-memory="${CSS.escape(each.memory.memory_id)}"]`)?.remove();
    if (!list.children.length) list.replaceChildren(nothing(words.value.trim()));
    (next?.querySelector("button") ?? words).focus();
    told(done.said ? "Forgotten, and gone from the conversation as well." : "Forgotten.");
  }

  const undoing = (changeId) =>
    h(
      "button",
      {
        type: "button",
        class: "quiet",
        onclick: () =>
          work(async () => {
            await change("undo", { change_id: changeId });
            await load();
            told("Undone: it is as it was before.");
          }),
      },
      "Undo",
    );

  async function refreshed(node, memoryId) {
    const again = row(await read(`item/${encodeURIComponent(memoryId)}`));
    node.replaceWith(again);
    again.querySelector("button")?.focus();
  }

  async function showChanges() {
    if (!view.history.open) return;
    const made = await read("changes");
    const rows = made.map((each) => changeRow(each, undoing));
    view.changes.replaceChildren(...(rows.length ? rows : [h("li", {}, "Nothing was changed.")]));
  }

  view.history.addEventListener("toggle", () => work(showChanges));
  view.more.addEventListener("click", () => work(() => load({ further: true })));
  view.form.addEventListener("submit", (event) => {
    event.preventDefault();
    work(load);
  });
  words.addEventListener("input", () => words.value || work(load));
  for (const [button, isRaw] of view.lanes)
    button.addEventListener("click", () => {
      raw = isRaw;
      for (const [each, its] of view.lanes) each.setAttribute("aria-pressed", String(its === raw));
      work(load);
    });
  // What was said meanwhile may have been kept; what somebody is about to do stays as it is.
  const busy = () => view.node.querySelector(".memory-form, .memory-forget") !== null;
  onChange((what) => {
    const shown = "current" in view.node.dataset;
    if (what === "messages" && shown && !busy() && !after && loaded)
      work(() => load({ gently: true }));
  });
  return { node: view.node, opened: () => work(load) };
}

function makeParts(page) {
  const list = h("ul", { class: "memory-list", "aria-label": "Memories" });
  const more = h("button", { type: "button", class: "quiet", hidden: true }, "Show more");
  const note = h("p", { class: "memory-note", role: "status" });
  const words = h("input", {
    type: "search",
    id: "memory-words",
    placeholder: "Search",
    maxlength: "2000",
    autocomplete: "off",
    enterkeyhint: "search",
  });
  const form = h(
    "form",
    { class: "memory-search", role: "search" },
    h("label", { class: "sr", for: "memory-words" }, "Search what Silas remembers"),
    words,
    h("button", { type: "submit", class: "quiet" }, "Search"),
  );
  const lane = (name, pressed) =>
    h("button", { type: "button", class: "chip", "aria-pressed": String(pressed) }, name);
  const lanes = /** @type {[HTMLElement, boolean][]} */ ([
    [lane("Remembered", true), false],
    [lane("As it was said", false), true],
  ]);
  const changes = h("ul", { class: "memory-changes" });
  const history = h(
    "details",
    { class: "memory-history" },
    h("summary", {}, icon("chevron"), "What was changed"),
    changes,
  );
  const node = h(
    "section",
    { class: "surface memory", id: "memory", "aria-label": "Memory", tabindex: "-1" },
    h(
      "header",
      { class: "activity-head" },
      h("h2", {}, "Memory"),
      h(
        "button",
        { type: "button", class: "quiet close", "aria-label": "Close Memory", onclick: page.close },
        icon("cross"),
      ),
    ),
    h(
      "div",
      { class: "memory-inner" },
      form,
      h(
        "div",
        { class: "chips", role: "group", "aria-label": "Which memories" },
        ...lanes.map(([button]) => button),
      ),
      note,
      list,
      more,
      history,
    ),
  );
  return { node, list, more, note, words, form, lanes, history, changes };
}

const nothing = (question) =>
  h(
    "li",
    { class: "empty" },
    question ? "Nothing fits." : "Nothing yet. Say “Remember that …”, and it comes here.",
  );

/** What a confirmation says: everything that goes with the memory. */
function whatGoes({ memories, said, confirmed }) {
  const others = memories.length - said - 1;
  const parts = ["This memory goes for good"];
  if (others > 0) parts.push(`${others} earlier ${others === 1 ? "version" : "versions"} of it`);
  if (said) parts.push(`${said} ${said === 1 ? "passage" : "passages"} of the conversation below`);
  const sure = confirmed.length ? " You have confirmed it before, so you sign that it goes." : "";
  return `${parts.join(", and ")}. It cannot be undone.${sure}`;
}

const said = ({ memories, said: many }) =>
  many > 0 &&
  h(
    "ul",
    { class: "memory-said" },
    memories
      .slice(memories.length - many, memories.length - many + SAID_SHOWN)
      .map((each) => h("li", {}, `${each.origin}: `, visible(short(each.text)))),
    many > SAID_SHOWN && h("li", {}, `and ${many - SAID_SHOWN} more`),
  );

// What the owner has confirmed goes only with this device's signature over exactly that.
async function confirmation(device, going) {
  const questionId = `forget_${nonce()}`;
  const decision = { verdict: "approved", approval_strength: "tap", conditions: {} };
  const signature = await sign(device, {
    type: "card_decision",
    card_id: questionId,
    plan_hashes: { [going.claim_id]: going.claim_hash },
    decision,
    risk: going.risk,
    taint: going.taint,
  });
  return { question_id: questionId, claim_hash: going.claim_hash, signature };
}

function changeRow({ change, text }, undoing) {
  return h(
    "li",
    {},
    h(
      "span",
      {},
      `${change.undone_at ? "Undone" : OPS[change.op]}, ${DATE.format(new Date(change.made_at))}: `,
      visible(short(text)),
    ),
    !change.undone_at && undoing(change.change_id),
  );
}
