// @ts-check
// What the page draws itself: bars with a title, each said in words, and a table of the same. Meters, and QR codes.
import { h, icon } from "/dom.js";
import { visible } from "/visible.js";

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, FOOT, HEAD] = [320, 130, 18, 16];
const CHARACTER = 4.8; // about how wide one is
const DIGIT = 5.6; // and a digit, which is wider than most
const GAP = 0.3; // of a bar's place

/**
 * @typedef {{ value: number, words: string }} Value
 * @typedef {{ label: string, values: Value[] }} Row
 */

function draw(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  node.append(...children);
  return node;
}

/** Where the dark squares of a QR code are, as one path; a row is a text of ones and zeros. */
export const darkPath = (rows) =>
  rows
    .flatMap((row, y) =>
      [...row.matchAll(/1+/g)].map(
        ({ index, 0: run }) => `M${index} ${y}h${run.length}v1h-${run.length}z`,
      ),
    )
    .join("");

/** A QR code, dark on light in both themes: cameras do not read it the other way round. */
export function qrCode(rows, label) {
  return draw(
    "svg",
    {
      viewBox: `0 0 ${rows.length} ${rows.length}`,
      role: "img",
      "aria-label": label,
      class: "qr-code",
      "shape-rendering": "crispEdges",
    },
    draw("path", { d: darkPath(rows) }),
  );
}

/** Where each bar stands, and how high it is; the highest value fills the height. */
export function barPlaces(values, most = Math.max(...values, 0)) {
  const place = WIDTH / Math.max(values.length, 1);
  return values.map((value, index) => {
    const height = most > 0 ? (Math.max(value, 0) / most) * (HEIGHT - FOOT - HEAD) : 0;
    return {
      x: index * place + (place * GAP) / 2,
      y: HEIGHT - FOOT - height,
      width: place * (1 - GAP),
      height,
    };
  });
}

/**
 * Bars for a few values.
 * @param {{ title: string, of: string, points: { label: string, value: number, words: string }[] }} chart
 */
export function barChart({ title, of, points }) {
  const rows = points.map(({ label, ...value }) => ({ label, values: [value] }));
  return groupedChart({ title, of, columns: ["Value"], rows });
}

/**
 * Bars beside each other, one of each column for every row. Of many days (`days`), only as many are
 * labelled as there is room for.
 * @param {{ title: string, of: string, columns: string[], rows: Row[], days?: boolean }} chart
 */
export function groupedChart({ title, of, columns, rows, days = false }) {
  const most = Math.max(...rows.flatMap(({ values }) => values.map(({ value }) => value)), 0);
  const places = barPlaces(rows.map(() => most));
  const labelled = days ? everyOther(rows.map(({ label }) => label)) : () => true;
  const picture = draw(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-label": title, class: "chart-bars" },
    ...rows.map((row, index) =>
      bars(row, { columns, place: places[index], most, days, labelled: labelled(index) }),
    ),
  );
  return h(
    "figure",
    { class: "chart" },
    h("figcaption", {}, title),
    columns.length > 1 && legend(columns),
    picture,
    tableOf({ title, head: [of, ...columns], rows: rows.map(cells) }),
  );
}

const cells = ({ label, values }) => [label, ...values.map(({ words }) => words)];

const legend = (columns) =>
  h(
    "ul",
    { class: "chart-legend", "aria-hidden": "true" },
    columns.map((name, index) =>
      h("li", {}, h("span", { class: `chart-key chart-${index}` }), visible(name)),
    ),
  );

/** As much of a label as fits below its bar; all of it is said, and stands in the table. */
export function shortened(label, width) {
  const most = Math.max(3, Math.floor(width / CHARACTER));
  return label.length <= most ? label : `${label.slice(0, most - 1)}…`;
}

/** Which of these labels are shown, so that none touches the next; the last one always is. */
export function everyOther(labels) {
  const longest = Math.max(...labels.map(({ length }) => length), 0) * CHARACTER + 6;
  const step = Math.max(1, Math.ceil((longest * labels.length) / WIDTH));
  return (index) => (labels.length - 1 - index) % step === 0;
}

function bars({ label, values }, { columns, place, most, days, labelled }) {
  const said = values.map(({ words }, index) =>
    columns.length > 1 ? `${columns[index]} ${words}` : words,
  );
  const told = `${label}: ${said.join(", ")}`;
  const width = place.width / values.length;
  const room = place.width / (1 - GAP) / values.length;
  const drawn = values.flatMap(({ value, words }, index) => {
    const [{ y, height }] = barPlaces([value], most);
    const fits = words.length * DIGIT <= room || !days || value === most;
    const shown = fits && (value > 0 || !days);
    return [
      draw("rect", {
        class: `chart-${index}`,
        x: place.x + index * width,
        y: Math.min(y, HEIGHT - FOOT - 1),
        width: width * (values.length > 1 ? 0.9 : 1),
        height: Math.max(height, 1),
        rx: Math.min(3, width / 4),
      }),
      ...(shown ? [written("chart-value", words, place.x + (index + 0.5) * width, y - 4)] : []),
    ];
  });
  const under = days ? label : shortened(label, place.width);
  const middle = place.x + place.width / 2;
  return draw(
    "g",
    // With a bar for every day, the table is the shorter way.
    { role: "img", "aria-label": told, class: "chart-bar", ...(days ? {} : { tabindex: 0 }) },
    draw("title", {}, told),
    ...drawn,
    ...(labelled ? [written("chart-label", under, middle, HEIGHT - 4)] : []),
  );
}

// A text around its middle, moved as far as it takes to stay within the picture.
function written(name, text, middle, y) {
  const half = (text.length * CHARACTER) / 2;
  const x = Math.min(Math.max(middle, half), WIDTH - half);
  return draw("text", { x, y, class: name }, text);
}

/** The same in a table, for whoever would rather read. */
export function tableOf({ title, head, rows, open = false }) {
  return h(
    "details",
    { class: "chart-table", "data-key": `table ${title}`, open },
    h("summary", {}, icon("chevron"), "As a table"),
    plainTable({ title, head, rows }),
  );
}

export const plainTable = ({ title, head, rows }) =>
  h(
    "table",
    { "aria-label": title },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        head.map((each) => h("th", {}, visible(each))),
      ),
    ),
    h(
      "tbody",
      {},
      rows.map((row) =>
        h(
          "tr",
          {},
          row.map((each) => h("td", {}, visible(each))),
        ),
      ),
    ),
  );

/** How much of a limit is used; a limit that is reached says so in words, too. */
export function meterOf({ measure, used, allowed, words }) {
  const spent = used >= allowed;
  const share = Math.min(1, used / allowed);
  return h(
    "div",
    { class: `limit${spent ? " limit-spent" : ""}` },
    h("span", { class: "limit-name" }, measure),
    h("span", { class: "limit-words" }, words, spent && ": nothing is left"),
    h(
      "span",
      {
        class: "limit-bar",
        role: "meter",
        "aria-label": measure,
        "aria-valuemin": 0,
        "aria-valuemax": allowed,
        "aria-valuenow": Math.min(used, allowed),
        "aria-valuetext": words,
      },
      draw(
        "svg",
        { viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" },
        draw("rect", { class: "limit-whole", width: 100, height: 4 }),
        draw("rect", { class: "limit-used", width: Math.max(1, share * 100), height: 4 }),
      ),
    ),
  );
}
