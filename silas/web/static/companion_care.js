// @ts-check
// What a companion is made to forget, for good: what would go is shown first, and a receipt stays.
import { day, h, time } from "/dom.js";
import { visible } from "/visible.js";

/** What it is held to, its versions, and what was odd. */
export function upkeep({ companion, objectives, rollout, diagnostics }, desk) {
  const act = (call, label) =>
    h(
      "button",
      { type: "button", onclick: () => desk.change(call, { agent_id: companion.id }) },
      label,
    );
  return h(
    "details",
    { class: "companion-settings", "data-key": "upkeep" },
    h("summary", {}, "How it does"),
    h(
      "ul",
      {},
      objectives.map((each) =>
        h(
          "li",
          {},
          `${each.name}: ${each.is_now} (${each.wanted})`,
          each.met === false ? h("strong", {}, " missed") : null,
        ),
      ),
    ),
    rollout.versions.map((each) =>
      h(
        "p",
        { class: "meta" },
        `Version ${each.version}${each.in_use ? ", in use" : ""}: ${each.completed} of ${each.runs} runs went through, ${each.refused} of ${each.actions} calls refused.`,
      ),
    ),
    rollout.newer
      ? [
          h(
            "p",
            {},
            visible(
              `Version ${rollout.newest_version} of its kind is there.${rollout.adds.length ? ` It adds ${rollout.adds.join(", ")}.` : ""}`,
            ),
          ),
          act("adopt_version", "Give it the newest version"),
        ]
      : null,
    rollout.worse ? h("p", {}, "It does worse than the version before.") : null,
    rollout.can_go_back ? act("previous_version", "Back to the version before") : null,
    diagnostics.length ? h("h5", {}, "What was odd") : null,
    h(
      "ul",
      {},
      diagnostics.map((each) =>
        h("li", {}, visible(each.kind.replaceAll("_", " ")), " ", day(each.created_at)),
      ),
    ),
  );
}

/** The form, with what it has found and the receipts so far. */
export function forgetting({ companion, forgotten }, desk) {
  const word = h("input", { type: "text", maxlength: 200, autocomplete: "off" });
  const since = h("input", { type: "date" });
  const until = h("input", { type: "date" });
  const told = h("div", { class: "companion-forget-told", role: "status" });
  const wish = () => ({
    agent_id: companion.id,
    ...(word.value.trim() ? { words: word.value.trim() } : {}),
    ...(since.value ? { since: midnight(since.value) } : {}),
    ...(until.value ? { until: midnight(until.value, 1) } : {}),
  });
  const node = h(
    "form",
    { class: "companion-config" },
    h("p", { class: "meta" }, "All fields empty: the companion itself, with everything."),
    h("label", {}, h("span", {}, "A word"), word),
    h("label", {}, h("span", {}, "From this day"), since),
    h("label", {}, h("span", {}, "Up to this day"), until),
    h("button", { type: "submit" }, "Show what would go"),
    told,
  );
  node.addEventListener("submit", async (event) => {
    event.preventDefault();
    const asked = wish();
    const found = await desk.change("forget", { wish: asked }, { quiet: true });
    if (found) told.replaceChildren(...preview(found, asked, desk, told));
  });
  return h(
    "details",
    { class: "companion-settings", "data-key": "forget" },
    h("summary", {}, "Forget"),
    node,
    forgotten.length
      ? [h("h5", {}, "Receipts"), h("ul", { class: "companion-receipts" }, forgotten.map(receipt))]
      : null,
  );
}

// A day of whoever looks, as a moment; the day itself counts.
function midnight(text, more = 0) {
  const [year, month, date] = text.split("-").map(Number);
  return new Date(year, month - 1, date + more).toISOString();
}

function preview(found, asked, desk, told) {
  if (!found.in_words.length) return [h("p", {}, "Nothing of it was found.")];
  const forget = h(
    "button",
    {
      type: "button",
      class: "danger",
      onclick: async () => {
        const given = await desk.change("forget", { wish: asked, really: true });
        if (given) {
          desk.tell("Forgotten. The receipt says what stays.");
          told.replaceChildren(h("ul", { class: "companion-receipts" }, receipt(given)));
        }
      },
    },
    "Forget it for good",
  );
  return [h("p", {}, "This would go:"), counts(found), ...stays(found), forget];
}

const counts = (found) =>
  h(
    "ul",
    {},
    found.in_words.map((each) => h("li", {}, each)),
  );

const stays = (found) => [
  h("p", {}, "This stays:"),
  h(
    "ul",
    {},
    found.stays.map((each) => h("li", {}, visible(each))),
  ),
];

const receipt = (each) =>
  h(
    "li",
    {},
    h(
      "details",
      { "data-key": `receipt-${each.id}` },
      h("summary", {}, `${day(each.created_at)}, `, time(each.created_at)),
      counts(each),
      stays(each),
    ),
  );
