// What the planner has published, kept up with it by updates (planner/web/published.h).

export const newsKept = 500;

export class State {
  constructor() {
    this.columns = null;
    this.clear();
  }

  clear() {
    this.runs = new Map();
    this.tasks = new Map();
    this.workers = new Map();
    this.news = [];
    this.revision = 0;
    this.archivedRuns = 0;
    this.sums = null;
  }

  apply(update) {
    if (update.full) {
      this.clear();
      this.columns = update.columns;
    }
    this.revision = update.revision;
    this.archivedRuns = update.archived_runs;
    for (const kind of ["runs", "tasks", "workers"]) {
      const names = this.columns[kind];
      for (const row of update[kind]) {
        const record = {};
        for (let i = 0; i < names.length; ++i) record[names[i]] = row[i];
        if (kind === "tasks") record.spent = record.seconds;
        this[kind].set(record.id, record);
      }
      for (const id of update.gone[kind] ?? []) this[kind].delete(id);
    }
    for (const [id, spent, specialist] of update.progress) {
      const task = this.tasks.get(id);
      if (!task || task.state !== "leased") continue;
      task.seconds = task.spent + spent;
      if (specialist) task.specialist = specialist;
    }
    for (const [at, kind, task, worker, text] of update.news) this.news.push({at, kind, task, worker, text});
    if (this.news.length > newsKept) this.news.splice(0, this.news.length - newsKept);
    this.sum();
  }

  // What follows from all tasks: each run's sums, and who works on what.
  sum() {
    const empty = () => ({tasks: 0, states: {}, logs: 0, kernels: 0, trials: 0, judged: 0, seconds: 0, budget: 0, alarms: 0});
    const add = (sum, task) => {
      ++sum.tasks;
      sum.states[task.state] = (sum.states[task.state] ?? 0) + 1;
      sum.trials += task.trials;
      sum.judged += task.judged;
      sum.seconds += task.seconds;
      sum.budget += task.budget;
      if (task.alarm) ++sum.alarms;
      if (!task.kernel) return;
      ++sum.kernels;
      sum.logs += Math.log(Math.max(1, task.speedup));
    };
    const finish = (sum) => {
      // A task without anything better counts as 1.
      sum.speedup = sum.kernels > 0 ? Math.exp(sum.logs / sum.tasks) : 0;
      return sum;
    };
    this.sums = empty();
    const byRun = new Map();
    this.workOf = new Map();
    for (const task of this.tasks.values()) {
      add(this.sums, task);
      if (!byRun.has(task.run)) byRun.set(task.run, empty());
      add(byRun.get(task.run), task);
      if (task.worker) this.workOf.set(task.worker, task);
    }
    finish(this.sums);
    for (const run of this.runs.values()) run.sums = finish(byRun.get(run.id) ?? empty());
  }
}
