// Stream: the conversation.
import { riskBadge, VERDICTS } from "/card.js";
import { commandList } from "/commands.js";
import { day, h, icon, sync, time } from "/dom.js";
import { markdown } from "/markdown.js";
import { onChange, state, undoable } from "/state.js";
import { visible } from "/visible.js";
import { workView } from "/work.js";

const NEAR = 120;
const DRAWN = new Set(["messages", "unsent", "growing", "ready", "cards", "work", "setup"]);

/** The surface; `say(text)` sends, `show(surface)` goes elsewhere. */
export function streamView({ say, show }) {
  const log = h("div", { class: "log", role: "log", "aria-live": "polite", "aria-label": "Conversation", tabindex: "0" });
  const box = h("div", { class: "log-inner" });
  log.append(box);
  const composer = makeComposer(say, show);
  const node = h("section", { class: "surface stream", id: "stream", "aria-label": "Stream" }, log, composer.node);
  const nodes = new Kept();
  const draw = () => {
    const near = log.scrollHeight - log.scrollTop - log.clientHeight < NEAR;
    sync(box, contents(nodes, say, show));
    nodes.sweep();
    if (near) log.scrollTop = log.scrollHeight;
  };
  onChange((what, detail) => {
    if (DRAWN.has(what)) draw();
    if (what === "messages" && detail?.sender === "owner") log.scrollTop = log.scrollHeight;
  });
  draw();
  return { node, focus: composer.focus, fill: composer.fill };
}

// Nodes that are the same as before are the same nodes.
class Kept {
  #before = new Map();
  #now = new Map();

  get(key, make) {
    const node = this.#now.get(key) ?? this.#before.get(key) ?? make();
    this.#now.set(key, node);
    return node;
  }

  /** Forget what was not asked for since the last time. */
  sweep() {
    this.#before = this.#now;
    this.#now = new Map();
  }
}

function contents(nodes, say, show) {
  if (!state.loaded && !state.messages.length) return [nodes.get("skeleton", skeleton)];
  const shown = state.messages.filter((message) => message.surface !== "activity");
  if (!shown.length && !state.unsent.size) return [nodes.get(`welcome ${state.ready?.model} ${state.setup?.name}`, () => welcome(say))];
  const parts = [];
  let today = "";
  shown.forEach((message, index) => {
    const date = day(message.timestamp);
    if (date !== today) parts.push(nodes.get(`day ${(today = date)}`, () => h("p", { class: "day" }, date)));
    const isLast = index === shown.length - 1;
    const version = message.card_id ? state.versions.get(message.trace_id) : 0;
    parts.push(nodes.get(`${message.message_id} ${isLast} ${version}`, () => messageView(message, { isLast, say, show })));
  });
  for (const message of state.unsent.values()) parts.push(nodes.get(`unsent ${message.message_id}`, () => ownMessage(message, "Sending…")));
  for (const text of state.growing.values()) {
    parts.push(h("div", { class: "message silas growing" }, h("div", { class: "prose" }, markdown(text))));
  }
  if (isThinking(shown)) parts.push(nodes.get("thinking", thinking));
  return parts;
}

const thinking = () => h("div", { class: "thinking", role: "status" }, h("span", { class: "sr" }, "Silas is thinking"), h("i"), h("i"), h("i"));

function isThinking(shown) {
  const last = shown.at(-1);
  return state.growing.size === 0 && (state.unsent.size > 0 || last?.sender === "owner");
}

const skeleton = () => h("div", { class: "skeleton", role: "status" }, h("span", { class: "sr" }, "Loading the conversation"), h("i"), h("i"), h("i"));

function welcome(say) {
  return h("div", { class: "welcome" },
    h("h2", {}, state.setup?.name ? ["What shall I do, ", visible(state.setup.name), "?"] : "What shall I do?"),
    h("p", {}, state.ready?.model
      ? "I plan, you approve, I act, and a check outside of me says whether it worked."
      : "No model is set up, so I understand a small set of requests. Everything else is real: the plan, your approval, the sandbox, the checks."),
    chips(state.ready?.chips ?? [], say),
  );
}

function chips(list, say) {
  if (!list.length) return null;
  return h("div", { class: "chips", role: "group", "aria-label": "Things to say" },
    list.map((text) => h("button", { type: "button", class: "chip", onclick: () => say(text) }, visible(text))));
}

function ownMessage(message, note = "") {
  return h("div", { class: `message owner${note ? " unsent" : ""}`, "data-message": message.message_id },
    h("span", { class: "sr" }, "You: "),
    h("div", { class: "bubble" }, visible(message.text, { emoji: true })),
    h("p", { class: "meta" }, note || time(message.timestamp)));
}

function messageView(message, { isLast, say, show }) {
  if (message.sender === "owner") return ownMessage(message);
  return h("div", { class: `message silas${message.final ? "" : " interim"}`, "data-message": message.message_id },
    h("span", { class: "sr" }, "Silas: "),
    h("div", { class: "prose" }, markdown(message.text)),
    message.card_id && planLine(state.cards.get(message.card_id), show),
    isLast && chips(message.chips, say),
    h("p", { class: "meta" }, time(message.timestamp)));
}

// What became of a plan, where it was proposed.
function planLine(card, show) {
  if (!card) return null;
  const isOpen = card.state === "open";
  const items = card.state === "approved" ? state.work.get(card.trace_id) : null;
  return h("div", { class: `plan-line plan-${card.state}` },
    h("div", { class: "plan-top" },
      h("span", { class: "plan-title" }, visible(card.title)),
      isOpen ? riskBadge(card.risk_level) : h("span", { class: "plan-state" }, icon(card.state === "approved" ? "check" : "cross"), VERDICTS[card.state] ?? card.state)),
    isOpen && h("button", { type: "button", class: "primary small", onclick: () => show("review", card.request_id) }, "Look at the plan"),
    workView(items, items ? state.progress.get(card.trace_id) : null),
    undoLine(card, show));
}

// What was done can be taken back for a while; how is on its card.
function undoLine(card, show) {
  const done = undoable().find((each) => each.trace_id === card.trace_id && each.replaces === card.items?.[0]?.id);
  return done && h("button", { type: "button", class: "quiet small", onclick: () => show("review", done.request_id) }, "Undo…");
}

function makeComposer(say, show) {
  const input = h("textarea", {
    id: "say", rows: "1", maxlength: "32000", placeholder: "Ask Silas to do something", "aria-label": "Message to Silas",
    enterkeyhint: "send", autocomplete: "off", "aria-autocomplete": "list", "aria-controls": "commands",
  });
  const button = h("button", { type: "submit", class: "send", "aria-label": "Send", disabled: true }, icon("send"));
  const fit = () => {
    input.style.blockSize = "auto";
    input.style.blockSize = `${Math.min(input.scrollHeight, 180)}px`;
    button.disabled = !input.value.trim();
  };
  const fill = (text) => {
    input.value = text;
    fit();
    commands.reflect();
    input.focus();
  };
  const commands = commandList(input, { say, show, fill });
  const send = () => {
    const text = input.value.trim();
    if (!text || commands.run(text)) return;
    fill("");
    say(text);
  };
  input.addEventListener("input", () => {
    fit();
    commands.reflect();
  });
  input.addEventListener("keydown", (event) => {
    if (commands.hear(event) || event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  });
  const node = h("form", { class: "composer", onsubmit: (event) => { event.preventDefault(); send(); } },
    commands.node, h("div", { class: "composer-box" }, input, button));
  return { node, fill, focus: () => input.focus() };
}
