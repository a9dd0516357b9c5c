// Puts the page together: views and where one is in them, what the planner sends, and who asks.
import {board} from "./board.js";
import {Changes} from "./changes.js";
import {Detail} from "./detail.js";
import {State} from "./state.js";
import {Table} from "./table.js";
import {conditionOf, newsColumns, noteOf, runColumns, taskColumns, workerColumns} from "./tables.js";
import {bar, clock, el, seconds, speedup, states, whole, write} from "./words.js";
import {Wire} from "./wire.js";

const boardAgainMs = 5000;
const toastMs = 4000;

const find = (id) => document.getElementById(id);
const state = new State();

function toast(text) {
  write(find("toast"), text);
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => write(find("toast"), ""), toastMs);
}

const wire = new Wire({
  onUpdate: (update) => {
    const from = performance.now();
    state.apply(update);
    show();
    performance.measure("update", {start: from, end: performance.now()});
  },
  onLink: showLink,
});
const changes = new Changes(wire, toast);

// ---- where one is: #VIEW, #VIEW/ID, #tasks?run=r1 ------------------------------------------------

const views = {tasks: "Tasks", workers: "Workers", runs: "Runs", news: "News", board: "Board"};
let place = {view: "tasks", id: ""};
let wantsSearch = false;  // once the tasks are there

function go(view, id = "") {
  location.hash = id ? `${view}/${encodeURIComponent(id)}` : view;
}

function readPlace() {
  const [path, query] = location.hash.slice(1).split("?");
  const slash = path.indexOf("/");
  let view = slash < 0 ? path : path.slice(0, slash);
  if (!(view in views)) view = "tasks";
  let id = "";
  try {
    id = slash < 0 ? "" : decodeURIComponent(path.slice(slash + 1));
  } catch { /* whatever was written there names nothing */ }
  const run = new URLSearchParams(query ?? "").get("run");
  if (run !== null) filter.run = run;
  const other = view !== place.view || !shownOnce;
  place = {view, id};
  if (other) mount();
  if (id && view in details) detail.open(view, id);
  else detail.close();
  document.body.classList.toggle("opened", !find("detail").hidden);
  tables[view]?.activate(id);
  show();
  if (wantsSearch && view === "tasks") search.focus();
  wantsSearch = false;
}
const details = {tasks: true, workers: true, runs: true};

const detail = new Detail({node: find("detail"), state, wire, changes, toast, close: () => leave()});
function leave() {
  const grid = tables[place.view]?.grid;
  go(place.view);
  grid?.focus();
}

// ---- tables --------------------------------------------------------------------------------------

const tables = {
  tasks: new Table({label: "Tasks", columns: taskColumns, onOpen: (id) => go("tasks", id), empty: "No task is like that."}),
  workers: new Table({label: "Workers", columns: workerColumns, onOpen: (id) => go("workers", id), sortBy: "name",
    empty: "No worker yet: `warpsmith up` starts some, `warpsmith-worker` one."}),
  runs: new Table({label: "Runs", columns: runColumns, onOpen: (id) => go("runs", id), sortBy: "name",
    empty: "Nothing has been submitted yet: `warpsmith submit FILE` hands in a problem set."}),
  news: new Table({label: "News", columns: newsColumns, sortBy: "at", empty: "Nothing has happened since this planner began.",
    onOpen: (id) => {
      const item = newsRows.find((each) => each.id === id);
      if (state.tasks.has(item?.task)) go("tasks", item.task);
      else if (state.runs.has(item?.task)) go("runs", item.task);
      else if (item?.worker) go("workers", item.worker);
    }}),
};
tables.news.down = tables.runs.down = true;
tables.news.showSort();
tables.runs.showSort();
let newsRows = [];

const filter = {text: "", run: "", states: new Set()};
const search = el("input", {type: "search", placeholder: "Find", "aria-label": "Find tasks by name, worker, specialist or note", maxlength: "200",
  oninput: () => { filter.text = search.value.trim().toLowerCase(); showTable(); }});
const runChoice = el("select", {"aria-label": "Run", onchange: () => { filter.run = runChoice.value; show(); }});
const chips = new Map(states.map((name) => [name, el("button", {type: "button", class: `chip ${name}`, "aria-pressed": "false",
  onclick: () => {
    filter.states.has(name) ? filter.states.delete(name) : filter.states.add(name);
    show();
  }})]));
const counted = el("span", {class: "counted", role: "status"});
const toolbar = el("div", {class: "toolbar", role: "group", "aria-label": "Which tasks"}, search, runChoice,
  el("div", {class: "chips"}, ...chips.values()), counted);
const boardNode = el("div", {class: "page"});
let boardAt = -Infinity, boardRevision = -1;

let shownOnce = false;
function mount() {
  shownOnce = true;
  const {view} = place;
  for (const link of find("views").children) {
    link.dataset.view === view ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  }
  document.title = `${views[view]} · Warpsmith`;
  if (view === "board") return find("view").replaceChildren(boardNode);
  const table = tables[view];
  if (view === "tasks") toolbar.append(table.sorter);
  find("view").replaceChildren(...(view === "tasks" ? [toolbar] : [el("div", {class: "toolbar sorting"}, table.sorter)]), table.node);
}

function wanted(task) {
  if (filter.run && task.run !== filter.run) return false;
  if (filter.states.size > 0 && !filter.states.has(task.state)) return false;
  if (!filter.text) return true;
  return [task.id, task.worker, task.specialist, noteOf(task)].some((text) => text.toLowerCase().includes(filter.text));
}

function showTable() {
  const {view} = place;
  if (view === "tasks") {
    const rows = [];
    for (const task of state.tasks.values()) if (wanted(task)) rows.push(task);
    tables.tasks.show(rows);
    write(counted, rows.length === state.tasks.size ? "" : `${whole(rows.length)} of ${whole(state.tasks.size)}`);
  } else if (view === "workers") {
    const last = new Map();
    for (const item of state.news) if (item.worker && item.kind !== "gain") last.set(item.worker, `${clock(item.at)} ${item.kind}: ${item.text}`);
    for (const worker of state.workers.values()) {
      worker.task = state.workOf.get(worker.id);
      worker.last = last.get(worker.id) ?? "";
    }
    tables.workers.show([...state.workers.values()]);
  } else if (view === "runs") {
    tables.runs.show([...state.runs.values()]);
  } else if (view === "news") {
    newsRows = state.news.map((item, number) => ({...item, number, id: `${item.at}/${item.kind}/${item.task}/${item.worker}`}));
    tables.news.show(newsRows);
  } else {
    showBoard();
  }
}

async function showBoard() {
  if (performance.now() - boardAt < boardAgainMs || boardRevision === state.revision) return;
  boardAt = performance.now();
  try {
    const reply = await wire.get("/board");
    boardRevision = reply.revision;
    boardNode.replaceChildren(board(reply.markdown));
  } catch (error) {
    if (!boardNode.firstChild) boardNode.replaceChildren(el("p", {class: "error"}, error.message));
  }
}

// ---- what is shown -------------------------------------------------------------------------------

function show() {
  if (!state.columns) return;
  showRuns();
  showFigures();
  showTable();
  detail.show();
}

function showRuns() {
  const ids = ["", ...[...state.runs.keys()].reverse()];
  const made = ids.join(" ");
  if (runChoice.dataset.made !== made) {
    runChoice.dataset.made = made;
    runChoice.replaceChildren(...ids.map((id) => el("option", {value: id}, id ? `${id} ${state.runs.get(id).name}` : "All runs")));
  }
  if (!state.runs.has(filter.run)) filter.run = "";
  runChoice.value = filter.run;
  const sums = filter.run ? state.runs.get(filter.run).sums : state.sums;
  for (const [name, chip] of chips) {
    const count = sums.states[name] ?? 0;
    chip.hidden = count === 0 && !filter.states.has(name);
    write(chip, `${name} ${whole(count)}`);
    chip.setAttribute("aria-pressed", filter.states.has(name));
  }
}

const figures = new Map();
function figure(name, value, more, extra) {
  if (!figures.has(name)) {
    const parts = {value: el("strong"), more: el("span", {class: "more"}), extra: el("div", {class: "extra"})};
    figures.set(name, parts);
    find("figures").append(el("div", {class: "figure"}, el("span", {class: "name"}, name), parts.value, parts.extra, parts.more));
  }
  const parts = figures.get(name);
  write(parts.value, value);
  write(parts.more, more);
  if (extra) parts.extra.replaceChildren(extra);
}

function showFigures() {
  const sums = filter.run ? state.runs.get(filter.run).sums : state.sums;
  const of = filter.run ? `of ${filter.run}` : `of ${whole(state.runs.size)} ${state.runs.size === 1 ? "run" : "runs"}`;
  const up = [...state.workers.values()].filter((worker) => worker.health !== "lost");
  let works = 0, aside = 0;
  for (const worker of up) {
    worker.task = state.workOf.get(worker.id);
    if (worker.task) ++works;
    if (!["works", "idle"].includes(conditionOf(worker))) ++aside;
  }
  const over = (sums.states.converged ?? 0) + (sums.states.failed ?? 0) + (sums.states.parked ?? 0) + (sums.states.cancelled ?? 0);
  figure("Speedup", speedup(sums.speedup), `geomean ${of}, ${whole(sums.kernels)} with a kernel`);
  figure("Tasks", `${whole(over)} of ${whole(sums.tasks)}`, `have ended${sums.alarms ? `, ${whole(sums.alarms)} with an alarm` : ""}`,
    bar(states.map((name) => [name, sums.states[name]]), sums.tasks || 1));
  figure("Workers", `${whole(works)} of ${whole(up.length)}`, aside > 0 ? `at work, ${whole(aside)} set aside` : "at work");
  figure("Trials", whole(sums.trials), `${whole(sums.judged)} judged`);
  figure("Card time", seconds(sums.seconds), `of ${seconds(sums.budget)}`);
}

// ---- the link, and who asks ----------------------------------------------------------------------

let link = "";
function showLink(now, text) {
  const words = {live: "live", polls: "every 3 s", away: "away", denied: "not let in"}[now];
  find("link").className = now;
  write(find("link").querySelector(".words"), words);
  const trouble = find("trouble");
  if (now === "away") {
    if (link !== "away") showLink.since = Date.now();
    write(trouble, `The planner is away since ${clock(showLink.since)} (${text}). What is shown is of then; it is asked again.`);
  } else if (now === "denied") {
    write(trouble, text);
    askToken();
  }
  trouble.hidden = now === "live" || now === "polls";
  if (link !== now && (now === "live" || now === "polls")) whoAmI();
  link = now;
}

let asked = 0;
async function whoAmI() {
  const mine = ++asked;
  const you = await wire.get("/you").catch(() => ({role: "nobody", name: "", leads: true, may: {}}));  // the link says why
  if (mine !== asked) return;  // somebody else asks by now
  changes.you = you;
  const {role, name, leads} = changes.you;
  const caller = role === "local" ? "local" : role === "nobody" ? "Token" : `${name}, ${role}`;
  write(find("who"), caller);
  const may = Object.keys(changes.you.may).length > 0;
  write(find("token-you"), role === "nobody" ? "Nobody is let in without a token, or a certificate." :
    `You are ${role === "local" ? "on the planner's machine" : `${role} ${name}`}, and ${may ? "may change what is yours to change" : "may look"}.${leads ? "" : " This planner follows another one: what it shows may be some seconds old, and a task in full and changes are for the one that leads."}`);
  detail.show();
}

function askToken() {
  if (!find("token-dialog").open) find("token-dialog").showModal();
}
find("who").addEventListener("click", () => { whoAmI(); askToken(); });
find("token-close").addEventListener("click", () => find("token-dialog").close());
find("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  find("token-dialog").close();
  wire.use(find("token").value.trim());
  whoAmI();  // the link may be as it was
});

// ---- keys ----------------------------------------------------------------------------------------

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input:not([type=radio]), select, textarea") || document.querySelector("dialog[open]");
  if (event.key === "Escape" && !document.querySelector("dialog[open]") && place.id) return leave();
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const number = Number(event.key);
  if (number >= 1 && number <= Object.keys(views).length) go(Object.keys(views)[number - 1]);
  else if (event.key === "/") {
    event.preventDefault();
    wantsSearch = true;
    // By the address: where one is is read from it a moment after it was changed.
    location.hash === "#tasks" ? readPlace() : go("tasks");
  }
});

Object.entries(views).forEach(([view, title], i) =>
  find("views").append(el("a", {href: `#${view}`, "data-view": view, "aria-keyshortcuts": String(i + 1), title: `${title} (key ${i + 1})`}, title)));
addEventListener("hashchange", readPlace);
readPlace();
wire.start();
