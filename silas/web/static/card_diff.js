// @ts-check
// What changed between two versions of a plan, line by line, in words as well as in colour.
import { h } from "/dom.js";
import { visible } from "/visible.js";

const AROUND = 2;
const MOST = 1500;

/** A plan as lines that a person can compare: every field but its id, which always differs. */
export function linesOf({
  id,
  title,
  schedule,
  approvals,
  body,
  verify,
  workspace,
  budget,
  ...others
}) {
  const { path, network, ...place } = workspace ?? {};
  const { max_attempts: attempts, max_cost_usd: cost, ...limits } = budget;
  const facts = [
    ["Title", title],
    ["Where", path],
    ["When", scheduleInWords(schedule)],
    ["Network", networkInWords(network)],
    ["Outside", approvals.map((each) => JSON.stringify(each)).join(", ")],
    ["At most", `${attempts} attempts, ${dollars(cost)}`],
  ];
  const checks = verify.map(
    ({ name, run, expect, ...rest }) =>
      `Check “${name}”: ${run} (${expectation(expect)})${filled(rest)
        .map((each) => `, ${each}`)
        .join("")}`,
  );
  return [
    ...facts.filter(([, value]) => value).map(([name, value]) => `${name}: ${value}`),
    ...body.trimEnd().split("\n"),
    ...checks,
    ...filled({ ...others, ...place, ...limits }),
  ];
}

// As a price is written, unless that would hide a part of it.
const dollars = (cost) => `$${Number(cost.toFixed(2)) === cost ? cost.toFixed(2) : cost}`;

/** The hosts that a plan or a check reaches, for the person who decides; null if there are none. */
export const networkInWords = (hosts) =>
  hosts?.length ? `reaches ${hosts.join(", ")}, and nothing else` : null;

const MONTHS =
  "January February March April May June July August September October November December".split(
    " ",
  );
const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/** When a goal is looked at; a cron expression that words cannot say stays as it is written. */
export function scheduleInWords(schedule) {
  if (!schedule) return null;
  if (schedule === "always_on") return "always";
  if (schedule === "0 * * * *") return "every hour";
  if (schedule === "* * * * *") return "every minute";
  const every = /^(?:\*\/(\d\d?) \*|0 \*\/(\d\d?)) \* \* \*$/.exec(schedule);
  if (every) {
    const [, minutes, hours] = every;
    const [count, unit] = minutes ? [minutes, "minute"] : [hours, "hour"];
    return count === "1" ? `every ${unit}` : `every ${count} ${unit}s`;
  }
  const at = /^(\d\d?) (\d\d?) (?:\* \* (\*|1-5|[0-7](?:,[0-7])*)|(\d\d?) (\*|\d\d?) \*)$/.exec(
    schedule,
  );
  if (!at || Number(at[1]) > 59 || Number(at[2]) > 23 || Number(at[5]) > 12) return schedule;
  const [, minute, hour, day, date, month] = at;
  const named = day ? dayInWords(day) : dateInWords(Number(date), month);
  return `every ${named} at ${hour}:${minute.padStart(2, "0")}`;
}

function dayInWords(day) {
  const fixed = { "*": "day", "1-5": "weekday", "0,6": "weekend" }[day];
  const names = fixed ? [] : day.split(",").map((each) => DAYS[Number(each) % 7]);
  return fixed ?? [names.slice(0, -1).join(", "), names.at(-1)].filter(Boolean).join(" and ");
}

function dateInWords(date, month) {
  const suffix = Math.floor(date / 10) === 1 ? "th" : (["th", "st", "nd", "rd"][date % 10] ?? "th");
  return month === "*"
    ? `month on the ${date}${suffix}`
    : `year on ${date} ${MONTHS[Number(month) - 1]}`;
}

const isEmpty = (value) =>
  value === null || value === "" || (typeof value === "object" && !Object.keys(value).length);
const filled = (fields) =>
  Object.entries(fields)
    .filter(([, value]) => !isEmpty(value))
    .map(([name, value]) => `${name}: ${JSON.stringify(value)}`);
const expectation = (expect) =>
  Object.entries(expect)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name} ${JSON.stringify(value)}`)
    .join(", ");

/** The lines with what happened to each: `same`, `removed` or `added`. */
export function lineDiff(before, after) {
  const shorter = Math.min(before.length, after.length);
  let head = 0;
  while (head < shorter && before[head] === after[head]) head += 1;
  let tail = 0;
  while (tail < shorter - head && before.at(-1 - tail) === after.at(-1 - tail)) tail += 1;
  const same = (text) => ({ what: "same", text });
  const middle = between(
    before.slice(head, before.length - tail),
    after.slice(head, after.length - tail),
  );
  return [
    ...before.slice(0, head).map(same),
    ...middle,
    ...before.slice(before.length - tail).map(same),
  ];
}

// What is too long to be compared line by line is all removed and all added: nothing is left out.
function between(old, now) {
  if (Math.max(old.length, now.length) > MOST) {
    return [
      ...old.map((text) => ({ what: "removed", text })),
      ...now.map((text) => ({ what: "added", text })),
    ];
  }
  const width = now.length + 1;
  const common = new Uint16Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) {
      common[i * width + j] =
        old[i] === now[j]
          ? common[(i + 1) * width + j + 1] + 1
          : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
    }
  }
  const lines = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      lines.push({ what: "same", text: old[i] });
      [i, j] = [i + 1, j + 1];
    } else if (
      j >= now.length ||
      (i < old.length && common[(i + 1) * width + j] >= common[i * width + j + 1])
    ) {
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
  if (!changed.some(Boolean))
    return h("p", { class: "diff-none" }, "Nothing has changed against the plan before.");
  const near = lines.map((_, index) =>
    changed.slice(Math.max(0, index - AROUND), index + AROUND + 1).some(Boolean),
  );
  const [gone, come] = ["removed", "added"].map(
    (what) => lines.filter((line) => line.what === what).length,
  );
  const rows = [];
  lines.forEach((line, index) => {
    if (near[index]) rows.push(row(line));
    else if (near[index - 1]) rows.push(h("li", { class: "diff-gap", "aria-hidden": "true" }, "…"));
  });
  return h(
    "section",
    { class: "diff", "aria-label": "What changed" },
    h(
      "p",
      { class: "diff-head" },
      `Changed against the plan before: ${come} ${come === 1 ? "line" : "lines"} added, ${gone} removed.`,
    ),
    h("ol", { class: "diff-lines", tabindex: "0" }, rows),
  );
}

/** One line of a difference. */
export function row({ what, text }) {
  return h(
    "li",
    { class: `diff-${what}` },
    h("span", { class: "diff-sign", "aria-hidden": "true" }, SIGNS[what]),
    what !== "same" && h("span", { class: "sr" }, `${what}: `),
    h("span", { class: "diff-text" }, visible(text || " ")),
  );
}
