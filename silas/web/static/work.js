// @ts-check
// Work that goes on: attempts, calls as they happen, checks as they turn green, what it has used.
import { changedFiles } from "/card_files.js";
import { h, icon } from "/dom.js";
import { visible } from "/visible.js";

const WORDS = {
  pending: "Waits",
  running: "Working",
  verifying: "Checking",
  done: "Done, and checked",
  unchecked: "Done, not checked",
  failed: "Failed",
  stuck: "Stuck",
  blocked: "Waits for you",
  paused: "Paused",
  cancelled: "Cancelled",
  replaced: "Replaced by another plan",
  healthy: "Healthy",
};
const GOOD = new Set(["done", "healthy"]);
const PLAIN = new Set(["unchecked"]);
const BAD = new Set(["failed", "stuck"]);
const CALM = new Set([...["pending", "blocked", "paused"], ...["cancelled", "replaced"]]);
const SHOWN = 5;
const LONGEST = 140;

/** How the work of a request goes; null if there is none. */
export function workView(items, lines) {
  if (!items?.size && !lines?.length) return null;
  const all = [...(items?.values() ?? [])];
  const nodes = all.map((item) =>
    itemView(
      item,
      all.length === 1 || item.status === "running" ? (lines ?? []) : [],
      all.length > 1,
    ),
  );
  return h("div", { class: "work", "aria-label": "Work", role: "group" }, nodes);
}

function itemView(item, lines, named) {
  const status = liveStatus(item, lines);
  const tone = GOOD.has(status)
    ? "good"
    : PLAIN.has(status)
      ? "plain"
      : BAD.has(status)
        ? "bad"
        : CALM.has(status)
          ? "calm"
          : "busy";
  const attempt = Math.max(item.attempts, attemptOf(lines));
  return h(
    "div",
    { class: `work-item work-${tone}`, "data-status": status },
    named && h("p", { class: "work-title" }, visible(item.title)),
    h(
      "p",
      { class: "work-head", role: "status" },
      mark(tone),
      h("span", {}, WORDS[status] ?? status),
      attempt > 0 &&
        h(
          "span",
          { class: "work-attempt" },
          tone === "busy" || attempt > 1 ? attemptWords(attempt, item.budget.max_attempts) : "",
        ),
    ),
    tone === "plain" && item.why && h("p", { class: "work-why" }, visible(item.why)),
    tone === "busy" && calls(lines),
    checks(item, lines),
    changedFiles(item),
    meter(item),
  );
}

const ENDED = new Set([
  ...["done", "unchecked", "failed", "stuck", "healthy"],
  ...["cancelled", "replaced"],
]);

// Work that was resumed, and a goal, may be tried more often than one budget allows.
const attemptWords = (attempt, most) =>
  attempt > most ? `attempt ${attempt}` : `attempt ${attempt} of ${most}`;

function liveStatus(item, lines) {
  if (ENDED.has(item.status) || !lines.length) return item.status;
  const last = lines.at(-1).what;
  if (["waits", "blocked"].includes(last)) return "blocked";
  if (["paused", "cancelled"].includes(last)) return last;
  return ["verifying", "passed", "failed"].includes(last) ? "verifying" : "running";
}

function attemptOf(lines) {
  const found = lines.findLast((line) => ["attempt", "goes on"].includes(line.what));
  return Number.parseInt(found?.detail, 10) || 0;
}

function mark(tone) {
  if (tone === "busy") return h("span", { class: "spinner", "aria-hidden": "true" });
  if (tone === "calm") return h("span", { class: "check-dot", "aria-hidden": "true" });
  return icon(["good", "plain"].includes(tone) ? "check" : "cross");
}

/** The calls of the attempt that goes on, each with what came back. */
export function callsOf(lines) {
  const start = lines.findLastIndex((line) => ["attempt", "goes on"].includes(line.what));
  const found = [];
  for (const { what, detail } of lines.slice(start + 1)) {
    if (what === "call") found.push({ call: detail, result: null });
    if (what === "result" && found.length) found.at(-1).result = detail;
    if (what === "note") found.push({ call: detail, result: "" });
  }
  return found;
}

function calls(lines) {
  const found = callsOf(lines);
  if (!found.length) return null;
  const hidden = found.length - SHOWN;
  return h(
    "ol",
    { class: "work-calls", start: String(Math.max(1, hidden + 1)) },
    found
      .slice(-SHOWN)
      .map(({ call, result }) =>
        h(
          "li",
          { class: result === null ? "call-open" : "call-back" },
          h("code", {}, visible(shortened(call))),
          result && h("span", { class: "call-result" }, visible(shortened(result))),
        ),
      ),
  );
}

function checks(item, lines) {
  if (!item.checks.length) return null;
  return h(
    "ul",
    { class: "checks" },
    item.checks.map((check) => {
      const passed = check.passed ?? seen(check.name, lines);
      const name = passed === null ? "open" : passed ? "passed" : "failed";
      const said = { open: "not run yet", passed: "passed", failed: "did not pass" }[name];
      const outcome = passed && check.outcome;
      return h(
        "li",
        { class: `check check-${name}` },
        passed === null
          ? h("span", { class: "check-dot", "aria-hidden": "true" })
          : icon(passed ? "check" : "cross"),
        h("span", {}, visible(check.name)),
        h("span", { class: "sr" }, `: ${said}`),
        outcome && h("span", { class: "check-why" }, visible(outcome)),
        passed === false &&
          check.reason &&
          h("span", { class: "check-why" }, visible(shortened(check.reason))),
      );
    }),
  );
}

function seen(name, lines) {
  const found = lines.findLast(
    (line) => ["passed", "failed"].includes(line.what) && line.detail.startsWith(`${name}:`),
  );
  return found ? found.what === "passed" : null;
}

// What is used up of what was approved: the bar is the scarcest of the three.
function meter(item) {
  const { budget, budget_used: used } = item;
  const share = Math.max(
    used.tokens / budget.max_tokens,
    used.cost_usd / budget.max_cost_usd,
    used.wall_time_seconds / budget.max_wall_time_seconds,
  );
  if (!(share > 0.005)) return null;
  const percent = Math.min(100, Math.round(share * 100));
  const bar = h("span", { class: `meter-bar${share > 0.8 ? " meter-high" : ""}` });
  bar.style.inlineSize = `${Math.max(1, percent)}%`;
  const told = [
    duration(used.wall_time_seconds),
    used.tokens > 0 && `${used.tokens.toLocaleString()} tokens`,
    used.cost_usd > 0 && `$${used.cost_usd.toFixed(4)}`,
  ];
  return h(
    "div",
    { class: "budget" },
    h(
      "div",
      { class: "meter", role: "img", "aria-label": `${percent} percent of the budget used` },
      bar,
    ),
    h("span", { class: "budget-words" }, told.filter(Boolean).join(" · ")),
  );
}

const duration = (seconds) =>
  seconds < 90 ? `${seconds.toFixed(seconds < 10 ? 1 : 0)} s` : `${Math.round(seconds / 60)} min`;

const shortened = (text) => {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > LONGEST ? `${line.slice(0, LONGEST)}…` : line;
};
