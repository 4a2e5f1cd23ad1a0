// @ts-check
// A plan that waits for the owner: what is shown here is parsed from the bytes that are signed.
import { sha256 } from "/canonical.js";
import { actionRow } from "/card_actions.js";
import { diffView, networkInWords, scheduleInWords } from "/card_diff.js";
import {
  areFiles,
  checkNotes,
  declaredFiles,
  fileChoice,
  filesTitle,
  hasProof,
  previewedFiles,
} from "/card_files.js";
import { clock, h, icon } from "/dom.js";
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
  withdrawn: "Withdrawn",
  approve: "Approved",
  decline: "Declined",
  narrow: "Approved, only this part",
  edit: "Changed",
  edit_selection: "Some chosen",
  rephrase: "To be rewritten",
  reject: "Dropped",
  again: "Asked for again",
  another_way: "Planned anew",
  leave: "Left",
  done: "Done",
  cancel: "Cancelled",
  trouble: "Did not work",
  skip: "Skipped",
  deny: "Not allowed",
  just_this_once: "Just this once",
  answered: "Answered",
  do_it: "To be planned",
  not_now: "Not now",
  block: "Blocked",
  tighten_now: "Tightened",
  stored: "Stored",
  expired: "Nobody answered",
  outdated: "No longer asked",
  decided: "Decided",
  open: "Waits for you",
};
const WRITES = /^(?:file|edit|append) /;
const MOST_BLOCKS = 2;
const MOST_LINES = 3;
const MOST_WORDS = 160;
const MOST_ARGUMENTS = 8;

/** A small mark that says how risky something is. */
export function riskBadge(level) {
  return h(
    "span",
    { class: `risk risk-${level}` },
    icon(level === "low" ? "shield" : "alert"),
    RISKS[level] ?? level,
  );
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
export function planCard(card, plans, decide, before = null) {
  const [root] = plans;
  const isCall = card.kind === "call";
  const isResult = card.kind === "result";
  const compared = before && plans.length === 1; // of several plans, a comparison would tell of the first alone
  const ofFiles = isCall && areFiles(plans);
  const letter = plans.length === 1 && !isCall && !isResult ? letterOf(root.plan) : null;
  const choice = ofFiles
    ? fileChoice(plans)
    : isCall && plans.length > 1
      ? callChoice(card, plans)
      : null;
  const title = ofFiles
    ? filesTitle(plans)
    : choice
      ? `${plans.length} calls`
      : isCall
        ? `Call ${root.plan.tool}`
        : root.plan.title;
  const kind = ofFiles
    ? "Beyond the plan"
    : choice
      ? "Calls that wait together"
      : isCall
        ? "One call"
        : isResult
          ? `Done · until ${clock(card.expires_at)}`
          : letter
            ? "Mail"
            : kindOf(root.plan);
  const node = h("article", {
    class: `card card-${card.risk_level}`,
    "aria-label": `${isCall ? "Call" : "Plan"}: ${title}`,
    "data-card": card.request_id,
  });
  const hold = new Hold(node);
  node.hold = hold;
  node.append(
    h(
      "header",
      { class: "card-head" },
      riskBadge(card.risk_level),
      h("span", { class: "card-kind" }, kind),
    ),
    h(
      "div",
      { class: "card-body", tabindex: "0" },
      h("h2", { class: "card-intent" }, visible(title)),
      h("p", { class: "card-why" }, visible(card.rationale)),
      taintNote(card),
      choice
        ? choice.node
        : isCall
          ? callPreview(root.plan)
          : isResult
            ? declaredFiles(plans, card.notes)
            : [
                declaredFiles(plans, card.notes),
                checkNotes(plans),
                compared && diffView(before, root.plan),
                previewedFiles(card.preview),
                letter && letterView(letter),
                !compared && !letter && preview(root.plan, card.preview.files),
                facts(plans),
              ],
    ),
    details(card, isCall ? [] : plans, plans),
    actions(card, plans, {
      title,
      hold,
      decide: async (verdict, changes = "") =>
        decide(verdict, choice && verdict === "approved" ? choice.chosen() : plans, changes),
    }),
  );
  return node;
}

const kindOf = (plan) =>
  ({ goal: "Schedule", project: "Project", task: "Plan" })[plan.type] ?? "Plan";

/** Says so if text from outside had a part in it. */
export function taintNote(card) {
  if (card.taint !== "external") return null;
  const sources = (card.sources ?? []).map((each) => h("li", {}, `from ${each}`));
  return h(
    "div",
    { class: "card-taint" },
    icon("alert"),
    h(
      "div",
      {},
      "Text from outside had a part in this. Read the details.",
      sources.length > 0 && h("ul", {}, ...sources),
    ),
  );
}

function facts(plans) {
  const [{ plan }] = plans;
  const checks = plans.flatMap((each) => each.plan.verify);
  const rows = [
    ["Where", plan.workspace?.path],
    ["When", scheduleInWords(plan.schedule)],
    ["Looks at", lookInWords(plan.batch)],
    ["May propose", proposalsInWords(plan.batch)],
    ["By your rules", rulesInWords(plan.batch)],
    [
      "Network",
      networkInWords([
        ...new Set(
          plans.flatMap((each) => [
            ...(each.plan.workspace?.network ?? []),
            ...each.plan.verify.flatMap((check) => check.network ?? []),
          ]),
        ),
      ]),
    ],
    ["Outside", plan.approvals.map((each) => each.tool).join(", ")],
    [hasProof(plans) ? "Done when" : "Checks", checks.map((each) => each.name).join("; ")],
    [
      "At most",
      `${attempts(plan.budget.max_attempts)}, ${dollars(plan.budget.max_cost_usd)}, ${minutes(plan.budget.max_wall_time_seconds)}`,
    ],
  ];
  const shown = rows.filter(([, value]) => value);
  return h(
    "dl",
    { class: "facts" },
    shown.map(([name, value]) => [h("dt", {}, name), h("dd", {}, visible(value))]),
  );
}

// What a goal proposes about the items of an account, from the text that is signed.
const named = (args) => Object.entries(args ?? {}).map(([name, value]) => `${name} ${value}`);
const withArgs = ({ tool, args }) => [tool, ...named(args)].join(", ");
const lookInWords = (batch) => batch && withArgs(batch.source);
const proposalsInWords = (batch) =>
  batch &&
  Object.entries(batch.actions)
    .map(([name, action]) => `${action.label ?? name} (${withArgs(action)})`)
    .join("; ");
const rulesInWords = (batch) =>
  batch && batch.rules.map((rule) => `${rule.name}: ${conditionInWords(rule)}`).join("; ");

function conditionInWords({ when, then }) {
  const said = [
    when.sender && `from ${when.sender.join(" or ")}, vouched for`,
    when.mailing_list != null && `${when.mailing_list ? "" : "not "}of a mailing list`,
    when.unread != null && (when.unread ? "unread" : "read"),
    when.older_than_days != null && `older than ${when.older_than_days} days`,
    when.subject && `with ${when.subject.map((each) => `“${each}”`).join(" or ")} in the subject`,
  ];
  return `${said.filter(Boolean).join(", ")} → ${then}`;
}

/** The mail that a plan would send, from the text that is signed; null if it sends none. */
export function letterOf(plan) {
  const { blocks } = blocksOf(plan.body ?? "");
  if (!plan.script || blocks.length !== 1 || !blocks[0].info.startsWith("call tool=")) return null;
  // Only if it is all that the plan does outside; any other is shown as a plan.
  if (!plan.approvals.length || !plan.approvals.every((each) => each.as_written)) return null;
  try {
    return letterIn(JSON.parse(blocks[0].lines.join("\n")));
  } catch {
    return null;
  }
}

const letterIn = (said) =>
  Array.isArray(said?.to) && said.to.length && typeof said.text === "string" ? said : null;

// Whole: what is not shown cannot be agreed to. An argument that has no name here is shown by its own.
function letterView({ to, cc, bcc, subject, account, text, answer_to: _which, ...others }) {
  const rows = [
    ["To", to],
    ["Cc", cc],
    ["Bcc", bcc],
    ["Subject", subject],
    ["From", account],
    ...Object.entries(others),
  ]
    .map(([name, value]) => [name, inLine(value)])
    .filter(([, value]) => value);
  return h(
    "section",
    { class: "letter", "aria-label": "The mail" },
    h(
      "dl",
      { class: "facts" },
      rows.map(([name, value]) => [h("dt", {}, visible(name)), h("dd", {}, visible(value))]),
    ),
    h("div", { class: "letter-text" }, visible(text)),
  );
}

function inLine(value) {
  if (Array.isArray(value)) return value.map(inLine).join(", ");
  return typeof value === "object" && value !== null ? JSON.stringify(value) : String(value ?? "");
}

// What the plan says, as far as it fits; the whole of it is in the details. What a difference shows
// above is not said twice.
function preview(plan, shownFiles) {
  const { blocks: all, rest } = blocksOf(plan.body);
  const blocks = all.filter(({ info }) => !shownFiles.length || !WRITES.test(info));
  const shown = blocks.slice(0, MOST_BLOCKS).map(({ info, lines }) => {
    const more = lines.length > MOST_LINES ? [`… ${lines.length - MOST_LINES} more lines`] : [];
    return codeBlock([...lines.slice(0, MOST_LINES), ...more].join("\n"), info);
  });
  const left = blocks.length - shown.length;
  return h(
    "div",
    { class: "preview" },
    rest && h("p", {}, visible(rest.length > MOST_WORDS ? `${rest.slice(0, MOST_WORDS)}…` : rest)),
    shown,
    left > 0 && h("p", {}, `… and ${left} more ${left === 1 ? "step" : "steps"} in the details.`),
  );
}

// Exactly this sum; a fraction that has no more than two places is shown with both.
const dollars = (sum) => `$${Math.round(sum * 100) === sum * 100 ? sum.toFixed(2) : sum}`;
const attempts = (count) => `${count} ${count === 1 ? "attempt" : "attempts"}`;
const minutes = (seconds) => (seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`);

// The arguments of a call, as far as they fit; a mail whole.
function callPreview(call) {
  const letter = letterIn(call.args);
  if (letter) return letterView(letter);
  const lines = JSON.stringify(call.args, null, 2).split("\n");
  const more =
    lines.length > MOST_ARGUMENTS
      ? [`… ${lines.length - MOST_ARGUMENTS} more lines in the details`]
      : [];
  return codeBlock([...lines.slice(0, MOST_ARGUMENTS), ...more].join("\n"), call.tool);
}

// Several calls, each with its own tick. Where text from outside had a part, each is ticked by hand.
function callChoice(card, plans) {
  const ticks = plans.map(({ plan }) =>
    h("input", {
      type: "checkbox",
      checked: card.taint !== "external",
      "aria-label": `Let ${plan.tool} happen`,
    }),
  );
  const node = h(
    "ol",
    { class: "card-calls" },
    plans.map(({ plan }, index) =>
      h(
        "li",
        {},
        h("label", {}, ticks[index], h("span", {}, "Call ", visible(plan.tool))),
        callPreview(plan),
      ),
    ),
  );
  const chosen = () => {
    const found = plans.filter((_, index) => ticks[index].checked);
    if (!found.length) throw new Error("Tick the calls that may happen.");
    return found;
  };
  return { node, chosen };
}

function details(card, plans, signed) {
  return h(
    "details",
    { class: "card-details", open: card.details_expanded },
    h("summary", {}, icon("chevron"), "Everything that is signed"),
    plans.map(({ plan }) =>
      h(
        "section",
        { class: "plan" },
        plans.length > 1 && h("h3", {}, visible(plan.title)),
        h("pre", { class: "code plan-text", tabindex: "0" }, visible(plan.body)),
        plan.verify.length > 0 && h(plans.length > 1 ? "h4" : "h3", {}, "Checks"),
        plan.verify.map((check) =>
          h(
            "div",
            { class: "check-source" },
            h("span", {}, visible(check.name)),
            codeBlock(check.run),
          ),
        ),
      ),
    ),
    signed.map(({ text, hash, id }) =>
      h(
        "section",
        { class: "plan" },
        h(
          "details",
          { class: "raw", open: card.kind === "call" && !areFiles(signed) },
          h("summary", {}, icon("chevron"), "The exact text that is signed"),
          codeBlock(JSON.stringify(JSON.parse(text), null, 2)),
          h("p", { class: "hash" }, `SHA-256 of ${id}: `, h("code", {}, hash)),
        ),
      ),
    ),
  );
}

function actions(card, plans, { title, hold, decide }) {
  const { approved, edit_requested: edit, declined } = card.consequences;
  // A plan that writes one text comes back as a draft to edit; any other is changed in words.
  const [{ plan }] = plans;
  const isText = /^`{3,}file path=/m.test(plan.body ?? "") || letterOf(plan) !== null;
  const hasText = plans.length === 1 && isText;
  const asks = hasText ? null : "What should be different?";
  const strong = card.steps.includes("strong_auth");
  const row = actionRow({
    hold,
    steps: card.steps,
    title,
    refusal: card.refusal,
    note: strong ? "After the slide, your passkey signs the hash of this plan." : null,
    busy: strong ? "Waiting for your passkey…" : "Signing…",
    first: { label: approved, run: () => decide("approved") },
    others: [
      ...(edit
        ? [{ label: edit, asks, run: (words = "") => decide("edit_requested", words) }]
        : []),
      { label: declined, run: () => decide("declined") },
    ],
  });
  return row.node;
}
