// Who thinks: a model on this machine, one of a provider, or nobody. It is asked before it is used.
import { h, icon } from "/dom.js";
import { answerOf, signedFetch } from "/keys.js";
import { visible } from "/visible.js";

/** How things stand: what is chosen, and what can be. */
export async function readSetup() {
  const answer = await fetch("/api/setup");
  if (!answer.ok) throw new Error("Silas does not say how it is set up right now.");
  return answer.json();
}

/** Never show the first run again. */
export const finishSetup = (device, name) => signedFetch(device, "/api/setup/finish", { name });

async function readLocal() {
  const answer = await fetch("/api/setup/local");
  return answer.ok ? answer.json() : [];
}

async function choose(device, wanted) {
  const said = await answerOf(await signedFetch(device, "/api/setup/model", wanted), "Silas does not take this.");
  if (!said.ok) throw new Error(said.message);
  return said;
}

/** The choice of a model; `done(tried)` is called once one is in use, with null for none. */
export function modelChoice({ device, setup, done }) {
  const node = h("div", { class: "choice" });
  const note = h("p", { class: "choice-note", role: "status" });
  const problem = h("p", { class: "problem", role: "alert" });
  const asking = async (name, wanted) => {
    node.toggleAttribute("inert", true);
    problem.textContent = "";
    note.replaceChildren(...(wanted.kind === "none" ? [] : [h("span", { class: "spinner", "aria-hidden": "true" }), `Asking ${name} …`]));
    try {
      const tried = await choose(device, wanted);
      done(wanted.kind === "none" ? null : tried);
    } catch (error) {
      problem.textContent = error.message;
    }
    note.replaceChildren();
    node.toggleAttribute("inert", false);
  };
  if (!setup.changeable) {
    return h("div", { class: "choice-box" }, h("p", { class: "card-refusal" }, visible(setup.reason)),
      h("button", { type: "button", class: "primary", onclick: () => done(undefined) }, "Go on"));
  }
  node.append(localChoices(asking), cloudChoice(setup, asking),
    option({ title: "Start without one", text: "A small set of requests, understood offline. You can choose a model later.", pick: () => (setup.model ? asking("", { kind: "none" }) : done(null)) }));
  return h("div", { class: "choice-box" }, node, note, problem);
}

function option({ title, text, pick }) {
  return h("button", { type: "button", class: "option", onclick: pick },
    h("span", { class: "option-words" }, h("strong", {}, visible(title)), h("span", {}, visible(text))), icon("chevron"));
}

// What answers on this machine comes first: nothing leaves it.
function localChoices(asking) {
  const list = h("div", { class: "options", "aria-busy": "true" }, h("p", { class: "choice-note" }, h("span", { class: "spinner", "aria-hidden": "true" }), "Looking for models on this machine …"));
  readLocal().then((servers) => {
    const found = servers.flatMap(({ kind, address, models }) => models.slice(0, 4).map((model) =>
      option({ title: model, text: `${kind} on this machine. Nothing leaves it.`, pick: () => asking(model, { kind: "local", server: address, model }) })));
    list.replaceChildren(...(found.length ? found : [h("p", { class: "choice-note" }, "No model answers on this machine.")]));
    list.removeAttribute("aria-busy");
  });
  return list;
}

function cloudChoice({ cloud }, asking) {
  if (!cloud.length) return null;
  const provider = h("select", { id: "setup-provider" }, cloud.map((each) => h("option", { value: each.provider }, each.label)));
  const model = h("input", { id: "setup-model", maxlength: "150", autocomplete: "off", spellcheck: "false" });
  const key = h("input", { id: "setup-key", type: "password", maxlength: "4000", autocomplete: "off", spellcheck: "false" });
  const hint = h("p", { class: "choice-note" });
  const chosen = () => cloud.find((each) => each.provider === provider.value);
  const reflect = () => {
    model.value = chosen().models[0];
    hint.textContent = chosen().has_key ? "There is a key already; leave this empty to use it." : "It goes to your vault, and only to this provider.";
  };
  provider.addEventListener("change", reflect);
  reflect();
  const submit = (event) => {
    event.preventDefault();
    const value = key.value;
    key.value = ""; // it is in the vault or nowhere
    asking(`${chosen().label}`, { kind: "cloud", provider: provider.value, model: model.value.trim(), key: value || null });
  };
  return h("details", { class: "option-more" },
    h("summary", {}, h("span", { class: "option-words" }, h("strong", {}, "A provider's model"), h("span", {}, "With your own key. What you say is sent there.")), icon("chevron")),
    h("form", { class: "fields", onsubmit: submit },
      h("label", { for: "setup-provider" }, "Provider"), provider,
      h("label", { for: "setup-model" }, "Model"), model,
      h("label", { for: "setup-key" }, "API key"), key, hint,
      h("button", { type: "submit", class: "primary" }, "Test and use")));
}
