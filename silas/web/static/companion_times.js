// @ts-check
// When a companion wakes by the clock: times of day, days of the week, on or off.
import { h } from "/dom.js";
import { visible } from "/visible.js";

const DAYS = [
  ["mon", "Monday"],
  ["tue", "Tuesday"],
  ["wed", "Wednesday"],
  ["thu", "Thursday"],
  ["fri", "Friday"],
  ["sat", "Saturday"],
  ["sun", "Sunday"],
];
const FRESH = {
  id: null,
  words: "A new time",
  at: "07:00",
  days: DAYS.map(([day]) => day),
  active: true,
  next_run_at: null,
};

/** The form. What is not different from what was shown is not sent, so nobody's change is undone. */
export function times({ companion, timers }, desk) {
  const rows = [];
  const list = h("div", { class: "companion-times" });
  const none = h("p", { class: "meta" }, "No time wakes it.");
  const add = (timer) => {
    const row = timerRow(timer, () => drop(row));
    rows.push(row);
    list.append(row.node);
    none.hidden = true;
    return row;
  };
  const drop = (row) => {
    rows.splice(rows.indexOf(row), 1);
    row.node.remove();
    none.hidden = rows.length > 0;
  };
  timers.forEach(add);
  const more = h(
    "button",
    { type: "button", onclick: () => noticed(add(FRESH).first).focus() },
    "Add a time",
  );
  const node = h(
    "form",
    { class: "companion-config" },
    h("fieldset", {}, h("legend", {}, "When it wakes by the clock"), none, list),
    more,
    h(
      "p",
      { class: "meta" },
      visible(
        `By the clock where you are${timers.length ? ` (${timers[0].time_zone})` : ""}. A time that is off wakes nobody.`,
      ),
    ),
    h("button", { type: "submit", class: "primary" }, "Save its times"),
  );
  node.addEventListener("submit", async (event) => {
    event.preventDefault();
    const wishes = rows.map(({ wish }) => wish()).filter(Boolean);
    if (!wishes.length) desk.tell("Nothing is different.");
    else if (await desk.change("set_timers", { agent_id: companion.id, timers: wishes }))
      desk.tell("Saved.");
  });
  return node;
}

// By the clock that the timer goes by, wherever this browser is.
function moment({ next_run_at: next, time_zone: timeZone }) {
  return new Intl.DateTimeFormat(undefined, {
    weekday: "long",
    day: "numeric",
    month: "long",
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
    timeZone,
  }).format(new Date(next));
}

// Whoever has begun to change something here is not interrupted by news.
function noticed(input) {
  input.dispatchEvent(new Event("input", { bubbles: true }));
  return input;
}

function timerRow(timer, drop) {
  const isWeekly = timer.at !== null;
  const at = isWeekly && h("input", { type: "time", value: timer.at, "aria-label": "Time of day" });
  const days = isWeekly
    ? DAYS.map(([day, name]) => [
        day,
        h("input", { type: "checkbox", checked: timer.days.includes(day), "aria-label": name }),
        name,
      ])
    : [];
  const on = h("input", { type: "checkbox", checked: timer.active });
  let isGone = false;
  const remove = h(
    "button",
    {
      type: "button",
      class: "quiet",
      onclick: () => {
        if (!timer.id) return drop();
        isGone = !isGone;
        node.toggleAttribute("data-gone", isGone);
        remove.textContent = isGone ? "Keep it" : "Remove";
        return noticed(on);
      },
    },
    "Remove",
  );
  const node = h(
    "div",
    { class: "companion-time", role: "group", "aria-label": timer.words },
    h(
      "div",
      { class: "companion-time-line" },
      at || h("p", {}, visible(timer.words)),
      h("label", { class: "companion-check" }, on, h("span", {}, "On")),
      remove,
    ),
    days.length
      ? h(
          "div",
          { class: "companion-days" },
          days.map(([, input, name]) =>
            h(
              "label",
              { class: "companion-day" },
              input,
              h("span", { "aria-hidden": "true" }, name.slice(0, 3)),
            ),
          ),
        )
      : null,
    timer.next_run_at ? h("p", { class: "meta" }, `Next: ${moment(timer)}`) : null,
  );

  function wish() {
    if (isGone) return { id: timer.id, remove: true };
    const chosen = days.filter(([, input]) => input.checked).map(([day]) => day);
    const said = {
      ...(isWeekly && at.value !== timer.at && { at: at.value }),
      ...(isWeekly && chosen.join() !== timer.days.join() && { days: chosen }),
      ...(on.checked !== timer.active && { active: on.checked }),
    };
    if (!timer.id) return { at: at.value, days: chosen, active: on.checked };
    return Object.keys(said).length ? { id: timer.id, ...said } : null;
  }
  return { node, wish, first: at || on };
}
