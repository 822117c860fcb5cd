// Table of all lists: a click on a heading sorts it, its owner filters it, and it is updated in place.

import { h } from "./dom.js";

/**
 * @param caption its content, for screen readers.
 * @param columns `{ id, label, cell(row), value(row)?, number?, wide? }`; with `value` people can sort by it.
 * @param key function that gives the name of a row.
 * @param sort `{ id, down }`, or null for the order of the rows.
 * @param selected a Set of keys if users can choose rows; `onselect` is called after a change.
 */
export class Table {
  constructor({ caption, columns, key, sort = null, selected = null, onselect = () => {}, label = key }) {
    Object.assign(this, { columns, key, sort, selected, onselect, label, rows: [] });
    this.body = h("tbody", { role: "rowgroup" });
    this.heads = new Map();
    const cells = columns.map((column) => this.#head(column));
    if (selected) cells.unshift(h("th", { scope: "col", role: "columnheader", class: "choose" }, this.#all()));
    const table = h(
      "table",
      { role: "table" },
      h("caption", { class: "unseen" }, caption),
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, cells)),
      this.body,
    );
    this.element = h("div", { class: "table" }, this.#narrowSort(), table);
    this.#mark();
  }

  /** Show these rows and keep the focus. */
  update(rows) {
    this.rows = rows;
    const focused = this.body.contains(document.activeElement) ? document.activeElement : null;
    const place = focused && [focused.closest("tr").dataset.key, focused.dataset.part];
    this.body.replaceChildren(...this.#sorted().map((row) => this.#row(row)));
    if (place) {
      const row = [...this.body.children].find((element) => element.dataset.key === place[0]);
      row?.querySelector(place[1] ? `[data-part="${place[1]}"]` : "a, button, input")?.focus({ preventScroll: true });
    }
    this.#markAll();
  }

  #row(row) {
    const name = String(this.key(row));
    const cells = this.columns.map((column, index) => {
      const attributes = { role: index ? "cell" : "rowheader", "data-label": column.label };
      attributes.class = [column.number && "number", column.wide && "wide"].filter(Boolean).join(" ") || null;
      const cell = h(index ? "td" : "th", { ...attributes, scope: index ? null : "row" }, column.cell(row));
      // On a telephone an empty cell takes no line.
      if (!cell.children.length && ["", "–"].includes(cell.textContent)) cell.classList.add("empty");
      if (cell.firstElementChild?.classList.contains("nothing")) cell.classList.add("empty");
      for (const [place, part] of cell.querySelectorAll("a, button, summary").entries()) {
        part.dataset.part = `${column.id}${place}`;
      }
      return cell;
    });
    if (this.selected) {
      const box = h("input", { type: "checkbox", "data-part": "choose", "aria-label": `Choose ${this.label(row)}` });
      box.checked = this.selected.has(this.key(row));
      box.addEventListener("change", () => {
        if (box.checked) this.selected.add(this.key(row));
        else this.selected.delete(this.key(row));
        this.#markAll();
        this.onselect();
      });
      cells.unshift(h("td", { role: "cell", class: "choose" }, box));
    }
    return h("tr", { role: "row", "data-key": name }, cells);
  }

  #head(column) {
    const attributes = { scope: "col", role: "columnheader", class: column.number ? "number" : null };
    if (!column.value) return h("th", attributes, column.label);
    const arrow = h("span", { class: "arrow", "aria-hidden": "true" });
    const head = h(
      "th",
      attributes,
      h("button", { type: "button", onclick: () => this.#turn(column) }, column.label, arrow),
    );
    this.heads.set(column.id, head);
    return head;
  }

  /** Choice of the sorting, for telephones, where the table has no headings. */
  #narrowSort() {
    const sortable = this.columns.filter((column) => column.value);
    if (!sortable.length) return null;
    this.choice = h(
      "select",
      {},
      this.sort ? null : h("option", { value: "" }, "as they come"),
      sortable.map((column) => h("option", { value: column.id }, column.label)),
    );
    this.choice.addEventListener("change", () => {
      const column = sortable.find(({ id }) => id === this.choice.value);
      this.#sortBy(column ? { id: column.id, down: Boolean(column.number) } : null);
    });
    return h("label", { class: "narrow" }, "Sort by ", this.choice);
  }

  #turn(column) {
    const down = this.sort?.id === column.id ? !this.sort.down : Boolean(column.number);
    this.#sortBy({ id: column.id, down });
  }

  #sortBy(sort) {
    this.sort = sort;
    this.#mark();
    this.update(this.rows);
  }

  #mark() {
    for (const [id, head] of this.heads) {
      const mine = this.sort?.id === id;
      if (mine) head.setAttribute("aria-sort", this.sort.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    if (this.choice) this.choice.value = this.sort?.id ?? "";
  }

  #sorted() {
    const column = this.columns.find(({ id }) => id === this.sort?.id);
    if (!column) return this.rows;
    const sign = this.sort.down ? -1 : 1;
    const keyed = this.rows.map((row) => [column.value(row), row]);
    // Unknown values come last in both directions.
    keyed.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (typeof a === "string" ? a.localeCompare(b) : a - b);
    });
    return keyed.map(([, row]) => row);
  }

  #all() {
    this.everything = h("input", { type: "checkbox", "aria-label": "Choose all that are shown" });
    this.everything.addEventListener("change", () => {
      for (const row of this.rows) {
        if (this.everything.checked) this.selected.add(this.key(row));
        else this.selected.delete(this.key(row));
      }
      this.update(this.rows);
      this.onselect();
    });
    return this.everything;
  }

  #markAll() {
    if (!this.everything) return;
    const chosen = this.rows.filter((row) => this.selected.has(this.key(row))).length;
    this.everything.checked = chosen > 0 && chosen === this.rows.length;
    this.everything.indeterminate = chosen > 0 && chosen < this.rows.length;
  }
}
