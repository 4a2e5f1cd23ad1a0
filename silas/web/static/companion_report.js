// @ts-check
// What a companion reports: claims with their sources, and its numbers drawn.
import { groupedChart } from "/charts.js";
import { day, h, time } from "/dom.js";
import { changed } from "/state.js";
import { visible } from "/visible.js";

const MONTH_AT = 5; // of 2026-01-31
const SCOPES = { current: "Now", daily: "The day", weekly: "The week", monthly: "The month" };

/** The reports of a companion; of several scopes, one at a time. */
export function reports({ reports: found }, desk) {
  if (!found.length) return h("p", { class: "empty" }, "It has not written a report yet.");
  const shown = h("div", { class: "companion-report-shown" });
  const choices = found.map((each) =>
    h(
      "button",
      { type: "button", class: "quiet", onclick: () => choose(each) },
      SCOPES[each.report.scope] ?? each.report.scope,
    ),
  );
  function choose(each) {
    shown.replaceChildren(report(each, desk));
    choices.forEach((button, number) =>
      button.setAttribute("aria-pressed", String(found[number] === each)),
    );
  }
  choose(found[0]);
  return h(
    "section",
    { class: "companion-report", "aria-label": "Report" },
    found.length > 1
      ? h(
          "div",
          { class: "companion-scopes", role: "group", "aria-label": "Which report" },
          choices,
        )
      : null,
    shown,
  );
}

function report({ report: written, freshness, charts }, desk) {
  const drawn = (id) => charts.filter(({ section }) => section === id).map(chart);
  return h(
    "article",
    {},
    h("h4", {}, visible(written.content.headline)),
    h(
      "p",
      { class: "meta", "data-fresh": String(freshness.fresh) },
      `${freshness.sentence} Written ${day(written.created_at)}, `,
      time(written.created_at),
    ),
    written.content.sections
      .filter(({ id, claims }) => claims.length || drawn(id).length)
      .map((section) => [
        h("h5", {}, visible(section.title)),
        drawn(section.id),
        h(
          "ul",
          { class: "claims" },
          section.claims.map((claim) => claimLine(written.id, claim, desk)),
        ),
      ]),
  );
}

const chart = ({ title, of, days, points }) =>
  groupedChart({
    title,
    of,
    columns: ["Value"],
    days,
    rows: points.map(({ label, value, words }) => ({
      label: days ? label.slice(MONTH_AT) : label,
      values: [{ value, words }],
    })),
  });

function claimLine(reportId, claim, desk) {
  const sources = h("ul", { class: "sources" });
  const node = h(
    "details",
    { "data-key": `why-${claim.id}` },
    h(
      "summary",
      {},
      visible(claim.text),
      claim.inference_flag === "inferred" ? h("span", { class: "inferred" }, "inferred") : null,
      h("span", { class: "why" }, "Why do you say this?"),
    ),
    sources,
  );
  node.addEventListener("toggle", async () => {
    if (!node.open || sources.childElementCount) return;
    try {
      const { sources: found } = await desk.read(`/reports/${reportId}/${claim.id}`);
      sources.replaceChildren(...found.map((each) => sourceLine(each, desk)));
    } catch (problem) {
      sources.replaceChildren(h("li", {}, problem.message));
    }
  });
  return h("li", {}, node);
}

// Where it was read; what is still there can be looked at.
function sourceLine(each, desk) {
  const words = visible(`${each.inferred ? "Inferred from" : "From"} ${each.label}`);
  const look = () => {
    desk.show("journal");
    changed("record", each.record_id);
  };
  return h(
    "li",
    {},
    each.exists
      ? h("button", { type: "button", class: "quiet source", onclick: look }, words)
      : [words, " (it is not there any more)"],
    h("span", { class: "meta" }, `read ${day(each.captured_at)}, `, time(each.captured_at)),
  );
}
