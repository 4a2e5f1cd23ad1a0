// @ts-check
// How much Silas asks: what is in force, why, and the one tap that takes back what was widened.
import { plainTable } from "/charts.js";
import { h, icon } from "/dom.js";
import { answerOf } from "/keys.js";
import { sessionFetch, signedFetch } from "/session.js";
import { visible } from "/visible.js";

const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const UNREADABLE = "This cannot be read right now.";
const day = (text) => DAY.format(new Date(text));

/** A part of Activity: nothing is asked for before it is opened. */
export function autonomyPart(page) {
  const box = h("div", { class: "usage", role: "status" });
  const node = h(
    "details",
    { class: "usage-part autonomy-part" },
    h("summary", {}, icon("chevron"), "How much I ask"),
    box,
  );

  async function show() {
    try {
      draw(await answerOf(await sessionFetch("/api/autonomy"), UNREADABLE));
    } catch (problem) {
      box.replaceChildren(h("p", {}, problem.message));
    }
  }

  async function change(command, value) {
    try {
      const sent = await signedFetch(page.device, `/api/autonomy/${command}`, value);
      const done = await answerOf(sent, "That did not work.");
      await show();
      box.prepend(h("p", { class: "autonomy-told" }, visible(done.told)));
    } catch (problem) {
      box.prepend(h("p", { class: "autonomy-told" }, problem.message));
    }
  }

  function draw(found) {
    box.replaceChildren(
      ...contents(found),
      ...found.grants.map((each) => grantShown(each, (id) => change("revoke", { grant_id: id }))),
    );
    box.append(
      h(
        "div",
        { class: "autonomy-row" },
        h(
          "button",
          { type: "button", class: "autonomy-tighten", onclick: () => change("tighten", {}) },
          "Tighten: take everything back",
        ),
      ),
      h("p", { class: "meta" }, "One tap, at any time. The settings hold again, and I ask more."),
    );
  }

  node.addEventListener("toggle", () => node.open && show());
  return { node, renew: () => node.open && show() };
}

/** A standing grant: all that it allows, what was done under it, and the way back. */
export function grantShown(grant, revoke) {
  const of = grant.account ? ` of ${grant.account}` : "";
  return h(
    "section",
    { class: "autonomy-grant", "aria-label": `Standing grant: ${grant.tool}` },
    h("h3", {}, visible(`Allowed: ${grant.tool}${of}`)),
    h(
      "ul",
      {},
      grant.words.map((each) => h("li", {}, visible(each))),
    ),
    h("p", {}, `Used ${grant.used} of ${grant.most} times, ${grant.used_today} of them today.`),
    grant.uses.length &&
      h(
        "details",
        {},
        h("summary", {}, "What was done under it"),
        h(
          "ul",
          {},
          grant.uses.map((each) =>
            h("li", {}, visible(`${day(each.at)}: ${JSON.stringify(each.args)}`)),
          ),
        ),
      ),
    h(
      "button",
      { type: "button", class: "quiet", onclick: () => revoke(grant.grant_id) },
      "Take it back",
    ),
  );
}

/** What is in force, and how often the owner corrected what was proposed. */
export function contents(found) {
  const { total } = found;
  const corrected = `You corrected ${total.corrections} of ${total.samples} decisions`;
  return [
    !found.enabled && h("p", {}, "By the settings, I never propose to ask less."),
    plainTable({
      title: "What is in force",
      head: ["What", "Now", "As set", "Until"],
      rows: found.thresholds.map((each) => [
        each.words,
        each.value,
        each.as_set,
        each.until ? day(each.until) : "",
      ]),
    }),
    h(
      "p",
      {},
      `${corrected} (`,
      visible(found.window),
      `). To propose anything, I need ${found.needed}.`,
    ),
    found.families.length &&
      plainTable({
        title: "By what it was about",
        head: ["What", "Decided", "Corrected"],
        rows: found.families.map((each) => [
          each.family,
          String(each.samples),
          String(each.corrections),
        ]),
      }),
  ].filter(Boolean);
}
