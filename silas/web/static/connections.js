// @ts-check
// Connections: accounts elsewhere; how they are, what they may do, what was done with them.
import { h, icon } from "/dom.js";
import { answerOf } from "/keys.js";
import { sessionFetch, signedFetch } from "/session.js";
import { onChange } from "/state.js";
import { visible } from "/visible.js";

const MOMENT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const UNREADABLE = "Connections cannot be read right now.";
const STATES = {
  proposed: "Waits for you",
  connecting: "Is being set up",
  active: "Works",
  paused: "Paused",
  failed: "Does not work",
};
const TIERS = {
  observe: "look, search and read",
  draft: "prepare drafts",
  act: "change, send and delete",
  manage: "change its own settings",
};

const read = async (path) => answerOf(await sessionFetch(`/api/connections${path}`), UNREADABLE);
const moment = (text) => MOMENT.format(new Date(text));

/** `mail.act` in words. */
function inWords(permission) {
  const [what, tier] = [permission.replace(/\.[^.]*$/, ""), permission.split(".").pop()];
  return TIERS[tier] ? `${what}: ${TIERS[tier]}` : permission;
}

/** The surface; `page` is what every view has at hand. */
export function connectionsView(page) {
  const view = makeParts(page);
  const { list, note } = view;

  const change = async (command, value) =>
    answerOf(
      await signedFetch(page.device, `/api/connections/${command}`, value),
      "That did not work.",
    );
  const told = (text) => note.replaceChildren(h("span", {}, visible(text)));
  const work = async (run) => {
    try {
      await run();
    } catch (problem) {
      told(problem.message);
    }
  };

  // What somebody is about to do, or reads, stays as it is.
  const busy = () => view.node.querySelector(".memory-forget") !== null;
  const reading = () => view.node.querySelector(".skill-more:not(:empty)") !== null;

  /** Draw what there is; `unless` it is better left as it is when the answer has come. */
  async function load(unless = () => false) {
    const found = await read("");
    if (unless()) return;
    const rows = found.connections.map(row);
    const none = h("li", { class: "empty" }, "Nothing is connected yet.");
    list.replaceChildren(...(rows.length ? rows : [none]));
    const chosen = view.skill.value;
    view.skill.replaceChildren(
      ...found.kinds.map((each) => h("option", { value: each.skill }, visible(each.skill))),
    );
    if (chosen) view.skill.value = chosen;
    view.asking.hidden = !found.kinds.length;
  }

  const row = (each) => {
    const place = h("div", { class: "skill-more" });
    const facts = [
      each.intact ? STATES[each.status] : "Changed, and not used",
      each.step,
      each.domain,
      each.last_used_at ? `Used ${moment(each.last_used_at)}` : "Never used",
    ].filter(Boolean);
    return h(
      "li",
      { class: "memory-item", "data-connection": each.name, "data-status": each.status },
      h("p", { class: "memory-text" }, h("strong", {}, visible(each.name))),
      each.problem && h("p", { class: "memory-text" }, visible(each.problem)),
      h(
        "p",
        { class: "memory-facts" },
        facts.map((fact) => h("span", {}, visible(fact))),
      ),
      each.permissions.length
        ? h(
            "ul",
            { class: "skill-summary", "aria-label": "What it may do" },
            each.permissions.map((name) => h("li", {}, visible(inWords(name)))),
          )
        : null,
      h("div", { class: "memory-place" }, ...buttons(each, place)),
      place,
    );
  };

  const buttons = (each, place) => {
    const button = (label, run, kind = "quiet") =>
      h(
        "button",
        {
          type: "button",
          class: kind,
          "aria-label": `${label}: ${each.name}`,
          onclick: () => work(run),
        },
        label,
      );
    const name = each.connection_id;
    const then = (command, sentence) => async () => {
      await change(command, { name });
      await load(busy);
      told(sentence);
    };
    const { status } = each;
    return [
      each.card_ids.length > 0 &&
        button("Look at its card", () => page.show("review", each.card_ids[0])),
      each.wants_secret &&
        button("Type the password", () => page.show("review", `secret:${each.wants_secret}`)),
      button("Show", () => showDetails(each, place)),
      ["active", "failed"].includes(status) && button("Check", () => check(each)),
      status === "active" && button("Pause", then("pause", `Nothing uses ${each.name} any more.`)),
      status === "paused" && button("Resume", then("resume", `${each.name} can be used again.`)),
      status === "failed" &&
        button("Reconnect", then("reconnect", "You are asked for the password.")),
      ["proposed", "connecting"].includes(status) &&
        button("Cancel", then("cancel", `${each.name} is not set up any more.`)),
      button("Remove", () => confirmRemoval(each, place, then), "quiet decline"),
    ].filter(Boolean);
  };

  async function check(each) {
    told("Trying it …");
    const { checks } = await change("check", { name: each.connection_id });
    const { result } = checks[0];
    await load(busy);
    told(
      result.healthy
        ? `${each.name} works (${result.latency_ms} ms).`
        : `It failed. ${result.error}`,
    );
  }

  function confirmRemoval(each, place, then) {
    const yes = h("button", { type: "button", class: "primary small" }, "Remove it");
    const said = `${each.name} is removed, and its secret is forgotten.`;
    yes.addEventListener("click", () => {
      place.replaceChildren();
      work(then("remove", said));
    });
    const kept = () => {
      place.replaceChildren();
      work(load);
    };
    const keep = h("button", { type: "button", class: "quiet", onclick: kept }, "Keep it");
    place.replaceChildren(
      h(
        "div",
        { class: "memory-forget", role: "group", "aria-label": "Remove this connection" },
        h("p", {}, "Silas forgets the account and its secret."),
        h("div", { class: "memory-buttons" }, yes, keep),
      ),
    );
    yes.focus();
  }

  async function showDetails(each, place) {
    if (place.childNodes.length) {
      place.replaceChildren();
      await load(reading);
      return;
    }
    const found = await read(`/item/${encodeURIComponent(each.connection_id)}`);
    const lines = [
      ...each.servers,
      `Secret in the vault: ${found.secret}`,
      each.last_health_check
        ? `Checked ${moment(each.last_health_check)}`
        : "It was not checked yet",
      ...found.uses.map((use) => `${moment(use.at)}: ${use.tool || use.event}`),
    ];
    const more = each.status === "active" ? each.can_be_granted : [];
    place.replaceChildren(
      h(
        "ul",
        { class: "skill-summary" },
        lines.map((line) => h("li", {}, visible(line))),
      ),
      ...more.map((permission) =>
        h(
          "button",
          {
            type: "button",
            class: "quiet small",
            onclick: () => work(() => allow(each, permission)),
          },
          visible(`Allow ${inWords(permission)}`),
        ),
      ),
    );
  }

  async function allow(each, permission) {
    const asked = await change("allow", { name: each.connection_id, permission });
    if (asked.card_id) page.show("review", asked.card_id);
  }

  view.asking.addEventListener("submit", (event) => {
    event.preventDefault();
    work(async () => {
      told("Looking for its servers …");
      const asked = await change("connect", {
        skill: view.skill.value,
        identity: view.identity.value.trim(),
        options: serversOf(view.servers.value),
      });
      view.identity.value = "";
      view.servers.value = "";
      told("");
      page.show("review", asked.card_id);
    });
  });
  onChange((what) => {
    const shown = "current" in view.node.dataset;
    if (["cards", "connections"].includes(what) && shown && !reading()) work(() => load(reading));
  });
  return { node: view.node, opened: () => work(load) };
}

/** `imap=HOST:PORT smtp=HOST:PORT` as options. */
function serversOf(text) {
  const pairs = text.split(/\s+/).filter(Boolean);
  const wrong = pairs.find((each) => !/^[^=]+=./.test(each));
  if (wrong) throw new Error(`Write servers as imap=HOST:PORT smtp=HOST:PORT, not ${wrong}.`);
  return Object.fromEntries(pairs.map((each) => [each.split("=")[0], each.replace(/^[^=]+=/, "")]));
}

function makeParts(page) {
  const list = h("ul", { class: "memory-list", "aria-label": "Connections" });
  const note = h("p", { class: "memory-note", role: "status" });
  const skill = /** @type {HTMLSelectElement} */ (h("select", { "aria-label": "Kind of account" }));
  const field = (label, placeholder) =>
    /** @type {HTMLInputElement} */ (
      h("input", {
        type: "text",
        class: "free-text",
        maxlength: "320",
        placeholder,
        "aria-label": label,
        autocomplete: "off",
        spellcheck: "false",
      })
    );
  const identity = field("Account", "you@example.org");
  const servers = field("Servers, if Silas does not know them", "imap=HOST:PORT smtp=HOST:PORT");
  const asking = h(
    "form",
    { class: "place-form connect-form" },
    skill,
    identity,
    h(
      "details",
      { class: "raw" },
      h("summary", {}, icon("chevron"), "Servers of your own"),
      servers,
    ),
    h("button", { type: "submit", class: "small" }, "Connect"),
  );
  const close = h(
    "button",
    {
      type: "button",
      class: "quiet close",
      "aria-label": "Close Connections",
      onclick: page.close,
    },
    icon("cross"),
  );
  const node = h(
    "section",
    {
      class: "surface memory connections",
      id: "connections",
      "aria-label": "Connections",
      tabindex: "-1",
    },
    h("header", { class: "activity-head" }, h("h2", {}, "Connections"), close),
    h(
      "div",
      { class: "memory-inner" },
      note,
      list,
      h("h3", {}, "Another account"),
      h("p", { class: "meta" }, "Nothing is connected before you have read its card and said yes."),
      asking,
    ),
  );
  return { node, list, note, skill, identity, servers, asking };
}
