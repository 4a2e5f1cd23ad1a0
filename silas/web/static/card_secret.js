// @ts-check
// A secret that somebody has asked for: typed here, sent to the vault, and never part of the talk.
import { h, icon, outsideLink } from "/dom.js";
import { Hold } from "/hold.js";
import { signedFetch } from "/session.js";
import { visible } from "/visible.js";

const REFUSED = { 404: "It is not asked for any more.", 409: "It is stored already." };

/** The card; `stored(ref)` is called when it is in the vault, `later()` if not now, or never. */
export function secretCard(card, { device, stored, later }) {
  const node = h("article", {
    class: "card card-of-secret",
    "aria-label": `Secret: ${card.label}`,
    "data-card": card.request_id,
  });
  const hold = new Hold(node);
  node.hold = hold;
  const field = h("input", {
    type: "password",
    id: "secret-value",
    class: "secret-value",
    autocomplete: "off",
    placeholder: card.input_hint ?? "",
    maxlength: "32000",
    spellcheck: "false",
  });
  const note = h("p", { class: "card-problem", role: "alert" });
  const send = async () => {
    const value = field.value;
    if (!value) {
      note.textContent = "There is nothing to store yet.";
      return;
    }
    field.value = "";
    const answer = await signedFetch(device, `/secrets/${card.ref_id}`, { value }).catch(
      () => null,
    );
    if (answer?.ok) stored(card.ref_id);
    else if (!answer)
      note.textContent = "Silas did not answer: it may be stored or not. Try again.";
    else note.textContent = REFUSED[answer.status] ?? "It was not stored. Try again.";
  };
  const decline = async () => {
    const body = { ref_id: card.ref_id };
    const answer = await signedFetch(device, "/api/secrets/decline", body).catch(() => null);
    if (answer?.ok || answer?.status === 404) later();
    else note.textContent = "Silas did not answer. Try again.";
  };
  const link = card.guidance?.help_url
    ? outsideLink(card.guidance.help_url, "How to get it")
    : null;
  node.append(
    h(
      "header",
      { class: "card-head" },
      h("span", { class: "risk" }, icon("key"), "Secret"),
      h("span", { class: "card-kind" }, "To the vault"),
    ),
    h(
      "form",
      {
        onsubmit: (event) => {
          event.preventDefault();
          hold.guard(send)(event);
        },
      },
      h(
        "div",
        { class: "card-body" },
        h("h2", { class: "card-intent" }, h("label", { for: "secret-value" }, visible(card.label))),
        h(
          "p",
          { class: "card-why" },
          visible(
            card.guidance?.instructions ||
              "It goes straight to the vault. No agent and no conversation ever sees it.",
          ),
        ),
        link && h("p", {}, link),
        field,
        note,
      ),
      h(
        "div",
        { class: "card-actions" },
        h("button", { type: "submit", class: "primary" }, "Store it in the vault"),
        h(
          "div",
          { class: "card-others" },
          h(
            "button",
            { type: "button", class: "quiet", onclick: hold.guard(later) },
            "Ask me later",
          ),
          h(
            "button",
            { type: "button", class: "quiet decline", onclick: hold.guard(decline) },
            "Do not store it",
          ),
        ),
      ),
    ),
  );
  return node;
}
