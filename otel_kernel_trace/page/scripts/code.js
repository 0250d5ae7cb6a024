// Code: its language and colours, its lines, and the comment behind it.

const HIGHLIGHT_CHARS = 150_000;

const COMMENT = "\n\n\n'''\n";
const COMMENT_END = "\n'''";

/** A result's code, and the comment that stands behind it in its file. */
function splitCode(text) {
  const at = text.lastIndexOf(COMMENT);
  if (at < 0 || !text.endsWith(COMMENT_END)) return { code: text, comment: "" };
  return { code: text.slice(0, at), comment: text.slice(at + COMMENT.length, -COMMENT_END.length) };
}

function languageOf(action, part, text) {
  const [name, path] = [part.name, part.path ?? ""];
  if (name === "prompt" || name === "reasoning" || name === "error_log") return "";
  const ending = name.startsWith("source.") ? (/\.([a-z]+)$/.exec(path)?.[1] ?? "") : "";
  if (/^(cu|cuh|cpp|cc|cxx|c|h|hpp)$/.test(ending)) return "cpp";
  if (ending === "py") return "python";
  const start = text.slice(0, 20_000);
  if (/^\s*[[{]/.test(start) && /"\s*:/.test(start)) return "json";
  if (/^\s*(#include|#pragma|template\s*<|__global__|extern "C")|__global__|\bvoid\s+\w+\s*\(/m.test(start))
    return "cpp";
  if (/^\s*(import \w|from [\w.]+ import |def \w+\(.*|class \w+.*:|@\w+)/m.test(start)) return "python";
  return "";
}

/** Code, with the classes of highlight.js; its tree is taken, not its HTML. */
function appendCode(parent, text, language) {
  let root;
  if (language && text.length <= HIGHLIGHT_CHARS && !/[^\n]{5000}/.test(text)) {
    try {
      root = hljs.highlight(text, { language, ignoreIllegals: true })._emitter.rootNode;
    } catch {
      root = null;
    }
  }
  if (!root) return appendText(parent, text);
  const walk = (node, into) => {
    for (const child of node.children) {
      if (typeof child === "string") appendText(into, child);
      else {
        const span = document.createElement("span");
        if (child.scope)
          span.className = child.scope
            .split(".")
            .map((word, at) => (at ? `${word}${"_".repeat(at)}` : `hljs-${word}`))
            .join(" ");
        walk(child, span);
        into.append(span);
      }
    }
  };
  walk(root, parent);
}

function linesOf(text) {
  let lines = 0;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) lines++;
  return lines + (text && !text.endsWith("\n") ? 1 : 0);
}
