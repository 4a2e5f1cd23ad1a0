// @ts-check
// The conversations: a line above the messages, and a drawer with all of them and the search.
import { h, icon } from "/dom.js";
import { answerOf, nonce } from "/keys.js";
import { workDetails } from "/results.js";
import { signedFetch } from "/session.js";
import {
  addMessages,
  changed,
  CONVERSATION_MARK,
  enterConversation,
  FIRST,
  onChange,
  state,
} from "/state.js";
import { visible } from "/visible.js";

/**
 * @typedef {import("../../../docs/wire").ConversationLine} Line
 * @typedef {{kind: "conversation" | "message" | "work", title: string, snippet: string, at: string,
 *   conversation: string | null, sender: string | null, message_id: string | null,
 *   work_item_id: string | null, status: string | null}} Hit
 */

const DELETED = "E_CHANNEL_CONVERSATION_DELETED";
const NEW = "New conversation";
const TYPING_MILLISECONDS = 180;
const SHOWN_AT_ONCE = 100;
const MOST_ROUNDS = 20;
const CANNOT = "This cannot be read right now. Silas may be away; try again in a moment.";
const GROUPS = { conversation: "Conversations", message: "Messages", work: "Work" };
const SENDERS = { owner: "You", silas: "Silas", tool: "A tool" };
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const OLD_DAY = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });

const inAddress = () =>
  location.hash.startsWith(CONVERSATION_MARK)
    ? decodeURIComponent(location.hash.slice(CONVERSATION_MARK.length))
    : null;
/** @param {string} id @returns {Line | undefined} */
const lineOf = (id) => state.conversations?.find((each) => each.conversation === id);
const titleOf = (id) => lineOf(id)?.title ?? (id === FIRST ? "Conversation" : NEW);
const latest = () =>
  (state.conversations?.find((each) => !each.archived) ?? state.conversations?.[0])?.conversation ??
  FIRST;

/** @param {string} at */
function date(at) {
  const moment = new Date(at);
  const format = moment.getFullYear() === new Date().getFullYear() ? DAY : OLD_DAY;
  return h("time", { datetime: at, title: moment.toLocaleString() }, format.format(moment));
}

async function ask(device, name, wanted) {
  const path = `/api/conversations/${name}`;
  const answer = await signedFetch(device, path, wanted).catch(() => null);
  if (!answer) throw new Error(CANNOT);
  return answerOf(answer, CANNOT);
}

/** The line above the messages: which conversation this is, the way to others, and a new one. */
export function conversationBar(page) {
  const title = h("span", { class: "talk-title" });
  const open = h(
    "button",
    {
      type: "button",
      class: "quiet talk-open",
      "aria-haspopup": "dialog",
      title: "Conversations and search (Ctrl K)",
      onclick: () => page.show("conversations"),
    },
    icon("list"),
    h("span", { class: "sr" }, "Conversations and search. This one: "),
    title,
  );
  const draw = () =>
    title.replaceChildren(...[visible(titleOf(state.conversation ?? FIRST))].flat(2));
  onChange((what) => ["conversation", "conversations"].includes(what) && draw());
  draw();
  return h(
    "div",
    { class: "talk-bar" },
    open,
    h(
      "button",
      {
        type: "button",
        class: "quiet talk-new",
        "aria-label": NEW,
        title: `${NEW} (Alt N)`,
        onclick: () => page.newConversation(),
      },
      icon("plus"),
    ),
  );
}

// What was said in a conversation is read when it is opened, once; what is new comes by itself.
async function load(device, id) {
  if (state.read.has(id) || !lineOf(id)) return;
  try {
    const { messages } = await ask(device, "show", { name: id, limit: SHOWN_AT_ONCE });
    state.read.add(id);
    addMessages(messages);
  } catch (problem) {
    state.read.add(id);
    changed("messages");
    state.read.delete(id); // the next time it is opened, it is asked for again
    throw problem;
  }
}

// From the moment of a hit on, until nothing is missing in between.
async function loadFrom(device, id, at) {
  const known = state.messages.filter((each) => each.conversation === id).map(timeOf);
  const reached = Math.min(...known, Date.now());
  let from = at;
  for (let round = 0; round < MOST_ROUNDS; round += 1) {
    const { messages } = await ask(device, "show", {
      name: id,
      around: from,
      limit: SHOWN_AT_ONCE,
    });
    addMessages(messages);
    const last = messages.at(-1);
    if (!last || timeOf(last) >= reached || last.timestamp === from) return;
    from = last.timestamp;
  }
}
const timeOf = (message) => Date.parse(message.timestamp);

/** The drawer; `page` is what every view has at hand. */
export function conversationsDialog(page) {
  const list = h("div", { class: "talk-list" });
  const note = h("p", { class: "talk-note", role: "status" });
  const input = h("input", {
    type: "search",
    id: "find",
    class: "talk-search",
    placeholder: "Search conversations and work",
    "aria-label": "Search conversations and work",
    autocomplete: "off",
    maxlength: "400",
    enterkeyhint: "search",
  });
  const node = h(
    "dialog",
    { class: "drawer", "aria-label": "Conversations" },
    h(
      "header",
      { class: "drawer-head" },
      h("h2", {}, "Conversations"),
      h(
        "button",
        {
          type: "button",
          class: "quiet drawer-close",
          "aria-label": "Close Conversations",
          onclick: () => node.close(),
        },
        icon("cross"),
      ),
    ),
    h("div", { class: "talk-find" }, icon("search"), input),
    h(
      "button",
      { type: "button", class: "talk-begin", onclick: () => page.newConversation() },
      icon("plus"),
      NEW,
    ),
    note,
    list,
  );
  node.addEventListener("click", (event) => event.target === node && node.close());

  /** @type {Set<string>} */
  let known = new Set();
  /** @type {string | null} */
  let busy = null; // the conversation whose title or end is being decided
  const draw = () => {
    if (node.open && !busy && !input.value.trim()) list.replaceChildren(...rows());
  };
  const rows = () => {
    const all = state.conversations ?? [];
    const away = all.filter((each) => each.archived);
    if (!all.length) return [h("p", { class: "talk-empty" }, "Nothing was said yet.")];
    return [
      listOf(all.filter((each) => !each.archived)),
      away.length > 0 &&
        h(
          "details",
          { class: "talk-away" },
          h("summary", {}, `Put away (${away.length})`),
          listOf(away),
        ),
    ].filter(Boolean);
  };
  const listOf = (lines) => h("ul", {}, lines.map(row));

  /** @param {Line} line */
  function row(line) {
    const id = line.conversation;
    const below = h("div", { class: "talk-below" });
    const actions = h(
      "div",
      { class: "talk-actions", hidden: true },
      action("Rename", () => rename(line, below)),
      action(line.archived ? "Bring back" : "Put away", () =>
        change("archive", { name: id, archived: !line.archived }),
      ),
      action("Delete…", () => remove(line, below)),
    );
    const more = h(
      "button",
      {
        type: "button",
        class: "quiet talk-more",
        "aria-label": `More about ${line.title}`,
        "aria-expanded": "false",
        onclick: () => {
          actions.hidden = !actions.hidden;
          more.setAttribute("aria-expanded", String(!actions.hidden));
        },
      },
      icon("more"),
    );
    return h(
      "li",
      { "data-conversation": id },
      h(
        "div",
        { class: "talk-row" },
        h(
          "button",
          {
            type: "button",
            class: "talk-go",
            "aria-current": id === state.conversation ? "true" : null,
            onclick: () => go(id),
          },
          h("span", { class: "talk-name" }, visible(line.title)),
          h(
            "span",
            { class: "talk-when" },
            date(line.used_at),
            line.first_words !== line.title &&
              h("span", { class: "talk-words" }, visible(line.first_words)),
          ),
        ),
        more,
      ),
      actions,
      below,
    );
  }

  const action = (label, run) =>
    h("button", { type: "button", class: "quiet small", onclick: run }, label);

  async function change(name, body) {
    note.textContent = "";
    try {
      const answer = await signedFetch(page.device, `/api/conversations/${name}`, body);
      const done = await answerOf(answer, CANNOT);
      busy = null;
      draw();
      return done;
    } catch (problem) {
      note.textContent = problem.message;
      return null;
    }
  }

  const leave = (below) => {
    busy = null;
    below.replaceChildren();
    draw();
  };

  function rename(line, below) {
    busy = line.conversation;
    const title = h("input", {
      type: "text",
      value: line.title,
      maxlength: "120",
      "aria-label": "Title",
      autocomplete: "off",
    });
    below.replaceChildren(
      h(
        "form",
        {
          class: "talk-form",
          onsubmit: (event) => {
            event.preventDefault();
            change("rename", { name: line.conversation, title: title.value });
          },
        },
        title,
        h("button", { type: "submit", class: "primary small" }, "Save"),
        action("Cancel", () => leave(below)),
      ),
    );
    title.focus();
    title.select();
  }

  function remove(line, below) {
    busy = line.conversation;
    const yes = h(
      "button",
      {
        type: "button",
        class: "talk-danger small",
        onclick: async () => {
          const gone = await change("delete", { name: line.conversation });
          if (gone) forget(line.conversation);
        },
      },
      "Delete for good",
    );
    below.replaceChildren(
      h(
        "div",
        { class: "talk-form", role: "group", "aria-label": "Delete this conversation" },
        h(
          "p",
          {},
          "What was said here goes: from the list, the search and every context. What came of it " +
            "stays: work and files, approvals, what you asked Silas to remember, your journal, and " +
            "the audit log with a digest.",
        ),
        yes,
        action("Keep it", () => leave(below)),
      ),
    );
    yes.focus();
  }

  function forget(id) {
    state.messages = state.messages.filter((each) => each.conversation !== id);
    state.read.delete(id);
    state.conversations = (state.conversations ?? []).filter((each) => each.conversation !== id);
    if (state.conversation === id)
      location.hash = `${CONVERSATION_MARK}${encodeURIComponent(latest())}`;
    changed("messages");
    draw();
  }

  /** @param {string} id @param {Hit | null} [hit] */
  function go(id, hit = null) {
    node.close();
    page.show("stream");
    const same = state.conversation === id;
    if (!same) location.hash = `${CONVERSATION_MARK}${encodeURIComponent(id)}`;
    enterConversation(id);
    open(id, hit);
  }

  /** @param {string} id @param {Hit | null} [hit] */
  async function open(id, hit = null) {
    try {
      await load(page.device, id);
      if (hit && !state.messages.some((each) => each.message_id === hit.message_id))
        await loadFrom(page.device, id, hit.at);
    } catch {
      // what is known already is shown
    }
    if (hit && state.conversation === id) page.reveal(hit);
  }

  // Search as it is typed; an answer that was overtaken is not shown.
  let asked = 0;
  let timer = 0;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, TYPING_MILLISECONDS);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      event.preventDefault();
      clearTimeout(timer);
      search();
    }
    if (event.key === "ArrowDown") {
      event.preventDefault();
      /** @type {HTMLElement | null} */ (list.querySelector("button"))?.focus();
    }
  });
  async function search() {
    const words = input.value.trim();
    const mine = ++asked;
    note.textContent = "";
    if (!words) return draw();
    try {
      const found = await ask(page.device, "search", { words, limit: 20 });
      if (mine !== asked) return;
      note.textContent = found.note || `${found.hits.length} found`;
      list.replaceChildren(...groups(found.hits, found.words));
    } catch (problem) {
      if (mine === asked) note.textContent = problem.message;
    }
  }

  /** @param {Hit[]} hits @param {string[]} words */
  function groups(hits, words) {
    return Object.entries(GROUPS).flatMap(([kind, name]) => {
      const mine = hits.filter((hit) => hit.kind === kind);
      return mine.length
        ? [
            h("h3", {}, name),
            h(
              "ul",
              {},
              mine.map((hit) => found(hit, words)),
            ),
          ]
        : [];
    });
  }

  /** @param {Hit} hit @param {string[]} words */
  function found(hit, words) {
    const place = h("div", { class: "talk-work" });
    const who = hit.sender ? `${SENDERS[hit.sender]}: ` : "";
    const run = () => (hit.kind === "work" ? openWork(hit, place, button) : goTo(hit));
    const button = h(
      "button",
      {
        type: "button",
        class: "talk-go",
        "aria-expanded": hit.kind === "work" ? "false" : null,
        onclick: run,
      },
      h("span", { class: "talk-name" }, marked(hit.title, words)),
      h(
        "span",
        { class: "talk-when" },
        date(hit.at),
        hit.status && h("span", { class: "talk-status" }, visible(hit.status)),
      ),
      hit.snippet &&
        hit.snippet !== hit.title &&
        h("span", { class: "talk-snippet" }, who, marked(hit.snippet, words)),
    );
    return h("li", { "data-hit": hit.kind }, button, place);
  }

  const goTo = (hit) => go(hit.conversation ?? FIRST, hit.kind === "message" ? hit : null);

  async function openWork(hit, place, button) {
    if (place.childNodes.length) {
      place.replaceChildren();
      button.setAttribute("aria-expanded", "false");
      return;
    }
    try {
      place.replaceChildren(
        ...(await workDetails(hit.work_item_id)),
        ...(hit.conversation
          ? [action("Open it in its conversation", () => go(hit.conversation, hit))]
          : []),
      );
      button.setAttribute("aria-expanded", "true");
    } catch (problem) {
      note.textContent = problem.message;
    }
  }

  function begin() {
    node.close();
    const here = state.conversation;
    const empty = here && !lineOf(here) && !state.messages.some((m) => m.conversation === here);
    if (empty && ![...state.unsent.values()].some((m) => m.conversation === here)) return;
    start();
  }

  function start() {
    const id = state.conversations?.length ? `conv_${nonce()}` : FIRST;
    location.hash = `${CONVERSATION_MARK}${encodeURIComponent(id)}`;
    enterConversation(id);
  }

  function show() {
    if (!node.open) node.showModal();
    draw();
    input.focus();
    input.select();
  }

  document.addEventListener("keydown", (event) => {
    const key = event.key.toLowerCase();
    const command = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
    if (command && key === "k") {
      event.preventDefault();
      show();
    }
    if (event.altKey && !event.ctrlKey && !event.metaKey && event.code === "KeyN") {
      event.preventDefault();
      page.newConversation();
    }
  });
  addEventListener("hashchange", () => {
    const id = inAddress();
    if (!id || id === state.conversation) return;
    enterConversation(id);
    open(id);
  });
  onChange((what) => {
    if (what !== "conversations") return;
    if (state.conversation === null) enterConversation(inAddress() ?? latest());
    else if (known.has(state.conversation) && !lineOf(state.conversation))
      forget(state.conversation);
    known = new Set(state.conversations?.map((each) => each.conversation));
    draw();
  });
  // Somebody has deleted it meanwhile: what was typed is not lost.
  onChange((what, detail) => {
    if (what !== "error" || detail.code !== DELETED) return;
    const message = state.unsent.get(detail.about);
    state.unsent.delete(detail.about);
    changed("unsent");
    if (message?.conversation === state.conversation) start();
    if (message) page.fill(message.text);
  });
  // The session is open by the time that Silas has answered the first request for it.
  onChange((what) => {
    if (what === "session" && state.conversation) open(state.conversation);
  });
  return { node, show, begin };
}

/** The text with the words that it was found by marked. @param {string} text @param {string[]} words */
function marked(text, words) {
  const parts = words
    .flatMap((word) => word.split(/\s+/))
    .filter((word) => /[\p{L}\p{N}]/u.test(word))
    .map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  if (!parts.length) return [visible(text)];
  return text
    .split(new RegExp(`(${parts.join("|")})`, "iu"))
    .map((part, index) => (index % 2 ? h("mark", {}, visible(part)) : visible(part)));
}
