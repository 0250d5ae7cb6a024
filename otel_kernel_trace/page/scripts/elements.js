// Elements, and waiting.

const $ = (id) => document.getElementById(id);

/** An element: class, text, title and data as options, `on` for its click, the rest are attributes. */
function el(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") node.className = value;
    else if (name === "text") appendText(node, String(value));
    else if (name === "on") node.addEventListener("click", value);
    else if (name === "title") node.title = plain(String(value));
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

const button = (text, on, options = {}) => el("button", { type: "button", on, text, ...options });
const later = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

function svg(...paths) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  node.setAttribute("viewBox", "0 0 16 16");
  node.setAttribute("aria-hidden", "true");
  for (const d of paths) {
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", d);
    node.append(path);
  }
  return node;
}
