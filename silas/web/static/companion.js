// @ts-check
// One companion: its report with sources, what it asks and waits for, what it did and why, its persona.
import { forgetting, upkeep } from "/companion_care.js";
import { health, meter } from "/companion_parts.js";
import { conversation } from "/companion_talk.js";
import { personas } from "/companion_persona.js";
import { reports } from "/companion_report.js";
import { runs } from "/companion_runs.js";
import { configuration, consent } from "/companion_trust.js";
import { day, h, icon, time } from "/dom.js";
import { visible } from "/visible.js";

const SURE_MILLISECONDS = 4000;
// The one step that helps: what its button says, and what it opens or does.
const LABELS = {
  asleep: "Wake it up",
  budget_exceeded: "Change its budget",
  budget_near: "Change its budget",
  network_denied: "Choose another model",
};
const WAYS_OUT = {
  consent: { label: "Read and agree", opens: "consent-false" },
  configure: { label: "Configure", opens: "config" },
  release: { label: "Let it go on", call: "release" },
  resume: { label: "Let it go on", call: "resume" },
  wake: { label: "Wake it", call: "wake" },
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
    problem(detail, desk),
    consent(detail, desk),
    actions(companion, desk),
    conversation(detail, desk),
    waiting(detail, desk),
    kept(detail, desk),
    reports(detail, desk),
    runs(detail, desk),
    personas(detail, desk),
    configuration(detail, data, desk),
    upkeep(detail, desk),
    forgetting(detail, desk),
  );
}

// What keeps it from its work, until when, and the step that helps.
function problem({ companion }, desk) {
  const { trouble } = companion;
  if (!trouble) return null;
  const { label, opens, call } = WAYS_OUT[trouble.way];
  const args =
    trouble.way === "release"
      ? { scope: trouble.scope ?? "global", target: trouble.target ?? null }
      : { agent_id: companion.id };
  return h(
    "div",
    {
      class: "companion-problem",
      "data-trouble": trouble.code,
      "data-blocks": String(trouble.blocks),
    },
    icon("alert"),
    h(
      "p",
      {},
      visible(`${trouble.text} `),
      trouble.until
        ? [
            trouble.code === "asleep" ? "Until " : "It tries again by itself from ",
            `${day(trouble.until)}, `,
            time(trouble.until),
            ". ",
          ]
        : null,
      visible(trouble.step),
    ),
    h(
      "button",
      {
        type: "button",
        class: "quiet",
        onclick: (event) =>
          opens ? unfold(event.target.closest(".companion"), opens) : desk.change(call, args),
      },
      LABELS[trouble.code] ?? label,
    ),
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

// The owner's goal and wishes, in the owner's own words; each is let go with a tap.
function kept({ companion, goal, keeps }, desk) {
  if (!goal && !keeps.length) return null;
  const line = (words, label) =>
    h(
      "li",
      {},
      h("span", {}, label ? h("strong", {}, `${label} `) : null, visible(words)),
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          "aria-label": `Let go: ${words}`,
          onclick: () => desk.change("let_go", { agent_id: companion.id, words }),
        },
        "Let go",
      ),
    );
  return h(
    "section",
    { class: "companions-group" },
    h("h4", {}, "What it keeps of your words"),
    h(
      "ul",
      { class: "companion-kept" },
      goal ? line(goal, "Your goal:") : null,
      keeps.map((each) => line(each)),
    ),
  );
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
