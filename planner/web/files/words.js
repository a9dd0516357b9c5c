// Elements and words. Text of others becomes text nodes, and nothing else.

// el("p", {class: "note", title: text}, "some ", el("b", {}, "text"))
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const digits = (value, most) => value.toLocaleString("en", {maximumFractionDigits: most});

export const whole = (value) => digits(value, 0);
export const speedup = (value) => (value > 0 ? `${value.toFixed(value < 100 ? 2 : 0)}×` : "–");
export const share = (part, all) => (part > 0 && all > 0 ? part / all : 0);
export const percent = (part) => (part > 0 ? (part < 0.01 ? "<1 %" : `${Math.round(100 * part)} %`) : "–");
export const count = (n, one, many = `${one}s`) => `${whole(n)} ${n === 1 ? one : many}`;

export function micros(us) {
  if (!(us > 0)) return "–";
  if (us >= 1e6) return `${digits(us / 1e6, 2)} s`;
  if (us >= 1e4) return `${digits(us / 1e3, us < 1e5 ? 2 : 1)} ms`;
  return `${digits(us, us < 100 ? 2 : us < 1000 ? 1 : 0)} µs`;
}

export function seconds(s) {
  if (!(s > 0)) return "0 s";
  if (s < 100) return `${digits(s, s < 10 ? 1 : 0)} s`;
  if (s < 6000) return `${digits(s / 60, s < 600 ? 1 : 0)} min`;
  return `${digits(s / 3600, s < 36000 ? 1 : 0)} h`;
}

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; n >= 1024 && unit + 1 < units.length; ++unit) n /= 1024;
  return n > 0 ? `${digits(n, n < 10 && unit > 0 ? 1 : 0)} ${units[unit]}` : "–";
}

export const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");
export function when(ms) {
  if (!(ms > 0)) return "–";
  const date = new Date(ms);
  const day = date.toDateString() === new Date().toDateString() ? "" : `${date.toLocaleDateString("en-CA")} `;
  return day + clock(ms).slice(0, 5);
}

// In the order in which they matter to who watches.
export const states = ["leased", "parked", "failed", "held", "queued", "converged", "cancelled"];

// A state as a mark and a word: the mark's shape tells it without colour.
export function mark(state) {
  return el("span", {class: `mark ${state}`}, state);
}

// Parts of a whole as a bar: [[name, number], ...]. What is in it is said in words.
export function bar(parts, all) {
  const words = parts.filter(([, n]) => n > 0).map(([name, n]) => `${whole(n)} ${name}`).join(", ");
  const node = el("span", {class: "bar", role: "img", "aria-label": words, title: words});
  for (const [name, n] of parts) {
    if (!(n > 0)) continue;
    const part = el("i", {class: name});
    part.style.width = `${Math.max(0.5, (100 * n) / all)}%`;
    node.append(part);
  }
  return node;
}
