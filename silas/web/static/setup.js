// @ts-check
// Who thinks: a model on this machine, one of a provider, or nobody. It is asked before it is used.
import { h, icon } from "/dom.js";
import { answerOf } from "/keys.js";
import { sessionFetch, signedFetch } from "/session.js";
import { visible } from "/visible.js";

/** How things stand: what is chosen, and what can be. */
export async function readSetup() {
  const answer = await sessionFetch("/api/setup");
  if (!answer.ok) throw new Error("Silas does not say how it is set up right now.");
  return answer.json();
}

/** Never show the first run again. */
export const finishSetup = (device, name) => signedFetch(device, "/api/setup/finish", { name });

async function readLocal() {
  const answer = await sessionFetch("/api/setup/local");
  return answer.ok ? answer.json() : [];
}

async function choose(device, wanted) {
  const said = await answerOf(
    await signedFetch(device, "/api/setup/model", wanted),
    "Silas does not take this.",
  );
  if (!said.ok) throw new Error(said.message);
  return said;
}

/** The choice of a model; `done(tried)` is called once one is in use, with null for none. */
export function modelChoice({ device, setup, done }) {
  const node = h("div", { class: "choice" });
  const note = h("p", { class: "choice-note", role: "status" });
  const problem = h("p", { class: "problem", role: "alert" });
  const box = h("div", { class: "choice-box" }, node, note, problem);
  const asking = async (name, wanted) => {
    node.toggleAttribute("inert", true);
    problem.textContent = "";
    note.replaceChildren(
      ...(wanted.kind === "none"
        ? []
        : [
            h("span", { class: "spinner", "aria-hidden": "true" }),
            visible(`Trying ${name}: four short questions. A small model may take a minute …`),
          ]),
    );
    try {
      const tried = await choose(device, wanted);
      if (wanted.kind === "none") done(null);
      else showTried(box, tried, done);
      return;
    } catch (error) {
      problem.textContent = error.message;
    }
    note.replaceChildren();
    node.toggleAttribute("inert", false);
  };
  if (!setup.changeable) {
    return h(
      "div",
      { class: "choice-box" },
      h("p", { class: "card-refusal" }, visible(setup.reason)),
      h("button", { type: "button", class: "primary", onclick: () => done(undefined) }, "Go on"),
    );
  }
  node.append(
    ...[
      localChoices(asking),
      cloudChoice(setup, asking),
      addressChoice(asking),
      option({
        title: "Start without one",
        text: "Silas understands a small set of requests offline. You can choose a model later.",
        pick: () => (setup.model ? asking("", { kind: "none" }) : done(null)),
      }),
    ].filter(Boolean),
  );
  return box;
}

// What the test found out: what the model can do, and which role needs more than that.
function showTried(box, tried, done) {
  const line = (name, text) =>
    h("li", { class: `tried-${name}` }, icon(name), h("span", {}, visible(text)));
  const go = h(
    "button",
    { type: "button", class: "primary", onclick: () => done(tried) },
    "Continue",
  );
  box.replaceChildren(
    h(
      "p",
      { class: "choice-note", role: "status" },
      h("strong", {}, visible(tried.model ?? "")),
      " is in use.",
    ),
    h(
      "ul",
      { class: "tried" },
      tried.facts.map((each) => line("check", each)),
      tried.warnings.map((each) => line("alert", each)),
    ),
    go,
  );
  go.focus();
}

function option({ title, text, pick }) {
  return h(
    "button",
    { type: "button", class: "option", onclick: pick },
    h(
      "span",
      { class: "option-words" },
      h("strong", {}, visible(title)),
      h("span", {}, visible(text)),
    ),
    icon("chevron"),
  );
}

// What answers on this machine comes first: nothing leaves it.
function localChoices(asking) {
  const list = h("div", { class: "options" });
  const again = h(
    "button",
    { type: "button", class: "quiet look-again", onclick: () => look() },
    "Look again",
  );
  const look = async () => {
    again.disabled = true;
    list.setAttribute("aria-busy", "true");
    list.replaceChildren(
      h(
        "p",
        { class: "choice-note", role: "status" },
        h("span", { class: "spinner", "aria-hidden": "true" }),
        "Looking for models on this machine …",
      ),
    );
    const servers = await readLocal().catch(() => []);
    const found = servers.flatMap(({ kind, address, models }) =>
      models
        .slice(0, 4)
        .map((model) =>
          option({
            title: model,
            text: `${kind} on this machine. Nothing leaves it.`,
            pick: () => asking(model, { kind: "local", server: address, model }),
          }),
        ),
    );
    list.replaceChildren(
      ...(found.length
        ? found
        : [
            h(
              "p",
              { class: "choice-note", role: "status" },
              "No model answers on this machine at the usual ports. Start its server and look again, or type its address below.",
            ),
          ]),
    );
    list.removeAttribute("aria-busy");
    again.disabled = false;
  };
  look();
  return h("div", { class: "options" }, list, again);
}

const input = (id, more = {}) =>
  h("input", { id, autocomplete: "off", spellcheck: "false", maxlength: "150", ...more });
const keyInput = (id) => input(id, { type: "password", maxlength: "4000" });

function more(title, text, form) {
  return h(
    "details",
    { class: "option-more" },
    h(
      "summary",
      {},
      h("span", { class: "option-words" }, h("strong", {}, title), h("span", {}, text)),
      icon("chevron"),
    ),
    form,
  );
}

function cloudChoice({ cloud }, asking) {
  if (!cloud.length) return null;
  const provider = h(
    "select",
    { id: "setup-provider" },
    cloud.map((each) => h("option", { value: each.provider }, each.label)),
  );
  const model = input("setup-model");
  const key = keyInput("setup-key");
  const hint = h("p", { class: "choice-note", role: "status" });
  const problem = h("p", { class: "problem", role: "alert" });
  const button = h("button", { type: "submit", class: "primary" }, "Test and use");
  const chosen = () => cloud.find((each) => each.provider === provider.value);
  const reflect = () => {
    const { models, has_key, install } = chosen();
    model.value = models[0] ?? "";
    problem.textContent = "";
    for (const each of [model, key, button]) each.disabled = Boolean(install);
    hint.replaceChildren(
      ...(install
        ? [
            "This provider needs a package that is not installed. Run this in a terminal, then start Silas again:",
            h("code", { class: "command" }, install),
          ]
        : [
            has_key
              ? "There is a key already; leave this empty to use it."
              : "The key goes into your vault, and is sent to this provider only.",
          ]),
    );
  };
  provider.addEventListener("change", reflect);
  reflect();
  const submit = (event) => {
    event.preventDefault();
    const { label, has_key } = chosen();
    const missing = !model.value.trim()
      ? [model, "Type the name of the model first."]
      : !key.value.trim() && !has_key && [key, `Type your key for ${label} first.`];
    problem.textContent = missing ? missing[1] : "";
    if (missing) {
      missing[0].focus();
      return;
    }
    const value = key.value;
    key.value = ""; // it is in the vault or nowhere
    asking(label, {
      kind: "cloud",
      provider: provider.value,
      model: model.value.trim(),
      key: value || null,
    });
  };
  return more(
    "A provider's model",
    "With your own key. What you say is sent there.",
    h(
      "form",
      { class: "fields", onsubmit: submit },
      h("label", { for: "setup-provider" }, "Provider"),
      provider,
      h("label", { for: "setup-model" }, "Model"),
      model,
      h("label", { for: "setup-key" }, "API key"),
      key,
      hint,
      problem,
      button,
    ),
  );
}

function addressChoice(asking) {
  const address = input("setup-address", {
    maxlength: "500",
    inputmode: "url",
    placeholder: "http://127.0.0.1:8080/v1",
  });
  const model = input("setup-own-model");
  const key = keyInput("setup-own-key");
  const problem = h("p", { class: "problem", role: "alert" });
  const submit = (event) => {
    event.preventDefault();
    problem.textContent = address.value.trim() ? "" : "Type the address of the server first.";
    if (problem.textContent) {
      address.focus();
      return;
    }
    const value = key.value;
    key.value = "";
    asking(address.value.trim(), {
      kind: "address",
      server: address.value.trim(),
      model: model.value.trim() || null,
      key: value.trim() || null,
    });
  };
  return more(
    "A server of your own",
    "Any address that speaks OpenAI's protocol: llama.cpp, LM Studio, vLLM, LiteLLM and others.",
    h(
      "form",
      { class: "fields", onsubmit: submit },
      h("label", { for: "setup-address" }, "Address"),
      address,
      h("label", { for: "setup-own-model" }, "Model (empty: the one that it has)"),
      model,
      h("label", { for: "setup-own-key" }, "Key, if it wants one"),
      key,
      problem,
      h("button", { type: "submit", class: "primary" }, "Test and use"),
    ),
  );
}
