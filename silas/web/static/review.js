// Review: one decision at a time, with everything that belongs to it.
import { planCard, plansOf, riskBadge, VERDICTS } from "/card.js";
import { h, icon, time } from "/dom.js";
import { onChange, openCards, state } from "/state.js";
import { visible } from "/visible.js";

const CROWDED = 5;
const DECIDED_SHOWN = 6;

/** The surface; `decide(card, verdict, plans)` signs and sends. */
export function reviewView({ decide }) {
  const active = h("div", { class: "review-active" });
  const rest = h("div", { class: "review-rest" });
  const node = h("section", { class: "surface review", id: "review", "aria-label": "Review", tabindex: "-1" }, h("div", { class: "review-inner" }, active, rest));
  let shownId = null;
  let shownCard = null;
  let wanted = null;
  const prefer = (id) => {
    wanted = id;
    draw();
  };

  async function draw() {
    const cards = openCards();
    const first = cards.find((card) => card.request_id === wanted) ?? cards[0];
    const others = cards.filter((card) => card !== first);
    rest.replaceChildren(...[haste(), crowd(cards), upNext(others, prefer), decided()].filter(Boolean));
    if (!first) {
      shownId = shownCard = null;
      active.replaceChildren(empty());
      return;
    }
    if (first.request_id === shownId) return;
    shownId = first.request_id;
    try {
      const plans = await plansOf(first);
      if (shownId !== first.request_id) return;
      shownCard = planCard(first, plans, (verdict, shown) => decide(first, verdict, shown));
      active.replaceChildren(shownCard);
    } catch (problem) {
      active.replaceChildren(h("div", { class: "card card-broken", role: "alert" }, h("p", {}, problem.message)));
    }
  }

  onChange((what) => what === "cards" && draw());
  draw();
  // Whoever comes here with a tap must not decide with the same one.
  const arm = () => shownCard?.hold.start();
  return { node, prefer, opened: arm, woken: arm, again: () => { shownId = null; draw(); } };
}

const empty = () => h("div", { class: "empty" }, icon("review", "big"), h("h2", {}, "Nothing waits for you"), h("p", {}, "Plans come here before anything happens."));

const haste = () => state.hasty && h("p", { class: "crowd", role: "status" }, icon("alert"), "Your last decisions took less than a second. Take the time to read.");

function crowd(cards) {
  const risky = cards.filter((card) => card.risk_level !== "low").length;
  if (risky <= CROWDED) return null;
  return h("p", { class: "crowd", role: "status" }, icon("alert"), `${risky} decisions wait. There is no hurry: take them one by one.`);
}

function upNext(cards, prefer) {
  if (!cards.length) return null;
  return h("div", { class: "up-next" }, h("h3", {}, "Up next"),
    h("ol", { start: "2" }, cards.map((card) => h("li", {}, h("button", { type: "button", onclick: () => prefer(card.request_id) }, h("span", {}, visible(card.title)), riskBadge(card.risk_level))))));
}

function decided() {
  const cards = [...state.cards.values()].filter((card) => card.state !== "open").slice(-DECIDED_SHOWN).reverse();
  if (!cards.length) return null;
  return h("div", { class: "decided" }, h("h3", {}, "Decided"),
    h("ul", {}, cards.map((card) => h("li", { class: `plan-${card.state}` },
      icon(card.state === "approved" ? "check" : "cross"), h("span", {}, visible(card.title)),
      h("span", { class: "decided-how" }, VERDICTS[card.state] ?? card.state), time(card.created_at)))));
}
