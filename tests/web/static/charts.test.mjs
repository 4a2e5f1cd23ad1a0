// Bars: as high as their values, each with its words, and all of them in a table, too.
import assert from "node:assert/strict";
import { test } from "node:test";

import { barChart, barPlaces, everyOther, groupedChart, meterOf, shortened } from "/charts.js";
import { budgets, contents } from "/usage.js";
import { all, plain } from "./page.mjs";

test("the highest bar fills the height, the others are in proportion", () => {
  const [half, whole, none] = barPlaces([5, 10, 0]);
  assert.equal(half.height * 2, whole.height);
  assert.equal(none.height, 0);
  assert.ok(half.x + half.width < whole.x);
  assert.ok(whole.y >= 0);
});

test("nothing at all is drawn flat", () => {
  assert.deepEqual(barPlaces([]), []);
  assert.ok(barPlaces([0, 0]).every(({ height }) => height === 0));
});

test("a long label is shortened in the picture", () => {
  assert.equal(shortened("Housekeeping", 30), "House…");
  assert.equal(shortened("Gym", 30), "Gym");
});

test("every value is reached by the keyboard, said in words, and stands in the table", () => {
  const points = [
    { label: "Oct 27", value: 90, words: "1 h 30" },
    { label: "Nov 3", value: 0, words: "0 min" },
  ];
  const chart = barChart({ title: "Time in each week", of: "Week of", points });
  const bars = all(chart, "g");
  assert.deepEqual(
    bars.map(({ attributes }) => [attributes.tabindex, attributes["aria-label"]]),
    [
      ["0", "Oct 27: 1 h 30"],
      ["0", "Nov 3: 0 min"],
    ],
  );
  assert.equal(plain(all(chart, "figcaption")[0])[1], "Time in each week");
  assert.deepEqual(
    all(chart, "td").map((each) => each.textContent),
    ["Oct 27", "1 h 30", "Nov 3", "0 min"],
  );
});

const day = (date, tokens, cost_usd, cost) => ({ date, tokens, cost_usd, cost });
const line = {
  does: "Answering",
  model: "openai:m",
  answers: 2,
  input_tokens: 1200,
  output_tokens: 30,
  cost: "unknown",
};

test("two values of a week stand beside each other, and both are said", () => {
  const row = (label, planned, done) => ({
    label,
    values: [planned, done].map((value) => ({ value, words: String(value) })),
  });
  const chart = groupedChart({
    title: "Tasks",
    of: "Week of",
    columns: ["Planned", "Done"],
    rows: [row("Oct 27", 4, 2), row("Nov 3", 0, 1)],
  });
  const [first, second] = all(chart, "g");
  assert.equal(first.attributes["aria-label"], "Oct 27: Planned 4, Done 2");
  assert.equal(second.attributes["aria-label"], "Nov 3: Planned 0, Done 1");
  const [planned, done] = all(first, "rect").map(({ attributes }) => attributes);
  assert.equal(Number(planned.height), 2 * Number(done.height));
  assert.ok(Number(planned.x) + Number(planned.width) <= Number(done.x));
  assert.deepEqual(
    all(chart, "th").map((each) => each.textContent),
    ["Week of", "Planned", "Done"],
  );
});

test("of many days only those are labelled that have room, and today always is", () => {
  const labels = Array.from({ length: 30 }, (_, at) => `Nov ${at + 1}`);
  const shown = labels.filter((_, index) => everyOther(labels)(index));
  assert.ok(shown.length > 3 && shown.length < 12);
  assert.equal(shown.at(-1), "Nov 30");
});

test("a text beside the edge stays within the picture", () => {
  const points = [{ label: "Nov 3", value: 1, words: "a rather long value, as values go" }];
  const rows = [...points, ...points, ...points, ...points].map(({ label, ...value }) => ({
    label,
    values: [value],
  }));
  const chart = groupedChart({ title: "T", of: "Day", columns: ["V"], rows, days: true });
  const middles = all(chart, "text").map(({ attributes }) => Number(attributes.x));
  assert.ok(middles.every((x) => x > 10 && x < 310));
});

test("a cost that nobody knows is never drawn as nothing", () => {
  const report = { days: [day("2026-11-17", 1230, 0, "unknown")], lines: [line] };
  const shown = contents({ note: "What this cost is not known.", report });
  const captions = shown.flatMap((each) => all(each, "figcaption")).map((each) => each.textContent);
  assert.deepEqual(captions, ["Tokens in each day"]);
  const cells = shown.flatMap((each) => all(each, "td")).map((each) => each.textContent);
  assert.equal(cells.at(-1), "unknown");
  assert.ok(!shown.some((each) => each.textContent.includes("$0")));
});

test("without a model there is one line and no picture", () => {
  const shown = contents({ note: "Nothing costs anything.", report: { days: [], lines: [] } });
  assert.deepEqual(shown.map(plain), [["p", "Nothing costs anything."]]);
});

test("a meter says how much is used, and that nothing is left", () => {
  const meter = (used) => meterOf({ measure: "Tokens", used, allowed: 10, words: `${used} of 10` });
  const bar = (used) => all(meter(used), "span").find(({ attributes }) => attributes.role);
  assert.equal(bar(5).attributes["aria-valuetext"], "5 of 10");
  assert.equal(bar(25).attributes["aria-valuenow"], "10");
  const widths = all(meter(5), "rect").map(({ attributes }) => Number(attributes.width));
  assert.deepEqual(widths, [100, 50]);
  assert.ok(meter(10).textContent.includes("nothing is left"));
  assert.ok(!meter(9).textContent.includes("nothing is left"));
});

test("a budget says when it starts anew; none in use is said", () => {
  const meters = [{ measure: "Tokens", used: 1, allowed: 2, words: "1 of 2 tokens" }];
  const group = { name: "<b>Coach</b>", anew: "Starts anew at midnight.", meters };
  const [list] = budgets({ budgets: [group], left_out: 0 });
  assert.ok(list.textContent.includes("<b>Coach</b>"));
  assert.ok(list.textContent.includes("Starts anew at midnight."));
  assert.equal(all(list, "b").length, 0);
  const [none] = budgets({ budgets: [], left_out: 0 });
  assert.equal(none.textContent, "Nothing of a budget is in use right now.");
});
