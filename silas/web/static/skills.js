// @ts-check
// Skills: which there are, what each may do and when it was used; asked for, ended, taken away.
import { fileList, findingList } from "/card_skill.js";
import { closeRows, h, icon, isReading } from "/dom.js";
import { answerOf } from "/keys.js";
import { sessionFetch, signedFetch } from "/session.js";
import { onChange } from "/state.js";
import { visible } from "/visible.js";

const DATE = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "long", year: "numeric" });
const UNREADABLE = "Skills cannot be read right now.";

const read = async (path) => answerOf(await sessionFetch(`/api/skills${path}`), UNREADABLE);
const isAddress = (text) => /^[a-z][a-z0-9+.-]*:\/\//i.test(text);
const used = (skill) =>
  skill.last_used_at ? `Used ${DATE.format(new Date(skill.last_used_at))}` : "Never used";

/** The surface; `page` is what every view has at hand. */
export function skillsView(page) {
  const view = makeParts(page);
  const { list, waiting, words, note, source } = view;
  let skills = [];

  const change = async (command, value) =>
    answerOf(await signedFetch(page.device, `/api/skills/${command}`, value), "That did not work.");
  const told = (text) => note.replaceChildren(...visible(text));
  const work = async (run) => {
    try {
      await run();
    } catch (problem) {
      told(problem.message);
    }
  };

  // What somebody is about to do, or reads, stays as it is.
  const busy = () => view.node.querySelector(".memory-forget") !== null;
  const reading = () => isReading(view.node);

  /** Draw what there is; `unless` it is better left as it is when the answer has come. */
  async function load(unless = () => false) {
    const found = await read("");
    if (unless()) return;
    skills = found.skills;
    waiting.replaceChildren(...found.waiting.map(waitingRow));
    draw();
  }

  function draw() {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fitting = skills.filter((each) =>
      wanted.every((word) => `${each.name} ${each.description}`.toLowerCase().includes(word)),
    );
    const rows = fitting.map(row);
    list.replaceChildren(...(rows.length ? rows : [h("li", { class: "empty" }, "Nothing fits.")]));
  }

  const standing = (each) => {
    if (each.answer === null) return " waits for you.";
    if (each.answer !== "approve") return " is not installed: its card was closed.";
    return each.follow_until ? " is approved, and tried out now." : " was approved too long ago.";
  };

  const waitingRow = (each) =>
    h(
      "li",
      { class: "memory-item" },
      h("p", { class: "memory-text" }, h("strong", {}, visible(each.name)), standing(each)),
      each.answer === null &&
        h(
          "button",
          {
            type: "button",
            class: "quiet small",
            onclick: () => page.show("review", each.card_id),
          },
          "Look at its card",
        ),
    );

  const row = (skill) => {
    const place = h("div", { class: "skill-more" });
    const facts = [
      skill.bundled && "Comes with Silas",
      skill.state === "disabled" && "Disabled",
      !skill.intact && "Changed, and not used",
      skill.tools.length && `Tools: ${skill.tools.join(", ")}`,
      skill.hosts.length ? `Reaches ${skill.hosts.join(", ")}` : "Reaches no host",
      used(skill),
    ].filter(Boolean);
    return h(
      "li",
      { class: "memory-item", "data-skill": skill.name },
      h("p", { class: "memory-text" }, h("strong", {}, visible(skill.name))),
      h("p", { class: "memory-text" }, visible(skill.description)),
      h(
        "p",
        { class: "memory-facts" },
        facts.map((each) => h("span", {}, visible(each))),
      ),
      h("div", { class: "memory-place" }, ...buttons(skill, place)),
      place,
    );
  };

  const buttons = (skill, place) => {
    const button = (label, run, kind = "quiet") =>
      h(
        "button",
        {
          type: "button",
          class: kind,
          "aria-label": `${label}: ${skill.name}`,
          onclick: () => work(run),
        },
        label,
      );
    const then = (command, sentence) => async () => {
      await change(command, { name: skill.name });
      await load(busy);
      told(sentence);
    };
    const disabled = skill.state === "disabled";
    return [
      button("Show", () => showDetails(skill, place)),
      disabled
        ? button("Enable", then("enable", `${skill.name} can be used again.`))
        : button("Disable", then("disable", `Nothing uses ${skill.name} any more.`)),
      !skill.bundled && button("Update", () => update(skill)),
      skill.can_roll_back &&
        button("Go back", then("rollback", `${skill.name} is as it was before.`)),
      !skill.bundled && button("Remove", () => confirmRemoval(skill, place, then), "quiet decline"),
    ].filter(Boolean);
  };

  async function update(skill) {
    const asked = await change("update", { name: skill.name });
    page.show("review", asked.card_id);
  }

  function confirmRemoval(skill, place, then) {
    const yes = h("button", { type: "button", class: "primary small" }, "Remove it");
    yes.addEventListener("click", () => {
      place.replaceChildren();
      work(then("remove", `${skill.name} is removed.`));
    });
    const kept = () => {
      place.replaceChildren();
      work(load);
    };
    place.replaceChildren(
      h(
        "div",
        { class: "memory-forget", role: "group", "aria-label": "Remove this skill" },
        h("p", {}, "Its files are erased, and plans that name it are not run any more."),
        h(
          "div",
          { class: "memory-buttons" },
          yes,
          h("button", { type: "button", class: "quiet", onclick: kept }, "Keep it"),
        ),
      ),
    );
    yes.focus();
  }

  async function showDetails(skill, place) {
    if (place.childNodes.length) {
      place.replaceChildren();
      await load(reading);
      return;
    }
    const found = await read(`/item/${encodeURIComponent(skill.name)}`);
    const lines = [
      ...found.tools.map(
        (each) =>
          `${each.name}: ${each.action}, ${each.reversibility}, ` +
          (each.contained ? "inside the sandbox alone" : "also outside the sandbox"),
      ),
      ...found.used_by.map((each) => `Used by “${each.title}” (${each.status})`),
      `From ${found.source}`,
      found.origin && `Fetched as the commit ${found.origin.commit}`,
    ].filter(Boolean);
    place.replaceChildren(
      h(
        "ul",
        { class: "skill-summary" },
        lines.map((each) => h("li", {}, visible(each))),
      ),
      findingList(found.findings),
      fileList(found.skill.digest, found.files),
    );
  }

  view.form.addEventListener("submit", (event) => event.preventDefault());
  words.addEventListener("input", draw);
  source.addEventListener("input", () => {
    view.repository.hidden = !isAddress(source.value.trim());
  });
  const ask = (text) => {
    if (!isAddress(text)) return change("install", { source: text });
    const [commit, path, address] = view.fetching.map((each) => each.value.trim());
    return change("fetch", {
      url: text,
      path,
      ...(commit && { commit }),
      ...(address && { address }),
    });
  };
  view.asking.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = source.value.trim();
    if (text)
      work(async () => {
        told(isAddress(text) ? "" : "Looking at it …");
        const asked = await ask(text);
        view.asking.reset();
        view.repository.hidden = true;
        told("");
        page.show("review", asked.card_id);
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

function makeParts(page) {
  const list = h("ul", { class: "memory-list", "aria-label": "Skills" });
  const waiting = h("ul", { class: "memory-list", "aria-label": "Skills that wait for you" });
  const note = h("p", { class: "memory-note", role: "status" });
  const words = h("input", {
    type: "search",
    id: "skill-words",
    placeholder: "Search",
    maxlength: "500",
    autocomplete: "off",
    enterkeyhint: "search",
  });
  const form = h(
    "form",
    { class: "memory-search", role: "search" },
    h("label", { class: "sr", for: "skill-words" }, "Search skills"),
    words,
  );
  const source = h("input", {
    type: "text",
    class: "free-text",
    maxlength: "4096",
    placeholder: "~/skills/pdf-forms, an archive, or https://…",
    "aria-label": "Folder or archive of a skill, or the address of a repository",
    autocomplete: "off",
    spellcheck: "false",
  });
  const fetching = [
    ["Commit (else the newest)", 64],
    ["Folder in the repository (if it has several skills)", 1024],
    ["Address (only for a host in your own network)", 45],
  ].map(([label, most]) =>
    h("input", {
      type: "text",
      class: "free-text",
      maxlength: String(most),
      placeholder: label,
      "aria-label": label,
      autocomplete: "off",
      spellcheck: "false",
    }),
  );
  const repository = h("div", { class: "skill-repository", hidden: true }, fetching);
  const asking = h(
    "form",
    { class: "place-form" },
    source,
    repository,
    h("button", { type: "submit", class: "small" }, "Look at it"),
  );
  const node = h(
    "section",
    { class: "surface memory skills", id: "skills", "aria-label": "Skills", tabindex: "-1" },
    h(
      "header",
      { class: "activity-head" },
      h("h2", {}, "Skills"),
      h(
        "button",
        { type: "button", class: "quiet close", "aria-label": "Close Skills", onclick: page.close },
        icon("cross"),
      ),
    ),
    h(
      "div",
      { class: "memory-inner" },
      form,
      note,
      waiting,
      list,
      h("h3", {}, "Another skill"),
      h("p", { class: "meta" }, "Nothing is installed before you have read its card and said yes."),
      asking,
    ),
  );
  return { node, list, waiting, note, words, form, source, fetching, repository, asking };
}
