// A task, a worker or a run in full, beside the table or, on a narrow screen, over it.
import {chart} from "./chart.js";
import {conditionOf, whyOf} from "./tables.js";
import {bar, bytes, clock, count, el, mark, micros, percent, seconds, share, speedup, states, when, whole} from "./words.js";

const againMs = 3000;  // the planner keeps what it has made for 2 s
const newsShown = 12;

function facts(pairs) {
  const list = el("dl", {class: "facts"});
  for (const [name, value] of pairs) {
    if (value == null || value === "" || value === "–") continue;
    list.append(el("div", {}, el("dt", {}, name), el("dd", {}, value)));
  }
  return list;
}

function table(label, heads, rows) {
  if (rows.length === 0) return el("p", {class: "hint"}, "None yet.");
  const cell = (value, i) => el("td", {class: heads[i].right ? "right" : ""}, value);
  return el("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": label},
    el("table", {},
      el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", {scope: "col", class: head.right ? "right" : ""}, head.title)))),
      el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map(cell))))));
}
const right = (title) => ({title, right: true});
const plain = (title) => ({title});

const linkTo = (view, id, words) => el("a", {href: `#${view}/${encodeURIComponent(id)}`}, words ?? id);

export class Detail {
  constructor({node, state, wire, changes, toast, close}) {
    Object.assign(this, {node, state, wire, changes, toast});
    this.kind = "";
    this.id = "";
    this.fetched = null;  // the task as the planner told it
    this.by = "trials";
    this.closing = el("button", {type: "button", class: "quiet close", "aria-label": "Close", onclick: close}, "✕");
  }

  open(kind, id) {
    if (this.kind === kind && this.id === id) return;
    this.kind = kind;
    this.id = id;
    this.fetched = null;
    this.seen = "";
    this.fetchedAt = 0;
    this.trouble = "";
    this.node.hidden = false;
    this.node.scrollTop = 0;
    this.show();
    // Where it lies over the table, it is what one reads now.
    if (matchMedia("(max-width: 999px)").matches) this.node.focus();
  }

  close() {
    this.kind = this.id = "";
    this.node.hidden = true;
    this.node.replaceChildren();
  }

  // After every update, and when it was opened.
  show() {
    if (!this.kind) return;
    const record = this.state[this.kind].get(this.id);
    const seen = JSON.stringify([record, this.kind === "workers" ? this.state.workOf?.get(this.id)?.id : "", this.changes.you.may, this.by, this.trouble, this.fetchedAt, this.state.news.length]);
    if (this.kind === "tasks" && record) this.fetch(record);
    if (seen === this.seen) return;
    // What is selected or read stays.
    if (!getSelection().isCollapsed && this.node.contains(getSelection().anchorNode) && this.seen) return;
    this.seen = seen;
    const focused = this.node.contains(document.activeElement) ? document.activeElement.dataset.stay : null;
    const scrolls = [...this.node.querySelectorAll("[data-stay]")].map((each) => [each.dataset.stay, each.scrollTop, each.scrollLeft]);
    if (!record) {
      this.node.replaceChildren(el("div", {class: "title"}, el("h2", {}, this.id), this.closing),
        el("p", {class: "hint"}, this.state.columns ? "It is not there: perhaps it is in the archive (`warpsmith runs --archived`)." : "Loading."));
      return;
    }
    const parts = {tasks: () => this.task(record), workers: () => this.worker(record), runs: () => this.run(record)}[this.kind]();
    this.node.replaceChildren(...parts.filter(Boolean));
    for (const [stay, y, x] of scrolls) {
      const each = this.node.querySelector(`[data-stay="${stay}"]`);
      if (each) [each.scrollTop, each.scrollLeft] = [y, x];
    }
    if (focused) this.node.querySelector(`[data-stay="${focused}"]`)?.focus({preventScroll: true});
  }

  // Anew where its row has changed, but not with each update.
  async fetch(task) {
    const version = JSON.stringify([task.trials, task.best_us, task.state, task.slices]);
    const now = performance.now();
    if (this.fetching || version === this.version && this.fetched?.id === task.id || now - this.fetchedAt < againMs && (this.fetched?.id === task.id || this.trouble)) return;
    this.fetching = true;
    try {
      const fetched = await this.wire.get(`/task?id=${encodeURIComponent(task.id)}`);
      if (this.id === task.id) this.fetched = fetched;
      this.version = version;
      this.trouble = "";
    } catch (error) {
      this.trouble = error.message;
    }
    this.fetchedAt = performance.now();
    this.fetching = false;
    this.show();
  }

  head(title, ...more) {
    return [el("div", {class: "title"}, el("h2", {}, title), this.closing), ...more];
  }

  buttons(buttons) {
    return buttons.length > 0 ? el("p", {class: "buttons"}, ...buttons) : null;
  }

  news(wanted, title) {
    const items = this.state.news.filter(wanted).slice(-newsShown).reverse();
    if (items.length === 0) return null;
    return el("section", {}, el("h3", {}, title), el("ol", {class: "news"}, ...items.map((item) =>
      el("li", {}, el("time", {}, clock(item.at)), el("span", {class: "kind"}, item.kind),
        el("span", {}, this.kind !== "workers" && item.worker ? `${item.worker}: ` : "",
          this.kind !== "tasks" && item.task ? linkTo(this.state.runs.has(item.task) ? "runs" : "tasks", item.task) : "",
          this.kind !== "tasks" && item.task ? " " : "", item.text)))));
  }

  // ---- a task ------------------------------------------------------------------------------------

  task(task) {
    const run = this.state.runs.get(task.run);
    const full = this.fetched?.id === task.id ? this.fetched : null;
    return [
      ...this.head(task.name),
      el("p", {class: "under"}, mark(task.state), " ", linkTo("runs", task.run, `${task.run}${run ? ` ${run.name}` : ""}`), ` · ${task.arch}`,
        task.worker ? " · " : "", task.worker ? linkTo("workers", task.worker) : ""),
      task.alarm ? el("p", {class: "alarm"}, `Alarm: ${task.alarm}`) : null,
      task.reason ? el("p", {class: "reason"}, task.reason) : null,
      this.buttons(this.changes.ofTask(task, run)),
      this.trouble ? el("p", {class: "error"}, this.trouble) : null,
      facts([
        ["Speedup", task.speedup > 0 ? `${speedup(task.speedup)}${task.base ? ` over ${task.base}` : ""}` : ""],
        ["Over eager", speedup(task.speedup_eager)],
        ["On the device", micros(task.best_us)],
        ["As a graph", micros(task.graph_us)],
        ["Of light", task.best_us > 0 ? `${percent(share(task.light_us, task.best_us))} of ${micros(task.light_us)}` : ""],
        ["Held by", task.held_by],
        ["Card time", `${seconds(task.seconds)} of ${seconds(task.budget)}`],
        ["Trials", `${whole(task.trials)}, ${whole(task.judged)} judged`],
        ["Specialist", task.specialist],
        ["Next slice", task.state === "queued" && task.promise > 1 ? `hoped for +${((task.promise - 1) * 100).toFixed(0)} %` : ""],
        ["Accuracy", full?.kernel?.accuracy],
        ["Peak memory", bytes(task.bytes)],
        ["Implausible", task.implausible],
      ]),
      full ? this.curves(task, full) : el("p", {class: "hint"}, this.trouble ? "" : "Loading its trials."),
      full ? this.gains(full) : null,
      full?.kernel ? this.source(full.kernel) : null,
      full ? this.trials(full) : null,
      this.news((item) => item.task === task.id, "Who worked on it, and why it was moved"),
    ];
  }

  curves(task, full) {
    const points = full.gains.map(([trial, s, us, gain, who, action]) =>
      ({x: this.by === "trials" ? trial : s, y: us, title: `${micros(us)}, ×${gain.toFixed(2)}: ${who} ${action}`}));
    const choice = (by, words) => el("label", {},
      el("input", {type: "radio", name: "by", value: by, "data-stay": `by-${by}`, checked: this.by === by,
        onchange: () => { this.by = by; this.show(); }}), words);
    return el("section", {},
      el("div", {class: "choice", role: "radiogroup", "aria-label": "Against"}, el("h3", {}, "Best time"), choice("trials", "trials"), choice("seconds", "card seconds")),
      chart({points, end: this.by === "trials" ? full.trials : full.seconds, xName: this.by === "trials" ? "trials" : "card seconds",
        width: Math.min(700, Math.max(300, this.node.clientWidth - 36)),
        lines: [{name: "speed of light", class: "light", y: task.light_us},
          {name: task.base, class: "base", y: full.kernel?.baselines.find((base) => base.name === task.base)?.times.device_us}]}),
      full.missing > 0 ? el("p", {class: "hint"}, `${whole(full.missing)} trials of before are not kept.`) : null);
  }

  gains(full) {
    return el("section", {}, el("h3", {}, "Gains, newest first"),
      table("Gains", [right("Trial"), right("After"), right("Best"), right("Gain"), plain("Specialist"), plain("Action")],
        full.gains.slice().reverse().map(([trial, s, us, gain, who, action]) =>
          [whole(trial), seconds(s), micros(us), gain === 1 ? "first" : speedup(gain), who, action])));
  }

  source(kernel) {
    const copy = (text) => el("button", {type: "button", class: "quiet", onclick: async () => {
      await navigator.clipboard.writeText(text);
      this.toast("Copied");
    }}, "Copy");
    return el("section", {},
      el("h3", {}, "Kernel"),
      facts([["Card", kernel.card], ["Oracle", kernel.oracle], ["95 % interval", kernel.high_us > 0 ? `${micros(kernel.low_us)} to ${micros(kernel.high_us)}` : ""]]),
      kernel.baselines.length > 0
        ? table("Baselines", [plain("Baseline"), right("Device"), right("Graph"), right("Call"), plain("Accurate")],
          kernel.baselines.map((base) => [base.name, micros(base.times.device_us), micros(base.times.graph_us), micros(base.times.call_us), base.accurate ? "yes" : "no"]))
        : null,
      ...kernel.plans.map((plan, i) => el("figure", {class: "source"},
        el("figcaption", {}, `Source${plan.workload ? ` for ${plan.workload}` : ""}, ${count(plan.source.split("\n").length, "line")}, ${count(plan.steps, "step")}`, copy(plan.source)),
        el("pre", {tabindex: "0", "data-stay": `source-${i}`}, el("code", {}, plan.source)))));
  }

  trials(full) {
    return el("section", {},
      el("h3", {}, "Specialists"),
      table("Specialists", [plain("Specialist"), right("Gain"), right("Accepted"), right("Judged"), right("Trials"), right("Time")],
        full.shares.map(([who, gain, accepted, judged, trials, s]) => [who, speedup(gain), whole(accepted), whole(judged), whole(trials), seconds(s)])),
      el("h3", {}, "Verdicts"),
      table("Verdicts", [plain("Verdict"), right("Trials"), plain("For example")], full.verdicts.map(([word, times, example]) => [word, whole(times), example])));
  }

  // ---- a worker and a run -------------------------------------------------------------------------

  worker(worker) {
    const task = this.state.workOf.get(worker.id);
    worker.task = task;
    return [
      ...this.head(worker.id),
      el("p", {class: "under"}, mark(conditionOf(worker)), ` ${worker.device}`),
      whyOf(worker) ? el("p", {class: "reason"}, whyOf(worker)) : null,
      this.buttons(this.changes.ofWorker(worker)),
      facts([
        ["Works on", task ? linkTo("tasks", task.id, `${task.run} ${task.name}`) : "nothing"],
        ["Specialist", task?.specialist],
        ["Architecture", worker.arch],
        ["Memory", bytes(worker.bytes)],
        ["Version", worker.version],
        ["Labels", worker.labels],
      ]),
      this.news((item) => item.worker === worker.id, "What it was given, and why it was moved"),
    ];
  }

  run(run) {
    return [
      ...this.head(`${run.id} ${run.name}`),
      el("p", {class: "under"}, run.done ? "done" : "open", ` · submitted ${when(run.submitted)}`),
      this.buttons(this.changes.ofRun(run)),
      el("p", {}, bar(states.map((state) => [state, run.sums.states[state]]), run.sums.tasks)),
      el("p", {}, el("a", {href: `#tasks?run=${encodeURIComponent(run.id)}`}, `Its ${whole(run.sums.tasks)} tasks`)),
      facts([
        ["Speedup, geomean", speedup(run.sums.speedup)],
        ["Kernels", `${whole(run.sums.kernels)} of ${whole(run.sums.tasks)}`],
        ["Tasks", states.filter((state) => run.sums.states[state]).map((state) => `${whole(run.sums.states[state])} ${state}`).join(", ")],
        ["Alarms", run.sums.alarms ? whole(run.sums.alarms) : ""],
        ["Trials", `${whole(run.sums.trials)}, ${whole(run.sums.judged)} judged`],
        ["Card time", `${seconds(run.sums.seconds)} of ${seconds(run.sums.budget)}`],
        ["Budget a task", seconds(run.budget)],
        ["Policy", run.policy],
        ["Architecture", run.arch || "that of the first worker"],
        ["Submitter", run.submitter === run.id ? "" : run.submitter],
        ["Weight", run.weight || ""],
        ["Priority", run.priority || ""],
        ["Needs", run.needs],
      ]),
      this.news((item) => item.task === run.id || item.task.startsWith(`${run.id}/`), "What happened"),
    ];
  }
}
