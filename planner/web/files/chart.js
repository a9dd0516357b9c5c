// Curves of best time against trials or card seconds: steps that fall where a kernel was accepted,
// with the strongest baseline and the speed of light as lines. Time is on a scale of logarithms, so
// that the same gain is the same height.
//
//   chart({points: [{x, y, title}], end, lines: [{name, class, y}], xName: "trials", width: 560})
//
// A line that is far from all points would press them flat: it is told in words.
import {el, micros, seconds, whole} from "./words.js";

const space = "http://www.w3.org/2000/svg";
const height = 220, left = 66, right = 12, top = 14, bottom = 30;
const farTimes = 6;

function svg(tag, attributes, ...children) {
  const node = document.createElementNS(space, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// Round numbers from low to high, some `about` of them.
function ticks(low, high, about) {
  const rough = (high - low) / about || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((each) => each * power >= rough) ?? 10);
  const found = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high * (1 + 1e-9); tick += step) found.push(tick);
  return found;
}

export function chart({points, end, lines, xName, width}) {
  points = points.filter((point) => point.y > 0);
  if (points.length === 0) return el("p", {class: "hint"}, "No kernel has passed the judge yet.");
  const times = points.map((point) => point.y);
  const told = lines.filter((line) => line.y > 0);
  const near = told.filter((line) => line.y > Math.min(...times) / farTimes && line.y < Math.max(...times) * farTimes);
  const far = told.filter((line) => !near.includes(line));
  const ys = [...times, ...near.map((line) => line.y)];
  const low = Math.log(Math.min(...ys)) - 0.08, high = Math.log(Math.max(...ys)) + 0.08;
  const most = Math.max(end, points[points.length - 1].x, 1);
  const x = (value) => left + ((width - left - right) * value) / most;
  const y = (value) => top + ((height - top - bottom) * (high - Math.log(value))) / (high - low);
  const picture = svg("svg", {viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img"});
  const best = points[points.length - 1];
  picture.setAttribute("aria-label",
    `Best time against ${xName}: from ${micros(points[0].y)} to ${micros(best.y)} in ${points.length} steps. The table of gains has each.`);
  const text = (at, of, classes, words) => picture.append(svg("text", {x: at, y: of, class: classes}, words));
  for (let i = 0; i <= 3; ++i) {
    const value = Math.exp(low + ((high - low) * i) / 3);
    picture.append(svg("line", {x1: left, x2: width - right, y1: y(value), y2: y(value), class: "rule"}));
    text(left - 8, y(value) + 4, "tick end", micros(value));
  }
  for (const tick of ticks(0, most, 5)) {
    text(x(tick), height - 10, tick === 0 ? "tick" : "tick middle", xName === "trials" ? whole(tick) : seconds(tick));
  }
  for (const line of near) {
    picture.append(svg("line", {x1: left, x2: width - right, y1: y(line.y), y2: y(line.y), class: `line ${line.class}`}));
    text(width - right - 2, y(line.y) - 4, `tick end ${line.class}`, line.name);
  }
  let path = `M${x(points[0].x)} ${y(points[0].y)}`;
  for (const point of points.slice(1)) path += `H${x(point.x)}V${y(point.y)}`;
  picture.append(svg("path", {d: `${path}H${x(most)}`, class: "curve"}));
  for (const point of points) {
    picture.append(svg("circle", {cx: x(point.x), cy: y(point.y), r: 3.2, class: "dot"}, svg("title", {}, point.title)));
  }
  return el("div", {}, picture, far.length > 0
    ? el("p", {class: "hint"}, `Far from here: ${far.map((line) => `${line.name} ${micros(line.y)}`).join(", ")}.`) : null);
}
