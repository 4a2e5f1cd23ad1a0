// @ts-check
// How a companion speaks: every version with what it changes, and the owner's yes or no to a new one.
import { h } from "/dom.js";
import { visible } from "/visible.js";

const FIELD_WORDS = {
  voice_directives: "Voice",
  tone_bounds: "Tone",
  coaching_style: "Style",
  anti_sycophancy_policy: "Honesty",
};
const AUTHOR_WORDS = { user: "you", agent: "the companion", system: "its kind" };

/** The history, and a form to propose another version. */
export function personas({ companion, personas: found }, desk) {
  const waits = found.some((each) => each.waits);
  return h(
    "details",
    { "data-key": "persona", class: "companion-persona", open: waits },
    h("summary", {}, waits ? "How it speaks: a proposal waits for you" : "How it speaks"),
    found.map((each) => version(each, companion, desk)),
    proposing(found, companion, desk),
  );
}

function version(each, companion, desk) {
  const decide = (call, label, className) =>
    h(
      "button",
      {
        type: "button",
        class: className,
        onclick: () => desk.change(call, { agent_id: companion.id, version_id: each.version.id }),
      },
      label,
    );
  return h(
    "div",
    { class: "persona-version" },
    h(
      "h4",
      { class: "small-head" },
      visible(
        `Version ${each.version.version}, ${standing(each)}, by ${AUTHOR_WORDS[each.version.authored_by] ?? each.version.authored_by}`,
      ),
    ),
    each.changes.map((change) =>
      h(
        "div",
        { class: "persona-change" },
        h("span", {}, visible(FIELD_WORDS[change.field] ?? change.field)),
        change.before === null ? null : h("del", {}, visible(plain(change.before))),
        h("ins", {}, visible(plain(change.after))),
      ),
    ),
    each.waits
      ? h(
          "div",
          { class: "companion-options" },
          decide("approve_persona", "Approve this version", "primary"),
          decide("decline_persona", "Decline it", ""),
        )
      : null,
  );
}

function standing({ in_use: isUsed, waits, version: { approved_at: approvedAt } }) {
  if (isUsed) return "in use";
  if (waits) return "proposed";
  return approvedAt ? "was in use" : "declined";
}

function proposing(found, companion, desk) {
  const current = found.find((each) => each.in_use)?.version;
  if (!current) return null;
  const voice = h("input", {
    type: "text",
    maxlength: 500,
    value: current.voice_directives.voice ?? "",
    "aria-label": "Voice",
  });
  const style = h("input", {
    type: "text",
    maxlength: 500,
    value: current.coaching_style ?? "",
    "aria-label": "Style",
  });
  const form = h(
    "form",
    { class: "companion-config" },
    h("label", {}, h("span", {}, "Voice"), voice),
    h("label", {}, h("span", {}, "Style"), style),
    h("button", { type: "submit" }, "Propose it"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const changes = {
      ...(voice.value.trim() !== (current.voice_directives.voice ?? "") && {
        voice_directives: { ...current.voice_directives, voice: voice.value.trim() },
      }),
      ...(style.value.trim() !== (current.coaching_style ?? "") && {
        coaching_style: style.value.trim(),
      }),
    };
    if (Object.keys(changes).length)
      desk.change("propose_persona", { agent_id: companion.id, changes });
    else desk.tell("Nothing is different.");
  });
  return h(
    "details",
    { "data-key": "propose" },
    h("summary", {}, "Let it speak differently"),
    form,
  );
}

function plain(value) {
  if (value === null || value === undefined || value === "") return "nothing";
  if (Array.isArray(value)) return value.map(plain).join(" ");
  return typeof value === "object"
    ? Object.entries(value)
        .map(([name, inner]) => `${name.replaceAll("_", " ")}: ${plain(inner)}`)
        .join(" · ")
    : String(value);
}
