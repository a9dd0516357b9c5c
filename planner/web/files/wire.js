// Between the page and its planner: updates as they come, or by asking where the planner has as many
// live viewers as it takes; and calls. The token is in a header, never in an address.
//
//   const wire = new Wire({onUpdate, onLink});
//   wire.start();
//   await wire.get("/task?id=" + encodeURIComponent(id));
//   await wire.change("SetTask", {task_id, state: "HELD", reason});

const pollMs = 3000;
const tryLiveAgainMs = 60000;
const longestPauseMs = 15000;
const hiddenMs = 20000;
// A planner says something at least every 15 s.
const silenceMs = 40000;

export class Refused extends Error {
  constructor(status, text) {
    super(text.trim() || `status ${status}`);
    this.status = status;
  }
}

const sleep = (ms, signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, {once: true});
  });

export class Wire {
  constructor({onUpdate, onLink}) {
    this.onUpdate = onUpdate;
    this.onLink = onLink;  // "live", "polls", "away", "denied"; and a text
    this.token = "";
    this.key = "";
    this.running = null;
    let hiding = 0;
    document.addEventListener("visibilitychange", () => {
      clearTimeout(hiding);
      // A page that nobody looks at leaves its place to others.
      if (document.hidden) hiding = setTimeout(() => this.stop(), hiddenMs);
      else if (!this.running) this.start();
    });
  }

  headers(more = {}) {
    return this.token ? {...more, Authorization: `Bearer ${this.token}`} : more;
  }

  async ask(path, options = {}) {
    const reply = await fetch(path, {...options, headers: this.headers(options.headers), credentials: "same-origin", redirect: "error"});
    if (!reply.ok) throw new Refused(reply.status, await reply.text());
    return reply;
  }
  async get(path) { return (await this.ask(path)).json(); }
  async change(method, message) {
    const reply = await this.ask(`/warpsmith.v1.PlannerService/${method}`,
      {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(message)});
    return reply.json();
  }

  // Another caller: what it may see begins anew.
  use(token) {
    this.token = token;
    this.key = "";
    this.stop();
    this.start();
  }

  stop() {
    this.running?.abort();
    this.running = null;
  }

  start() {
    this.stop();
    this.running = new AbortController();
    this.run(this.running.signal);
  }

  take(update) {
    this.key = update.key;
    this.onUpdate(update);
  }

  async run(signal) {
    let pause = 1000;
    let pollUntil = 0;
    while (!signal.aborted) {
      try {
        // The first is all there is, and comes compressed.
        this.take(await (await this.ask(`/state?since=${this.key}`, {signal})).json());
        pause = 1000;
        if (Date.now() < pollUntil) {
          await sleep(pollMs, signal);
          continue;
        }
        await this.follow(signal);
      } catch (error) {
        if (signal.aborted) return;
        if (error.status === 401 || error.status === 403) return this.onLink("denied", error.message);
        if (error.status === 503 && error.full) {
          pollUntil = Date.now() + tryLiveAgainMs;
          this.onLink("polls", "");
          continue;
        }
        this.onLink("away", error.status ? error.message : "it does not answer");
        await sleep(pause, signal);
        pause = Math.min(2 * pause, longestPauseMs);
      }
    }
  }

  // Server-sent events, read by fetch, since EventSource has no headers.
  async follow(signal) {
    const silent = new AbortController();
    signal.addEventListener("abort", () => silent.abort(), {once: true});
    let reply;
    try {
      reply = await this.ask(`/events?since=${this.key}`, {signal: silent.signal});
    } catch (error) {
      if (error.status === 503) error.full = true;
      throw error;
    }
    this.onLink("live", "");
    const reader = reply.body.getReader();
    const decoder = new TextDecoder();
    let text = "";
    for (;;) {
      const timer = setTimeout(() => silent.abort(), silenceMs);
      const {done, value} = await reader.read().finally(() => clearTimeout(timer));
      if (done) throw new Refused(0, "it has ended");
      text += decoder.decode(value, {stream: true});
      for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
        const data = text.slice(0, end).split("\n").find((line) => line.startsWith("data: "));
        if (data) this.take(JSON.parse(data.slice(6)));
      }
    }
  }
}
