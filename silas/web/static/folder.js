// @ts-check
// The folder that the conversation is about: to be read, and to be worked in.
import { h } from "/dom.js";
import { keepNote, loadNote } from "/keys.js";

const NOTE = "folder";

/** The line above the composer; `pick()` asks for a folder, `value()` is the one that was picked. */
export function folderLine(back) {
  let folder = "";
  let chosen = false; // here, after the page was opened
  const node = h("div", { class: "composer-folder" });

  function choose(path) {
    folder = path.trim();
    chosen = true;
    void keepNote(NOTE, folder);
    draw();
    back();
  }
  function draw() {
    node.hidden = !folder;
    const remove = () => choose("");
    node.replaceChildren(
      h("span", {}, "Works in ", h("strong", { dir: "ltr" }, folder)),
      h("button", { type: "button", class: "quiet small", onclick: pick }, "Change"),
      h(
        "button",
        { type: "button", class: "quiet small", onclick: remove },
        "Back to the workspace",
      ),
    );
  }
  function pick() {
    const input = h("input", {
      type: "text",
      value: folder,
      maxlength: "4096",
      placeholder: "~/project or /home/me/project",
      "aria-label": "Folder to work in",
      autocomplete: "off",
      spellcheck: "false",
    });
    input.addEventListener("keydown", (event) => {
      if (event.isComposing || !["Enter", "Escape"].includes(event.key)) return;
      event.preventDefault();
      event.stopPropagation();
      choose(event.key === "Enter" ? input.value : folder);
    });
    node.hidden = false;
    node.replaceChildren(
      input,
      h("button", { type: "button", class: "small", onclick: () => choose(input.value) }, "Use it"),
      h(
        "button",
        { type: "button", class: "quiet small", onclick: () => choose(folder) },
        "Cancel",
      ),
    );
    input.focus();
  }
  draw();
  void loadNote(NOTE).then((path) => {
    if (chosen || !path) return;
    folder = path;
    draw();
  });
  return { node, pick, value: () => folder || null };
}
