// Elements. Texts of users become text nodes only: these files never use innerHTML.

const SVG = "http://www.w3.org/2000/svg";

// Characters that are invisible or change the direction of text: controls, format characters, lone surrogates. Tab and
// line feed stay.
const HIDDEN = /[\0-\x08\x0b-\x1f\x7f-\x9f]|\p{Cf}|\p{Zl}|\p{Zp}|\p{Cs}/gu;

/** An HTML element with attributes, listeners (`onclick`) and children: elements, texts, lists, or nothing. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same in SVG. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

/** A text from outside, isolated from the direction of the text around it, with hidden characters as escapes. */
export function foreign(text, attributes = {}) {
  const parts = [];
  let from = 0;
  // CRLF ends a line; it is no hidden character.
  const lines = String(text).replaceAll("\r\n", "\n");
  for (const found of lines.matchAll(HIDDEN)) {
    parts.push(lines.slice(from, found.index), h("span", { class: "escape" }, escaped(found[0])));
    from = found.index + found[0].length;
  }
  return h("bdi", attributes, parts, lines.slice(from));
}

const escaped = (character) => {
  const code = character.codePointAt(0).toString(16).toUpperCase();
  return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, "0")}`;
};

/** As `foreign`, but only the beginning of a long text, with a button for all of it. */
export function clipped(text, limit = 400) {
  const whole = String(text);
  if (whole.length <= limit + 40) return foreign(whole);
  const place = h("span", { class: "clipped" });
  const more = h("button", { type: "button", class: "link", onclick: () => open() });
  more.append(`Show all ${whole.length.toLocaleString("en")} characters`);
  const open = () => place.replaceChildren(foreign(whole));
  place.append(foreign(whole.slice(0, limit)), "… ", more);
  return place;
}

/** Tell a screen reader what has changed. */
export function say(text) {
  document.getElementById("live").textContent = text;
}

/** A button that puts a text on the clipboard. */
export function copyButton(text, label = "Copy") {
  const button = h("button", { type: "button", class: "small" }, label);
  button.addEventListener("click", async () => {
    const done = await copy(text);
    button.textContent = done ? "Copied" : "Select it and copy it by hand";
    say(button.textContent);
    setTimeout(() => (button.textContent = label), 2500);
  });
  return button;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without https only the old command reaches the clipboard.
    const area = h("textarea", { class: "unseen", readonly: true, "aria-hidden": "true" });
    area.value = text;
    const before = document.activeElement;
    // Elements outside an open dialog cannot take the focus.
    (document.querySelector("dialog[open]") ?? document.body).append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    before?.focus();
    return done;
  }
}
