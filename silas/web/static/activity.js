// Activity: what happened, told from the audit log.
import { day, h, icon, time } from "/dom.js";
import { onChange, state } from "/state.js";
import { visible } from "/visible.js";

const GOOD = new Set(["work_done", "approval_issued", "card_decided", "device_enrolled"]);
const BAD = new Set([
  "gate_blocked", "approval_refused", "tool_call_blocked", "card_decision_forged", "card_decision_unsigned",
  "message_downgraded", "pairing_refused", "work_attempt_ended", "plan_refused",
]);

const MOST = 60;

/** The surface; `send(frame)` asks for it, `close()` leaves the slide-over. */
export function activityView({ send, close }) {
  const list = h("div", { class: "timeline" });
  const node = h("section", { class: "surface activity", id: "activity", "aria-label": "Activity", tabindex: "-1" },
    h("header", { class: "activity-head" }, h("h2", {}, "Activity"),
      h("button", { type: "button", class: "quiet close", "aria-label": "Close Activity", onclick: close }, icon("cross"))),
    list);
  const draw = () => list.replaceChildren(...contents());
  const ask = () => send({ type: "activity_request", count: MOST });
  onChange((what) => {
    if (what === "activity") draw();
    if (["messages", "ready"].includes(what) && "current" in node.dataset) ask();
  });
  draw();
  return { node, opened: ask };
}

function contents() {
  if (state.activity === null) return [h("div", { class: "skeleton", role: "status" }, h("span", { class: "sr" }, "Loading"), h("i"), h("i"), h("i"))];
  if (!state.activity.length) return [h("p", { class: "empty" }, "Nothing has happened yet.")];
  const parts = [];
  let today = "";
  for (const entry of state.activity) {
    const date = day(entry.at);
    if (date !== today) parts.push(h("h3", { class: "day" }, (today = date)));
    const tone = GOOD.has(entry.event) ? "good" : BAD.has(entry.event) ? "bad" : "";
    parts.push(h("div", { class: `entry ${tone}` }, h("span", { class: "entry-dot", "aria-hidden": "true" }), h("p", {}, visible(entry.text)), time(entry.at)));
  }
  return parts;
}
