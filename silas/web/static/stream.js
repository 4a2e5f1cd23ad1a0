// @ts-check
// Stream: the conversation.
import { attachedView, attachments, droppable, wordsFor } from "/attaching.js";
import { riskBadge, VERDICTS } from "/card.js";
import { commandList } from "/commands.js";
import { day, h, icon, sync, time } from "/dom.js";
import { folderLine } from "/folder.js";
import { markdown } from "/markdown.js";
import { keepHereView, printedView, textOf, undoView, undoWorkView } from "/results.js";
import { conversationBar } from "/conversations.js";
import {
  answeringHere,
  changed,
  homeOf,
  isTraceHere,
  onChange,
  state,
  undoable,
  waiting,
} from "/state.js";
import { visible } from "/visible.js";
import { workView } from "/work.js";

const YES = new Set(["approved", "approve", "narrow"]);
const NEAR = 120;
const MOST_CHARACTERS = 32000;
const DRAWN = new Set([
  ...["messages", "unsent", "growing", "answering", "ready", "cards", "work", "setup"],
  ...["conversation", "conversations"],
]);
const SECONDS_SHOWN_AFTER = 3;

/** The surface; `say(text)` sends, `stop()` ends answers, `show(surface)` goes elsewhere. */
export function streamView(page) {
  const { stop } = page;
  const log = h("div", {
    class: "log",
    role: "log",
    "aria-live": "polite",
    "aria-label": "Conversation",
    tabindex: "0",
  });
  const box = h("div", { class: "log-inner" });
  log.append(box);
  const composer = makeComposer(page);
  const node = h(
    "section",
    { class: "surface stream", id: "stream", "aria-label": "Stream" },
    conversationBar(page),
    log,
    composer.node,
  );
  droppable(node, composer.take);
  const nodes = new Kept();
  const draw = () => {
    const near = log.scrollHeight - log.scrollTop - log.clientHeight < NEAR;
    sync(box, contents(nodes, page));
    nodes.sweep();
    if (near) log.scrollTop = log.scrollHeight;
  };
  onChange((what, detail) => {
    if (DRAWN.has(what)) draw();
    if (what === "error") composer.giveBack(detail);
    const mine = what === "messages" && detail?.sender === "owner" && isHere(detail);
    if (mine || what === "conversation") log.scrollTop = log.scrollHeight;
  });
  document.addEventListener("keydown", (event) => {
    if (
      event.key === "Escape" &&
      !event.defaultPrevented &&
      takesKeys(node) &&
      answeringHere().length
    )
      stop();
  });
  setInterval(() => tick(box), 1000);
  draw();
  return { node, focus: composer.focus, fill: composer.fill, reveal: (hit) => reveal(log, hit) };
}

const isHere = (message) => homeOf(message.conversation) === state.conversation;
const isBeingRead = () =>
  !state.read.has(state.conversation ?? "") &&
  state.conversations?.some((each) => each.conversation === state.conversation);
const growingHere = () => [...state.growing].filter(([trace]) => isTraceHere(trace));

// Show the message that was found, or the one that was said nearest to it.
function reveal(log, { message_id: id, at }) {
  const shown = state.messages.filter((each) => isHere(each) && each.surface !== "activity");
  const far = (each) => Math.abs(Date.parse(each.timestamp) - Date.parse(at));
  const [nearest] = [...shown].sort((a, b) => far(a) - far(b));
  const wanted = shown.find((each) => each.message_id === id) ?? nearest;
  const found = wanted && log.querySelector(`[data-message="${CSS.escape(wanted.message_id)}"]`);
  if (!found) return false;
  for (const each of log.querySelectorAll(".found")) each.classList.remove("found");
  found.classList.add("found");
  found.tabIndex = -1;
  found.focus({ preventScroll: true });
  found.scrollIntoView({ block: "center" });
  return true;
}

// Whether a key is meant for the conversation: nothing lies over it, and no other field has it.
const takesKeys = (node) =>
  !document.querySelector("dialog[open]") &&
  !document.querySelector(".over[data-current]") &&
  (document.activeElement === document.body || node.contains(document.activeElement));

/** How long each answer has been at its stage. */
function tick(box) {
  for (const mark of box.querySelectorAll("[data-began]")) {
    const seconds = Math.floor((performance.now() - Number(mark.dataset.began)) / 1000);
    mark.textContent = seconds >= SECONDS_SHOWN_AFTER ? `${seconds} s` : "";
  }
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

function contents(nodes, { say, show, device }) {
  if (!state.loaded || state.conversation === null) return [nodes.get("skeleton", skeleton)];
  const shown = state.messages.filter(
    (message) => message.surface !== "activity" && isHere(message),
  );
  const unsent = [...state.unsent.values()].filter(isHere);
  if (!shown.length && !unsent.length && isBeingRead()) return [nodes.get("skeleton", skeleton)];
  if (!shown.length && !unsent.length)
    return [nodes.get(`welcome ${state.ready?.model} ${state.setup?.name}`, () => welcome(say))];
  const parts = [];
  let today = "";
  shown.forEach((message, index) => {
    const date = day(message.timestamp);
    if (date !== today)
      parts.push(nodes.get(`day ${(today = date)}`, () => h("p", { class: "day" }, date)));
    const isLast = index === shown.length - 1;
    const version = message.card_id ? state.versions.get(message.trace_id) : waitingFor(message);
    parts.push(
      nodes.get(`${message.message_id} ${isLast} ${version}`, () =>
        messageView(message, { isLast, say, show, device }),
      ),
    );
  });
  for (const message of unsent)
    parts.push(nodes.get(`unsent ${message.message_id}`, () => ownMessage(message, "Sending…")));
  for (const [, text] of growingHere()) {
    // The whole answer is read out once it is there.
    parts.push(
      h(
        "div",
        { class: "message silas growing", "aria-live": "off" },
        h("div", { class: "prose" }, markdown(text)),
      ),
    );
  }
  for (const each of answeringHere())
    parts.push(
      nodes.get(`stage ${each.trace_id} ${each.words} ${each.note} ${each.began}`, () =>
        stageLine(each.words, each),
      ),
    );
  if (waits(shown)) parts.push(nodes.get("waits", () => stageLine("Silas has your message")));
  return parts;
}

/** At which stage an answer is. The seconds are for the eye: read out, they would never end. */
function stageLine(words, { began = 0, note = "" } = {}) {
  return h(
    "div",
    { class: "stage", role: "status" },
    h("span", { class: "thinking", "aria-hidden": "true" }, h("i"), h("i"), h("i")),
    h("span", { class: "stage-words" }, visible(words)),
    began ? h("span", { class: "stage-time", "aria-hidden": "true", "data-began": began }) : null,
    note && h("p", { class: "stage-note" }, visible(note)),
  );
}

/** Whether what the owner said last here was taken, and nothing is told of its answer yet. */
function waits(shown) {
  if (answeringHere().length || growingHere().length || state.unsent.size) return false;
  const last = shown.filter((message) => message.sender === "owner").at(-1);
  return (
    Boolean(last) &&
    !shown.some((message) => message.sender === "silas" && message.trace_id === last?.trace_id)
  );
}

const skeleton = () =>
  h(
    "div",
    { class: "skeleton", role: "status" },
    h("span", { class: "sr" }, "Loading the conversation"),
    h("i"),
    h("i"),
    h("i"),
  );

function welcome(say) {
  return h(
    "div",
    { class: "welcome" },
    h(
      "h2",
      {},
      state.setup?.name
        ? ["What would you like to do, ", visible(state.setup.name), "?"]
        : "What would you like to do?",
    ),
    h(
      "p",
      {},
      state.ready?.model
        ? "I plan, you approve, I act. Whether it worked is for the checks of the plan to say, not for me."
        : "No model is set up, so I understand a small set of requests. Everything else is real: the plan, your approval, the sandbox, the checks.",
    ),
    chips(state.ready?.chips ?? [], say),
  );
}

function chips(list, say) {
  if (!list.length) return null;
  return h(
    "div",
    { class: "chips", role: "group", "aria-label": "Things to say" },
    list.map((text) =>
      h("button", { type: "button", class: "chip", onclick: () => say(text) }, visible(text)),
    ),
  );
}

// Who explores gets options, each on a line of its own; who decides, the way to what waits.
const explores = ({ interaction_register: register, interaction_mode: mode }) =>
  register === "exploration" && mode === "default_and_offer";
/** @param {{ interaction_register?: string, card_id?: string | null }} message */
const waitingFor = ({ interaction_register: register, card_id: card }) =>
  register === "review" && !card ? waiting().length : 0;

function options(list, say) {
  if (!list.length) return null;
  return h(
    "ul",
    { class: "options", "aria-label": "Options" },
    list.map((text) =>
      h(
        "li",
        {},
        h("button", { type: "button", class: "chip", onclick: () => say(text) }, visible(text)),
      ),
    ),
  );
}

function reviewLine(count, show) {
  return h(
    "button",
    { type: "button", class: "quiet", onclick: () => show("review") },
    count === 1 ? "Show the one that waits" : `Show the ${count} that wait`,
  );
}

function ownMessage(message, note = "") {
  return h(
    "div",
    { class: `message owner${note ? " unsent" : ""}`, "data-message": message.message_id },
    h("span", { class: "sr" }, "You: "),
    h("div", { class: "bubble" }, visible(message.text, { emoji: true })),
    attachedView(message.attachments),
    h("p", { class: "meta" }, note || time(message.timestamp)),
  );
}

function messageView(message, { isLast, say, show, device }) {
  if (message.sender === "owner") return ownMessage(message);
  return h(
    "div",
    {
      class: `message silas${message.final ? "" : " interim"}`,
      "data-message": message.message_id,
    },
    h("span", { class: "sr" }, "Silas: "),
    h("div", { class: "prose" }, markdown(textOf(message))),
    printedView(message),
    undoView(message, device),
    undoWorkView(message, device),
    keepHereView(message, device),
    message.card_id && planLine(state.cards.get(message.card_id), show),
    isLast && (explores(message) ? options(message.chips, say) : chips(message.chips, say)),
    isLast && waitingFor(message) > 0 && reviewLine(waitingFor(message), show),
    h("p", { class: "meta" }, time(message.timestamp)),
  );
}

// What became of a plan, where it was proposed.
function planLine(card, show) {
  if (!card) return null;
  const isOpen = card.state === "open";
  const items = card.state === "approved" ? state.work.get(card.trace_id) : null;
  return h(
    "div",
    { class: `plan-line plan-${card.state}` },
    h(
      "div",
      { class: "plan-top" },
      h("span", { class: "plan-title" }, visible(card.title)),
      isOpen
        ? riskBadge(card.risk_level)
        : h(
            "span",
            { class: "plan-state" },
            icon(YES.has(card.state) ? "check" : "cross"),
            VERDICTS[card.state] ?? card.state,
          ),
    ),
    isOpen &&
      h(
        "button",
        { type: "button", class: "primary small", onclick: () => show("review", card.request_id) },
        card.items ? "Look at the plan" : "Answer",
      ),
    workView(items, items ? state.progress.get(card.trace_id) : null),
    undoLine(card, show),
  );
}

// What was done can be taken back for a while; how is on its card.
function undoLine(card, show) {
  const done = undoable().find(
    (each) => each.trace_id === card.trace_id && each.replaces === card.items?.[0]?.id,
  );
  return (
    done &&
    h(
      "button",
      { type: "button", class: "quiet small", onclick: () => show("review", done.request_id) },
      "Undo…",
    )
  );
}

function makeComposer({ say, stop, show, device, newConversation: begin }) {
  const input = h("textarea", {
    id: "say",
    rows: "1",
    maxlength: MOST_CHARACTERS,
    placeholder: "Ask Silas to do something",
    "aria-label": "Message to Silas",
    enterkeyhint: "send",
    autocomplete: "off",
    "aria-autocomplete": "list",
    "aria-controls": "commands",
  });
  const button = h(
    "button",
    { type: "submit", class: "send", "aria-label": "Send", disabled: true },
    icon("send"),
  );
  const stopping = h(
    "button",
    {
      type: "button",
      class: "send stop-answer",
      "aria-label": "Stop this answer",
      title: "Stop this answer (Esc)",
      hidden: true,
      onclick: () => {
        stop();
        input.focus();
      },
    },
    icon("halt"),
  );
  onChange((what) => {
    if (["answering", "ready", "messages", "conversation"].includes(what))
      stopping.hidden = !answeringHere().length;
  });
  const fit = () => {
    input.style.blockSize = "auto";
    input.style.blockSize = `${Math.min(input.scrollHeight, 180)}px`;
    button.disabled = !canSend();
  };
  const fill = (text) => {
    input.value = text;
    fit();
    commands.reflect();
    input.focus();
  };
  const folder = folderLine(() => input.focus());
  const files = attachments({
    device,
    changed: () => fit(),
    keep: (text) => {
      if (input.value.length + text.length > MOST_CHARACTERS) return false;
      input.setRangeText(text, input.selectionStart, input.selectionEnd, "end");
      return true;
    },
    back: () => input.focus(),
  });
  const canSend = () => files.ready() && Boolean(input.value.trim() || files.value().length);
  const commands = commandList(input, {
    say,
    show,
    fill,
    begin,
    pickFolder: folder.pick,
    attach: files.choose,
  });
  const send = () => {
    const text = input.value.trim();
    if (!canSend() || (text && commands.run(text))) return;
    const attached = files.value();
    files.clear();
    fill("");
    say(text || wordsFor(attached.length), folder.value(), attached);
  };
  // What was not taken because of a file comes back, to be sent again with it.
  const giveBack = ({ code, about }) => {
    const message = state.unsent.get(about);
    if (!message || !code?.startsWith("E_CHANNEL_ATTACHMENT")) return;
    state.unsent.delete(about);
    changed("unsent");
    fill(message.text);
  };
  input.addEventListener("paste", files.hearPaste);
  input.addEventListener("input", () => {
    fit();
    commands.reflect();
  });
  input.addEventListener("keydown", (event) => {
    if (commands.hear(event) || event.key !== "Enter" || event.shiftKey || event.isComposing)
      return;
    event.preventDefault();
    send();
  });
  const node = h(
    "form",
    {
      class: "composer",
      onsubmit: (event) => {
        event.preventDefault();
        send();
      },
    },
    commands.node,
    folder.node,
    files.node,
    h("div", { class: "composer-box" }, files.button, files.chooser, input, stopping, button),
  );
  return { node, fill, giveBack, take: files.take, focus: () => input.focus() };
}
