// @ts-check
// Connections: accounts elsewhere; how they are, what they may do, what was done with them.
import { closeRows, h, icon, isReading, outsideLink } from "/dom.js";
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

/** How the servers of each kind of account are written. */
const SERVERS = {
  mail: "imap=HOST:PORT smtp=HOST:PORT",
  calendar: "caldav=HOST:PORT",
  github: "api=HOST:PORT",
};

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

  // What was begun here comes back here when it waits for a sign-in.
  const begun = new Set();
  const comeBack = async () => {
    const { connections } = await read("");
    const waits = connections.find((each) => each.sign_in && begun.has(each.connection_id));
    if (!waits) return;
    begun.delete(waits.connection_id);
    page.show("connections");
  };

  // What somebody is about to do, or reads, stays as it is.
  const busy = () => view.node.querySelector(".memory-forget") !== null;
  const reading = () => isReading(view.node);

  /** Draw what there is; `unless` it is better left as it is when the answer has come. */
  async function load(unless = () => false) {
    const [found, rules] = [await read(""), await readRules()];
    if (unless()) return;
    showRules(rules);
    const rows = found.connections.map(row);
    const none = h("li", { class: "empty" }, "Nothing is connected yet.");
    list.replaceChildren(...(rows.length ? rows : [none]));
    const chosen = view.skill.value;
    view.skill.replaceChildren(
      ...found.kinds.map((each) => h("option", { value: each.skill }, visible(each.skill))),
    );
    view.skill.value = chosen || "mail";
    view.skill.dispatchEvent(new Event("change"));
    view.asking.hidden = !found.kinds.length;
    view.crossings.replaceChildren(...between(found));
  }

  /** What may cross from one domain to another; nothing to see while there is one domain. */
  function between({ domains, crossings }) {
    if (domains.length < 2 && !crossings.length) return [];
    const rows = crossings.map((each) => {
      const { source, target } = each;
      const words = `What is read in ${source} may be used in ${target}`;
      const stop = async () => {
        await change("uncross", { source, target });
        await load(busy);
        told(`Nothing crosses from ${source} to ${target} any more.`);
      };
      return h(
        "li",
        { class: "memory-item" },
        h(
          "p",
          { class: "memory-text" },
          visible(each.intact ? words : `${words}: changed, not used`),
        ),
        h(
          "div",
          { class: "memory-place" },
          quiet("Stop", () => work(stop), `Stop: ${words}`),
        ),
      );
    });
    const choice = (label, chosen) => {
      const options = domains.map((each) => h("option", { value: each }, visible(each)));
      const node = /** @type {HTMLSelectElement} */ (h("select", { "aria-label": label }, options));
      node.value = chosen;
      return node;
    };
    const [from, to] = [choice("From", domains[0]), choice("To", domains[1])];
    const ask = async (event) => {
      event.preventDefault();
      const asked = await change("cross", { source: from.value, target: to.value });
      if (asked.card_id) page.show("review", asked.card_id);
      else told("It may cross already.");
    };
    const asking = h(
      "form",
      { class: "fields crossing", onsubmit: (event) => work(() => ask(event)) },
      from,
      to,
      h("button", { type: "submit", class: "small" }, "Ask to let it cross"),
    );
    return [
      h("h3", {}, "From one domain to another"),
      h("p", { class: "meta" }, "Nothing that is read in one is used in another without your yes."),
      h("ul", { class: "memory-list" }, rows),
      domains.length > 1 && asking,
    ].filter(Boolean);
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
      each.sign_in && signIn(each),
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

  // What was signed about single items (`GET /api/rules`); each can be taken back.
  const readRules = async () =>
    (await answerOf(await sessionFetch("/api/rules"), UNREADABLE)).rules;

  function showRules(rules) {
    view.rules.hidden = !rules.length;
    view.ruleList.replaceChildren(
      ...rules.map((rule) => {
        const drop = async () => {
          const path = "/api/rules/drop";
          const sent = signedFetch(page.device, path, { rule_id: rule.rule_id });
          await answerOf(await sent, "That did not work.");
          showRules(await readRules());
          told("The rule is taken back. What it selected is asked about again.");
        };
        const words = `${rule.words} → ${rule.label}`;
        return h(
          "li",
          { class: "memory-item", "data-rule": rule.rule_id },
          h("p", { class: "memory-text" }, visible(words)),
          h(
            "div",
            { class: "memory-place" },
            h(
              "button",
              {
                type: "button",
                class: "quiet",
                "aria-label": `Take back: ${words}`,
                onclick: () => work(drop),
              },
              "Take back",
            ),
          ),
        );
      }),
    );
  }

  /** Where the owner signs in at the provider, and with which code. */
  const signIn = (each) => {
    const { url, user_code: code, expires_at: until } = each.sign_in;
    const words = code
      ? "Open the provider's page and enter this code:"
      : "Sign in on the provider's page, in a browser on the machine that Silas runs on.";
    return h(
      "div",
      { class: "sign-in", role: "group", "aria-label": `Sign in: ${each.name}` },
      h("p", {}, words),
      code && h("p", {}, h("strong", { class: "sign-in-code" }, h("code", {}, visible(code)))),
      outsideLink(url, code ? `Open ${new URL(url).host}` : "Open sign-in page"),
      h("p", { class: "meta" }, `Silas waits until ${moment(until)}.`),
    );
  };

  const quiet = (label, onclick, name = label) =>
    h("button", { type: "button", class: "quiet", "aria-label": name, onclick }, label);

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
      const after = await change(command, { name });
      if (command === "reconnect") begun.add(name);
      await load(busy);
      told(command === "remove" && after.problem ? `${sentence} ${after.problem}` : sentence);
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
        button("Reconnect", then("reconnect", "You are asked to sign in again.")),
      each.intact && button("Rename", () => rename(each, place)),
      ["proposed", "connecting"].includes(status) &&
        button("Cancel", then("cancel", `${each.name} is not set up any more.`)),
      ["active", "paused"].includes(status) &&
        each.sign_in &&
        button("Cancel", then("cancel", `${each.name} stays as it was.`)),
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

  function rename(each, place) {
    const field = h("input", {
      type: "text",
      class: "free-text",
      maxlength: "120",
      value: each.name,
      "aria-label": "New name",
      autocomplete: "off",
    });
    const done = () => {
      place.replaceChildren();
      return load();
    };
    const save = async () => {
      const after = await change("rename", { name: each.connection_id, new_name: field.value });
      await done();
      told(`It is called ${after.name} now.`);
    };
    const submitted = (event) => {
      event.preventDefault();
      work(save);
    };
    place.replaceChildren(
      h(
        "form",
        { class: "memory-forget fields", "aria-label": "Rename", onsubmit: submitted },
        field,
        h(
          "div",
          { class: "memory-buttons" },
          h("button", { type: "submit", class: "primary small" }, "Rename it"),
          quiet("Keep its name", () => work(done)),
        ),
      ),
    );
    /** @type {HTMLInputElement} */ (field).select();
  }

  /** A text for whoever keeps the rules of the owner's organisation. */
  async function letter(each, place) {
    const { text } = await read(`/item/${encodeURIComponent(each.connection_id)}/letter`);
    place.append(
      h("p", { class: "meta" }, "You send it. Silas sends it to nobody."),
      h("pre", { class: "code", tabindex: "0", "aria-label": "The letter" }, visible(text)),
    );
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
      ...found.uses.map((use) => `${moment(use.at)}: ${use.words}`),
    ];
    const more = each.status === "active" ? each.can_be_granted : [];
    const later = each.permissions.filter((name) => !found.initial_permissions.includes(name));
    const takeBack = (permission) => async () => {
      await change("disallow", { name: each.connection_id, permission });
      await load();
      told(`${inWords(permission)}: taken back.`);
    };
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
      ...later.map((permission) =>
        h(
          "button",
          { type: "button", class: "quiet small", onclick: () => work(takeBack(permission)) },
          visible(`Take back ${inWords(permission)}`),
        ),
      ),
      h(
        "button",
        {
          type: "button",
          class: "quiet small",
          onclick: (event) => {
            event.currentTarget.remove();
            work(() => letter(each, place));
          },
        },
        "Letter to your IT department",
      ),
    );
  }

  async function allow(each, permission) {
    const asked = await change("allow", { name: each.connection_id, permission });
    if (!asked.card_id) return;
    begun.add(each.connection_id);
    page.show("review", asked.card_id);
  }

  view.asking.addEventListener("submit", (event) => {
    event.preventDefault();
    work(async () => {
      told("Looking for its servers …");
      const asked = await change("connect", {
        skill: view.skill.value,
        identity: view.identity.value.trim(),
        options: optionsOf(view.servers.value, view.client.value.trim()),
        ...(view.name.value.trim() ? { name: view.name.value.trim() } : {}),
        ...(view.domain.value.trim() ? { domain: view.domain.value.trim() } : {}),
      });
      for (const each of [view.identity, view.servers, view.client, view.name, view.domain])
        each.value = "";
      told("");
      begun.add(asked.connection.connection_id);
      page.show("review", asked.card_id);
    });
  });
  onChange((what) => {
    const shown = "current" in view.node.dataset;
    if (["cards", "connections"].includes(what) && shown && !reading()) work(() => load(reading));
    if (what === "connections" && !shown && begun.size) work(comeBack);
  });
  const opened = () => {
    closeRows(view.node);
    work(() => load(reading));
  };
  return { node: view.node, opened };
}

/** `imap=HOST:PORT smtp=HOST:PORT` and the client to sign in with, as options. */
function optionsOf(text, client) {
  const pairs = text.split(/\s+/).filter(Boolean);
  const wrong = pairs.find((each) => !/^[^=]+=./.test(each));
  if (wrong) throw new Error(`Write servers as imap=HOST:PORT smtp=HOST:PORT, not ${wrong}.`);
  const named = pairs.map((each) => [each.split("=")[0], each.replace(/^[^=]+=/, "")]);
  return { ...Object.fromEntries(named), ...(client ? { client_id: client } : {}) };
}

function makeParts(page) {
  const list = h("ul", { class: "memory-list", "aria-label": "Connections" });
  const note = h("p", { class: "memory-note", role: "status" });
  const fields = [];
  const labelled = (label, node) => {
    node.id = `connect-${fields.length}`;
    fields.push(h("div", { class: "fields" }, h("label", { for: node.id }, label), node));
    return node;
  };
  const field = (label, placeholder) =>
    /** @type {HTMLInputElement} */ (
      labelled(
        label,
        h("input", {
          type: "text",
          maxlength: "320",
          placeholder,
          autocomplete: "off",
          spellcheck: "false",
        }),
      )
    );
  const skill = /** @type {HTMLSelectElement} */ (labelled("Kind of account", h("select", {})));
  const identity = field("Account", "");
  const servers = field("Servers, if Silas does not know them", SERVERS.mail);
  skill.addEventListener("change", () => {
    identity.placeholder = skill.value === "github" ? "your-login" : "you@example.org";
    servers.placeholder = SERVERS[skill.value] ?? "NAME=HOST:PORT";
  });
  const client = field("Client ID, if you sign in at the provider", "Client ID");
  const name = field("What you call it", "Private");
  const domain = field("Domain it belongs to", "personal, or business:acme");
  const asking = h(
    "form",
    { class: "connect-form" },
    fields.slice(0, 2),
    h(
      "details",
      { class: "raw" },
      h("summary", {}, icon("chevron"), "Servers of your own, a sign-in, a name"),
      h("div", { class: "connect-more" }, fields.slice(2)),
    ),
    h("button", { type: "submit", class: "primary" }, "Connect"),
  );
  const crossings = h("section", { class: "crossings" });
  const ruleList = h("ul", { class: "memory-list", "aria-label": "Rules for items" });
  const rules = h("div", { hidden: true }, h("h3", {}, "Rules that you have signed"), ruleList);
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
      rules,
      h("h3", {}, "Another account"),
      h("p", { class: "meta" }, "Nothing is connected before you have read its card and said yes."),
      asking,
      crossings,
    ),
  );
  const given = { skill, identity, servers, client, name, domain, asking };
  return { node, list, note, ...given, crossings, rules, ruleList };
}
