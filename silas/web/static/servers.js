// @ts-check
// Tool servers: which there are, what each runs, what its tools do; asked for, looked at, taken away.
import { closeRows, h, icon, isReading, outsideLink } from "/dom.js";
import { answerOf } from "/keys.js";
import { codeBlock } from "/markdown.js";
import { sessionFetch, signedFetch } from "/session.js";
import { onChange } from "/state.js";
import { visible } from "/visible.js";

const UNREADABLE = "Tool servers cannot be read right now.";
const EFFECTS = {
  ask: "asks every time",
  read: "only reads",
  change: "changes something",
  send: "tells somebody something",
  irreversible: "cannot be taken back",
};
const STATES = {
  quarantined: "Changed, and not used",
  disabled: "Disabled",
  waiting: "Waits for you",
};

const read = async (path) => answerOf(await sessionFetch(`/api/mcp${path}`), UNREADABLE);

/** The surface; `page` is what every view has at hand. */
export function serversView(page) {
  const view = makeParts(page);
  const { list, waiting, note } = view;

  const change = async (command, value) =>
    answerOf(await signedFetch(page.device, `/api/mcp/${command}`, value), "That did not work.");
  const told = (text) => note.replaceChildren(...visible(text));
  const work = async (run) => {
    try {
      await run();
    } catch (problem) {
      told(problem.message);
    }
  };
  const reading = () => isReading(view.node);
  const toCard = (asked) => page.show("review", asked.card_id);

  async function load(unless = () => false) {
    const found = await read("");
    if (unless()) return;
    waiting.replaceChildren(...found.waiting.map(waitingRow), ...found.failed.map(failedRow));
    const rows = found.servers.map(row);
    const none = h("li", { class: "empty" }, "There is no tool server yet.");
    list.replaceChildren(...(rows.length ? rows : [none]));
  }

  const button = (label, name, run, kind = "quiet") =>
    h(
      "button",
      { type: "button", class: kind, "aria-label": `${label}: ${name}`, onclick: () => work(run) },
      label,
    );

  const waitingRow = (each) => {
    const place = h("div", { class: "skill-more" });
    const buttons = each.sign_in
      ? [outsideLink(each.sign_in, "Sign in")]
      : [
          button("Look at its card", each.name, async () => toCard(each), "quiet small"),
          button("What its tools do", each.name, () => showDetails(each.name, place)),
        ];
    return h(
      "li",
      { class: "memory-item", "data-server": each.name },
      h(
        "p",
        { class: "memory-text" },
        h("strong", {}, visible(each.name)),
        " ",
        visible(each.asks),
      ),
      h("div", { class: "memory-place" }, buttons),
      place,
    );
  };

  const failedRow = (each) =>
    h(
      "li",
      { class: "memory-item", "data-server": each.name },
      h(
        "p",
        { class: "memory-text" },
        h("strong", {}, visible(each.name)),
        " ",
        visible(`Its tools could not be read: ${each.reason}`),
      ),
    );

  const row = (server) => {
    const place = h("div", { class: "skill-more" });
    const facts = [
      server.intact ? STATES[server.state] : STATES.quarantined,
      server.tools === 1 ? "1 tool" : `${server.tools} tools`,
      server.undecided && `without an effect, so asked about every time: ${server.undecided}`,
    ].filter(Boolean);
    const again = async (command) => toCard(await change(command, { name: server.name }));
    return h(
      "li",
      { class: "memory-item", "data-server": server.name },
      h("p", { class: "memory-text" }, h("strong", {}, visible(server.name))),
      h("p", { class: "memory-text" }, h("code", {}, visible(server.runs))),
      h(
        "p",
        { class: "memory-facts" },
        facts.map((each) => h("span", {}, visible(String(each)))),
      ),
      server.reason && h("p", { class: "memory-text" }, visible(server.reason)),
      h("div", { class: "memory-place" }, [
        button("What its tools do", server.name, () => showDetails(server.name, place)),
        button("Check", server.name, () => check(server.name)),
        button("Look at it again", server.name, () => again("renew")),
        button("Remove", server.name, () => confirmRemoval(server, place), "quiet decline"),
      ]),
      place,
    );
  };

  async function check(name) {
    told("Looking at it …");
    const found = await change("check", { name });
    await load();
    told(found.intact ? `${name} is as you have approved it.` : found.found.join(" "));
  }

  function confirmRemoval(server, place) {
    const yes = h("button", { type: "button", class: "primary small" }, "Remove it");
    yes.addEventListener("click", () =>
      work(async () => {
        await change("remove", { name: server.name });
        await load();
        told(`${server.name} is removed.`);
      }),
    );
    const kept = h("button", { type: "button", class: "quiet" }, "Keep it");
    kept.addEventListener("click", () => place.replaceChildren());
    place.replaceChildren(
      h(
        "div",
        { class: "memory-forget", role: "group", "aria-label": "Remove this server" },
        h("p", {}, "Plans that name it are not run any more. Its program stays where it is."),
        h("div", { class: "memory-buttons" }, yes, kept),
      ),
    );
    yes.focus();
  }

  /** Every tool with what its server says of it, and what the owner says that it does. */
  async function showDetails(name, place) {
    if (place.childNodes.length) {
      place.replaceChildren();
      return;
    }
    const found = await read(`/item/${encodeURIComponent(name)}`);
    const choices = found.tools.map((tool) => [tool, effectChoice(tool)]);
    const put = h("button", { type: "button", class: "small" }, "Put this before me");
    put.addEventListener("click", () =>
      work(async () => {
        const effects = Object.fromEntries(choices.map(([tool, each]) => [tool.name, each.value]));
        toCard(await change("assign", { name, effects }));
      }),
    );
    place.replaceChildren(
      h(
        "ul",
        { class: "skill-summary" },
        found.summary.map((each) => h("li", {}, visible(each))),
      ),
      h("ul", { class: "skill-files", "aria-label": "Tools" }, choices.map(toolRow)),
      h("p", { class: "meta" }, "What you say here counts after your yes to the card."),
      put,
    );
  }

  view.asking.addEventListener("submit", (event) => {
    event.preventDefault();
    const [name, what] = [view.name.value.trim(), view.what.value.trim()];
    if (!name || !what) return;
    work(async () => {
      told("Looking at it …");
      const asked = /^https?:\/\//i.test(what)
        ? await change("connect", { name, url: what })
        : await change("add", { name, ...command(what) });
      view.asking.reset();
      told("");
      toCard(asked);
    });
  });
  onChange((what) => {
    const shown = "current" in view.node.dataset;
    if (["cards", "skills"].includes(what) && shown && !reading()) work(() => load(reading));
  });
  const opened = () => {
    closeRows(view.node);
    work(() => load(reading));
  };
  return { node: view.node, opened };
}

function command(text) {
  const [program, ...rest] = text.split(/\s+/);
  return { program, arguments: rest };
}

function effectChoice(tool) {
  const options = Object.entries(EFFECTS).map(([value, label]) => h("option", { value }, label));
  const choice = /** @type {HTMLSelectElement} */ (
    h("select", { "aria-label": `What ${tool.name} does` }, options)
  );
  choice.value = tool.effect ?? "ask";
  return choice;
}

const toolRow = ([tool, choice]) =>
  h(
    "li",
    {},
    h("p", {}, h("code", {}, visible(tool.name)), " ", choice),
    h(
      "details",
      { class: "raw" },
      h("summary", {}, icon("chevron"), "What its server says of it"),
      tool.claims && h("p", { class: "meta" }, visible(`It claims: ${tool.claims}.`)),
      codeBlock(tool.description || "nothing"),
    ),
  );

function field(label, most) {
  return /** @type {HTMLInputElement} */ (
    h("input", {
      type: "text",
      class: "free-text",
      maxlength: String(most),
      placeholder: label,
      "aria-label": label,
      autocomplete: "off",
      spellcheck: "false",
    })
  );
}

function makeParts(page) {
  const list = h("ul", { class: "memory-list", "aria-label": "Tool servers" });
  const waiting = h("ul", { class: "memory-list", "aria-label": "Tool servers that wait for you" });
  const note = h("p", { class: "memory-note", role: "status" });
  const name = field("Its name, such as files", 64);
  const what = field("Its program with its arguments, or https://…", 4000);
  const asking = h(
    "form",
    { class: "connect-form" },
    name,
    what,
    h("button", { type: "submit", class: "small" }, "Look at it"),
  );
  const node = h(
    "section",
    { class: "surface memory skills", id: "servers", "aria-label": "Tool servers", tabindex: "-1" },
    h(
      "header",
      { class: "activity-head" },
      h("h2", {}, "Tool servers"),
      h(
        "button",
        {
          type: "button",
          class: "quiet close",
          "aria-label": "Close Tool servers",
          onclick: page.close,
        },
        icon("cross"),
      ),
    ),
    h(
      "div",
      { class: "memory-inner" },
      note,
      waiting,
      list,
      h("h3", {}, "Another one"),
      h("p", { class: "meta" }, "Nothing of it is started before you have said yes to its card."),
      asking,
    ),
  );
  return { node, list, waiting, note, name, what, asking };
}
