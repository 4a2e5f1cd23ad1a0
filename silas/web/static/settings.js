// @ts-check
// Settings: who thinks, how it speaks, what it may read, what tells you something, where you are let in.
import { h } from "/dom.js";
import { answerOf } from "/keys.js";
import { sessionFetch, signedFetch } from "/session.js";
import { modelChoice, readSetup } from "/setup.js";
import { onChange, state } from "/state.js";
import { visible } from "/visible.js";

/** @type {any} */
let installing = null; // the browser's own question, kept until somebody wants it

addEventListener("beforeinstallprompt", (event) => {
  event.preventDefault();
  installing = event;
});
addEventListener("appinstalled", () => {
  installing = null;
});

/** A dialog; `page` is what every view has at hand. */
export function settingsDialog(page) {
  const body = h("div", { class: "settings" });
  const node = h("dialog", { class: "dialog", "aria-label": "Settings" }, body);
  const close = h(
    "div",
    { class: "dialog-actions" },
    h("button", { type: "button", class: "quiet", onclick: () => node.close() }, "Close"),
  );
  const overview = () =>
    body.replaceChildren(
      ...[
        h("h2", {}, "Settings"),
        row(
          "Model",
          state.ready?.model ?? "None. Silas understands a small set of requests.",
          "Change",
          choose,
        ),
        row("How it speaks", "Presets, and what you would change", "Change", manner),
        row("Folders", "What Silas may read without a plan", "Show", folders),
        row("Memory", "What Silas remembers of you", "Open", () => {
          node.close();
          page.show("memory");
        }),
        row("Skills", "What Silas has learnt to do, and from whom", "Open", () => {
          node.close();
          page.show("skills");
        }),
        row("Tool servers", "Other people's tools, each as far as you let it", "Open", () => {
          node.close();
          page.show("servers");
        }),
        row("Connections", "Your accounts elsewhere, and what Silas may do there", "Open", () => {
          node.close();
          page.show("connections");
        }),
        row("Devices", "Browsers that sign in your name", "Show", () => {
          node.close();
          page.show("devices");
        }),
        row("Visitors", "Others who talk to Silas with a link of yours", "Show", () => {
          node.close();
          page.show("visitors");
        }),
        row("Programs", "Claude Code, Codex and others that ask you through Silas", "Show", () => {
          node.close();
          page.show("programs");
        }),
        row("Notifications", notices(), mayAsk() && "Allow", allow),
        installing && row("App", "Silas in a window of its own", "Install", install),
        h("p", { class: "meta" }, `Silas ${state.ready?.version ?? ""}`),
        close,
      ].filter(Boolean),
    );
  const choose = async () => {
    body.replaceChildren(
      h("h2", {}, "Which model should Silas use?"),
      h(
        "p",
        { class: "dialog-lead" },
        "Silas tries a model first, and uses it only if it answers.",
      ),
      h("p", { class: "choice-note", role: "status" }, "Loading …"),
      close,
    );
    try {
      const setup = await readSetup();
      body.replaceChild(
        modelChoice({ device: page.device, setup, done: overview }),
        body.children[2],
      );
    } catch (problem) {
      body.children[2].textContent = problem.message;
    }
  };
  const manner = async () => {
    const part = h("p", { class: "choice-note", role: "status" }, "Loading …");
    body.replaceChildren(
      h("h2", {}, "How should Silas speak?"),
      h("p", { class: "dialog-lead" }, "It shapes words, and nothing that is allowed."),
      part,
      close,
    );
    try {
      const now = await answerOf(
        await sessionFetch("/persona/state"),
        "This cannot be read right now.",
      );
      body.replaceChild(mannerChoice(page.device, now), part);
    } catch (problem) {
      part.textContent = problem.message;
    }
  };
  const folders = async () => {
    const part = h("p", { class: "choice-note", role: "status" }, "Loading …");
    body.replaceChildren(
      h("h2", {}, "What may Silas read?"),
      h(
        "p",
        { class: "dialog-lead" },
        "It reads there when you ask something, and changes nothing.",
      ),
      part,
      close,
    );
    try {
      const now = await answerOf(
        await sessionFetch("/api/folders"),
        "This cannot be read right now.",
      );
      const toCard = (card) => {
        node.close();
        page.show("review", card);
      };
      body.replaceChild(placesChoice(page.device, now, { again: folders, toCard }), part);
    } catch (problem) {
      part.textContent = problem.message;
    }
  };
  const allow = async () => {
    await Notification.requestPermission();
    overview();
  };
  const install = async () => {
    const asked = installing;
    installing = null;
    await asked.prompt();
    overview();
  };
  onChange((what) => what === "ready" && node.open && !node.querySelector(".choice") && overview());
  return {
    node,
    show: (part) => {
      overview();
      node.showModal();
      if (part === "model") choose();
    },
  };
}

const FEEDBACK = {
  too_harsh: "Too harsh",
  too_soft: "Too soft",
  too_wordy: "Too long",
  too_brief: "Too short",
  too_cold: "Too cold",
  too_warm: "Too warm",
  too_formal: "Too formal",
  too_casual: "Too casual",
};

const AXES = {
  warmth: "Warm",
  assertiveness: "Firm",
  verbosity: "Detailed",
  formality: "Formal",
  humor: "Playful",
  initiative: "Forward",
  certainty: "Sure of itself",
};
const STEP = 0.1;
const PARTS = 5; // a manner has five bands on each axis, and the page shows no number

/** The presets, every axis, a sentence as it sounds now, feedback, and what can be taken back. */
function mannerChoice(device, first) {
  const note = h("p", { class: "choice-note", role: "status" });
  const place = h("div", { class: "choice" });
  const box = h("div", { class: "choice" }, place, note);
  const change = async (path, value, done) => {
    try {
      await answerOf(await signedFetch(device, path, value), "That did not work.");
      draw(await answerOf(await sessionFetch("/persona/state"), "This cannot be read right now."));
      note.textContent = done;
    } catch (problem) {
      note.textContent = problem.message;
    }
  };
  const button = (name, pressed, run, more = {}) =>
    h(
      "button",
      { type: "button", class: "chip", "aria-pressed": pressed, onclick: run, ...more },
      name,
    );
  const group = (label, ...buttons) =>
    h("div", { class: "chips", role: "group", "aria-label": label }, ...buttons);
  const tune = (axis, name, step) =>
    change(
      "/persona/tune",
      { delta: { [axis]: step }, persist_to_baseline: true },
      `${step > 0 ? "More" : "Less"}: ${name.toLowerCase()}.`,
    );
  const axisRow = (now, [axis, name]) => {
    const band = Math.min(PARTS, Math.floor(now.baseline_axes[axis] * PARTS) + 1);
    return h(
      "div",
      { class: "axis" },
      h("span", { class: "axis-name" }, name),
      h("span", { class: "sr" }, `${band} of ${PARTS}`),
      h("meter", {
        class: "axis-meter",
        min: "0",
        max: "1",
        value: now.baseline_axes[axis],
        "aria-hidden": "true",
      }),
      button("Less", undefined, () => tune(axis, name, -STEP), { "aria-label": `Less: ${name}` }),
      button("More", undefined, () => tune(axis, name, STEP), { "aria-label": `More: ${name}` }),
    );
  };
  function draw(now) {
    const focused = document.activeElement?.getAttribute("aria-label") ?? "";
    const last = now.changes[0];
    place.replaceChildren(
      group(
        "Presets",
        ...now.presets.map((name) =>
          button(visible(name), String(name === now.preset), () =>
            change("/persona/preset", { preset: name }, `From now on: ${name}.`),
          ),
        ),
      ),
      h(
        "blockquote",
        { class: "manner-sample", "aria-label": "How that sounds" },
        visible(now.sample),
      ),
      h(
        "div",
        { class: "axes", role: "group", "aria-label": "Tuning" },
        ...Object.entries(AXES).map((each) => axisRow(now, each)),
      ),
      h("p", { class: "dialog-lead" }, "What was wrong with how something was said?"),
      group(
        "Feedback",
        ...Object.entries(FEEDBACK).map(([type, name]) =>
          button(name, undefined, () =>
            change("/persona/feedback", { type }, `Heard: ${name.toLowerCase()}. A model is told.`),
          ),
        ),
      ),
      ...(last
        ? [
            h(
              "p",
              { class: "manner-last" },
              h("span", {}, `Last changed: ${last.text}.`),
              button("Take it back", undefined, () =>
                change("/persona/undo", {}, `Taken back: ${last.text}.`),
              ),
            ),
          ]
        : []),
    );
    if (focused) place.querySelector(`[aria-label="${CSS.escape(focused)}"]`)?.focus();
  }
  draw(first);
  return box;
}

/** What is open, each with a button that closes it, and a line to open more. */
function placesChoice(device, now, { again, toCard }) {
  const note = h("p", { class: "choice-note", role: "status" });
  const send = async (command, value) => {
    try {
      const sent = await signedFetch(device, `/api/folders/${command}`, value);
      return await answerOf(sent, "That did not work.");
    } catch (problem) {
      note.textContent = problem.message;
      return null;
    }
  };
  const rows = now.places.map((place) =>
    row(
      place.shown,
      openSince(place),
      place.opened_at && "Take back",
      async () => (await send("close", { place: place.place_id })) && again(),
    ),
  );
  const input = h("input", {
    type: "text",
    class: "free-text",
    maxlength: "4096",
    placeholder: "~/project or /home/me/notes.txt",
    "aria-label": "Folder or file to open",
    autocomplete: "off",
    spellcheck: "false",
  });
  const ask = async (event) => {
    event.preventDefault();
    const path = input.value.trim();
    const asked = path && (await send("open", { path }));
    if (asked) toCard(asked.card_id);
  };
  return h(
    "div",
    { class: "choice places" },
    ...rows,
    h("p", { class: "meta" }, visible(now.who_sees)),
    h(
      "form",
      { class: "place-form", onsubmit: ask },
      input,
      h("button", { type: "submit", class: "small" }, "Open…"),
    ),
    note,
  );
}

function openSince(place) {
  if (!place.opened_at) return "Open by your settings";
  if (!place.in_force) return "Asked again: another model would see it now";
  const kind = place.kind === "file" ? "This file" : "This folder and what is in it";
  return `${kind}, since ${new Date(place.opened_at).toLocaleDateString()}`;
}

const mayAsk = () => globalThis.Notification?.permission === "default";

function notices() {
  return (
    {
      granted: "You are told when something waits, while this page is open.",
      denied: "The browser says no.",
      default: "Off",
    }[globalThis.Notification?.permission] ?? "This browser has none."
  );
}

function row(name, value, action, run) {
  return h(
    "div",
    { class: "setting" },
    h("div", { class: "setting-words" }, h("strong", {}, name), h("span", {}, visible(value))),
    action &&
      h(
        "button",
        { type: "button", class: "quiet", onclick: run, "aria-label": `${action}: ${name}` },
        action,
      ),
  );
}
