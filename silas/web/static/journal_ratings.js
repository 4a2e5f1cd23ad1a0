// @ts-check
// Ratings: how the day was, and how it has been lately.
import { h } from "/dom.js";
import { dayName, whenIn } from "/journal_desk.js";
import { visible } from "/visible.js";

const DIMENSIONS = ["energy", "focus", "mood", "productivity"];

export function ratingsPart(data, desk) {
  const known = [...new Set([...DIMENSIONS, ...data.ratings.map((each) => each.dimension)])].slice(
    0,
    12,
  );
  return h(
    "div",
    { class: "journal-part" },
    h(
      "h3",
      { class: "journal-day" },
      `How was ${data.date === data.today ? "today" : dayName(data.date)}?`,
    ),
    known.map((dimension) => slider(dimension, data, desk)),
    recent(data),
  );
}

function slider(dimension, data, { change }) {
  const id = `journal-rate-${dimension.replace(/[^a-z0-9]/gi, "-")}`;
  const own = data.ratings.find(
    (each) => each.target_id === data.plan?.id && each.dimension === dimension,
  );
  const value = h("output", { for: id }, own ? String(own.value) : "–");
  const range = h("input", {
    id,
    type: "range",
    min: "0",
    max: "10",
    step: "1",
    value: own?.value ?? 5,
  });
  range.addEventListener("input", () => (value.textContent = range.value));
  range.addEventListener("change", async () => {
    const plan =
      data.plan?.id ??
      (await change("get_or_create_day_plan", { plan_date: data.date }))?.day_plan_id;
    const done =
      plan &&
      (await change("create_or_update_rating", {
        target_id: plan,
        dimension,
        value: Number(range.value),
      }));
    if (!done) value.textContent = own ? String(own.value) : "–";
  });
  return h(
    "div",
    { class: "rating" },
    h("label", { for: id }, visible(dimension)),
    range,
    value,
    average(dimension, data),
  );
}

function average(dimension, data) {
  const values = data.ratings
    .filter((each) => each.dimension === dimension)
    .map((each) => each.value);
  if (values.length < 2) return h("span", { class: "rating-average" });
  const mean = values.reduce((sum, each) => sum + each, 0) / values.length;
  return h("span", { class: "rating-average" }, `two weeks: ${mean.toFixed(1)}`);
}

function recent(data) {
  if (!data.ratings.length)
    return h("p", { class: "journal-none" }, "Nothing was rated in the last two weeks.");
  return h(
    "ul",
    { class: "recent" },
    data.ratings
      .slice(0, 30)
      .map((each) =>
        h(
          "li",
          {},
          h("span", { class: "recent-value" }, String(each.value)),
          h("span", {}, visible(each.dimension)),
          h("span", { class: "recent-what" }, visible(named(each))),
          h("span", { class: "recent-when" }, whenIn(each.updated_at, data)),
        ),
      ),
  );
}

const named = (each) =>
  (each.target.startsWith("dayplan-") ? dayName(each.target.slice(8)) : each.target) +
  (each.note ? `: ${each.note}` : "");
