// What changed between two versions of a plan, line by line, in words as well as in colour.
import { h } from "/dom.js";
import { visible } from "/visible.js";

const AROUND = 2;
const MOST = 1500;

/** A plan as lines that a person can compare. */
export function linesOf(plan) {
  const facts = [
    ["Title", plan.title], ["Where", plan.workspace?.path], ["When", plan.schedule],
    ["Network", plan.workspace?.network ? "allowed" : null],
    ["Outside", plan.approvals.map((each) => JSON.stringify(each)).join(", ")],
    ["At most", `${plan.budget.max_attempts} attempts, $${plan.budget.max_cost_usd}`],
  ];
  const checks = plan.verify.map((check) => `Check “${check.name}”: ${check.run} (${expectation(check.expect)})`);
  return [...facts.filter(([, value]) => value).map(([name, value]) => `${name}: ${value}`), ...plan.body.trimEnd().split("\n"), ...checks];
}

const expectation = (expect) => Object.entries(expect).filter(([, value]) => value !== null).map(([name, value]) => `${name} ${JSON.stringify(value)}`).join(", ");

/** The lines with what happened to each: `same`, `removed` or `added`. */
export function lineDiff(before, after) {
  const old = before.slice(0, MOST);
  const now = after.slice(0, MOST);
  const width = now.length + 1;
  const common = new Uint16Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) {
      common[i * width + j] = old[i] === now[j] ? common[(i + 1) * width + j + 1] + 1 : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
    }
  }
  const lines = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      lines.push({ what: "same", text: old[i] });
      [i, j] = [i + 1, j + 1];
    } else if (j >= now.length || (i < old.length && common[(i + 1) * width + j] >= common[i * width + j + 1])) {
      lines.push({ what: "removed", text: old[i++] });
    } else {
      lines.push({ what: "added", text: now[j++] });
    }
  }
  return lines;
}

const SIGNS = { same: " ", removed: "−", added: "+" };

/** What changed from one plan to the other; null if nothing did. */
export function diffView(before, after) {
  const lines = lineDiff(linesOf(before), linesOf(after));
  const changed = lines.map((line) => line.what !== "same");
  if (!changed.some(Boolean)) return h("p", { class: "diff-none" }, "Nothing has changed against the plan before.");
  const near = lines.map((_, index) => changed.slice(Math.max(0, index - AROUND), index + AROUND + 1).some(Boolean));
  const [gone, come] = ["removed", "added"].map((what) => lines.filter((line) => line.what === what).length);
  const rows = [];
  lines.forEach((line, index) => {
    if (near[index]) rows.push(row(line));
    else if (near[index - 1]) rows.push(h("li", { class: "diff-gap", "aria-hidden": "true" }, "…"));
  });
  return h("section", { class: "diff", "aria-label": "What changed" },
    h("p", { class: "diff-head" }, `Changed against the plan before: ${come} ${come === 1 ? "line" : "lines"} added, ${gone} removed.`),
    h("ol", { class: "diff-lines", tabindex: "0" }, rows));
}

function row({ what, text }) {
  return h("li", { class: `diff-${what}` },
    h("span", { class: "diff-sign", "aria-hidden": "true" }, SIGNS[what]),
    what !== "same" && h("span", { class: "sr" }, `${what}: `),
    h("span", { class: "diff-text" }, visible(text || " ")));
}
