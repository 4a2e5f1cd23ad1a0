// A plan that waits for the owner: what is shown here is parsed from the bytes that are signed.
import { sha256 } from "/canonical.js";
import { h, icon } from "/dom.js";
import { Hold } from "/hold.js";
import { blocksOf, codeBlock } from "/markdown.js";
import { visible } from "/visible.js";

export const RISKS = {
  low: "Low risk",
  medium: "Medium risk",
  high: "High risk",
  irreversible: "Cannot be undone",
};
export const VERDICTS = {
  approved: "Approved",
  declined: "Declined",
  edit_requested: "Changes asked for",
  decided: "Decided",
  open: "Waits for you",
};
const MOST_BLOCKS = 2;
const MOST_LINES = 3;
const MOST_WORDS = 160;
const MOST_ARGUMENTS = 8;

/** A small mark that says how risky something is. */
export function riskBadge(level) {
  return h("span", { class: `risk risk-${level}` }, icon(level === "low" ? "shield" : "alert"), RISKS[level] ?? level);
}

/** The plans of a card, each with the hash of exactly the text that is shown; throws if one lies. */
export async function plansOf(card) {
  if (!card.items.length) throw new Error("The plan is no longer there.");
  const plans = [];
  for (const item of card.items) {
    const hash = await sha256(new TextEncoder().encode(item.plan));
    if (hash !== item.plan_hash) throw new Error("This card does not show what would be signed.");
    plans.push({ id: item.id, hash, text: item.plan, plan: JSON.parse(item.plan) });
  }
  return plans;
}

/** The card; `decide(verdict, plans)` is called once the owner has done what its risk asks for. */
export function planCard(card, plans, decide) {
  const [root] = plans;
  const isCall = card.kind === "call";
  const title = isCall ? `Call ${root.plan.tool}` : root.plan.title;
  const node = h("article", { class: `card card-${card.risk_level}`, "aria-label": `${isCall ? "Call" : "Plan"}: ${title}`, "data-card": card.request_id });
  const hold = new Hold(node);
  node.hold = hold;
  node.append(
    h("header", { class: "card-head" }, riskBadge(card.risk_level), h("span", { class: "card-kind" }, isCall ? "One call" : kindOf(root.plan))),
    h("div", { class: "card-body" },
      h("h2", { class: "card-intent" }, visible(title)),
      h("p", { class: "card-why" }, visible(card.rationale)),
      taintNote(card),
      isCall ? callPreview(root.plan) : [preview(root.plan), facts(plans)],
    ),
    details(card, isCall ? [] : plans, plans),
    actions(card, title, hold, (verdict) => decide(verdict, plans)),
  );
  return node;
}

const kindOf = (plan) => ({ goal: "Standing goal", project: "Project", task: "Plan" })[plan.type] ?? "Plan";

function taintNote(card) {
  if (card.taint !== "external") return null;
  return h("p", { class: "card-taint" }, icon("alert"), "Text from outside had a part in this plan. Read the details.");
}

function facts(plans) {
  const [{ plan }] = plans;
  const checks = plans.flatMap((each) => each.plan.verify);
  const rows = [
    ["Where", plan.workspace?.path],
    ["When", plan.schedule],
    ["Outside", plan.approvals.map((each) => each.tool).join(", ")],
    ["Done when", checks.map((each) => each.name).join("; ")],
    ["At most", `${plan.budget.max_attempts} attempts, $${plan.budget.max_cost_usd}, ${minutes(plan.budget.max_wall_time_seconds)}`],
  ];
  const shown = rows.filter(([, value]) => value);
  return h("dl", { class: "facts" }, shown.map(([name, value]) => [h("dt", {}, name), h("dd", {}, visible(value))]));
}

// What the plan says, as far as it fits; the whole of it is in the details.
function preview(plan) {
  const { blocks, rest } = blocksOf(plan.body);
  const shown = blocks.slice(0, MOST_BLOCKS).map(({ info, lines }) => {
    const more = lines.length > MOST_LINES ? [`… ${lines.length - MOST_LINES} more lines`] : [];
    return codeBlock([...lines.slice(0, MOST_LINES), ...more].join("\n"), info);
  });
  const left = blocks.length - shown.length;
  return h("div", { class: "preview" },
    rest && h("p", {}, visible(rest.length > MOST_WORDS ? `${rest.slice(0, MOST_WORDS)}…` : rest)),
    shown, left > 0 && h("p", {}, `… and ${left} more ${left === 1 ? "step" : "steps"} in the details.`));
}

const minutes = (seconds) => (seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`);

// The arguments of a call, as far as they fit.
function callPreview(call) {
  const lines = JSON.stringify(call.args, null, 2).split("\n");
  const more = lines.length > MOST_ARGUMENTS ? [`… ${lines.length - MOST_ARGUMENTS} more lines in the details`] : [];
  return codeBlock([...lines.slice(0, MOST_ARGUMENTS), ...more].join("\n"), call.tool);
}

function details(card, plans, signed) {
  return h("details", { class: "card-details", open: card.details_expanded },
    h("summary", {}, icon("chevron"), "Everything that is signed"),
    plans.map(({ plan }) => h("section", { class: "plan" },
      plans.length > 1 && h("h3", {}, visible(plan.title)),
      h("pre", { class: "code plan-text", tabindex: "0" }, visible(plan.body)),
      plan.verify.length > 0 && h(plans.length > 1 ? "h4" : "h3", {}, "Checks"),
      plan.verify.map((check) => h("div", { class: "check-source" }, h("span", {}, visible(check.name)), codeBlock(check.run))),
    )),
    signed.map(({ text, hash, id }) => h("section", { class: "plan" }, h("details", { class: "raw", open: card.kind === "call" },
      h("summary", {}, icon("chevron"), "As it is signed, to the letter"),
      codeBlock(JSON.stringify(JSON.parse(text), null, 2)),
      h("p", { class: "hash" }, `SHA-256 of ${id}: `, h("code", {}, hash)),
    ))),
  );
}

function actions(card, title, hold, decide) {
  const row = h("div", { class: "card-actions" });
  const first = () => row.replaceChildren(...firstRow().filter(Boolean));
  const busy = (verdict) => {
    const strong = verdict === "approved" && card.steps.includes("strong_auth");
    row.replaceChildren(h("p", { class: "card-busy", role: "status" }, strong ? "Waiting for your passkey…" : "Signing…"));
    decide(verdict).catch((problem) => {
      first();
      row.prepend(h("p", { class: "card-problem", role: "alert" }, problem.message));
    });
  };
  const button = (label, className, listener) => h("button", { type: "button", class: className, onclick: hold.guard(listener) }, label);
  function firstRow() {
    const label = card.consequences.approved;
    return [
      card.refusal
        ? h("p", { class: "card-refusal", role: "alert" }, card.refusal)
        : button(label, "primary", () => (card.steps.length > 1 ? next(label) : busy("approved"))),
      !card.refusal && card.steps.includes("strong_auth") && h("p", { class: "card-strong" }, icon("key"), "After the slide, your passkey signs the hash of this plan."),
      h("div", { class: "card-others" },
        !card.refusal && card.consequences.edit_requested && button(card.consequences.edit_requested, "quiet", () => busy("edit_requested")),
        button(card.consequences.declined, "quiet decline", () => busy("declined")),
      ),
    ];
  }
  function next(label) {
    hold.start();
    const back = button("Not yet", "quiet", first);
    const step = card.steps[1] === "slide"
      ? slider(`Slide to ${label.toLowerCase()}`, hold, () => busy("approved"))
      : button(`Yes: ${title}`, "primary confirm", () => busy("approved"));
    row.replaceChildren(h("p", { class: "card-ask" }, `${label}?`), step, back);
    step.querySelector("input")?.focus();
    if (step.matches("button")) step.focus();
  }
  first();
  return row;
}

// A range that must be brought to its end; with the keyboard: the arrows, or End.
function slider(label, hold, done) {
  const input = h("input", { type: "range", min: "0", max: "100", value: "0", step: "1", class: "slide", "aria-label": label });
  let finished = false;
  const finish = hold.guard(() => {
    if (finished || Number(input.value) < 100) return;
    finished = true;
    done();
  });
  input.addEventListener("input", () => input.style.setProperty("--at", `${input.value}%`));
  input.addEventListener("change", (event) => {
    if (Number(input.value) >= 97) input.value = "100";
    finish(event);
    if (!finished) {
      input.value = "0";
      input.style.setProperty("--at", "0%");
    }
  });
  return h("label", { class: "slide-box" }, h("span", { "aria-hidden": "true" }, label), input);
}
