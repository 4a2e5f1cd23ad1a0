// @ts-check
// Activity: what happened, told from the audit log.
import { autonomyPart } from "/autonomy.js";
import { day, h, icon, time } from "/dom.js";
import { answerOf } from "/keys.js";
import { workOpener } from "/results.js";
import { sessionFetch } from "/session.js";
import { onChange, openCards, state } from "/state.js";
import { usageParts } from "/usage.js";
import { visible } from "/visible.js";

const MOST = 60;

/** The surface; `send(frame)` asks for it, `close()` leaves it, `show` opens a card. */
export function activityView(page) {
  const { send, close, show } = page;
  const list = h("div", { class: "timeline" });
  const usage = usageParts();
  const autonomy = autonomyPart(page);
  const node = h(
    "section",
    { class: "surface activity", id: "activity", "aria-label": "Activity", tabindex: "-1" },
    h(
      "header",
      { class: "activity-head" },
      h("h2", {}, "Activity"),
      h(
        "button",
        { type: "button", class: "quiet close", "aria-label": "Close Activity", onclick: close },
        icon("cross"),
      ),
    ),
    ...usage.nodes,
    decidingPart(),
    autonomy.node,
    list,
  );
  const draw = () => list.replaceChildren(...contents(show));
  const ask = () => send({ type: "activity_request", count: MOST });
  onChange((what) => {
    if (what === "activity") draw();
    if (["messages", "ready"].includes(what) && "current" in node.dataset) ask();
  });
  draw();
  const opened = () => {
    ask();
    usage.renew();
    autonomy.renew();
  };
  return { node, opened };
}

// How fast decisions are made, how often it is a no: told by the log, when somebody wants to know.
function decidingPart() {
  const lines = h("ul", { class: "deciding" });
  const node = h("details", {}, h("summary", {}, icon("chevron"), "How deciding goes"), lines);
  node.addEventListener("toggle", async () => {
    if (!node.open) return;
    try {
      const found = await answerOf(
        await sessionFetch("/api/metrics"),
        "This cannot be read right now.",
      );
      lines.replaceChildren(
        h("li", { class: "meta" }, `The last ${found.days} days`),
        ...found.lines.map((line) => h("li", {}, visible(line))),
      );
    } catch (problem) {
      lines.replaceChildren(h("li", {}, problem.message));
    }
  });
  return node;
}

function contents(show) {
  if (state.activity === null)
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
  if (!state.activity.length) return [h("p", { class: "empty" }, "Nothing has happened yet.")];
  const parts = [];
  let today = "";
  for (const entry of state.activity) {
    const date = day(entry.at);
    if (date !== today) parts.push(h("h3", { class: "day" }, (today = date)));
    parts.push(
      h(
        "div",
        { class: `entry ${entry.tone ?? ""}` },
        h("span", { class: "entry-dot", "aria-hidden": "true" }),
        h("div", { class: "entry-words" }, ...words(entry, show)),
        time(entry.at),
      ),
    );
  }
  return parts;
}

// What it is about opens with a tap: a card that still waits, or the work that came of it.
function words(entry, show) {
  const said = h(
    "span",
    {},
    visible(entry.text),
    (entry.times ?? 1) > 1 && ` (${entry.times} times in a row)`,
    entry.tone === "bad" && h("span", { class: "sr" }, " Needs a look."),
  );
  const open = entry.card_id && openCards().some((card) => card.request_id === entry.card_id);
  if (open)
    return [
      h(
        "button",
        { type: "button", class: "entry-open", onclick: () => show("review", entry.card_id) },
        said,
      ),
    ];
  if (entry.work_item_id) return workOpener(entry.work_item_id, `activity ${entry.seq}`, said);
  return [h("p", {}, said)];
}
