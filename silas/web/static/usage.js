// @ts-check
// What models have used, by day and by what it was for, and what is left of the limits.
import { groupedChart, meterOf, plainTable } from "/charts.js";
import { h, icon } from "/dom.js";
import { answerOf } from "/keys.js";
import { sessionFetch } from "/session.js";
import { visible } from "/visible.js";

const SPANS = [
  [14, "Two weeks"],
  [30, "A month"],
  [90, "Three months"],
];
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const NUMBER = new Intl.NumberFormat();
const SHORT = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });

/** Two parts of Activity. Nothing is asked for before one is opened; `renew` asks again for those that are. */
export function usageParts() {
  let span = SPANS[0][0];
  const used = part("What models used", (box, found) => {
    // Where no model was ever chosen, another span has nothing to show either.
    const choice = found.has_model || found.report.lines.length ? [spans()] : [];
    box.replaceChildren(...choice, ...contents(found));
  });
  const left = part("Budgets", (box, found) => box.replaceChildren(...budgets(found)));

  function spans() {
    return h(
      "div",
      { class: "chips", role: "group", "aria-label": "How long" },
      SPANS.map(([days, name]) =>
        h(
          "button",
          {
            type: "button",
            class: "chip",
            "aria-pressed": String(days === span),
            onclick: async () => {
              span = days;
              await used.show();
              used.node.querySelector("[aria-pressed=true]")?.focus();
            },
          },
          name,
        ),
      ),
    );
  }

  function part(name, fill) {
    const box = h("div", { class: "usage", role: "status" });
    const head = h("summary", {}, icon("chevron"), name);
    const node = h("details", { class: "usage-part" }, head, box);
    const show = async () => {
      try {
        const asked = await sessionFetch(`/api/usage/${span}`);
        fill(box, await answerOf(asked, "This cannot be read right now."));
      } catch (problem) {
        box.replaceChildren(h("p", {}, problem.message));
      }
    };
    node.addEventListener("toggle", () => node.open && show());
    return { node, show };
  }

  const parts = [used, left];
  return {
    nodes: parts.map(({ node }) => node),
    renew: () => parts.forEach(({ node, show }) => node.open && show()),
  };
}

/** What was used, as charts and a table; a cost that nobody knows is said to be unknown. */
export function contents({ note, report }) {
  const told = note && h("p", { class: "usage-note" }, visible(note));
  if (!report.lines.length) return [told].filter(Boolean);
  const priced = report.days.some(({ cost_usd: cost }) => cost > 0);
  return [
    told,
    groupedChart({
      title: "Tokens in each day",
      of: "Day",
      columns: ["Tokens"],
      rows: byDay(report, ({ tokens }) => ({ value: tokens, words: SHORT.format(tokens) })),
      days: true,
    }),
    priced &&
      groupedChart({
        title: "Dollars in each day",
        of: "Day",
        columns: ["Dollars"],
        rows: byDay(report, ({ cost_usd: value, cost }) => ({ value, words: cost })),
        days: true,
      }),
    h("h3", { class: "usage-head" }, "By what it was for"),
    h(
      "div",
      { class: "usage-lines", tabindex: "0", role: "region", "aria-label": "By what it was for" },
      plainTable({
        title: "By what it was for",
        head: ["For", "Model", "Answers", "Tokens read", "Tokens written", "Cost"],
        rows: report.lines.map((line) => [
          line.does,
          line.model,
          NUMBER.format(line.answers),
          NUMBER.format(line.input_tokens),
          NUMBER.format(line.output_tokens),
          line.cost,
        ]),
      }),
    ),
  ].filter(Boolean);
}

const byDay = ({ days }, valueOf) =>
  days.map((day) => ({ label: DAY.format(new Date(`${day.date}T12:00`)), values: [valueOf(day)] }));

/** A meter for each limit of which something is used, and when it starts anew. */
export function budgets({ budgets: groups, left_out: more }) {
  if (!groups.length)
    return [h("p", { class: "usage-note" }, "Nothing of a budget is in use right now.")];
  return [
    h(
      "ul",
      { class: "budgets" },
      groups.map(({ name, anew, meters }) =>
        h(
          "li",
          {},
          h("h3", { class: "usage-head" }, visible(name)),
          meters.map(meterOf),
          h("p", { class: "usage-note" }, anew),
        ),
      ),
    ),
    more > 0 && h("p", { class: "usage-note" }, `${more} more are in use.`),
  ].filter(Boolean);
}
