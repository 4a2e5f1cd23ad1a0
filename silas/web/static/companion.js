// @ts-check
// One companion: its report with sources, what it asks and waits for, what it did and why, its persona.
import { health, meter, question } from "/companion_parts.js";
import { personas } from "/companion_persona.js";
import { runs } from "/companion_runs.js";
import { configuration, consent } from "/companion_trust.js";
import { day, h, icon, time } from "/dom.js";
import { changed } from "/state.js";
import { visible } from "/visible.js";

const SURE_MILLISECONDS = 4000;
// What stands in the way, said by a code, and what opens the way.
const WAYS_OUT = {
  budget_exceeded: ["Change its budget", "config"],
  out_of_scope: ["Change what it sees", "config"],
  agent_paused: null,
  privacy_confirmation_required: ["Read and agree", "consent-false"],
  provider_not_allowed: ["Read and agree", "consent-false"],
  model_not_allowed: ["Read and agree", "consent-false"],
  network_denied: ["Choose another model", "config"],
  secret_unavailable: ["Choose another model", "config"],
  confirmation_required: null,
};

/** Everything about one; `desk` also has `go` and `show`. */
export function companionPart(detail, data, desk) {
  const { companion } = detail;
  return h(
    "div",
    { class: "companion" },
    h(
      "button",
      { type: "button", class: "quiet back", onclick: () => desk.go({}) },
      icon("chevron", "back-icon"),
      "All companions",
    ),
    h(
      "header",
      { class: "companion-top" },
      h("h3", {}, visible(companion.display_name)),
      health(companion),
      meter(companion.budget),
    ),
    h(
      "p",
      { class: "meta" },
      visible(
        `${detail.summary} It sees ${companion.categories.map(({ name }) => name).join(", ")}, and asks you from ${detail.confirm_from} risk on.`,
      ),
    ),
    problem(detail),
    consent(detail, desk),
    actions(companion, desk),
    speaking(companion, desk),
    detail.questions.length
      ? h(
          "section",
          { class: "companions-group" },
          h("h4", {}, "It asks you"),
          detail.questions.map((each) => question(each, desk)),
        )
      : null,
    waiting(detail, desk),
    report(detail, desk),
    runs(detail, desk),
    personas(detail, desk),
    configuration(detail, data, desk),
  );
}

// Every refusal has its way out.
function problem({ companion, runs: found }) {
  const last = found[0];
  const told =
    {
      out_of_budget: [
        "Its budget for today is used up, or is 0. A larger one lets it go on; tomorrow it has as much again.",
        "budget_exceeded",
      ],
      stopped: ["A stop switch is on.", null],
      paused: ["It rests until you resume it.", null],
    }[companion.health] ??
    (last?.error_code
      ? [
          `${last.error_message || "Its last run did not go through."} [${last.error_code}]`,
          last.error_code,
        ]
      : null);
  if (!told) return null;
  const [text, code] = told;
  const way = WAYS_OUT[code];
  return h(
    "div",
    { class: "companion-problem" },
    icon("alert"),
    h("p", {}, visible(text)),
    way
      ? h(
          "button",
          {
            type: "button",
            class: "quiet",
            onclick: (event) => unfold(event.target.closest(".companion"), way[1]),
          },
          way[0],
        )
      : null,
  );
}

function unfold(node, key) {
  const found = node.querySelector(`details[data-key="${key}"]`);
  if (!found) return;
  found.open = true;
  found.scrollIntoView({ block: "start" });
  found.querySelector("summary").focus({ preventScroll: true });
}

function actions(companion, desk) {
  const act = (call, label, className = "quiet") =>
    h(
      "button",
      {
        type: "button",
        class: className,
        onclick: () => desk.change(call, { agent_id: companion.id }),
      },
      label,
    );
  const isPaused = companion.health === "paused";
  const end = h(
    "button",
    {
      type: "button",
      class: "quiet danger",
      onclick: () =>
        end.dataset.sure ? desk.change("destroy", { agent_id: companion.id }) : sure(end),
    },
    "End for good",
  );
  return h(
    "div",
    { class: "companion-actions" },
    act("wake", "Wake now"),
    isPaused ? act("resume", "Resume") : act("pause", "Pause"),
    companion.health === "running" ? act("cancel", "Call off") : null,
    h(
      "button",
      {
        type: "button",
        class: "quiet",
        onclick: () => desk.change("stop", { scope: "companion", target: companion.id }),
      },
      "Stop",
    ),
    end,
  );
}

function sure(button) {
  button.dataset.sure = "1";
  button.textContent = "Really end it for good?";
  setTimeout(() => {
    delete button.dataset.sure;
    button.textContent = "End for good";
  }, SURE_MILLISECONDS);
}

function speaking(companion, desk) {
  const text = h("input", {
    type: "text",
    maxlength: 2000,
    placeholder: `Say something to ${companion.display_name}`,
    "aria-label": `Say something to ${companion.display_name}`,
  });
  const form = h(
    "form",
    { class: "companion-answer" },
    text,
    h("button", { type: "submit", class: "primary" }, "Send"),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const said = text.value.trim();
    if (said && (await desk.change("wake", { agent_id: companion.id, said })))
      desk.tell("Sent. Its answer will be in its report.");
  });
  return form;
}

function waiting({ waiting: found }, desk) {
  if (!found.length) return null;
  return h(
    "section",
    { class: "companions-group" },
    h("h4", {}, "Waits for your decision"),
    found.map((each) =>
      h(
        "div",
        { class: "companion-waiting" },
        h("p", {}, h("strong", {}, visible(sentence(each.what))), " ", visible(each.reason)),
        each.changes.length
          ? h(
              "ul",
              { class: "companion-preview" },
              each.changes.map((told) => h("li", {}, visible(told))),
            )
          : null,
        h(
          "details",
          { "data-key": `call-${each.operation_id}` },
          h("summary", {}, "The exact call"),
          h("pre", {}, visible(JSON.stringify(each.arguments, null, 2))),
        ),
        each.status === "waiting"
          ? h(
              "button",
              { type: "button", class: "primary", onclick: () => desk.show("review") },
              "Decide in Review",
            )
          : h(
              "p",
              { class: "meta" },
              each.status === "blocked"
                ? "It waits for your answer above."
                : "It is approved and being done.",
            ),
      ),
    ),
  );
}

const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

function report({ report: found }, desk) {
  if (!found) return h("p", { class: "empty" }, "It has not written a report yet.");
  const { report: written, freshness } = found;
  return h(
    "section",
    { class: "companion-report" },
    h("h4", {}, visible(written.content.headline)),
    h(
      "p",
      { class: "meta", "data-fresh": String(freshness.fresh) },
      `${freshness.sentence} Written ${day(written.created_at)}, `,
      time(written.created_at),
    ),
    written.content.sections
      .filter(({ claims }) => claims.length)
      .map((section) => [
        h("h5", {}, visible(section.title)),
        h(
          "ul",
          { class: "claims" },
          section.claims.map((claim) => claimLine(written.id, claim, desk)),
        ),
      ]),
  );
}

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
