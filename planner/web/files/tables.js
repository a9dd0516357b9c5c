// The tables: what columns tasks, workers, runs and news have.
import {bar, bytes, clock, el, mark, micros, percent, seconds, share, speedup, states, when, whole, write} from "./words.js";

const order = new Map(states.map((state, i) => [state, i]));

// A part of a whole as a short bar with its number.
export function meter(cell, part, words, title) {
  if (!cell.firstChild) cell.append(el("span", {class: "meter"}, el("i")), el("span", {class: "number"}));
  cell.firstChild.firstChild.style.width = `${Math.min(100, 100 * part)}%`;
  write(cell.lastChild, words);
  if (cell.title !== title) cell.title = title;
}

function writeMark(cell, state) {
  if (cell.dataset.state === state) return;
  cell.dataset.state = state;
  cell.replaceChildren(mark(state));
}

function words(name, value, more = {}) {
  return {name, ...more, write: (cell, record) => {
    const text = value(record);
    write(cell, text);
    if (more.hint) cell.title = text;
  }};
}

export const noteOf = (task) => (task.alarm ? `Alarm: ${task.alarm}. ` : "") + task.reason;
const light = (task) => share(task.light_us, task.best_us);

export const taskColumns = [
  {name: "state", title: "State", width: "7rem", few: true, sort: (task) => order.get(task.state) ?? 9,
    write: (cell, task) => writeMark(cell, task.state)},
  words("name", (task) => task.name, {title: "Task", width: "minmax(13rem, 3fr)", few: true, hint: true, sort: (task) => task.name}),
  words("run", (task) => task.run, {title: "Run", width: "3.6rem", sort: (task) => parseInt(task.run.slice(1), 10)}),
  words("speedup", (task) => speedup(task.speedup), {title: "Speedup", width: "5.5rem", few: true, right: true, sort: (task) => task.speedup}),
  words("best", (task) => micros(task.best_us), {title: "Best", width: "6.5rem", few: true, right: true, sort: (task) => task.best_us}),
  {name: "light", title: "Of light", width: "6.6rem", right: true, sort: light,
    write: (cell, task) => meter(cell, light(task), percent(light(task)), "how near the speed of light")},
  words("trials", (task) => whole(task.trials), {title: "Trials", width: "4rem", right: true, sort: (task) => task.trials}),
  {name: "time", title: "Card time", width: "7.4rem", right: true, sort: (task) => task.seconds,
    write: (cell, task) => meter(cell, share(task.seconds, task.budget), seconds(task.seconds), `of ${seconds(task.budget)}`)},
  words("worker", (task) => task.worker, {title: "Worker", width: "minmax(6rem, 1fr)", few: true, hint: true, sort: (task) => task.worker || "\uffff"}),
  words("specialist", (task) => (task.state === "leased" ? task.specialist : ""), {title: "Specialist", width: "6rem", sort: (task) => task.specialist || "\uffff"}),
  {name: "note", title: "Note", width: "minmax(10rem, 3fr)",
    write: (cell, task) => {
      const text = noteOf(task);
      write(cell, text);
      cell.title = text;
      cell.classList.toggle("alarm", Boolean(task.alarm));
    }},
];

export function conditionOf(worker) {
  if (worker.health === "lost") return "lost";
  if (worker.quarantined) return "quarantined";
  if (worker.held) return "held";
  if (worker.health !== "up") return worker.health;
  return worker.task ? "works" : "idle";
}
const conditions = new Map(["quarantined", "sick", "lost", "held", "draining", "idle", "works"].map((each, i) => [each, i]));
export const whyOf = (worker) =>
  [worker.quarantined ? `lost or gave up ${worker.ledger}` : "", worker.held ? worker.held_reason : "", worker.why].filter(Boolean).join("; ");

// A worker's record has its `task` and what happened `last` to it.
export const workerColumns = [
  {name: "state", title: "State", width: "8rem", few: true, sort: (worker) => conditions.get(conditionOf(worker)),
    write: (cell, worker) => writeMark(cell, conditionOf(worker))},
  words("name", (worker) => worker.id, {title: "Worker", width: "minmax(8rem, 1fr)", few: true, hint: true, sort: (worker) => worker.id}),
  words("task", (worker) => (worker.task ? `${worker.task.run} ${worker.task.name}` : ""),
    {title: "Works on", width: "minmax(12rem, 2fr)", few: true, hint: true, sort: (worker) => worker.task?.id ?? "\uffff"}),
  words("specialist", (worker) => worker.task?.specialist ?? "", {title: "Specialist", width: "7rem", sort: (worker) => worker.task?.specialist ?? "\uffff"}),
  words("device", (worker) => worker.device, {title: "Device", width: "minmax(9rem, 1fr)", hint: true, sort: (worker) => worker.device}),
  words("memory", (worker) => bytes(worker.bytes), {title: "Memory", width: "6rem", right: true, sort: (worker) => worker.bytes}),
  words("note", (worker) => whyOf(worker) || worker.last, {title: "Why", width: "minmax(12rem, 3fr)", hint: true}),
];

export const runColumns = [
  words("state", (run) => (run.done ? "done" : "open"), {title: "State", width: "5rem", few: true, sort: (run) => run.done}),
  words("name", (run) => `${run.id}  ${run.name}`, {title: "Run", width: "minmax(10rem, 2fr)", few: true, hint: true, sort: (run) => parseInt(run.id.slice(1), 10)}),
  words("speedup", (run) => speedup(run.sums.speedup), {title: "Speedup", width: "6rem", few: true, right: true, sort: (run) => run.sums.speedup}),
  words("kernels", (run) => `${whole(run.sums.kernels)} of ${whole(run.sums.tasks)}`, {title: "Kernels", width: "8rem", right: true, sort: (run) => run.sums.kernels}),
  {name: "tasks", title: "Tasks", width: "minmax(9rem, 2fr)", few: true, sort: (run) => run.sums.tasks,
    write: (cell, run) => {
      const made = JSON.stringify(run.sums.states);
      if (cell.dataset.made === made) return;
      cell.dataset.made = made;
      cell.replaceChildren(bar(states.map((state) => [state, run.sums.states[state]]), run.sums.tasks));
    }},
  words("trials", (run) => whole(run.sums.trials), {title: "Trials", width: "6rem", right: true, sort: (run) => run.sums.trials}),
  words("time", (run) => seconds(run.sums.seconds), {title: "Card time", width: "6rem", right: true, sort: (run) => run.sums.seconds}),
  words("alarms", (run) => (run.sums.alarms ? whole(run.sums.alarms) : ""), {title: "Alarms", width: "5rem", right: true, sort: (run) => run.sums.alarms}),
  words("submitter", (run) => (run.submitter === run.id ? "" : run.submitter), {title: "Submitter", width: "minmax(6rem, 1fr)", hint: true, sort: (run) => run.submitter}),
  words("submitted", (run) => when(run.submitted), {title: "Submitted", width: "9rem", right: true, sort: (run) => run.submitted}),
];

export const newsColumns = [
  words("at", (item) => clock(item.at), {title: "Seen at", few: true, width: "5.5rem", sort: (item) => item.number}),
  words("kind", (item) => item.kind, {title: "What", few: true, width: "5rem", sort: (item) => item.kind}),
  words("worker", (item) => item.worker, {title: "Worker", few: true, width: "minmax(6rem, 1fr)", hint: true, sort: (item) => item.worker || "\uffff"}),
  words("name", (item) => item.task, {title: "Task or run", few: true, width: "minmax(10rem, 2fr)", hint: true, sort: (item) => item.task}),
  words("note", (item) => item.text, {title: "Why", few: true, width: "minmax(14rem, 4fr)", hint: true}),
];
