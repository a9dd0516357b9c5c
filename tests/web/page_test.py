#!/usr/bin/env python3
"""The planner's page in a real Chromium, shown a real small fleet.

    tests/web/page_test.py --bin build/release/bin [--shots FOLDER]
"""

from __future__ import annotations

import argparse
import http.client
import json
import pathlib
import sys
import time
from typing import Any
from urllib.parse import urlsplit

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1] / "support")]

from browser import Browser, Page
from fleet import Failed, Fleet

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
VIEWERS = 64
VIEWS = ["tasks", "workers", "runs", "news", "board"]

# Of each text that is shown: how its colour stands out from what is behind it (WCAG 2).
CONTRAST = """
(() => {
  const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const colour = parse(getComputedStyle(node).backgroundColor);
      if (colour.length < 4 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!own || !node.checkVisibility({visibilityProperty: true}) || node.closest("svg")) continue;
    const a = light(parse(getComputedStyle(node).color)), b = light(behind(node));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push(`${node.className || node.tagName}: ${ratio.toFixed(2)} '${node.textContent.slice(0, 30)}'`);
  }
  return [...new Set(poor)];
})()
"""


def doubling(name: str, problems: list[str]) -> dict[str, Any]:
    """A set of problems of those names."""
    return {"name": name, "problems": [{"name": problem,
                                        "graph": ["input x: f32[N] ~ normal", "y: f32[n: N] = x[n] * 2 + 1", "output y"],
                                        "workloads": [{"name": "default", "dims": {"N": 4096}}]} for problem in problems]}


def check(holds: object, what: str) -> None:
    if not holds:
        raise Failed(what)


def text_of(selector: str) -> str:
    return f"document.querySelector({json.dumps(selector)})?.textContent ?? ''"


def has(selector: str, text: str) -> str:
    return f"({text_of(selector)}).includes({json.dumps(text)})"


def click(page: Page, selector: str, text: str = "") -> None:
    page.wait(f"""(() => {{
      const found = [...document.querySelectorAll({json.dumps(selector)})].find((each) => each.textContent.includes({json.dumps(text)}));
      if (found) found.click();
      return Boolean(found);
    }})()""")


def check_clean(page: Page, origin: str) -> None:
    """Nothing went wrong in it, and it asked nobody else."""
    check(not page.errors, f"the console has: {page.errors}")
    others = [each for each in page.requests if not each.startswith((origin, "about:"))]
    check(not others, f"asked others: {others}")
    policies = [headers.get("content-security-policy", "") for url, _, headers in page.replies if url == origin + "/"]
    check(policies and all("script-src 'self'" in policy and "unsafe" not in policy for policy in policies), f"policy: {policies}")


def check_screens(page: Page, origin: str, shots: pathlib.Path | None) -> None:
    """Each view on a phone and a desk, dark and light: nothing is wider than the screen, and all can be read."""
    grounds = set()
    for dark in (False, True):
        for width, height in ((360, 740), (1280, 800)):
            page.look(width, height, dark)
            for view in [*VIEWS, "tasks/r1%2Fquick%40host"]:
                page.go(f"{origin}/#{view}")
                page.wait(f"location.hash === {json.dumps('#' + view)}")
                page.wait("document.querySelector('#view').childElementCount > 0 && "
                          + ("document.querySelector('.source pre')" if "/" in view else "document.querySelector('#detail').hidden")
                          + (" && document.querySelector('.board h2')" if view == "board" else ""))
                wide = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
                check(wide[0] <= wide[1], f"{view} at {width}: {wide[0]} wide")
                poor = page.evaluate(CONTRAST)
                check(not poor, f"{view}, dark {dark}: hard to read: {poor}")
                if shots:
                    page.shot(shots / f"{view.split('/')[0]}{'-in-full' if '/' in view else ''}-{width}-{'dark' if dark else 'light'}.png")
            grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    check(len(grounds) == 2, f"dark and light are the same: {grounds}")
    page.look(1280, 800, False)
    page.go(f"{origin}/#tasks")


def check_keyboard(page: Page) -> None:
    """A task is found, opened, read and left without a mouse."""
    page.evaluate("document.activeElement.blur()")
    for _ in range(60):
        page.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('role') === 'grid'"):
            break
    check(page.evaluate("document.activeElement.getAttribute('role') === 'grid'"), "tab does not come to the table")
    check(page.evaluate("document.activeElement.matches(':focus-visible')"), "what has the focus does not show it")
    page.press("ArrowDown")
    first = page.evaluate("document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))?.innerText")
    page.press("ArrowDown")
    second = page.evaluate("document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))?.innerText")
    check(first and second and first != second, f"arrows go nowhere: {first!r}, {second!r}")
    page.press("Home")
    page.press("Enter")
    page.wait("!document.querySelector('#detail').hidden && location.hash.startsWith('#tasks/')")
    page.press("Escape")
    page.wait("document.querySelector('#detail').hidden && document.activeElement.getAttribute('role') === 'grid'")
    page.press("2")
    page.wait("location.hash === '#workers'")
    page.press("/")
    page.wait("location.hash === '#tasks' && document.activeElement.type === 'search'")
    page.type("quick")
    page.wait("document.querySelectorAll('.body .row').length === 1")
    page.evaluate("document.activeElement.value = ''; document.activeElement.dispatchEvent(new Event('input')); document.activeElement.blur()")
    unnamed = page.evaluate("""[...document.querySelectorAll('button, a, input, select, [role=grid], [role=img], [role=region]')]
        .filter((each) => each.checkVisibility() && !each.textContent.trim() && !each.getAttribute('aria-label') && !each.labels?.length)
        .map((each) => each.outerHTML)""")
    check(not unnamed, f"without a name: {unnamed}")


def check_many_viewers(browser: Browser, origin: str) -> None:
    """The 65th viewer asks instead, and sees the same."""
    streams = []
    while True:
        stream = http.client.HTTPConnection(urlsplit(origin).netloc, timeout=60)
        stream.request("GET", "/events")
        reply = stream.getresponse()
        if reply.status != 200:
            check(reply.status == 503, f"a viewer more: {reply.status}")
            break
        streams.append(reply)  # which has the connection
        check(len(streams) <= VIEWERS, "there are more than may be")
    page = browser.open(origin + "/")
    page.wait(has("#link", "every 3 s"))
    page.wait("document.querySelectorAll('.body .row').length > 0")
    for reply in streams:
        reply.close()
    asked = len([each for each in page.requests if "/state?since=" in each])
    deadline = time.monotonic() + 60
    while len([each for each in page.requests if "/state?since=" in each]) == asked:
        check(time.monotonic() < deadline, "it asks no more")
        time.sleep(0.1)
    errors = [each for each in page.errors if "503" not in each]
    check(not errors, f"the console has: {errors}")
    page.close()


def hold_by_page(page: Page, reason: str) -> None:
    click(page, "#detail .buttons button", "Hold")
    page.wait("document.querySelector('#change-dialog').open && document.activeElement.id === 'reason'")
    page.type(reason)
    page.press("Enter")


def put_first_by_page(page: Page, priority: str, shot: pathlib.Path | None = None) -> None:
    """Of the run that is shown, by keys alone once its button has the focus."""
    page.wait("[...document.querySelectorAll('#detail .buttons button')].some((each) => each.textContent === 'Set priority')")
    page.evaluate("[...document.querySelectorAll('#detail .buttons button')].find((each) => each.textContent === 'Set priority').focus()")
    page.press("Enter")
    page.wait("document.querySelector('#change-dialog').open && document.activeElement.id === 'priority'")
    # What is selected is typed over. One that is none is not sent.
    page.type("1001")
    page.press("Enter")
    check(page.evaluate("document.querySelector('#change-dialog').open && !document.querySelector('#priority').checkValidity()"), "1001 is taken")
    page.evaluate("document.querySelector('#priority').select()")
    page.type(priority)
    wide = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    check(wide[0] <= wide[1], f"the dialog: {wide[0]} wide")
    poor = page.evaluate(CONTRAST)
    check(not poor, f"the dialog: hard to read: {poor}")
    if shot:
        page.shot(shot)
    page.press("Enter")
    page.wait("!document.querySelector('#change-dialog').open")


def check_priority(page: Page, origin: str, fleet: Fleet, shots: pathlib.Path | None) -> None:
    """A run is put before others on a phone and at a desk; the dialog of other changes asks for none."""
    for width, height, dark, priority in ((360, 740, True, "-7"), (1280, 800, False, "12")):
        page.look(width, height, dark)
        page.go(f"{origin}/#runs/r2")
        page.wait(has("#detail h2", "r2"))
        put_first_by_page(page, priority, shots / f"priority-{width}.png" if shots else None)
        page.wait(f"[...document.querySelectorAll('#detail .facts div')].some((each) => each.textContent === 'Priority{priority}')")
        page.wait(has("#detail .news", f"priority {priority}, was"))
        run = json.loads(fleet.warpsmith("runs", "r2", "-o", "json"))["runs"][0]
        check(run["priority"] == int(priority), f"the planner has {run['priority']}")
    page.go(f"{origin}/#tasks/r2%2Fheld%40host")
    click(page, "#detail .buttons button", "Hold")
    page.wait("document.querySelector('#change-dialog').open && document.activeElement.id === 'reason'")
    check(page.evaluate("!document.querySelector('#priority').checkVisibility()"), "a task's hold asks for a priority")
    page.press("Escape")
    page.wait("!document.querySelector('#change-dialog').open")


def on_this_machine(bin: pathlib.Path, browser: Browser, shots: pathlib.Path | None) -> None:
    with Fleet(bin) as fleet:
        planner = fleet.start_planner("--listen-page", "127.0.0.1:0")
        address = fleet.told("page")
        origin = f"http://{address}"
        page = browser.open(origin + "/")
        page.wait(has(".none", "No task"))
        # What is submitted, worked on and ends is seen without a load.
        page.evaluate("window.still = true")
        fleet.submit(doubling("first", ["quick", "slow"]), 2)
        page.wait("document.querySelectorAll('.body .row').length === 2")
        fleet.start_worker("w0")
        page.wait(has("[role=grid]", "converged"), 300)
        check(page.evaluate("window.still"), "it was loaded anew")
        page.wait(has("#figures", "geomean"))
        page.go(f"{origin}/#tasks/{'r1%2Fquick%40host'}")
        page.wait("document.querySelector('.source pre')", 300)
        check("warpsmith/" in page.evaluate(text_of(".source pre")), "no source")
        check(page.evaluate("document.querySelectorAll('svg.chart .dot').length") >= 1, "no curve")
        click(page, ".choice label", "card seconds")
        page.wait("document.querySelector('svg.chart').getAttribute('aria-label').includes('card seconds')")
        page.go(f"{origin}/#workers/w0")
        page.wait(has("#detail", "hoped for"))

        # What others wrote is text. (Names cannot have such characters; reasons can.)
        fleet.submit(doubling("second", ["held"]), 2)
        page.go(f"{origin}/#tasks/r2%2Fheld%40host")
        page.wait(has("#detail h2", "held"))
        check_priority(page, origin, fleet, shots)
        hold_by_page(page, HOSTILE)
        page.wait(has("#detail .reason", HOSTILE))
        check("held" in fleet.warpsmith("runs", "r2"), "the planner does not hold it")
        page.go(f"{origin}/#board")
        page.wait(has(".board", "onerror"))
        for view in VIEWS:
            page.go(f"{origin}/#{view}")
            page.wait(f"location.hash === '#{view}'")
            check(page.evaluate("document.querySelectorAll('img').length === 1 && document.querySelectorAll('script').length === 1"), f"{view}: text became markup")
        check("owned" not in page.evaluate("document.title"), "text became a script")
        page.go(f"{origin}/#tasks")

        check_keyboard(page)
        check_screens(page, origin, shots)
        check_clean(page, origin)
        check_many_viewers(browser, origin)

        # A planner that ends is told of, and what it was comes back.
        page.wait(has("#link", "live"), 120)
        planner.terminate()
        planner.wait(timeout=60)
        page.wait(has("#trouble", "The planner is away"))
        check(page.evaluate("document.querySelectorAll('.body .row').length") == 3, "what was shown is gone")
        fleet.start_planner("--listen-page", address)
        page.wait(has("#link", "live") + " && document.querySelector('#trouble').hidden", 120)
        page.close()


def over_a_network(bin: pathlib.Path, browser: Browser) -> None:
    with Fleet(bin) as fleet:
        fleet.warpsmith("certs", "init")
        fleet.warpsmith("certs", "issue", "p", "--role", "planner")
        fleet.warpsmith("certs", "issue", "ops", "--role", "operator")
        token = {role: fleet.warpsmith("tokens", "issue", role, "--role", role) for role in ("reader", "operator")}
        fleet.start_planner("--listen-page", "127.0.0.1:0", *fleet.tls("p"), "--tokens", fleet.dir / "tokens")
        origin = f"https://{fleet.told('page')}"
        fleet.submit(doubling("set", ["a", "b"]), 2, *fleet.tls("ops"))
        page = browser.open(origin + "/")
        # Nobody is let in, and the page says what it wants.
        page.wait("document.querySelector('#token-dialog').open")
        check(page.evaluate("document.querySelectorAll('.body .row').length") == 0, "nobody sees tasks")

        def be(role: str) -> None:
            page.evaluate("document.querySelector('#token').value = ''; document.querySelector('#token').focus()")
            page.type(token[role])
            page.press("Enter")
            page.wait(has("#who", role))
            page.wait("document.querySelectorAll('.body .row').length === 2")

        be("reader")
        page.go(f"{origin}/#tasks/r1%2Fa%40host")
        page.wait(has("#detail h2", "a"))
        page.wait(has("#detail", "Card time"))
        check(page.evaluate("document.querySelectorAll('#detail .buttons button').length === 0"), "a reader is offered changes")
        page.go(f"{origin}/#runs/r1")
        page.wait(has("#detail h2", "r1"))
        check(page.evaluate("document.querySelectorAll('#detail .buttons button').length === 0"), "a reader is offered a run's changes")
        page.go(f"{origin}/#tasks/r1%2Fa%40host")
        page.wait(has("#detail .under", "host"))
        # Also where it asks by itself.
        refused = page.evaluate(f"""fetch('/warpsmith.v1.PlannerService/SetTask', {{method: 'POST',
            headers: {{'Content-Type': 'application/json', Authorization: 'Bearer {token["reader"]}'}},
            body: JSON.stringify({{task_id: 'r1/a@host', state: 'HELD'}})}}).then((reply) => reply.status)""")
        check(refused == 403, f"a reader's change: {refused}")
        click(page, "#who")
        page.wait("document.querySelector('#token-dialog').open")
        be("operator")
        hold_by_page(page, "by an operator")
        page.wait(has("#detail .reason", "by an operator"))
        click(page, "#detail .buttons button", "Release")
        page.press("Enter")
        page.wait(has("#detail .under", "queued"))
        page.go(f"{origin}/#runs/r1")
        put_first_by_page(page, "3")
        page.wait(has("#detail .news", "priority 3, was 0"))
        # The token is in headers alone.
        check(not any(token["operator"] in each for each in page.requests), "the token is in an address")
        check(any(token["operator"] in each.get("Authorization", "") for each in page.sent), "the token is in no header")
        check(page.evaluate("localStorage.length + sessionStorage.length + document.cookie.length") == 0, "the token is kept")
        errors = [each for each in page.errors if "401" not in each and "403" not in each]
        check(not errors, f"the console has: {errors}")
        page.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of the programs")
    parser.add_argument("--shots", type=pathlib.Path, help="where pictures of the screens go")
    options = parser.parse_args()
    if options.shots:
        options.shots.mkdir(parents=True, exist_ok=True)
    with Browser("--ignore-certificate-errors") as browser:
        on_this_machine(options.bin.resolve(), browser, options.shots)
        over_a_network(options.bin.resolve(), browser)
    print("all holds")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failed:
        print(f"FAILED: {failed}", file=sys.stderr)
        sys.exit(1)
