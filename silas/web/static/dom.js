// @ts-check
// How nodes are made. There is no way here to turn text into markup: strings become text nodes.

const ALLOWED = new Set([
  "id",
  "class",
  "type",
  "name",
  "value",
  "title",
  "placeholder",
  "rows",
  "for",
  "role",
  "lang",
  "tabindex",
  "disabled",
  "hidden",
  "open",
  "checked",
  "min",
  "max",
  "step",
  "autocomplete",
  "autofocus",
  "maxlength",
  "datetime",
  "dir",
  "enterkeyhint",
  "inputmode",
  "spellcheck",
  "start",
]);
const SVG = "http://www.w3.org/2000/svg";

/** A node with these attributes, listeners (`onclick`) and children. */
export function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on") && typeof value === "function") {
      node.addEventListener(name.slice(2), value);
    } else if (ALLOWED.has(name) || name.startsWith("aria-") || name.startsWith("data-")) {
      node.setAttribute(name, value === true ? "" : String(value));
    } else {
      throw new TypeError(`attribute ${name} is not used here`);
    }
  }
  node.append(
    ...children
      .flat(Infinity)
      .filter((child) => child !== null && child !== undefined && child !== false),
  );
  return node;
}

/** A link to another site: http and https only, opened elsewhere, told nothing about us. */
export function outsideLink(address, ...children) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return null;
  }
  if (!["http:", "https:"].includes(url.protocol) || url.username || url.password) return null;
  const node = h("a", { class: "link", title: url.href }, ...children);
  node.href = url.href;
  node.target = "_blank";
  node.rel = "noopener noreferrer nofollow";
  node.referrerPolicy = "no-referrer";
  return node;
}

/** Make these nodes the children, touching only what differs: screen readers hear just the news. */
export function sync(parent, nodes) {
  nodes.forEach((node, index) => {
    if (parent.childNodes[index] !== node)
      parent.insertBefore(node, parent.childNodes[index] ?? null);
  });
  while (parent.childNodes.length > nodes.length) parent.lastChild.remove();
}

const PATHS = {
  stream: "M4 6h16M4 12h10M4 18h13",
  review: "M5 4h14v16H5zM9 10.5l2 2 4-4.5",
  activity: "M12 7v5l3.5 2M12 3.5a8.5 8.5 0 1 1 0 17 8.5 8.5 0 0 1 0-17z",
  journal: "M6 3.5h12.5v17H6zM9.5 3.5v17M13 8.5h2.5M13 12h2.5",
  companions:
    "M8.5 11a3.2 3.2 0 1 0 0-6.4 3.2 3.2 0 0 0 0 6.4zM3 19.5c.4-3.4 2.5-5.3 5.5-5.3s5.1 1.9 5.5 5.3M16 6.2a2.8 2.8 0 0 1 0 5.4M17 14.4c2.3.4 3.7 2.1 4 5.1",
  halt: "M7 7h10v10H7z",
  memory: "M7 3.5h10v17l-5-4-5 4zM10 8h4",
  servers: "M4 5h16v6H4zM4 13h16v6H4zM7.5 8h.01M7.5 16h.01",
  skills: "M12 3.5l2.6 5.3 5.9.9-4.2 4.1 1 5.8L12 16.9l-5.3 2.7 1-5.8L3.5 9.7l5.9-.9z",
  connections:
    "M9.5 14.5l5-5M8 11.5l-2.6 2.6a3.2 3.2 0 0 0 4.5 4.5L12.5 16M11.5 8l2.6-2.6a3.2 3.2 0 0 1 4.5 4.5L16 12.5",
  stop: "M8 3.5h8l4.5 4.5v8L16 20.5H8L3.5 16V8zM8.5 12h7",
  list: "M4 6.5h.01M4 12h.01M4 17.5h.01M8 6.5h12M8 12h12M8 17.5h8",
  plus: "M12 5v14M5 12h14",
  search: "M10.5 4.5a6 6 0 1 1 0 12 6 6 0 0 1 0-12zM15 15l5 5",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  attach:
    "M20 11.5l-8.2 8.2a5 5 0 0 1-7.1-7.1l8.2-8.2a3.4 3.4 0 0 1 4.8 4.8l-8.2 8.2a1.7 1.7 0 0 1-2.4-2.4l7.5-7.5",
  send: "M12 19V5M6 11l6-6 6 6",
  check: "M5 12.5l4.5 4.5L19 7.5",
  cross: "M6 6l12 12M18 6L6 18",
  dot: "M12 12h.01",
  shield: "M12 3.5l7 2.5v5.5c0 4.2-2.8 7.4-7 9-4.2-1.6-7-4.8-7-9V6z",
  device: "M7 3.5h10v17H7zM11 17.5h2",
  key: "M15 4.5a4.5 4.5 0 1 1-3.8 6.9L5 17.5V20h3v-2h2v-2h2l1.3-1.4A4.5 4.5 0 0 1 15 4.5zM16 8.5h.01",
  settings: "M4 7h9M17 7h3M4 17h3M11 17h9M13 4.5v5M7 14.5v5",
  chevron: "M9 6l6 6-6 6",
  alert: "M12 4l9 16H3zM12 10v4.5M12 17.2h.01",
};

/** A line icon; it says nothing to screen readers, the text beside it does. */
export function icon(name, className = "") {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", `icon ${className}`.trim());
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

const CLOCK = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  hourCycle: "h23",
});
const DAY = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });

export const clock = (moment) => CLOCK.format(new Date(moment));
export const day = (moment) => DAY.format(new Date(moment));

/** A moment, readable by people and machines. */
export function time(moment, className = "time") {
  return h(
    "time",
    { class: className, datetime: moment, title: new Date(moment).toLocaleString() },
    clock(moment),
  );
}

/** Whether somebody reads or writes something in a row of the list: it is not drawn over. @param {Element} node */
export const isReading = (node) => node.querySelector(".skill-more:not(:empty)") !== null;

/** A surface opens: what its rows showed may have changed since; what is being written stays. @param {Element} node */
export function closeRows(node) {
  for (const place of node.querySelectorAll(".skill-more:not(:has(.memory-forget))"))
    place.replaceChildren();
}
