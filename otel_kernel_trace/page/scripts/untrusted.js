// The page of a tree of kernel traces. It is in one file with its data (a report), or asks a server
// (serve) for them; the values are those of shown.py. Its scripts are put into one closure, in the order
// of document.py: each uses only what comes before it.
//
// Everything in a trace is somebody else's text. It gets into the document as text nodes alone:
// there is no innerHTML here, and the page's policy (Trusted Types) lets nobody use it.

// Colours of terminals; other control sequences; what changes the direction of text, is invisible
// or is no character at all.
const STRANGE = new RegExp(
  "\\x1b\\[([0-9;]*)m|\\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\\x07\\x1b]{0,200}(?:\\x07|\\x1b\\\\)|[@-Z\\\\^_])?|" +
    "\\r(?!\\n)|[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\u061c\\u200b\\u200e\\u200f\\u2028-\\u202e" +
    "\\u2060-\\u2069\\ufeff\\u{e0000}-\\u{e007f}]",
  "gu",
);

const MOST_MARKS = 2000; // in a text; what is behind them is shown as no character at all

/** Append text; characters that would deceive are shown as what they are. */
function appendText(parent, text) {
  STRANGE.lastIndex = 0;
  if (!STRANGE.test(text)) {
    parent.append(text);
    return;
  }
  let at = 0;
  let style = "";
  const put = (piece) => {
    if (!piece) return;
    if (!style) return parent.append(piece);
    const span = document.createElement("span");
    span.className = style;
    span.append(piece);
    parent.append(span);
  };
  STRANGE.lastIndex = 0;
  let pieces = 0;
  for (let found; (found = STRANGE.exec(text));) {
    if (++pieces > MOST_MARKS) {
      style = "";
      return put(plain(text.slice(at)));
    }
    put(text.slice(at, found.index));
    at = found.index + found[0].length;
    if (found[1] !== undefined) style = styleAfter(style, found[1]);
    else {
      const mark = document.createElement("span");
      mark.className = "mark";
      mark.append(nameOf(found[0]));
      parent.append(mark);
    }
  }
  put(text.slice(at));
}

/** The classes that a terminal's colour codes amount to. */
function styleAfter(style, codes) {
  let names = style ? style.split(" ") : [];
  const numbers = codes.split(";").map(Number);
  for (let index = 0; index < numbers.length; index++) {
    const code = numbers[index];
    if (code === 0) names = [];
    else if (code === 1) names.push("ansi-bold");
    else if (code === 22) names = names.filter((name) => name !== "ansi-bold");
    else if (code === 38 || code === 48) index += numbers[index + 1] === 5 ? 2 : 4;
    else if ((code >= 30 && code <= 39) || (code >= 90 && code <= 97)) {
      names = names.filter((name) => name === "ansi-bold");
      if (code !== 39) names.push(`ansi-${code % 10}`);
    }
  }
  return [...new Set(names)].join(" ");
}

function nameOf(strange) {
  if (strange.startsWith("\x1b")) return `ESC${strange.slice(1, 12).replace(/[\x00-\x1f]/g, "·")}`;
  return `U+${strange.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** Text for places that show nothing but text, such as titles. */
function plain(text) {
  STRANGE.lastIndex = 0;
  return text.replace(STRANGE, "\ufffd").replace(/\ufffd{3,}/g, "\ufffd…");
}
