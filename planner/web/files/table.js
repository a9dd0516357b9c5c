// A table of many rows, of which those that can be seen are there: the cost is that of a screen,
// however many there are. By keyboard: arrows, page up and down, home and end, enter opens.
//
//   const table = new Table({label: "Tasks", columns, onOpen});
//   node.append(table.node);
//   table.show([...]);            // records with an `id`; as often as they change
//
// A column: {name, title, width, right, few, sort: record => value, write: (cell, record) => ...}. Where
// there is little room those with `few` are left; on a narrow screen rows are cards, laid out by CSS
// from the columns' names.
import {el, whole} from "./words.js";

const spare = 6;  // rows above and below those that can be seen

export class Table {
  constructor({label, columns, onOpen, sortBy, empty}) {
    Object.assign(this, {columns, onOpen, empty});
    this.rows = [];
    this.shown = [];
    this.active = "";
    this.by = sortBy ?? columns[0].name;
    this.down = false;
    this.pool = [];
    const heads = columns.map((column) => {
      const button = el("button", {type: "button", tabindex: "-1", onclick: () => this.sort(column.name)}, column.title);
      return el("div", {role: "columnheader", class: `cell ${column.name}${column.few ? "" : " more"}`, "data-column": column.name}, button);
    });
    this.head = el("div", {role: "row", class: "row head", "aria-rowindex": "1"}, ...heads);
    this.body = el("div", {class: "body", role: "rowgroup"});
    this.none = el("p", {class: "none", hidden: true}, empty);
    this.grid = el("div", {role: "grid", class: "grid", tabindex: "0", "aria-label": label,
      onscroll: () => this.draw(), onkeydown: (event) => this.key(event)},
      el("div", {role: "rowgroup"}, this.head), this.body);
    this.template("", columns);
    this.template("-few", columns.filter((column) => column.few));
    const options = columns.filter((column) => column.sort).map((column) => el("option", {value: column.name}, column.title));
    this.select = el("select", {"aria-label": "Sort by", onchange: () => this.sort(this.select.value, false)}, ...options);
    this.turn = el("button", {type: "button", class: "quiet", "aria-label": "Other way round", onclick: () => this.sort(this.by)}, "⇅");
    this.sorter = el("div", {class: "sorter"}, this.select, this.turn);
    this.node = el("div", {class: "table"}, this.grid, this.none);
    new ResizeObserver(() => this.draw()).observe(this.grid);
    this.showSort();
  }

  // The least width is that of the columns', with the gaps between them.
  template(few, columns) {
    const least = columns.map((column) => parseFloat(column.width.match(/[\d.]+/)[0]) + 1.35);
    this.grid.style.setProperty(`--columns${few}`, columns.map((column) => column.width).join(" "));
    this.grid.style.setProperty(`--least${few}`, `${least.reduce((sum, each) => sum + each, 0.8)}rem`);
  }

  sort(name, turn = true) {
    const column = this.columns.find((each) => each.name === name);
    if (!column?.sort) return;
    this.down = this.by === name ? turn !== this.down : Boolean(column.right);
    this.by = name;
    this.showSort();
    this.show(this.rows);
    this.grid.scrollTop = 0;
  }

  showSort() {
    for (const head of this.head.children) {
      const by = head.dataset.column === this.by;
      if (by) head.setAttribute("aria-sort", this.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    this.select.value = this.by;
  }

  show(rows) {
    this.rows = rows;
    const value = this.columns.find((column) => column.name === this.by).sort;
    const keyed = rows.map((record) => ({record, key: value(record)}));
    const way = this.down ? -1 : 1;
    keyed.sort((a, b) => (a.key < b.key ? -way : a.key > b.key ? way : a.record.id < b.record.id ? -1 : 1));
    this.shown = keyed.map(({record}) => record);
    this.at = new Map(this.shown.map((record, index) => [record.id, index]));
    this.grid.setAttribute("aria-rowcount", this.shown.length + 1);
    this.none.hidden = this.shown.length > 0;
    this.draw();
  }

  height() {
    return parseFloat(getComputedStyle(this.grid).getPropertyValue("--row")) || 38;
  }

  draw() {
    const height = this.height();
    this.body.style.height = `${this.shown.length * height}px`;
    const first = Math.max(0, Math.floor(this.grid.scrollTop / height) - spare);
    const count = Math.min(this.shown.length - first, Math.ceil(this.grid.clientHeight / height) + 2 * spare);
    while (this.pool.length < count) this.pool.push(this.newRow());
    while (this.pool.length > count) this.pool.pop().node.remove();
    // A record keeps its row while it is scrolled, as far as that goes.
    for (let i = 0; i < count; ++i) {
      const index = first + i;
      this.fill(this.pool[index % count], index, height);
    }
    const active = this.at?.get(this.active);
    if (active >= first && active < first + count) this.grid.setAttribute("aria-activedescendant", this.pool[active % count].node.id);
    else this.grid.removeAttribute("aria-activedescendant");
  }

  newRow() {
    const cells = this.columns.map((column) => el("div", {role: "gridcell", class: `cell ${column.name}${column.right ? " right" : ""}${column.few ? "" : " more"}`}));
    const node = el("div", {role: "row", class: "row", id: `row-${Table.next = (Table.next ?? 0) + 1}`}, ...cells);
    const row = {node, cells, id: ""};
    node.addEventListener("click", () => { this.active = row.id; this.onOpen(row.id); this.draw(); });
    this.body.append(node);
    return row;
  }

  fill(row, index, height) {
    const record = this.shown[index];
    row.id = record.id;
    row.node.style.transform = `translateY(${index * height}px)`;
    row.node.setAttribute("aria-rowindex", index + 2);
    row.node.classList.toggle("odd", index % 2 === 1);
    const active = record.id === this.active;
    row.node.classList.toggle("active", active);
    row.node.setAttribute("aria-selected", active);
    this.columns.forEach((column, i) => column.write(row.cells[i], record));
  }

  activate(id) {
    this.active = id;
    this.draw();
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.grid.clientHeight / this.height()) - 2);
    const steps = {ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity};
    if (event.target !== this.grid || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (this.at.has(this.active)) this.onOpen(this.active);
    } else if (event.key in steps && this.shown.length > 0) {
      event.preventDefault();
      const now = this.at.get(this.active);
      const next = now === undefined ? 0 : now + steps[event.key];
      this.moveTo(Math.min(Math.max(next, 0), this.shown.length - 1));
    }
  }

  moveTo(index) {
    const height = this.height();
    const head = this.head.offsetHeight;
    this.active = this.shown[index].id;
    const top = index * height;
    const room = this.grid.clientHeight - head - height;
    if (top < this.grid.scrollTop) this.grid.scrollTop = top;
    else if (top > this.grid.scrollTop + room) this.grid.scrollTop = top - room;
    this.draw();
  }

  count() {
    return whole(this.shown.length);
  }
}
