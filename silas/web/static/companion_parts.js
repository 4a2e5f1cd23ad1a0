// Parts that the list of companions and the page of one share.
import { h } from "/dom.js";
import { visible } from "/visible.js";

export const HEALTH_WORDS = {
  running: "Working", idle: "Ready", sleeping: "Asleep", paused: "Paused", stopped: "Stopped",
  out_of_budget: "Budget used up", failing: "Failing", destroyed: "Ended",
};

/** A question, and how it is answered. */
export function question(each, desk) {
  const answer = (said) => said && desk.change("answer", { question_id: each.id, said });
  const options = each.options.length ? each.options : each.interaction_type === "yes_no" ? ["Yes", "No"] : [];
  const text = h("input", { type: "text", "aria-label": `Answer to: ${each.prompt_text}`, maxlength: 2000 });
  const form = h("form", { class: "companion-answer" }, text, h("button", { type: "submit", class: "primary" }, "Answer"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    answer(text.value.trim());
  });
  return h("div", { class: "companion-question" },
    h("p", {}, h("strong", {}, visible(each.agent_name)), " ", visible(each.prompt_text)),
    each.gates ? h("p", { class: "meta" }, `${each.gates} action${each.gates === 1 ? " waits" : "s wait"} for your answer.`) : null,
    options.length ? h("div", { class: "companion-options" }, options.map((option) => h("button", { type: "button", onclick: () => answer(option) }, visible(option)))) : form);
}

/** How it is, in a word. */
export const health = (each) => h("span", { class: "companion-health", "data-health": each.health }, HEALTH_WORDS[each.health] ?? each.health);

/** How much of today's budget is used: the limit that is nearest. */
export function meter(budget) {
  const shares = Object.entries(budget.limits).filter(([, most]) => most).map(([name, most]) => ({ name, share: (budget.used[name] ?? 0) / most }));
  if (!shares.length) return null;
  const most = shares.reduce((one, other) => (other.share > one.share ? other : one));
  const percent = Math.min(100, Math.round(most.share * 100));
  const words = { tokens: "tokens", cost_micro_usd: "money", runtime_ms: "time", tool_calls: "calls" };
  const bar = h("span", { class: "companion-meter", role: "meter", "aria-valuenow": percent, "aria-valuemin": 0, "aria-valuemax": 100, "aria-label": `Budget of today, ${words[most.name] ?? most.name}` }, h("i"));
  bar.firstChild.style.inlineSize = `${percent}%`;
  bar.dataset.share = percent >= 100 ? "full" : percent >= 80 ? "near" : "";
  return bar;
}
