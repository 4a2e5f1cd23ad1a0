// What the page knows, and who wants to hear of it. Nothing of it is kept beyond this page.

export const state = {
  connection: "connecting", // connecting, open, waiting, revoked
  ready: null,
  messages: [], // in order
  cards: new Map(), // by request id
  hasty: false, // decisions are made faster than they can be read
  work: new Map(), // by trace, then by work item
  progress: new Map(), // by trace: the last lines
  growing: new Map(), // by trace: text that is being written
  unsent: new Map(), // by message id
  activity: null,
  setup: null, // how Silas is set up, once it was asked
  loaded: false,
  versions: new Map(), // by trace: how often its card or work has changed
};

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

export const onChange = (listen) => listeners.add(listen);

export const openCards = () =>
  [...state.cards.values()].filter((card) => card.state === "open" && card.kind !== "result");

/** What was just done and can be undone, the latest last. */
export const undoable = () =>
  [...state.cards.values()].filter((card) => card.kind === "result" && card.state === "open" && Date.parse(card.expires_at) > Date.now());

export const position = () => ({
  delivery: Math.max(0, ...state.messages.filter((each) => each.sender === "silas").map((each) => each.number)),
  said: Math.max(0, ...state.messages.filter((each) => each.sender === "owner").map((each) => each.number)),
});

const MOST_LINES = 60;

const FRAMES = {
  ready: (frame) => {
    state.ready = frame;
    changed("ready");
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
    state.growing.set(frame.trace_id, (state.growing.get(frame.trace_id) ?? "") + frame.piece);
    changed("growing", frame.trace_id);
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
  accepted: (frame) => {
    state.unsent.delete(frame.message_id);
    changed("unsent");
  },
  error: (frame) => changed("error", frame),
  pong: () => {},
};

// Questions of every kind are cards like plans.
const QUESTIONS = [
  "gate_approval", "batch_review", "draft_review", "decision", "suggestion", "autonomy_threshold_review",
  "connection_setup_step", "permission_escalation", "connection_failure",
];
for (const kind of QUESTIONS) FRAMES[kind] = FRAMES.approval_request;
FRAMES.secure_input_request = (frame) => FRAMES.approval_request({
  ...frame, request_id: `secret:${frame.ref_id}`, title: frame.label, state: "open", trace_id: "", created_at: new Date().toISOString(),
});

/** Take a frame of the server's in. */
export function take(frame) {
  FRAMES[frame.type]?.(frame);
}

function add(message) {
  if (state.messages.some((each) => each.message_id === message.message_id)) return false;
  if (message.sender === "silas") state.growing.delete(message.trace_id);
  const later = state.messages.findIndex((each) => each.timestamp > message.timestamp);
  state.messages.splice(later < 0 ? state.messages.length : later, 0, message);
  if (message.sender === "owner") state.unsent.delete(message.message_id);
  return true;
}
