// @ts-check
// Other programs that ask the owner through Silas: who they are, what they may, what they asked.
import { h, time } from "/dom.js";
import { answerOf } from "/keys.js";
import { typed } from "/program.js";
import { signedFetch } from "/session.js";
import { onChange } from "/state.js";
import { button, part, row, sure, tag } from "/visitors.js";
import { visible } from "/visible.js";

const UNREADABLE = "This cannot be read right now.";
const STATES = {
  open: "waits for you",
  approve: "allowed",
  approved: "approved",
  decline: "declined",
  declined: "declined",
  granted: "allowed by a standing grant",
  expired: "nobody answered",
  outdated: "withdrawn",
  withdrawn: "withdrawn",
};
const TIMES = 50;
const DAYS = 14;

/** A dialog; `page` is what every view has at hand. */
export function programsDialog(page) {
  const body = h("div", { class: "visitors" });
  const note = h("p", { class: "dialog-note", role: "status" });
  const node = h(
    "dialog",
    { class: "dialog", "aria-label": "Programs" },
    h("h2", {}, "Programs"),
    h(
      "p",
      { class: "dialog-lead" },
      "They put what they would do before you. None of them decides anything. ",
      h("code", {}, typed("hook install claude")),
      " sets Claude Code up.",
    ),
    body,
    note,
    h(
      "div",
      { class: "dialog-actions" },
      h("button", { type: "button", class: "quiet", onclick: () => node.close() }, "Close"),
    ),
  );
  let turn = 0; // what was asked for before does not overwrite what was asked for since
  let shown = null;

  const ask = async (name, value = {}) =>
    answerOf(await signedFetch(page.device, `/api/proposals/${name}`, value), UNREADABLE);
  const draw = async (make) => {
    const mine = ++turn;
    try {
      const nodes = await make();
      if (mine === turn) body.replaceChildren(...nodes.filter(Boolean));
    } catch (problem) {
      if (mine === turn) note.textContent = problem.message;
    }
  };
  const change = async (name, value, done) => {
    try {
      await ask(name, value);
      note.textContent = done;
    } catch (problem) {
      note.textContent = problem.message;
    }
  };

  const overview = () => {
    shown = null;
    return draw(async () => {
      const { clients } = await ask("list_clients");
      const rows = clients.map((client) =>
        row(
          [h("strong", {}, visible(client.name))],
          ["since ", time(client.created_at)],
          button("Show", `Show ${client.name}`, () => open(client.name)),
        ),
      );
      return [part("Those that may ask you", rows, "No other program may ask you."), adding()];
    });
  };
  const adding = () => {
    const name = h("input", {
      name: "program",
      maxlength: "40",
      placeholder: "Its name",
      "aria-label": "The name of the program",
    });
    return h(
      "form",
      {
        class: "program-new",
        onsubmit: async (event) => {
          event.preventDefault();
          try {
            const added = await ask("add_client", { name: name.value.trim() });
            await overview();
            tokenOf(added);
          } catch (problem) {
            note.textContent = problem.message;
          }
        },
      },
      name,
      h("button", { type: "submit", class: "quiet" }, "Add"),
    );
  };
  const tokenOf = (added) =>
    note.replaceChildren(
      `${added.name} may ask. It shows this token, which is told only now: `,
      h("code", { class: "program-token" }, added.token),
    );

  const open = (name) => {
    if (shown !== name) note.textContent = "";
    shown = name;
    return draw(async () => program(await ask("show_client", { name })));
  };
  const program = (client) => [
    button("Back", "Back to the list", overview),
    h("h3", {}, visible(client.name)),
    h("p", { class: "meta" }, ...rulesOf(client.rules)),
    part(
      "May do without asking",
      client.grants.map((grant) => grantRow(client, grant)),
      "Nothing: it asks every time.",
    ),
    client.habits.length > 0 &&
      part(
        "What you have often allowed",
        client.habits.map((habit) => habitRow(client, habit)),
        "",
      ),
    part("Asked lately", client.proposals.map(proposalRow), "It has not asked anything."),
    h(
      "div",
      { class: "dialog-actions" },
      sure("Remove", `Remove ${client.name}`, async () => {
        await change(
          "remove_client",
          { name: client.client_id },
          `${client.name} may ask no more. What it asked is withdrawn.`,
        );
        await overview();
      }),
    ),
  ];
  const grantRow = (client, grant) =>
    row(
      [h("strong", {}, visible(grant.shape.envelope.tool))],
      [
        `${grant.used} of ${grant.shape.times} times, until `,
        time(grant.expires_at),
        ...words(grant.words),
      ],
      sure("Take back", `Take back ${grant.shape.envelope.tool}`, async () => {
        await change(
          "revoke_grant",
          { name: client.client_id, grant_id: grant.grant_id },
          "Taken back. From now on you are asked again.",
        );
        await open(client.name);
      }),
    );
  const habitRow = (client, habit) =>
    row(
      [h("strong", {}, visible(habit.envelope.tool)), tag(`${habit.allowed} times`)],
      words(habit.words),
      button("Ask me less", `Allow ${habit.envelope.tool} without asking`, () =>
        change(
          "ask_grant",
          { name: client.client_id, envelope: habit.envelope, times: TIMES, days: DAYS },
          `A card waits in Review: ${TIMES} times at most, for ${DAYS} days. It holds once you sign.`,
        ),
      ),
    );

  onChange((what) => {
    if (what === "cards" && node.open && shown && !body.querySelector("[data-sure]")) open(shown);
  });
  return {
    node,
    show: () => {
      note.textContent = "";
      body.replaceChildren();
      node.showModal();
      overview();
    },
  };
}

const words = (lines) => lines.map((line) => h("span", { class: "program-words" }, line));

const rulesOf = (rules) => [
  rules.taint === "external"
    ? "What it says counts as a stranger's."
    : "What it says counts as that of somebody whom you know.",
  ...(rules.folder ? [" Work that it proposes happens below ", visible(rules.folder), "."] : []),
  ` At most ${rules.waiting} of its requests wait, and ${rules.per_minute} come in a minute.`,
];

const proposalRow = (each) =>
  row(
    [visible(each.asked)],
    [STATES[each.state] ?? visible(each.state), " · ", time(each.created_at)],
    null,
  );
