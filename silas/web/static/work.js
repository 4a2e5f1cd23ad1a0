// Work that goes on: its calls as they happen, its checks as they turn green, what it has used.
import { h, icon } from "/dom.js";
import { visible } from "/visible.js";

const WORDS = {
  pending: "Waits", running: "Working", done: "Done and checked", failed: "Failed", stuck: "Stuck",
  blocked: "Waits for you", paused: "Paused", healthy: "Healthy",
};
const GOOD = new Set(["done", "healthy"]);
const BAD = new Set(["failed", "stuck"]);
const SHOWN = 4;

/** How the work of a request goes; null if there is none. */
export function workView(items, lines) {
  if (!items?.size && !lines?.length) return null;
  const nodes = [...(items?.values() ?? [])].map((item) => itemView(item, lines ?? []));
  return h("div", { class: "work", "aria-label": "Work", role: "group" }, nodes);
}

function itemView(item, lines) {
  const status = liveStatus(item, lines);
  const tone = GOOD.has(status) ? "good" : BAD.has(status) ? "bad" : "busy";
  return h("div", { class: `work-item work-${tone}`, "data-status": status },
    h("p", { class: "work-head", role: "status" }, mark(tone), h("span", {}, WORDS[status] ?? status),
      h("span", { class: "work-attempt" }, item.attempts > 1 ? `attempt ${item.attempts} of ${item.budget.max_attempts}` : "")),
    checks(item, lines),
    tone === "busy" && h("ul", { class: "work-lines" }, lines.slice(-SHOWN).filter((line) => line.detail).map((line) => h("li", {}, visible(shortened(line.detail))))),
    meter(item),
  );
}

function liveStatus(item, lines) {
  if (item.status !== "pending") return item.status;
  return lines.length ? "running" : "pending";
}

function mark(tone) {
  if (tone === "busy") return h("span", { class: "spinner", "aria-hidden": "true" });
  return icon(tone === "good" ? "check" : "cross");
}

function checks(item, lines) {
  if (!item.checks.length) return null;
  return h("ul", { class: "checks" }, item.checks.map((check) => {
    const passed = check.passed ?? seen(check.name, lines);
    const name = passed === null ? "open" : passed ? "passed" : "failed";
    const said = { open: "not run yet", passed: "passed", failed: "did not pass" }[name];
    return h("li", { class: `check check-${name}` },
      passed === null ? h("span", { class: "check-dot", "aria-hidden": "true" }) : icon(passed ? "check" : "cross"),
      h("span", {}, visible(check.name)), h("span", { class: "sr" }, `: ${said}`));
  }));
}

function seen(name, lines) {
  const found = lines.findLast((line) => ["passed", "failed"].includes(line.what) && line.detail.startsWith(`${name}:`));
  return found ? found.what === "passed" : null;
}

function meter(item) {
  const share = Math.max(
    item.budget_used.tokens / item.budget.max_tokens,
    item.budget_used.cost_usd / item.budget.max_cost_usd,
    item.budget_used.wall_time_seconds / item.budget.max_wall_time_seconds,
  );
  if (!(share > 0.005)) return null;
  const percent = Math.min(100, Math.round(share * 100));
  const bar = h("span", { class: "meter-bar" });
  bar.style.inlineSize = `${percent}%`;
  return h("div", { class: "meter", role: "img", "aria-label": `${percent} percent of the budget used` }, bar);
}

const shortened = (text) => {
  const line = text.replace(/\s+/g, " ");
  return line.length > 140 ? `${line.slice(0, 140)}…` : line;
};
