// What changed between two versions of a plan, line by line, in words as well as in colour.
import { h } from "/dom.js";
import { visible } from "/visible.js";

const AROUND = 2;
const MOST = 1500;

/** A plan as lines that a person can compare: every field but its id, which always differs. */
export function linesOf({ id, title, schedule, approvals, body, verify, workspace, budget, ...others }) {
  const { path, network, ...place } = workspace ?? {};
  const { max_attempts: attempts, max_cost_usd: cost, ...limits } = budget;
  const facts = [
    ["Title", title], ["Where", path], ["When", schedule],
    ["Network", network ? "allowed" : null],
    ["Outside", approvals.map((each) => JSON.stringify(each)).join(", ")],
    ["At most", `${attempts} attempts, $${cost}`],
  ];
  const checks = verify.map(({ name, run, expect, ...rest }) => `Check “${name}”: ${run} (${expectation(expect)})${filled(rest).map((each) => `, ${each}`).join("")}`);
  return [...facts.filter(([, value]) => value).map(([name, value]) => `${name}: ${value}`), ...body.trimEnd().split("\n"), ...checks, ...filled({ ...others, ...place, ...limits })];
}

const isEmpty = (value) => value === null || value === "" || (typeof value === "object" && !Object.keys(value).length);
const filled = (fields) => Object.entries(fields).filter(([, value]) => !isEmpty(value)).map(([name, value]) => `${name}: ${JSON.stringify(value)}`);
const expectation = (expect) => Object.entries(expect).filter(([, value]) => value !== null).map(([name, value]) => `${name} ${JSON.stringify(value)}`).join(", ");

/** The lines with what happened to each: `same`, `removed` or `added`. */
export function lineDiff(before, after) {
  const shorter = Math.min(before.length, after.length);
  let head = 0;
  while (head < shorter && before[head] === after[head]) head += 1;
  let tail = 0;
  while (tail < shorter - head && before.at(-1 - tail) === after.at(-1 - tail)) tail += 1;
  const same = (text) => ({ what: "same", text });
  const middle = between(before.slice(head, before.length - tail), after.slice(head, after.length - tail));
  return [...before.slice(0, head).map(same), ...middle, ...before.slice(before.length - tail).map(same)];
}

// What is too long to be compared line by line is all removed and all added: nothing is left out.
function between(old, now) {
  if (Math.max(old.length, now.length) > MOST) {
    return [...old.map((text) => ({ what: "removed", text })), ...now.map((text) => ({ what: "added", text }))];
  }
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
