// @ts-check
// Review: one decision at a time, with everything that belongs to it.
import { planCard, plansOf, riskBadge, VERDICTS } from "/card.js";
import { contentOf, questionCard } from "/card_questions.js";
import { secretCard } from "/card_secret.js";
import { answer } from "/deciding.js";
import { h, icon, time } from "/dom.js";
import { onChange, openCards, state, take, undoable, waiting } from "/state.js";
import { visible } from "/visible.js";

const CROWDED = 5;
const AGREED = new Set([
  "approved",
  "approve",
  "edit",
  "edit_selection",
  "do_it",
  "stored",
  "done",
  "reconnect",
  "again",
  "answered",
]);
const DECIDED_SHOWN = 6;

/** The surface; `page.decide(card, verdict, plans)` and `answer` sign and send. */
export function reviewView(page) {
  const active = h("div", { class: "review-active" });
  const rest = h("div", { class: "review-rest" });
  const node = h(
    "section",
    { class: "surface review", id: "review", "aria-label": "Review", tabindex: "-1" },
    h("div", { class: "review-inner" }, active, rest),
  );
  const done = h("div", { class: "just-done", "data-card": "" });
  let shownId = null;
  /** @type {any} */
  let shownCard = null;
  let wanted = null;
  /** @type {string | null} */
  let ruleId = null;
  // The plans that changes were asked for: the revised one is shown when it comes, unless something
  // was done here meanwhile.
  /** @type {string[]} */
  let sentBack = [];
  const somethingDone = () => {
    sentBack = [];
  };
  const prefer = (id) => {
    somethingDone();
    wanted = id;
    draw();
  };

  // A card that can be decided already is not swapped for another one under somebody's finger.
  const current = (cards) =>
    shownCard && !("arming" in shownCard.dataset)
      ? cards.find((card) => card.request_id === shownId)
      : null;

  async function cardOf(card) {
    if (card.type === "secure_input_request")
      return secretCard(card, {
        device: page.device,
        stored: (ref) => stored(ref, page),
        later: () => take({ type: "card_closed", request_id: card.request_id, state: "not_now" }),
      });
    if (card.shown)
      return questionCard(card, await contentOf(card), {
        prefer,
        answer: async (fields) => {
          await answer(page, card, fields);
          if (card.type === "draft_review") sentBack = [changedFrom(card)];
        },
      });
    const plans = await plansOf(card);
    const decide = async (verdict, shown, changes) => {
      await page.decide(card, verdict, shown, changes);
      if (verdict === "edit_requested") sentBack = plans.map(({ id }) => id);
    };
    return planCard(card, plans, decide, await planBefore(card));
  }

  // What was just done and can be undone; it waits for nobody, so that it is no decision.
  async function drawDone() {
    const last = undoable().at(-1);
    if (last) setTimeout(drawDone, Date.parse(last.expires_at) - Date.now() + 100);
    if (done.dataset.card === (last?.request_id ?? "")) return;
    done.dataset.card = last?.request_id ?? "";
    const made = last ? await cardOf(last).catch(() => null) : null;
    done.replaceChildren(...(made ? [h("h3", {}, "Just done"), made] : []));
  }

  async function draw() {
    const cards = openCards();
    drawDone();
    // What was just answered may still be open.
    const isBack = (card) => card.request_id !== shownId && sentBack.includes(changedFrom(card));
    const back = sentBack.length && cards.find(isBack);
    if (back) {
      sentBack = [];
      wanted = back.request_id;
    }
    const next =
      cards.find((card) => card.request_id === wanted) ??
      cards.find((card) => card.request_id === ruleId) ??
      current(cards) ??
      cards.find((card) => card.type === "batch_review") ??
      cards[0];
    // A rule is shown below the question that it comes from, as long as that one waits.
    const first = cards.find((card) => ruleOf(card) === next?.request_id) ?? next;
    const rule = cards.find((card) => card.request_id === ruleOf(first));
    const together = new Set([...(first?.batch?.item_ids ?? []), rule?.request_id]);
    const others = cards.filter((card) => card !== first && !together.has(card.request_id));
    rest.replaceChildren(
      ...[haste(), crowd(), done, upNext(others, prefer), decided()].filter(Boolean),
    );
    if (!first) {
      shownId = shownCard = null;
      active.replaceChildren(empty());
      return;
    }
    const ruleIsDecided = ruleId && first.request_id === shownId && !rule;
    if (first.request_id === shownId && !ruleIsDecided) return;
    shownId = first.request_id;
    try {
      const made = await cardOf(first);
      const later = rule && (await cardOf(rule).catch(() => null));
      if (shownId !== first.request_id) return;
      shownCard = made;
      ruleId = rule?.request_id ?? null;
      active.replaceChildren(...[made, later].filter(Boolean));
    } catch (problem) {
      active.replaceChildren(
        h("div", { class: "card card-broken", role: "alert" }, h("p", {}, problem.message)),
      );
    }
  }

  onChange((what) => what === "cards" && draw());
  for (const act of ["pointerdown", "keydown", "input", "wheel"])
    node.addEventListener(act, somethingDone, { passive: true });
  draw();
  // Whoever comes here with a tap must not decide with the same one.
  const arm = () => shownCard?.hold.start();
  return {
    node,
    prefer,
    opened: arm,
    woken: arm,
    again: () => {
      shownId = null;
      draw();
    },
  };
}

// The rule that the answer to this question could become: it is signed by itself, in the same place.
function ruleOf(card) {
  if (card?.type !== "decision" || !card.shown) return undefined;
  return JSON.parse(card.shown.plan).body.rule_card ?? undefined;
}

// The plan that this card was made of when changes were asked for: a new version, or a text to edit.
const changedFrom = (card) =>
  card.type === "draft_review"
    ? JSON.parse(card.shown.plan).body.metadata.work_item_id
    : card.replaces;

function stored(ref, page) {
  page.send({ type: "secure_input_completed", ref_id: ref, success: true });
  take({ type: "card_closed", request_id: `secret:${ref}`, state: "stored" });
}

// The version of the plan that was there before, if this is another one and the page still has it.
async function planBefore(card) {
  if (!card.replaces || card.kind !== "plan") return null;
  const old = [...state.cards.values()].find(
    (each) => each !== card && each.items?.some((item) => item.id === card.replaces),
  );
  const plans = old ? await plansOf(old).catch(() => []) : [];
  return plans.find((each) => each.id === card.replaces)?.plan ?? null;
}

const empty = () =>
  h(
    "div",
    { class: "empty" },
    icon("review", "big"),
    h("h2", {}, "Nothing is waiting for you"),
    h("p", {}, "Plans come here before anything happens."),
  );

const haste = () =>
  state.hasty &&
  h(
    "p",
    { class: "crowd", role: "status" },
    icon("alert"),
    "Your last decisions took less than a second. Take the time to read.",
  );

function crowd() {
  const risky = waiting().filter((card) => card.risk_level && card.risk_level !== "low").length;
  if (risky <= CROWDED) return null;
  return h(
    "p",
    { class: "crowd", role: "status" },
    icon("alert"),
    `${risky} decisions wait. There is no hurry: take them one by one.`,
  );
}

function upNext(cards, prefer) {
  if (!cards.length) return null;
  return h(
    "div",
    { class: "up-next" },
    h("h3", {}, "Up next"),
    h(
      "ol",
      { start: "2" },
      cards.map((card) =>
        h(
          "li",
          {},
          h(
            "button",
            { type: "button", onclick: () => prefer(card.request_id) },
            h("span", {}, visible(card.title)),
            card.risk_level && riskBadge(card.risk_level),
          ),
        ),
      ),
    ),
  );
}

// Who does not undo something has declined nothing that he was asked for.
const howDecided = ({ kind, state: how }) =>
  kind === "result" && how === "declined" ? "Kept" : (VERDICTS[how] ?? how);

function decided() {
  const cards = [...state.cards.values()]
    .filter((card) => card.state !== "open")
    .slice(-DECIDED_SHOWN)
    .reverse();
  if (!cards.length) return null;
  return h(
    "div",
    { class: "decided" },
    h("h3", {}, "Decided"),
    h(
      "ul",
      {},
      cards.map((card) =>
        h(
          "li",
          { class: `plan-${card.state}` },
          icon(AGREED.has(card.state) ? "check" : "cross"),
          h("span", {}, visible(card.title)),
          h("span", { class: "decided-how" }, howDecided(card)),
          time(card.created_at),
        ),
      ),
    ),
  );
}
