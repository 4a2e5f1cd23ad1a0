// What the page knows after the frames of the server's, in whichever order and however often they come.
import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";

import { onChange, openCards, position, state, take, undoable } from "/state.js";

let heard = [];
onChange((what, detail) => heard.push([what, detail]));

beforeEach(() => {
  heard = [];
  state.messages.length = 0;
  state.loaded = false;
  for (const each of ["cards", "work", "progress", "growing", "answering", "unsent", "versions"])
    state[each].clear();
});

const message = (name, second, more = {}) => ({
  type: "message",
  message_id: name,
  sender: "silas",
  number: second,
  text: name,
  trace_id: `trace_${name}`,
  timestamp: `2026-01-02T03:04:${String(second).padStart(2, "0")}.000000Z`,
  ...more,
});
const card = (name, more = {}) => ({
  type: "approval_request",
  kind: "plan",
  request_id: name,
  state: "open",
  trace_id: `trace_${name}`,
  expires_at: new Date(Date.now() + 60_000).toISOString(),
  ...more,
});
const secret = (name, label, seconds) => ({
  type: "secure_input_request",
  ref_id: name,
  label,
  expires_at: new Date(Date.now() + seconds * 1000).toISOString(),
});
const names = (cards) => cards.map((each) => each.request_id);

test("messages stand in the order of time, each once", () => {
  take(message("b", 2));
  take({ type: "history", messages: [message("a", 1), message("b", 2), message("c", 3)] });
  take(message("a", 1));
  assert.deepEqual(
    state.messages.map((each) => each.message_id),
    ["a", "b", "c"],
  );
  assert.equal(state.loaded, true);
  assert.deepEqual(
    heard.map(([what]) => what),
    ["messages", "messages"],
  );
});

test("a page that comes back says how far it has read, for each sender", () => {
  assert.deepEqual(position(), { delivery: 0, said: 0 });
  take(message("a", 4));
  take(message("b", 7, { sender: "owner" }));
  take(message("c", 2));
  assert.deepEqual(position(), { delivery: 4, said: 7 });
});

test("an answer grows until the whole of it is there", () => {
  const text = (start, piece) => take({ type: "text", trace_id: "trace_a", start, piece });
  text(0, "Hel");
  text(3, "lo");
  text(3, "lo"); // told again, to a page that comes back
  text(9, "beyond what is known");
  assert.equal(state.growing.get("trace_a"), "Hello");
  take(message("q", 1, { sender: "owner", trace_id: "trace_a" }));
  assert.equal(state.growing.get("trace_a"), "Hello");
  take(message("between", 2, { trace_id: "trace_a" }));
  assert.equal(state.growing.get("trace_a"), "Hello");
  text(0, "");
  assert.equal(state.growing.has("trace_a"), false);
  text(0, "Good bye");
  take(message("a", 3, { answers: true }));
  assert.equal(state.growing.has("trace_a"), false);
});

test("an answer is at a stage until it is over, or there", () => {
  const stage = { type: "answering", stage: "asking", words: "Asking", note: "", seconds: 4 };
  take({ ...stage, trace_id: "trace_a", over: false });
  take({ ...stage, trace_id: "trace_b", over: false });
  assert.ok(performance.now() - state.answering.get("trace_a").began >= 4000);
  take({ ...stage, trace_id: "trace_b", over: true });
  assert.deepEqual([...state.answering.keys()], ["trace_a"]);
  take(message("a", 1, { answers: true }));
  assert.equal(state.answering.size, 0);
});

test("what was not sent yet is forgotten once it was accepted, or is seen", () => {
  for (const name of ["msg_1", "msg_2", "msg_3"]) state.unsent.set(name, { message_id: name });
  take({ type: "accepted", message_id: "msg_1", trace_id: "trace_1" });
  take(message("msg_2", 1, { sender: "owner" }));
  assert.deepEqual([...state.unsent.keys()], ["msg_3"]);
});

test("a card that was decided is open no longer, and how it was decided stays", () => {
  take(card("one"));
  take(card("two"));
  assert.deepEqual(names(openCards()), ["one", "two"]);
  take({ type: "card_closed", request_id: "one", state: "declined" });
  take({ type: "card_closed", request_id: "one", state: "decided" });
  assert.deepEqual(names(openCards()), ["two"]);
  assert.equal(state.cards.get("one").state, "declined");
  take({ type: "card_closed", request_id: "unknown", state: "declined" });
  assert.equal(state.cards.has("unknown"), false);
  assert.equal(state.versions.get("trace_one"), 2);
});

test("what can be undone is no question, and only for a while", () => {
  take(card("done", { kind: "result" }));
  take(card("late", { kind: "result", expires_at: "2020-01-01T00:00:00Z" }));
  take(card("over", { kind: "result", state: "approved" }));
  assert.deepEqual(names(openCards()), []);
  assert.deepEqual(names(undoable()), ["done"]);
});

test("questions of every kind are cards", () => {
  const kinds = [
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
  for (const type of kinds) take({ ...card(type), kind: undefined, type });
  mock.timers.enable({ apis: ["setTimeout", "Date"] });
  take(secret("mail", "Mail password", 60));
  assert.deepEqual(names(openCards()), [...kinds, "secret:mail"]);
  assert.equal(state.cards.get("secret:mail").title, "Mail password");
  take({ type: "card_closed", request_id: "secret:mail", state: "stored" });
  assert.deepEqual(names(openCards()), kinds);
  mock.timers.reset();
});

test("a secret that nobody has typed in time is asked for no longer", () => {
  mock.timers.enable({ apis: ["setTimeout", "Date"] });
  take(secret("door", "Door code", 3600));
  mock.timers.tick(3599 * 1000);
  assert.deepEqual(names(openCards()), ["secret:door"]);
  take(secret("door", "Door code", 3600)); // asked for anew
  mock.timers.tick(3599 * 1000);
  assert.deepEqual(names(openCards()), ["secret:door"]);
  mock.timers.tick(1000);
  assert.deepEqual(names(openCards()), []);
  assert.equal(state.cards.get("secret:door").state, "expired");
  mock.timers.reset();
});

test("work is known by its request and item, and progress by its last lines", () => {
  take({ type: "work", trace_id: "t", work_item_id: "i", status: "running" });
  take({ type: "work", trace_id: "t", work_item_id: "i", status: "done" });
  take({ type: "work", trace_id: "t", work_item_id: "j", status: "running" });
  assert.deepEqual(
    [...state.work.get("t").values()].map((item) => item.status),
    ["done", "running"],
  );
  for (let line = 0; line < 100; line += 1) {
    take({ type: "progress", trace_id: "t", what: "step", detail: String(line) });
  }
  const lines = state.progress.get("t");
  assert.deepEqual([lines.length, lines.at(-1).detail], [60, "99"]);
  assert.equal(state.versions.get("t"), 103);
});

test("other frames reach whoever listens, and unknown ones nobody", () => {
  take({ type: "attention", hasty: true });
  assert.equal(state.hasty, true);
  take({ type: "journal_changed", cursor: 7 });
  take({ type: "companions_changed" });
  take({ type: "error", code: "E", message: "No." });
  take({ type: "activity", entries: [] });
  take({ type: "pong" });
  take({ type: "of a later version" });
  assert.deepEqual(
    heard.map(([what]) => what),
    ["cards", "journal", "companion_news", "error", "activity"],
  );
  assert.equal(heard[1][1].cursor, 7);
});
