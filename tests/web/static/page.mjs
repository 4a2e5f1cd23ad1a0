// Loaded before each test file: the page's addresses, and as much of a document as its modules need to make nodes.
import { register } from "node:module";

register("./hooks.mjs", import.meta.url);

class Fragment {
  childNodes = [];

  append(...children) {
    for (const child of children) {
      if (child instanceof Fragment && !(child instanceof Element))
        this.childNodes.push(...child.childNodes);
      else
        this.childNodes.push(
          child instanceof Fragment || child instanceof Text ? child : new Text(child),
        );
    }
  }

  get textContent() {
    return this.childNodes.map((child) => child.textContent).join("");
  }

  set textContent(text) {
    this.childNodes = [new Text(text)];
  }
}

class Element extends Fragment {
  attributes = {};

  constructor(tag) {
    super();
    this.tag = tag;
  }

  setAttribute(name, value) {
    this.attributes[name] = value;
  }

  addEventListener() {}
}

class Text {
  constructor(text) {
    this.textContent = String(text);
  }
}

globalThis.document = {
  createElement: (tag) => new Element(tag),
  createElementNS: (_namespace, tag) => new Element(tag),
  createTextNode: (text) => new Text(text),
  createDocumentFragment: () => new Fragment(),
};

/** A node as plain values: a text, or `[tag, ...children]`; texts beside each other are one, empty ones none. */
export function plain(node) {
  if (node instanceof Text) return node.textContent;
  const children = [];
  for (const child of node.childNodes.map(plain)) {
    if (child === "") continue;
    if (typeof child === "string" && typeof children.at(-1) === "string")
      children.push(children.pop() + child);
    else children.push(child);
  }
  return node instanceof Element ? [node.tag, ...children] : children;
}

/** Every element with this tag, in the order of the document. */
export function all(node, tag) {
  if (node instanceof Text) return [];
  const inside = node.childNodes.flatMap((child) => all(child, tag));
  return node.tag === tag ? [node, ...inside] : inside;
}
