// What people may do: asked for with a reason, done by the planner's calls, and as far as its table of
// roles lets the caller.
import {el} from "./words.js";

export class Changes {
  constructor(wire, toast) {
    this.wire = wire;
    this.toast = toast;
    this.you = {may: {}, name: ""};
    const find = (id) => document.getElementById(id);
    this.dialog = find("change-dialog");
    this.title = find("change-title");
    this.what = find("change-what");
    this.reason = find("reason");
    this.rank = find("change-priority");
    this.priority = find("priority");
    this.error = find("change-error");
    this.go = find("change-go");
    find("change-close").addEventListener("click", () => this.dialog.close());
    find("change-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
  }

  // `run`: of what it is; undefined: of no run.
  may(method, run) {
    const may = this.you.may[method];
    return may === "all" || (may === "own" && run !== undefined && run.submitter === this.you.name);
  }

  button(words, method, run, what, message, more = "") {
    if (!this.may(method, run)) return null;
    return el("button", {type: "button", class: more, onclick: () => this.ask(words, method, what, message)}, words);
  }

  ofTask(task, run) {
    const set = (state) => ({task_id: task.id, state});
    const over = ["converged", "cancelled", "failed", "parked"].includes(task.state);
    return [
      task.state !== "held" && this.button("Hold", "SetTask", run, task.id, set("HELD")),
      ["held", "parked", "failed", "cancelled", "converged"].includes(task.state) &&
        this.button("Release", "SetTask", run, task.id, set("QUEUED")),
      !over && this.button("Cancel", "SetTask", run, task.id, set("CANCELLED"), "danger"),
    ].filter(Boolean);
  }

  ofRun(run) {
    const message = {run_id: run.id};
    return [
      !(run.done && !run.sums.states.held) && this.button("Set priority", "SetPriority", run, `${run.id} ${run.name}`, {...message, priority: run.priority}),
      !run.done && this.button("Cancel the run", "CancelRun", run, `${run.id}, all tasks that have not ended`, message, "danger"),
    ].filter(Boolean);
  }

  ofWorker(worker) {
    const message = {worker_id: worker.id};
    return [
      !worker.held && this.button("Hold", "HoldWorker", undefined, `worker ${worker.id}: it ends what it has, and is given nothing more`, message),
      (worker.held || worker.quarantined) && this.button("Release", "ReleaseWorker", undefined, `worker ${worker.id}`, message),
    ].filter(Boolean);
  }

  ask(words, method, what, message) {
    Object.assign(this, {method, message, words});
    this.title.textContent = words;
    this.what.textContent = what;
    this.go.textContent = words;
    this.error.textContent = "";
    this.reason.value = "";
    const ranks = "priority" in message;  // which is its value until now
    this.rank.hidden = !ranks;
    this.priority.required = ranks;
    this.priority.value = ranks ? message.priority : "";
    this.dialog.showModal();
    (ranks ? this.priority : this.reason).select();
  }

  async send() {
    this.go.disabled = true;
    try {
      const said = this.rank.hidden ? {} : {priority: this.priority.valueAsNumber};
      await this.wire.change(this.method, {...this.message, ...said, reason: this.reason.value.trim()});
      this.dialog.close();
      this.toast(`${this.words}: done`);
    } catch (error) {
      this.error.textContent = error.message;
    }
    this.go.disabled = false;
  }
}
