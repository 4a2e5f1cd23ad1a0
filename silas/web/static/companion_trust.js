// @ts-check
// What a companion may do and see: its model and what that means, its categories, its times, its budget.
import { modelSelect } from "/companion_new.js";
import { HEALTH_WORDS, measures } from "/companion_parts.js";
import { times } from "/companion_times.js";
import { h } from "/dom.js";
import { visible } from "/visible.js";

const RISKS = {
  low: "low risk on: for almost everything",
  medium: "medium risk on",
  high: "high risk on: rarely",
};

/** The version that the owner began to read, by companion. @type {Map<string, string>} */
const begun = new Map();

/**
 * What its model means for privacy: read, then agreed to or not. A box that is drawn anew with other
 * words under somebody's finger is not agreed to: Silas is told the version that was there at first,
 * and refuses it.
 */
export function consent({ companion, disclosure }, desk) {
  if (!disclosure) return null;
  const { confirmed } = disclosure;
  if (confirmed) begun.delete(companion.id);
  else if (!begun.has(companion.id)) begun.set(companion.id, disclosure.policy_version);
  const agree = async () => {
    const policy_version = begun.get(companion.id) ?? disclosure.policy_version;
    begun.delete(companion.id);
    if (!(await desk.change("consent", { agent_id: companion.id, policy_version }))) desk.look();
  };
  const facts = [
    ["Where", disclosure.host ?? disclosure.provider],
    ["Training", disclosure.training],
    ["Kept", disclosure.retention],
    ["Law", disclosure.jurisdiction],
  ];
  const button = (label, className, call, args) =>
    h(
      "button",
      {
        type: "button",
        class: className,
        onclick: () => desk.change(call, { agent_id: companion.id, ...args }),
      },
      label,
    );
  return h(
    "details",
    { class: "companion-consent", "data-key": `consent-${confirmed}`, open: !confirmed },
    h(
      "summary",
      {},
      visible(
        confirmed
          ? `You agreed to ${disclosure.model_id}`
          : `Before ${disclosure.model_id} is asked`,
      ),
    ),
    h("p", {}, visible(disclosure.disclosure)),
    h(
      "dl",
      { class: "facts" },
      facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, visible(value ?? "not known"))]),
    ),
    h("h4", { class: "small-head" }, "It is sent, and nothing else"),
    h(
      "ul",
      { class: "sent" },
      disclosure.sent.map((each) => h("li", {}, visible(each))),
    ),
    describing(companion, desk),
    h(
      "p",
      { class: "meta" },
      `Version ${disclosure.policy_version}. If any of this changes, you are asked again.`,
    ),
    h(
      "div",
      { class: "companion-options" },
      confirmed
        ? button("Take it back", "quiet", "revoke_consent", {})
        : [
            h("button", { type: "button", class: "primary", onclick: agree }, "I agree"),
            button("No: work without a model", "", "configure", { offline: true }),
          ],
    ),
  );
}

// What the owner has read in the provider's own policy is shown from then on.
function describing(companion, desk) {
  const fields = [
    ["training", "Training"],
    ["retention", "How long it is kept"],
    ["jurisdiction", "Whose law holds"],
  ].map(([name, label]) => ({ name, label, input: h("input", { type: "text", maxlength: 500 }) }));
  const node = h(
    "form",
    { class: "companion-config" },
    fields.map(({ label, input }) => labelled(label, input)),
    h("button", { type: "submit" }, "Write it down"),
  );
  node.addEventListener("submit", (event) => {
    event.preventDefault();
    desk.change("describe_provider", {
      agent_id: companion.id,
      ...Object.fromEntries(fields.map(({ name, input }) => [name, input.value.trim() || null])),
    });
  });
  return h(
    "details",
    { "data-key": "describe" },
    h("summary", {}, "I have read the provider's policy"),
    node,
  );
}

/** Everything that can be set. */
export function configuration(detail, data, desk) {
  const { companion, wakes_on: wakes, may } = detail;
  return h(
    "details",
    { class: "companion-settings", "data-key": "config" },
    h("summary", {}, "Configure"),
    basics(detail, data, desk),
    sight(companion, data, desk),
    times(detail, desk),
    budget(companion, desk),
    h("p", { class: "meta" }, visible(`It wakes ${wakes.join(", ") || "only when you wake it"}.`)),
    h("p", { class: "meta" }, visible(`It may ${may.join(", ")}.`)),
    h("p", { class: "meta" }, `State: ${HEALTH_WORDS[companion.health]}.`),
  );
}

function basics({ companion, confirm_from: confirmFrom }, data, desk) {
  const name = h("input", { type: "text", maxlength: 60, value: companion.display_name });
  const model = modelSelect(data.models, companion.model_id);
  const chosen = () =>
    model.value === (companion.model_id ?? "")
      ? {}
      : model.value
        ? { model_id: model.value }
        : { offline: true };
  const risk = h(
    "select",
    {},
    Object.entries(RISKS).map(([level, words]) => h("option", { value: level }, words)),
  );
  risk.value = confirmFrom in RISKS ? confirmFrom : "high";
  return form(
    "Save",
    desk,
    () => ({
      agent_id: companion.id,
      display_name: name.value.trim() || null,
      ...chosen(),
      confirm_from: risk.value,
    }),
    labelled("Its name", name),
    labelled("Its model", model),
    labelled("It asks you from", risk),
  );
}

function sight(companion, data, desk) {
  const chosen = new Set(companion.categories.map(({ id }) => id));
  const boxes = data.categories.map(({ id, name }) =>
    h(
      "label",
      { class: "companion-check" },
      h("input", {
        type: "checkbox",
        checked: chosen.has(id),
        onchange: (event) => chosen[event.target.checked ? "add" : "delete"](id),
      }),
      h("span", {}, visible(name)),
    ),
  );
  const node = form(
    "Save what it sees",
    desk,
    () => ({ agent_id: companion.id, category_ids: [...chosen] }),
    h("fieldset", {}, h("legend", {}, "What it sees"), boxes),
    h("p", { class: "meta" }, "If it loses a category, it forgets what was said so far."),
  );
  node.classList.add("companion-sight");
  return node;
}

function budget(companion, desk) {
  const fields = measures(companion.budget).map(({ name, label, unit, limit, used, step }) => {
    const input = h("input", {
      type: "number",
      min: "0",
      step,
      inputmode: "decimal",
      value: limit ?? "",
      placeholder: "no limit",
    });
    return { name, unit, input, node: labelled(`${label} (${used} used)`, input) };
  });
  return form(
    "Save the budget",
    desk,
    () => ({
      agent_id: companion.id,
      budget: Object.fromEntries(
        fields.map(({ name, unit, input }) => [
          name,
          input.value === "" ? null : Math.round(Number(input.value) * Number(unit)),
        ]),
      ),
    }),
    h(
      "fieldset",
      { class: "companion-budget" },
      h("legend", {}, "Its budget for a day"),
      fields.map(({ node }) => node),
    ),
    h("p", { class: "meta" }, "An empty field means no limit. With 0 it may do nothing."),
  );
}

function form(label, desk, wanted, ...children) {
  const node = h(
    "form",
    { class: "companion-config" },
    children,
    h("button", { type: "submit", class: "primary" }, label),
  );
  node.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (await desk.change("configure", wanted())) desk.tell("Saved.");
  });
  return node;
}

const labelled = (text, control) => h("label", {}, h("span", {}, text), control);
