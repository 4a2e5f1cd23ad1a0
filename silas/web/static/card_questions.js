// @ts-check
// Questions that are not plans. Everything on such a card is read from the bytes that are signed.
import { plansOf, riskBadge, taintNote } from "/card.js";
import { actionRow } from "/card_actions.js";
import { skillParts, sourceParts } from "/card_skill.js";
import { sha256 } from "/canonical.js";
import { h, icon, outsideLink } from "/dom.js";
import { Hold } from "/hold.js";
import { codeBlock } from "/markdown.js";
import { state } from "/state.js";
import { visible } from "/visible.js";

const KINDS = {
  companion: "Companion",
  memory: "Memory",
  record: "Memory and journal",
  visitor: "Visitor",
  place: "Reading",
  skill: "Skill",
  skill_source: "Skill",
  tool_server: "Tool server",
  connection: "Connection",
  proposal: "Another program",
  domain: "Connection",
  batch: "Batch",
  items: "Batch",
  teaching: "One to decide",
  rule: "Rule",
  draft: "Draft",
  decision: "Decision",
  suggestion: "Suggestion",
  autonomy: "Autonomy",
  grant: "Standing grant",
  gate: "Gate",
  connection_setup: "Connection",
  permission: "Permission",
  connection_failure: "Connection",
};

/** What a question asks, if its bytes are those whose hash is signed; throws if they are not. */
export async function contentOf(card) {
  const hash = await sha256(new TextEncoder().encode(card.shown.plan));
  if (hash !== card.shown.plan_hash)
    throw new Error("This card does not show what would be signed.");
  const content = JSON.parse(card.shown.plan);
  const plans = content.kind === "batch" ? await plansOfBatch(content.body) : [];
  return { hash, content, plans };
}

// A batch is approved as what its plans are: each must be here, whole, with the hash that it names.
async function plansOfBatch(batch) {
  const found = [];
  for (const item of batch.items) {
    const card = state.cards.get(item.card_id);
    if (!card) throw new Error("One of these plans is not here to be looked at.");
    const plans = await plansOf(card);
    for (const { id, hash } of plans) {
      if (item.plan_hashes[id] !== hash)
        throw new Error("One of these plans is not what would be signed.");
    }
    found.push(plans);
  }
  return found;
}

/** The card; `answer(fields)` signs and sends. */
export function questionCard(card, { hash, content, plans }, { answer, prefer }) {
  const node = h("article", {
    class: `card card-${content.risk} card-of-${content.kind}`,
    "aria-label": `${KINDS[content.kind]}: ${content.intent}`,
    "data-card": card.request_id,
  });
  const hold = new Hold(node);
  node.hold = hold;
  const parts = { ...PARTS.default, ...PARTS[content.kind] };
  const inside = parts.body(content, { plans, prefer });
  const row = actionRow({
    hold,
    steps: card.steps,
    title: content.intent,
    ...parts.actions(content, inside, answer),
  });
  inside.changed = row.again;
  node.append(
    h(
      "header",
      { class: "card-head" },
      riskBadge(content.risk),
      h("span", { class: "card-kind" }, KINDS[content.kind]),
    ),
    h(
      "div",
      { class: "card-body", tabindex: "0" },
      h("h2", { class: "card-intent" }, visible(content.intent)),
      h("p", { class: "card-why" }, visible(content.rationale)),
      taintNote(content),
      inside.node,
    ),
    h(
      "details",
      { class: "card-details", open: card.details_expanded },
      h("summary", {}, icon("chevron"), "Everything that is signed"),
      inside.details,
      h(
        "section",
        { class: "plan" },
        h(
          "details",
          { class: "raw" },
          h("summary", {}, icon("chevron"), "The exact text that is signed"),
          codeBlock(JSON.stringify(content, null, 2)),
          h("p", { class: "hash" }, `SHA-256 of ${card.request_id}: `, h("code", {}, hash)),
        ),
      ),
    ),
    row.node,
  );
  return node;
}

// By default each action is a button, and its value the verdict.
const verdicts = (content, answer, more = (_value) => ({})) =>
  content.actions.map(({ value, label }) => ({
    label,
    run: () => answer({ verdict: value, ...more(value) }),
  }));
const values = (content, answer, name) =>
  content.actions.map(({ value, label }) => ({ label, run: () => answer({ [name]: value }) }));
const split = ([first, ...others]) => ({ first, others });
const facts = (rows) =>
  h(
    "dl",
    { class: "facts" },
    rows
      .filter(([, value]) => value)
      .map(([name, value]) => [h("dt", {}, name), h("dd", {}, visible(String(value)))]),
  );

// All of them with the first button, as long as none was taken out; then only those that are chosen.
function someOrAll({ actions }, inside, answer) {
  const [all, some, none] = actions;
  const partly = () => inside.chosen().length < inside.total;
  return {
    first: {
      label: () =>
        partly() ? `${some.label}: ${inside.chosen().length} of ${inside.total}` : all.label,
      // Those that were chosen become a batch of their own, which is then approved by itself.
      simple: partly,
      run: () => {
        if (!inside.chosen().length)
          return Promise.reject(new Error("Choose at least one of them."));
        return partly()
          ? answer({ verdict: some.value, selected_item_ids: inside.chosen() })
          : answer({ verdict: all.value, selected_item_ids: [] });
      },
    },
    others: [
      { label: none.label, run: () => answer({ verdict: none.value, selected_item_ids: [] }) },
    ],
  };
}

const PARTS = {
  default: {
    body: () => ({ node: null }),
    actions: (content, inside, answer) => split(verdicts(content, answer)),
  },

  batch: {
    body: ({ body }, { plans, prefer }) => {
      const boxes = new Map();
      const inside = {
        boxes,
        total: body.items.length,
        chosen: () =>
          body.items.filter((item) => boxes.get(item.card_id).checked).map((item) => item.card_id),
      };
      inside.node = h(
        "ul",
        { class: "batch" },
        body.items.map((item, index) => {
          const box = h("input", {
            type: "checkbox",
            id: `pick-${item.card_id}`,
            checked: !item.anomaly,
            onchange: () => inside.changed?.(),
          });
          boxes.set(item.card_id, box);
          const title = plans[index][0].plan.title;
          return h(
            "li",
            { class: item.anomaly ? "odd" : "" },
            box,
            h(
              "label",
              { for: `pick-${item.card_id}` },
              h("span", {}, visible(title)),
              item.anomaly &&
                h("span", { class: "batch-odd" }, icon("alert"), visible(item.anomaly)),
            ),
            h(
              "button",
              {
                type: "button",
                class: "quiet small",
                "aria-label": `Look at ${title} by itself`,
                onclick: () => prefer(item.card_id),
              },
              "Look",
            ),
          );
        }),
      );
      inside.details = plans.map(([{ plan }]) =>
        h(
          "section",
          { class: "plan" },
          h("h3", {}, visible(plan.title)),
          h("pre", { class: "code plan-text", tabindex: "0" }, visible(plan.body)),
        ),
      );
      return inside;
    },
    actions: someOrAll,
  },

  items: {
    body: ({ body }) => {
      const boxes = new Map();
      const inside = {
        boxes,
        total: body.items.length,
        chosen: () =>
          body.items.filter((item) => boxes.get(item.item_id).checked).map((item) => item.item_id),
      };
      const mark = (checked) => {
        for (const box of boxes.values()) box.checked = checked;
        inside.changed?.();
      };
      const every = h(
        "button",
        { type: "button", class: "quiet small", onclick: () => mark(true) },
        `Choose all ${body.items.length}`,
      );
      inside.node = h(
        "div",
        {},
        h(
          "ol",
          { class: "batch batch-items" },
          body.items.map((item, index) => {
            const name = `pick-${body.batch.batch_id}-${index}`;
            const box = h("input", {
              type: "checkbox",
              id: name,
              checked: item.ticked,
              onchange: () => inside.changed?.(),
            });
            boxes.set(item.item_id, box);
            return h(
              "li",
              { class: item.anomaly ? "odd" : "" },
              box,
              h(
                "label",
                { for: name },
                // The line that is signed, not the parts that it was made from.
                h("span", {}, visible(body.batch.lines[index])),
                item.anomaly &&
                  h("span", { class: "batch-odd" }, icon("alert"), visible(item.anomaly)),
              ),
            );
          }),
        ),
        body.items.length > 1 && body.items.some((item) => !item.ticked) && every,
      );
      inside.details = h(
        "section",
        { class: "plan" },
        facts([
          ["Account", body.connection_name],
          ["With", [body.batch.tool, ...argumentsOf(body.batch.args)].join(", ")],
          ["Items", body.batch.count],
          ["For the goal", body.goal_id],
        ]),
        h(
          "ol",
          { class: "batch-why" },
          body.items.map((item) =>
            h("li", {}, visible(`${item.reason}, ${Math.round(item.confidence * 100)} % sure`)),
          ),
        ),
      );
      return inside;
    },
    actions: someOrAll,
  },

  draft: {
    body: ({ body }) => {
      const area = h("textarea", {
        class: "draft-text",
        rows: "6",
        "aria-label": "The text",
        maxlength: "32000",
        spellcheck: "true",
      });
      area.value = body.draft;
      return {
        node: h(
          "div",
          { class: "draft" },
          h("p", { class: "draft-context" }, visible(body.context)),
          area,
        ),
        area,
      };
    },
    actions: (content, inside, answer) =>
      split(
        content.actions.map(({ value, label }) => ({
          label,
          asks: value === "rephrase" ? "What should be different?" : null,
          run: (words = "") =>
            answer({
              verdict: value,
              ...(value === "edit" ? { edited_text: inside.area.value } : {}),
              ...(words ? { words } : {}),
            }),
        })),
      ),
  },

  decision: {
    body: ({ body }) => {
      const free =
        body.allow_freetext &&
        h("input", {
          type: "text",
          class: "free-text",
          "aria-label": "In your own words (optional)",
          placeholder: "In your own words (optional)",
          maxlength: "2000",
        });
      return {
        node: h(
          "div",
          { class: "decision" },
          body.question && h("blockquote", { class: "decision-question" }, visible(body.question)),
          free,
        ),
        free,
      };
    },
    actions: (content, inside, answer) =>
      split(
        content.actions.map(({ value, label }) => ({
          label,
          run: () =>
            answer({
              selected_value: value,
              ...(inside.free?.value.trim() ? { freetext: inside.free.value.trim() } : {}),
            }),
        })),
      ),
  },

  suggestion: {
    body: ({ body }) => ({
      node: h(
        "p",
        { class: "suggestion" },
        body.lines
          ? body.lines.map((line) => h("span", { class: "digest-line" }, visible(line)))
          : body.tells
            ? "I would tell you where to look. Nothing is done."
            : body.keeps
              ? "I would draft it from what was run, and show you all of it before anything uses it."
              : ["I would plan: ", h("q", {}, visible(body.request))],
      ),
    }),
    actions: (content, inside, answer) => split(values(content, answer, "selected_value")),
  },

  autonomy: {
    body: ({ body }) => ({
      node: h(
        "div",
        { class: "autonomy" },
        h(
          "table",
          {},
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              ["Setting", "Now", "Then"].map((name) => h("th", {}, name)),
            ),
          ),
          h(
            "tbody",
            {},
            body.changes.map((each) =>
              h(
                "tr",
                {},
                h("td", {}, visible(each.key)),
                h("td", {}, visible(each.current_value)),
                h("td", {}, h("strong", {}, visible(each.proposed_value)), ` (${each.direction})`),
              ),
            ),
          ),
        ),
        facts([
          ["Looked at", `${body.sample_size} decisions, ${body.evidence_window}`],
          ["Corrected", `${(body.correction_rate * 100).toFixed(1)} %`],
        ]),
        body.decisions?.length &&
          h(
            "details",
            { class: "autonomy-decisions" },
            h("summary", {}, icon("chevron"), "The newest of these decisions"),
            h(
              "ul",
              {},
              body.decisions.map((each) =>
                h(
                  "li",
                  {},
                  `${each.at.slice(0, 10)}: `,
                  visible(`${each.families.join(", ")}, ${each.outcomes.join(", ")}`),
                ),
              ),
            ),
          ),
      ),
    }),
  },

  gate: {
    body: ({ body }) => ({
      node: h("div", {}, facts([["From", body.context.connection_id]]), codeBlock(body.value)),
    }),
  },

  connection_setup: {
    body: ({ body }) => ({
      node: h(
        "div",
        { class: "connection" },
        body.fields.user_code && h("p", { class: "user-code" }, visible(body.fields.user_code)),
        facts([
          ["Listens on", body.fields.listening_on],
          ["Message", body.fields.message],
        ]),
        linkTo(body.fields.verification_url ?? body.fields.auth_url),
      ),
    }),
    actions: (content, inside, answer) =>
      split(
        content.actions.map(({ value, label }) => ({
          label,
          run: () => answer({ step_type: content.body.step_type, action: value }),
        })),
      ),
  },

  permission: {
    body: ({ body }) => ({
      node: facts([
        ["Connection", body.connection_name],
        ["May now", body.current_permissions.join(", ") || "nothing"],
        ["Would then", body.requested_permissions.join(", ")],
        ["Because", body.reason],
      ]),
    }),
  },

  connection_failure: {
    body: ({ body }) => ({
      node: h(
        "div",
        { class: "connection" },
        h("p", {}, visible(body.message)),
        body.draft && codeBlock(body.draft),
        h(
          "ul",
          { class: "recovery" },
          body.recovery_options.map((each) =>
            h("li", {}, h("strong", {}, visible(each.label)), ": ", visible(each.description)),
          ),
        ),
      ),
    }),
    actions: (content, inside, answer) => split(values(content, answer, "selected_action")),
  },
};

const argumentsOf = (args) => Object.entries(args).map(([name, value]) => `${name} ${value}`);

PARTS.companion = PARTS.decision;
PARTS.teaching = PARTS.decision;
PARTS.rule = PARTS.decision;
PARTS.memory = PARTS.decision;
PARTS.record = PARTS.decision;
PARTS.visitor = PARTS.decision;
PARTS.place = PARTS.decision;
PARTS.skill = { ...PARTS.decision, ...skillParts };
PARTS.skill_source = { ...PARTS.decision, ...sourceParts };
PARTS.tool_server = { ...PARTS.decision, ...sourceParts };
const sentences = (body) =>
  h(
    "ul",
    { class: "skill-summary" },
    body.summary.map((line) => h("li", {}, visible(line))),
  );
PARTS.connection = {
  ...PARTS.decision,
  body: ({ body }) => ({
    node: sentences(body),
    details: h(
      "section",
      { class: "plan" },
      h("h3", {}, "The tools that it opens"),
      facts(body.connection.tools.map((each) => [each.name, each.description])),
    ),
  }),
};

const CALL = new Set(["tool_name", "tool_input", "cwd"]);
const isText = (value) => value === undefined || typeof value === "string";

// A request that is anything else than a call of a tool is shown whole: nothing of it is left out.
const isCall = (request) =>
  request.tool_input?.constructor === Object &&
  isText(request.tool_name) &&
  isText(request.cwd) &&
  Object.keys(request).every((name) => CALL.has(name));

PARTS.proposal = {
  ...PARTS.decision,
  body: ({ body: { proposal } }) => {
    const { request, rendering } = proposal;
    const call = isCall(request);
    const command = call ? request.tool_input.command : undefined;
    const alone = typeof command === "string" && Object.keys(request.tool_input).length === 1;
    return {
      node: h(
        "div",
        { class: "proposal" },
        facts([
          ["Program", proposal.client],
          ["Tool", call ? request.tool_name : undefined],
          ["In", call ? request.cwd : undefined],
        ]),
        codeBlock(alone ? command : JSON.stringify(call ? request.tool_input : request, null, 2)),
        rendering &&
          h("p", { class: "meta" }, "What the program says about it. Nobody checked it:"),
        rendering && h("blockquote", {}, visible(rendering)),
      ),
    };
  },
};
PARTS.grant = {
  ...PARTS.decision,
  body: ({ body }) => ({
    node: h(
      "ul",
      { class: "grant-lines" },
      body.question.split("\n").map((line) => h("li", {}, visible(line.replace(/^- /, "")))),
    ),
  }),
};
PARTS.domain = { ...PARTS.decision, body: ({ body }) => ({ node: sentences(body) }) };

function linkTo(address) {
  const link = address ? outsideLink(address, visible(address)) : null;
  return link && h("p", {}, link);
}
