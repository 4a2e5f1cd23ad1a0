// @ts-check
// Parts that the list of companions and the page of one share.
import { day, h } from "/dom.js";
import { visible } from "/visible.js";

export const HEALTH_WORDS = {
  running: "Working",
  idle: "Ready",
  sleeping: "Asleep",
  paused: "Paused",
  stopped: "Stopped",
  out_of_budget: "Budget used up",
  needs_consent: "Needs your consent",
  held_back: "Held back",
  failing: "Failing",
  destroyed: "Ended",
};

/** A question, and how it is answered. */
export function question(each, desk) {
  const answer = (said) => said && desk.change("answer", { question_id: each.id, said });
  const options = each.options.length
    ? each.options
    : each.interaction_type === "yes_no"
      ? ["Yes", "No"]
      : [];
  const text = h("input", {
    type: "text",
    "aria-label": `Answer to: ${each.prompt_text}`,
    maxlength: 2000,
  });
  const form = h(
    "form",
    { class: "companion-answer" },
    text,
    h("button", { type: "submit", class: "primary" }, "Answer"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    answer(text.value.trim());
  });
  return h(
    "div",
    { class: "companion-question" },
    h("p", {}, h("strong", {}, visible(each.agent_name)), " ", visible(each.prompt_text)),
    each.required_by ? h("p", { class: "meta" }, `Until ${day(each.required_by)}.`) : null,
    each.gates
      ? h(
          "p",
          { class: "meta" },
          `${each.gates} action${each.gates === 1 ? " waits" : "s wait"} for your answer.`,
        )
      : null,
    options.length
      ? h(
          "div",
          { class: "companion-options" },
          options.map((option) =>
            h("button", { type: "button", onclick: () => answer(option) }, visible(option)),
          ),
        )
      : form,
    h(
      "button",
      {
        type: "button",
        class: "quiet companion-leave",
        onclick: () => desk.change("leave", { question_id: each.id }),
      },
      "Leave it",
    ),
  );
}

/** How it is, in a word. */
export const health = (each) =>
  h(
    "span",
    { class: "companion-health", "data-health": each.health },
    HEALTH_WORDS[each.health] ?? each.health,
  );

const MICRO = 1_000_000;
const MINUTE = 60_000;
const MEASURES = [
  ["tokens", "Tokens", 1, "1"],
  ["cost_micro_usd", "US dollars", MICRO, "0.01"],
  ["runtime_ms", "Minutes", MINUTE, "1"],
  ["tool_calls", "Tool calls", 1, "1"],
];

/** What a budget limits, in the units that people set it in. */
export function measures(budget) {
  const shown = (amount, unit) => Math.round((amount / unit) * 100) / 100;
  return MEASURES.map(([name, label, unit, step]) => ({
    name,
    label,
    unit,
    step,
    used: shown(budget.used[name] ?? 0, unit),
    limit: budget.limits[name] === null ? null : shown(budget.limits[name], unit),
    share:
      budget.limits[name] === null
        ? 0
        : budget.limits[name] === 0
          ? 1
          : (budget.used[name] ?? 0) / budget.limits[name],
  }));
}

/** How much of today's budget is used: the limit that is nearest. */
export function meter(budget) {
  const limited = measures(budget).filter(({ limit }) => limit !== null);
  if (!limited.length) return null;
  const most = limited.reduce((one, other) => (other.share > one.share ? other : one));
  const percent = Math.min(100, Math.round(most.share * 100));
  const words = `${most.label}: ${most.used} of ${most.limit} used today`;
  const bar = h(
    "span",
    {
      class: "companion-meter",
      role: "meter",
      title: words,
      "aria-valuenow": percent,
      "aria-valuemin": 0,
      "aria-valuemax": 100,
      "aria-label": words,
    },
    h("i"),
  );
  bar.firstChild.style.inlineSize = `${percent}%`;
  bar.dataset.share = percent >= 100 ? "full" : percent >= 80 ? "near" : "";
  return bar;
}
