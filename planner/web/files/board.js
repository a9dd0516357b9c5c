// The board's markdown as elements: the few forms that it is written in (planner/board/board.cc).
// What is none of them is text.
import {el} from "./words.js";

// **strong**, `code`, and \ before what is meant as it stands.
function inline(text) {
  const parts = [];
  let plain = "";
  const flush = () => { if (plain) parts.push(plain); plain = ""; };
  for (let i = 0; i < text.length; ++i) {
    if (text[i] === "\\" && i + 1 < text.length) plain += text[++i];
    else if (text[i] === "`" || text.startsWith("**", i)) {
      const fence = text[i] === "`" ? "`" : "**";
      const end = text.indexOf(fence, i + fence.length);
      if (end < 0) { plain += text[i]; continue; }
      flush();
      parts.push(el(fence === "`" ? "code" : "strong", {}, text.slice(i + fence.length, end)));
      i = end + fence.length - 1;
    } else plain += text[i];
  }
  flush();
  return parts;
}

function cells(line) {
  const found = [];
  let cell = "";
  for (let i = 1; i < line.length; ++i) {
    if (line[i] === "\\" && i + 1 < line.length) cell += line[i] + line[++i];
    else if (line[i] === "|") { found.push(cell.trim()); cell = ""; }
    else cell += line[i];
  }
  return found;
}

function table(lines) {
  const [head, , ...rows] = lines;
  const row = (line, tag) => el("tr", {}, ...cells(line).map((cell) => el(tag, tag === "th" ? {scope: "col"} : {}, ...inline(cell))));
  return el("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Table"},
    el("table", {}, el("thead", {}, row(head, "th")), el("tbody", {}, ...rows.map((line) => row(line, "td")))));
}

export function board(markdown) {
  const page = el("article", {class: "board"});
  const lines = markdown.split("\n");
  for (let i = 0; i < lines.length;) {
    const from = i;
    const line = lines[i];
    const block = (is) => { while (i < lines.length && is(lines[i])) ++i; return lines.slice(from, i); };
    if (line === "" || line.startsWith("<!--") || line === "---") ++i;
    else if (/^#{1,4} /.test(line)) {
      const level = line.indexOf(" ");
      page.append(el(`h${level + 1}`, {}, ...inline(line.slice(level + 1))));
      ++i;
    } else if (line.startsWith("|")) page.append(table(block((each) => each.startsWith("|"))));
    else if (line.startsWith("- ")) page.append(el("ul", {}, ...block((each) => each.startsWith("- ")).map((each) => el("li", {}, ...inline(each.slice(2))))));
    else if (line.startsWith("> ")) page.append(el("blockquote", {}, ...inline(block((each) => each.startsWith("> ")).map((each) => each.slice(2)).join(" "))));
    else page.append(el("p", {}, ...inline(block((each) => each !== "" && !/^([|>#-] ?|<!--)/.test(each)).join(" ") || lines[i++])));
  }
  return page;
}
