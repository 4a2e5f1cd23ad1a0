// @ts-check
// What the page knows, and who wants to hear of it. Nothing of it is kept beyond this page.

/**
 * @typedef {import("../../../docs/wire").Message} Message
 * @typedef {import("../../../docs/wire").Work} Work
 * @type {{
 *   connection: "connecting" | "open" | "waiting" | "revoked",
 *   ready: import("../../../docs/wire").Ready | null,
 *   messages: Message[],
 *   cards: Map<string, any>,
 *   hasty: boolean,
 *   work: Map<string, Map<string, Work>>,
 *   progress: Map<string, import("../../../docs/wire").ProgressFrame[]>,
 *   growing: Map<string, string>,
 *   answering: Map<string, import("../../../docs/wire").Answering & { began: number }>,
 *   unsent: Map<string, any>,
 *   activity: import("../../../docs/wire").ActivityEntry[] | null,
 *   setup: any,
 *   loaded: boolean,
 *   versions: Map<string, number>,
 *   conversations: import("../../../docs/wire").ConversationLine[] | null,
 *   conversation: string | null,
 *   read: Set<string>,
 *   session: Promise<unknown> | null,
 *   companions?: { count: number, stopped: boolean, questions?: number } | null,
 * }}
 */
export const state = {
  connection: "connecting", // connecting, open, waiting, revoked
  ready: null,
  messages: [], // in order
  cards: new Map(), // by request id
  hasty: false, // decisions are made faster than they can be read
  work: new Map(), // by trace, then by work item
  progress: new Map(), // by trace: the last lines
  growing: new Map(), // by trace: text that is being written
  answering: new Map(), // by trace: at which stage an answer is that is being made
  unsent: new Map(), // by message id
  activity: null,
  setup: null, // how Silas is set up, once it was asked
  loaded: false,
  session: null, // what goes over HTTP waits for it
  versions: new Map(), // by trace: how often its card or work has changed
  conversations: null, // the last used first
  conversation: null, // the one that is shown
  read: new Set(), // conversations of which the last messages were asked for
};

/** The id of the conversation that was there before there were others. */
export const FIRST = "first";
/** What stands before the id of a conversation behind the page's address. */
export const CONVERSATION_MARK = "#conversation=";

const isKnown = (id) => Boolean(state.conversations?.some((each) => each.conversation === id));

/** Where a message is shown. What belongs to a conversation that is gone comes to the latest. */
export function homeOf(id) {
  if (!id || id === state.conversation || isKnown(id)) return id ?? FIRST;
  return state.conversations?.[0]?.conversation ?? id;
}

/** Whether what belongs to this request is part of the conversation that is shown. */
export function isTraceHere(trace) {
  const said = state.messages.find((message) => message.trace_id === trace);
  return homeOf(said?.conversation) === state.conversation;
}

/** The answers that are being made in the conversation that is shown. */
export const answeringHere = () =>
  [...state.answering.values()].filter((each) => isTraceHere(each.trace_id));

/** Show this conversation from now on. */
export function enterConversation(id) {
  if (state.conversation === id) return;
  state.conversation = id;
  changed("conversation", id);
}

/** Put more messages of a conversation beside those that are known. */
export function addMessages(messages) {
  for (const message of messages) add(message);
  changed("messages");
}

const listeners = new Set();

/** Call this whenever something has changed: `what` is the part that has. */
export function changed(what, detail) {
  for (const listen of listeners) listen(what, detail);
}

/** Something about the work of a request has changed. */
function touched(trace) {
  state.versions.set(trace, (state.versions.get(trace) ?? 0) + 1);
  changed("work", trace);
}

/** Hear of every change; the answer ends it. */
export function onChange(listen) {
  listeners.add(listen);
  return () => listeners.delete(listen);
}

export const openCards = () =>
  [...state.cards.values()].filter((card) => card.state === "open" && card.kind !== "result");

/** The same without cards that only put others together: each decision counts once. */
export const waiting = () =>
  openCards().filter(
    (card) => !card.batch?.item_ids?.some((id) => state.cards.get(id)?.state === "open"),
  );

/** What was just done and can be undone, the latest last. */
export const undoable = () =>
  [...state.cards.values()].filter(
    (card) =>
      card.kind === "result" && card.state === "open" && Date.parse(card.expires_at) > Date.now(),
  );

export const position = () => ({
  delivery: Math.max(
    0,
    ...state.messages.filter((each) => each.sender === "silas").map((each) => each.number),
  ),
  said: Math.max(
    0,
    ...state.messages.filter((each) => each.sender === "owner").map((each) => each.number),
  ),
});

const MOST_LINES = 60;

const FRAMES = {
  ready: (frame) => {
    state.ready = frame;
    // What is still being made is told again.
    state.answering.clear();
    state.growing.clear();
    changed("ready");
  },
  conversations: (frame) => {
    state.conversations = frame.conversations;
    changed("conversations");
  },
  history: (frame) => {
    for (const message of frame.messages) add(message);
    state.loaded = true;
    changed("messages");
  },
  message: (frame) => {
    if (add(frame)) changed("messages", frame);
  },
  text: (frame) => {
    const before = state.growing.get(frame.trace_id) ?? "";
    if (frame.start > before.length) return; // its beginning will come
    const text = before.slice(0, frame.start) + frame.piece;
    if (text) state.growing.set(frame.trace_id, text);
    else state.growing.delete(frame.trace_id);
    changed("growing", frame.trace_id);
  },
  answering: (frame) => {
    if (frame.over) state.answering.delete(frame.trace_id);
    else
      state.answering.set(frame.trace_id, {
        ...frame,
        began: performance.now() - frame.seconds * 1000,
      });
    changed("answering", frame.trace_id);
  },
  progress: (frame) => {
    const lines = state.progress.get(frame.trace_id) ?? [];
    state.progress.set(frame.trace_id, [...lines, frame].slice(-MOST_LINES));
    touched(frame.trace_id);
  },
  approval_request: (frame) => {
    state.cards.set(frame.request_id, frame);
    touched(frame.trace_id);
    changed("cards", frame.request_id);
  },
  card_closed: (frame) => {
    const card = state.cards.get(frame.request_id);
    // How it was decided is said once; that it is gone may be said again.
    if (!card || (card.state !== "open" && frame.state === "decided")) return;
    state.cards.set(frame.request_id, { ...card, state: frame.state });
    touched(card.trace_id);
    changed("cards", frame.request_id);
  },
  attention: (frame) => {
    state.hasty = frame.hasty;
    changed("cards");
  },
  work: (frame) => {
    const items = state.work.get(frame.trace_id) ?? new Map();
    items.set(frame.work_item_id, frame);
    state.work.set(frame.trace_id, items);
    touched(frame.trace_id);
  },
  activity: (frame) => {
    state.activity = frame.entries;
    changed("activity");
  },
  journal_changed: (frame) => changed("journal", frame),
  skills_changed: () => changed("skills"),
  connections_changed: () => changed("connections"),
  companions_changed: () => changed("companion_news"),
  companion_answering: (frame) => changed("companion_answering", frame),
  accepted: (frame) => {
    state.unsent.delete(frame.message_id);
    changed("unsent");
  },
  error: (frame) => changed("error", frame),
  pong: () => {},
};

// Questions of every kind are cards like plans.
const QUESTIONS = [
  "gate_approval",
  "batch_review",
  "draft_review",
  "decision",
  "suggestion",
  "autonomy_threshold_review",
  "connection_setup_step",
  "permission_escalation",
  "connection_failure",
];
for (const kind of QUESTIONS) FRAMES[kind] = FRAMES.approval_request;
FRAMES.secure_input_request = (frame) => {
  const name = `secret:${frame.ref_id}`;
  FRAMES.approval_request({
    ...frame,
    request_id: name,
    title: frame.label,
    state: "open",
    trace_id: "",
    created_at: new Date().toISOString(),
  });
  if (!expiring.has(name)) closeInTime(name);
};

const LOOK_MILLISECONDS = 60 * 1000;
const expiring = new Set();

// Looks every minute: a timer of a week would be late by as long as the computer has slept.
function closeInTime(name) {
  expiring.delete(name);
  const card = state.cards.get(name);
  if (card?.state !== "open") return;
  const left = Date.parse(card.expires_at) - Date.now();
  if (left > 0) {
    expiring.add(name);
    setTimeout(closeInTime, Math.min(left, LOOK_MILLISECONDS), name);
  } else FRAMES.card_closed({ request_id: name, state: "expired" });
}

/**
 * Take a frame of the server's in.
 * @param {import("../../../docs/wire").ToPage} frame
 */
export function take(frame) {
  FRAMES[frame.type]?.(frame);
}

function add(message) {
  if (state.messages.some((each) => each.message_id === message.message_id)) return false;
  if (message.answers) {
    state.growing.delete(message.trace_id);
    if (state.answering.delete(message.trace_id)) changed("answering", message.trace_id);
  }
  const later = state.messages.findIndex((each) => each.timestamp > message.timestamp);
  state.messages.splice(later < 0 ? state.messages.length : later, 0, message);
  if (message.sender === "owner") state.unsent.delete(message.message_id);
  return true;
}
