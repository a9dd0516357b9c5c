#!/usr/bin/env python3
"""Writes Grafana's dashboards: fleet, run, worker, planner.

    .cache/tools/bin/python deploy/grafana/dashboards.py [--out FOLDER] [--docs URL]

Their JSON beside this is what it writes, and a test holds the two against each other. Queries go to what the programs
count (docs/reference/metrics.md) and to what deploy/prometheus/rules.yml records of it; tests/grafana runs each of them on
a fleet. --docs: where runbooks are found, as a link has it.
"""

import argparse
import json
import pathlib

from grafana_foundation_sdk.cog.encoder import JSONEncoder

import parts
from parts import Column, Page, Query, Row, Stacked, Unit, chosen, falling, lines, number, page_of, rising, rows_of

HERE = pathlib.Path(__file__).resolve().parent

CLUSTER = 'cluster="$cluster"'
RUN = f'{CLUSTER}, run="$run"'
WORKER = f'{CLUSTER}, worker="$worker"'
PLANNER = f'{CLUSTER}, instance=~"$planner"'
PLANNER_PROCESS = f'{PLANNER}, job=~"warpsmith-planner.*"'
LOST = 'cause=~"unheard|superseded|unspoken|overdue"'

MIB = 1024 * 1024
DAY = 86400


def of_leader(series: str, by: str = "cluster") -> str:
    """A gauge that every planner tells, of the one that leads."""
    leads = f"(warpsmith_planner_leads{{{CLUSTER}}} == 1)"
    return f"max by ({by}) ({series} and on (cluster, instance) {leads})"


def quantiles(metric: str, labels: str, by: str = "") -> tuple[Query, ...]:
    """The median, and how long nine of ten and 99 of a hundred took at most."""
    series = f"rate({metric}_bucket{{{labels}}}[$__rate_interval])"
    grouping = f"le, {by}" if by else "le"
    legend = f" {{{{{by}}}}}" if by else ""
    return tuple(Query(f"histogram_quantile({q}, sum by ({grouping}) ({series}))", f"p{q * 100:g}{legend}")
                 for q in (0.5, 0.9, 0.99))


CLUSTERS = chosen("cluster", "Cluster", "label_values(warpsmith_planner_leads, cluster)")


def fleet_now() -> Row:
    alerts = f'alertname=~"Warpsmith.*", alertstate="firing", {CLUSTER}'
    live = f"cluster_arch_state:warpsmith_workers:leader{{{CLUSTER}, state=~\"busy|idle\"}}"
    busy = f"cluster_arch_state:warpsmith_workers:leader{{{CLUSTER}, state=\"busy\"}}"
    tasks = of_leader(f"sum by (cluster, instance, run) (warpsmith_run_tasks{{{CLUSTER}}})", "run")
    score = of_leader(f"warpsmith_run_speedup_ratio{{{CLUSTER}}}", "run")
    return Row("Now", [
        number("Alerts", "Pages and tickets that fire.", Unit.COUNT,
               Query(f"count(ALERTS{{{alerts}, severity!=\"info\"}}) or vector(0)"), width=3, limits=rising(orange=1)),
        number("Workers", "Busy and idle ones: they have work, or could be given some.", Unit.COUNT,
               Query(f"cluster:warpsmith_workers:live{{{CLUSTER}}}"), width=3, limits=falling(red=1),
               alerts=["WarpsmithNoWorkers"]),
        number("Busy", "Share of these workers that have a lease.", Unit.SHARE,
               Query(f"sum({busy}) / (sum({live}) > 0)"), width=3),
        number("Longest wait", "How long the task waits that has waited longest. It counts where workers are idle.",
               Unit.SECONDS, Query(of_leader(f"warpsmith_queue_oldest_seconds{{{CLUSTER}}}")), width=3,
               limits=rising(orange=900), alerts=["WarpsmithQueueOld"]),
        number("Leases lost", "In the last 15 minutes: workers were not heard, or lost what they were given.",
               Unit.COUNT,
               Query(f"15 * cluster:warpsmith_leases_ended:lost_per_minute15m{{{CLUSTER}}}"), width=3, decimals=0,
               limits=rising(orange=2.5), alerts=["WarpsmithLeasesLost"]),
        number("Speedup", "Geometric mean over the tasks of all runs that are told: the strongest baseline's time over the best "
               "kernel's. Tasks without a kernel count as 1.", Unit.TIMES,
               Query(f"exp(sum(ln({score}) * on (run) {tasks}) / sum({tasks}))"), width=3, decimals=2),
        number("Gain an hour", "What an hour of a device gains: the sum of the logarithms of speedups over the kernels before, "
               "of the last hour. 0.1 is one task made 10 % faster.", Unit.GAIN_PER_HOUR,
               Query(f"cluster:warpsmith_log_speedup:gain_per_device_hour_1h{{{CLUSTER}}}"), width=3, decimals=2),
        number("Results to look at", "Tasks whose result is too good, or not what it was.", Unit.COUNT,
               Query(of_leader(f"warpsmith_alarms{{{CLUSTER}}}")), width=3, limits=rising(orange=1),
               alerts=["WarpsmithResultsToLookAt"]),
        rows_of("Alerts by name", "Those that fire, with their severities; empty where all is well. A name leads to the runbooks.",
                Column("Firing", Unit.COUNT, Query(f"count by (alertname, severity) (ALERTS{{{alerts}}})")),
                key="alertname", height=5, leads_to="${docs}/runbooks/README.md"),
    ])


def fleet_work() -> Row:
    return Row("Work", [
        lines("Tasks by state", "Outside the archive. Queued ones with idle workers are nobody's.", Unit.COUNT,
              Query(f"sum by (state) (cluster_state:warpsmith_tasks:leader{{{CLUSTER}}})", "{{state}}"),
              width=12, stacked=Stacked.SUM, alerts=["WarpsmithTasksNotTaken", "WarpsmithNoWorkers"]),
        lines("Tasks to do by architecture", "That wait or are worked on, by the kind of card that they are for: as many workers have "
              "something to do. Any: the first worker that takes one says which.", Unit.COUNT,
              Query(f"sum by (arch) (cluster_arch_state:warpsmith_tasks:leader{{{CLUSTER}, state=~\"queued|leased\"}})",
                    "{{arch}}"), width=12, stacked=Stacked.SUM),
        lines("Longest wait over time", "How long the task waited that had waited longest.", Unit.SECONDS,
              Query(of_leader(f"warpsmith_queue_oldest_seconds{{{CLUSTER}}}"), "longest wait"),
              limits=rising(orange=900), alerts=["WarpsmithQueueOld"]),
        lines("Tasks a worker", "Queued tasks for each busy or idle worker: above 1 more workers would have work.",
              Unit.COUNT,
              Query(f"cluster:warpsmith_tasks:queued_per_live_worker{{{CLUSTER}}}", "queued a worker"),
              alerts=["WarpsmithWorkersGone"]),
        lines("Score of runs", "Geometric mean of a run's speedups over the strongest baseline.", Unit.TIMES,
              Query(of_leader(f"warpsmith_run_speedup_ratio{{{CLUSTER}}}", "run"), "{{run}}"), ratio=True),
        lines("Gain of a device's hour", "Sum of the logarithms of speedups over the kernels before, an hour of a device, over the "
              "last hour.", Unit.GAIN_PER_HOUR,
              Query(f"cluster:warpsmith_log_speedup:gain_per_device_hour_1h{{{CLUSTER}}}", "gain"), width=12),
        lines("Kernels accepted", "That became their task's best.", Unit.PER_SECOND,
              Query(f"sum(rate(warpsmith_incumbents_accepted_total{{{CLUSTER}}}[$__rate_interval]))", "accepted"), width=12),
        rows_of("Runs", "The newest 50 that are open, or done. A name leads to its page.",
                Column("Score", Unit.TIMES, Query(of_leader(f"warpsmith_run_speedup_ratio{{{CLUSTER}}}", "run"))),
                Column("Expected", Unit.TIMES,
                       Query(of_leader(f"warpsmith_run_expected_ratio{{{CLUSTER}}}", "run"))),
                Column("At the speed of light", Unit.TIMES,
                       Query(of_leader(f"warpsmith_run_limit_ratio{{{CLUSTER}}}", "run"))),
                Column("Device hours", Unit.HOURS,
                       Query(of_leader(f"warpsmith_run_device_seconds{{{CLUSTER}}}", "run") + " / 3600")),
                Column("Tasks", Unit.COUNT, Query(of_leader(
                    f"sum by (cluster, instance, run) (warpsmith_run_tasks{{{CLUSTER}}})", "run"))),
                Column("Open", Unit.COUNT, Query(of_leader(
                    "sum by (cluster, instance, run) "
                    f"(warpsmith_run_tasks{{{CLUSTER}, state=~\"queued|leased|held\"}})", "run"))),
                key="run", leads_to=page_of("warpsmith-run", "run")),
    ])


def fleet_trials() -> Row:
    return Row("Candidates", [
        lines("Trials", "Candidates that were tried, a second; one that is known already is not judged again.",
              Unit.PER_SECOND,
              Query(f"sum(rate(warpsmith_trials_recorded_total{{{CLUSTER}}}[$__rate_interval]))", "tried"),
              Query(f"sum(rate(warpsmith_trials_judged_total{{{CLUSTER}}}[$__rate_interval]))", "judged")),
        lines("Verdicts by kind", "Share of the last 15 minutes' candidates.", Unit.SHARE,
              Query(f"cluster_verdict:warpsmith_worker_trials:share15m{{{CLUSTER}}}", "{{verdict}}"),
              stacked=Stacked.SUM, top=1, alerts=["WarpsmithJudgeFails"]),
        lines("Time of a candidate", "From its proposal to its verdict.", Unit.SECONDS,
              *quantiles("warpsmith_worker_trial_seconds", CLUSTER), alerts=["WarpsmithWorkersStuck"]),
        lines("Time by phase", "What workers' time of the last 5 minutes went into.", Unit.SHARE,
              Query(f"cluster_phase:warpsmith_worker_phase_seconds:share5m{{{CLUSTER}}}", "{{phase}}"),
              stacked=Stacked.SUM, top=1),
        lines("Time by activity", "What workers' time of the last 5 minutes went into. Wait: for compilers, with nothing to judge; "
              "oracle: opening (the judge's process, inputs, reference, baselines), then inputs and answers; propose: the next candidate, with nothing under way.", Unit.SHARE,
              Query(f"cluster_activity:warpsmith_worker_activity_seconds:share5m{{{CLUSTER}}}", "{{activity}}"),
              stacked=Stacked.SUM, top=1),
        lines("Judge and compilers", "How many are at work. A judge has its device for itself; compilers are processes.",
              Unit.PLAIN,
              Query(f"sum(rate(warpsmith_worker_judge_seconds_total{{{CLUSTER}}}[$__rate_interval]))", "judges"),
              Query(f"sum(rate(warpsmith_worker_compile_seconds_total{{{CLUSTER}}}[$__rate_interval]))", "compilers")),
        lines("Leases", "That workers were given and that ended, a minute.", Unit.PER_MINUTE,
              Query(f"60 * sum(rate(warpsmith_leases_granted_total{{{CLUSTER}}}[$__rate_interval]))", "granted"),
              Query(f"60 * sum(rate(warpsmith_leases_ended_total{{{CLUSTER}}}[$__rate_interval]))", "ended")),
    ])


def fleet_workers() -> Row:
    silent = f"(time() - warpsmith_worker_heard_timestamp_seconds{{{CLUSTER}}} > bool 120)"
    return Row("Workers", [
        lines("Workers by state", "As the planner sees them; those that left or were lost as long as they are remembered.",
              Unit.COUNT,
              Query(f"sum by (state) (cluster_arch_state:warpsmith_workers:leader{{{CLUSTER}}})", "{{state}}"),
              stacked=Stacked.SUM, alerts=["WarpsmithWorkersQuarantined", "WarpsmithWorkersSick"]),
        lines("Idle by architecture", "Share of an architecture's busy and idle workers that have nothing to do.",
              Unit.SHARE,
              Query(f"cluster_arch:warpsmith_workers:idle_share{{{CLUSTER}}}", "{{arch}}"), top=1,
              alerts=["WarpsmithQueueOld"]),
        lines("Workers that are heard", "By the planner, whatever they are good for.", Unit.COUNT,
              Query(f"cluster:warpsmith_workers:present{{{CLUSTER}}}", "heard"), alerts=["WarpsmithWorkersGone"]),
        lines("Leases lost by cause", "A minute. Unheard: the worker fell silent; superseded: it started anew, without it; "
              "unspoken: it calls and does not speak of it; overdue: it does not come to an end with it.", Unit.PER_MINUTE,
              Query(f"60 * sum by (cause) (rate(warpsmith_leases_ended_total{{{CLUSTER}, {LOST}}}[$__rate_interval]))",
                    "{{cause}}"), alerts=["WarpsmithLeasesLost"]),
        lines("Workers that come and go", "A minute: sessions that were opened, and workers that left or fell silent.",
              Unit.PER_MINUTE,
              Query(f"60 * sum(rate(warpsmith_workers_joined_total{{{CLUSTER}}}[$__rate_interval]))", "joined"),
              Query(f"60 * sum by (how) (rate(warpsmith_workers_lost_total{{{CLUSTER}}}[$__rate_interval]))", "{{how}}")),
        lines("Workers that cannot be asked", "Share of Prometheus' targets that do not answer.", Unit.SHARE,
              Query(f"1 - avg(up{{{CLUSTER}, job=~\"warpsmith-workers.*\"}})", "do not answer"), top=1,
              limits=rising(orange=0.1), alerts=["WarpsmithWorkersDown"]),
        lines("Workers without a planner", "Share of the workers that the planner answered nothing for two minutes.",
              Unit.SHARE,
              Query(f"avg({silent})", "cut off"), width=6, top=1,
              limits=rising(orange=0.1, red=0.5), alerts=["WarpsmithWorkersCutOff", "WarpsmithPlannerNotHeard"]),
        lines("Results that wait", "What workers keep until the planner takes it: the fullest one, and all. From 64 MiB on a "
              "worker thins its trials, at 256 MiB it drops some.", Unit.BYTES,
              Query(f"max(warpsmith_worker_outbox_bytes{{{CLUSTER}}})", "fullest"),
              Query(f"sum(warpsmith_worker_outbox_bytes{{{CLUSTER}}})", "all"), width=6, alerts=["WarpsmithOutboxGrows"]),
        lines("File descriptors", "Share that is open of those that may be: the fullest process of each kind.",
              Unit.SHARE,
              Query(f"max by (job) (process_open_fds{{{CLUSTER}}} / process_max_fds{{{CLUSTER}}})", "{{job}}"), width=6, top=1,
              limits=rising(orange=0.7), alerts=["WarpsmithFileDescriptors"]),
        lines("Disks", "Share that is used of the disks with processes' folders: the fullest of each kind.", Unit.SHARE,
              Query(f"max by (job) (1 - warpsmith_disk_available_bytes{{{CLUSTER}}} / warpsmith_disk_size_bytes{{{CLUSTER}}})",
                    "{{job}}"), width=6, top=1, limits=rising(orange=0.9), alerts=["WarpsmithDiskNearlyFull"]),
        rows_of("Workers to look at", "Those with most results that wait, and what they do. A name leads to its page.",
                Column("Results that wait", Unit.BYTES,
                       Query(f"topk(20, max by (worker) (warpsmith_worker_outbox_bytes{{{CLUSTER}}}))")),
                Column("Busy", Unit.PLAIN, Query(
                    f"max by (worker) (warpsmith_worker_busy{{{CLUSTER}}}) and on (worker) "
                    f"topk(20, max by (worker) (warpsmith_worker_outbox_bytes{{{CLUSTER}}}))")),
                Column("Heard", Unit.SECONDS, Query(
                    f"time() - max by (worker) (warpsmith_worker_heard_timestamp_seconds{{{CLUSTER}}}) and on (worker) "
                    f"topk(20, max by (worker) (warpsmith_worker_outbox_bytes{{{CLUSTER}}}))")),
                key="worker", leads_to=page_of("warpsmith-worker", "worker"), alerts=["WarpsmithOutboxGrows"]),
        number("Certificates end in", "The first of each job's certificates, authorities and lists of revocations.",
               Unit.SECONDS,
               Query(f"min by (job) (warpsmith_certificate_expiry_timestamp_seconds{{{CLUSTER}}} > 0) - time()", "{{job}}"),
               width=8, limits=falling(red=2 * DAY, orange=14 * DAY),
               alerts=["WarpsmithCertificateEnds", "WarpsmithCertificateEndsNow"]),
        number("Versions", "Processes by what runs.", Unit.COUNT,
               Query(f"sum by (component, version) (warpsmith_build_info{{{CLUSTER}}})", "{{component}} {{version}}"), width=16),
    ])


def fleet_cards() -> Row:
    throttled = f"rate(warpsmith_card_throttled_seconds_total{{{CLUSTER}}}[$__rate_interval])"
    return Row("Cards", [
        lines("Power", "What all cards draw, and what they may. Cards are those that NVML knows.", Unit.WATTS,
              Query(f"sum(warpsmith_card_power_watts{{{CLUSTER}}})", "drawn"),
              Query(f"sum(warpsmith_card_power_limit_watts{{{CLUSTER}}})", "limit")),
        lines("Temperature", "Of the hottest card, and on average.", Unit.CELSIUS,
              Query(f"max(warpsmith_card_temperature_celsius{{{CLUSTER}}})", "hottest"),
              Query(f"avg(warpsmith_card_temperature_celsius{{{CLUSTER}}})", "average")),
        lines("Clocks held down", "Share of the time, by cause: the card with most of it. Heavy products reach the limit of power "
              "on any card.", Unit.SHARE, Query(f"max by (cause) ({throttled})", "{{cause}}"), top=1,
              limits=rising(orange=0.05), alerts=["WarpsmithCardsThrottled"]),
        lines("Xid errors", "A minute, by NVIDIA's number.", Unit.PER_MINUTE,
              Query(f"60 * sum by (xid) (rate(warpsmith_card_xid_total{{{CLUSTER}}}[$__rate_interval]))", "{{xid}}")),
        lines("Cards to be reset", "They have a row of memory to replace.", Unit.COUNT,
              Query(f"sum(warpsmith_card_row_remap_pending{{{CLUSTER}}})", "to be reset"), limits=rising(orange=1),
              alerts=["WarpsmithRowsToReplace"]),
        lines("Not well", "Workers whose card keeps them from work, and cards that others use as well.", Unit.COUNT,
              Query(f"sum(1 - warpsmith_worker_healthy{{{CLUSTER}}})", "not well"),
              Query(f"sum(warpsmith_card_other_processes{{{CLUSTER}}} > bool 0)", "used by others")),
    ])


def fleet() -> Page:
    return Page("warpsmith-fleet", "Warpsmith / Fleet", "What all workers do, and whether somebody has to look.",
                [fleet_now(), fleet_work(), fleet_trials(), fleet_workers(), fleet_cards()], [CLUSTERS])


def run() -> Page:
    score, expected, limit = (of_leader(f"warpsmith_run_{name}_ratio{{{RUN}}}") for name in ("speedup", "expected", "limit"))
    seconds = of_leader(f"warpsmith_run_device_seconds{{{RUN}}}")
    tasks = of_leader(f"sum by (cluster, instance) (warpsmith_run_tasks{{{RUN}}})")
    still_open = of_leader(
        f"sum by (cluster, instance) (warpsmith_run_tasks{{{RUN}, state=~\"queued|leased|held\"}})")
    now = Row("Now", [
        number("Score", "Geometric mean of speedups over the strongest baseline; a task without a kernel counts as 1.",
               Unit.TIMES, Query(score), decimals=2),
        number("Expected", "What the score would be if the budgets that are left brought what leases are given out by: an "
               "optimistic guess from what each task's last slices brought. Tasks without a kernel count as 1.",
               Unit.TIMES, Query(expected), decimals=2),
        number("At the speed of light", "What the score would be with every kernel that was found at its device's speed of light.",
               Unit.TIMES, Query(limit), decimals=2),
        number("Room", "How many times higher the score at the speed of light is: near 1 there is nothing left to gain.",
               Unit.TIMES, Query(f"{limit} / {score}"), width=3, decimals=2),
        number("Tasks over", "Share that is not queued, leased or held any more.", Unit.SHARE,
               Query(f"1 - {still_open} / {tasks}"), width=3),
        number("Device hours", "That were spent on it.", Unit.HOURS, Query(f"{seconds} / 3600"), width=3, decimals=2),
        number("Gain an hour so far", "Sum of the logarithms of its speedups over the baselines, for each device hour spent.",
               Unit.GAIN_PER_HOUR, Query(f"ln({score}) * {tasks} / ({seconds} > 0) * 3600"), width=3, decimals=2),
    ])
    over_time = Row("Over time", [
        lines("Score over time", "Reached, expected of the budgets that are left, and what would be reached at the speed of light.",
              Unit.TIMES, Query(score, "reached"), Query(expected, "expected"), Query(limit, "at the speed of light"), width=12, ratio=True),
        lines("Tasks of the run by state", "Tasks outside the archive.", Unit.COUNT,
              Query(of_leader(f"warpsmith_run_tasks{{{RUN}}}", "state"), "{{state}}"), width=12, stacked=Stacked.SUM),
        lines("Device hours over time", "They are counted where a lease ends.", Unit.HOURS,
              Query(f"{seconds} / 3600", "spent"), width=12),
        lines("Gain an hour over time", "Sum of the logarithms of its speedups over the baselines, for each device hour spent until "
              "then: where it falls, the next hour brings less than the ones before.", Unit.GAIN_PER_HOUR,
              Query(f"ln({score}) * {tasks} / ({seconds} > 0) * 3600", "gain"), width=12),
    ])
    runs = chosen("run", "Run", f"label_values(warpsmith_run_speedup_ratio{{{CLUSTER}}}, run)", newest_first=True)
    return Page("warpsmith-run", "Warpsmith / Run", "How far a run is, and what it still can gain.", [now, over_time],
                [CLUSTERS, runs])


def process(labels: str, legend: str) -> Row:
    """What every process tells of itself."""
    return Row("Process", [
        lines("Processor", "Cores that it keeps busy.", Unit.CORES,
              Query(f"rate(process_cpu_seconds_total{{{labels}}}[$__rate_interval])", legend)),
        lines("Memory", "That is resident.", Unit.BYTES, Query(f"process_resident_memory_bytes{{{labels}}}", legend)),
        lines("Open files", "Share of the file descriptors that it may have.", Unit.SHARE,
              Query(f"process_open_fds{{{labels}}} / process_max_fds{{{labels}}}", legend), top=1,
              limits=rising(orange=0.7), alerts=["WarpsmithFileDescriptors"]),
        lines("Disk used", "Share of the disk with its folder.", Unit.SHARE,
              Query(f"1 - warpsmith_disk_available_bytes{{{labels}}} / warpsmith_disk_size_bytes{{{labels}}}", legend), top=1,
              limits=rising(orange=0.9), alerts=["WarpsmithDiskNearlyFull"]),
        lines("Disk left", "What it may still write to the disk with its folder.", Unit.BYTES,
              Query(f"warpsmith_disk_available_bytes{{{labels}}}", legend)),
    ])


def worker_card() -> Row:
    return Row("Card", [
        number("Health", "Whether its card lets it work.", Unit.PLAIN, Query(f"warpsmith_worker_healthy{{{WORKER}}}"),
               width=4, words={1: ("well", "green"), 0: ("not well", "red")}),
        number("Driver", "Of the card, as far as NVML knows one.", Unit.PLAIN,
               Query(f"warpsmith_card_info{{{WORKER}}}", "{{driver}}"), names=True, width=4),
        number("Card", "Its UUID, by which DCGM's metrics know it as well.", Unit.PLAIN,
               Query(f"warpsmith_card_info{{{WORKER}}}", "{{uuid}}"), names=True, width=8),
        number("Errors of memory", "That could not be corrected, since the driver was loaded.", Unit.COUNT,
               Query(f"warpsmith_card_uncorrectable_errors{{{WORKER}}}"), limits=rising(orange=1)),
        number("To be reset", "1: a row of its memory is to be replaced.", Unit.COUNT,
               Query(f"warpsmith_card_row_remap_pending{{{WORKER}}}"), limits=rising(orange=1),
               alerts=["WarpsmithRowsToReplace"]),
        lines("Power", "What it draws, and what it may.", Unit.WATTS,
              Query(f"warpsmith_card_power_watts{{{WORKER}}}", "drawn"),
              Query(f"warpsmith_card_power_limit_watts{{{WORKER}}}", "limit")),
        lines("Temperature", "How hot it is.", Unit.CELSIUS,
              Query(f"warpsmith_card_temperature_celsius{{{WORKER}}}", "card")),
        lines("Clocks", "Of multiprocessors and memory.", Unit.HERTZ,
              Query(f"warpsmith_card_sm_clock_hertz{{{WORKER}}}", "multiprocessors"),
              Query(f"warpsmith_card_memory_clock_hertz{{{WORKER}}}", "memory")),
        lines("Clocks held down", "Share of the time, by cause. Heavy products reach the limit of power on any card.", Unit.SHARE,
              Query(f"sum by (cause) (rate(warpsmith_card_throttled_seconds_total{{{WORKER}}}[$__rate_interval]))",
                    "{{cause}}"), top=1, limits=rising(orange=0.05), alerts=["WarpsmithCardsThrottled"]),
        lines("Xid errors", "A minute, by NVIDIA's number.", Unit.PER_MINUTE,
              Query(f"60 * sum by (xid) (rate(warpsmith_card_xid_total{{{WORKER}}}[$__rate_interval]))", "{{xid}}")),
        lines("Other processes", "On the card, as far as they can be seen.", Unit.COUNT,
              Query(f"warpsmith_card_other_processes{{{WORKER}}}", "others")),
    ])


def worker() -> Page:
    now = Row("Now", [
        number("Device", "What it works on.", Unit.PLAIN,
               Query(f"warpsmith_worker_info{{{WORKER}}}", "{{device}} ({{arch}})"), names=True, width=6),
        number("Work", "Whether it has a lease.", Unit.PLAIN, Query(f"warpsmith_worker_busy{{{WORKER}}}"), width=3,
               words={1: ("busy", "green"), 0: ("idle", "blue")}, alerts=["WarpsmithWorkersStuck"]),
        number("Planner answered", "How long ago.", Unit.SECONDS,
               Query(f"time() - warpsmith_worker_heard_timestamp_seconds{{{WORKER}}}"), width=3,
               limits=rising(orange=120), alerts=["WarpsmithWorkersCutOff"]),
        number("Results kept", "What the planner has not taken yet.", Unit.BYTES,
               Query(f"warpsmith_worker_outbox_bytes{{{WORKER}}}"), width=3,
               limits=rising(orange=32 * MIB, red=256 * MIB), alerts=["WarpsmithOutboxGrows"]),
        number("Up for", "Since its process was started.", Unit.SECONDS,
               Query(f"time() - process_start_time_seconds{{{WORKER}}}"), width=3),
        number("Certificate ends in", "Its own, its authority's or the list of revocations.", Unit.SECONDS,
               Query(f"(warpsmith_certificate_expiry_timestamp_seconds{{{WORKER}}} > 0) - time()"), width=3,
               limits=falling(red=2 * DAY, orange=14 * DAY), alerts=["WarpsmithCertificateEnds"]),
        number("Version", "What runs.", Unit.PLAIN, Query(f"warpsmith_build_info{{{WORKER}}}", "{{version}}"), names=True,
               width=3),
    ])
    work = Row("Work", [
        lines("Time by phase", "What its time goes into. Opening: reference and baselines.", Unit.SHARE,
              Query(f"sum by (phase) (rate(warpsmith_worker_phase_seconds_total{{{WORKER}}}[$__rate_interval]))",
                    "{{phase}}"), stacked=Stacked.SHARE),
        lines("Time by activity", "What its time goes into. Wait: for compilers, with nothing to judge; oracle: opening (the judge's "
              "process, inputs, reference, baselines), then inputs and answers; propose: the next candidate, with nothing under way.", Unit.SHARE,
              Query(f"sum by (activity) (rate(warpsmith_worker_activity_seconds_total{{{WORKER}}}[$__rate_interval]))",
                    "{{activity}}"), stacked=Stacked.SHARE),
        lines("Judge and compilers", "Share of the time that the judge is at work, and how many compilers are.",
              Unit.PLAIN,
              Query(f"rate(warpsmith_worker_judge_seconds_total{{{WORKER}}}[$__rate_interval])", "judge"),
              Query(f"rate(warpsmith_worker_compile_seconds_total{{{WORKER}}}[$__rate_interval])", "compilers")),
        lines("Verdicts by kind", "Candidates a second, by what became of them.", Unit.PER_SECOND,
              Query(f"sum by (verdict) (rate(warpsmith_worker_trials_total{{{WORKER}}}[$__rate_interval]))", "{{verdict}}"),
              stacked=Stacked.SUM, alerts=["WarpsmithJudgeFails"]),
        lines("Time of a candidate", "From its proposal to its verdict.", Unit.SECONDS,
              *quantiles("warpsmith_worker_trial_seconds", WORKER)),
        lines("Better kernels", "Times a minute that the best plan changed.", Unit.PER_MINUTE,
              Query(f"60 * rate(warpsmith_worker_incumbents_total{{{WORKER}}}[$__rate_interval])", "better")),
        lines("Leases by outcome", "That it is through with, a minute.", Unit.PER_MINUTE,
              Query(f"60 * sum by (outcome) (rate(warpsmith_worker_leases_total{{{WORKER}}}[$__rate_interval]))",
                    "{{outcome}}")),
    ])
    planner_calls = Row("Planner", [
        lines("Calls by code", "Of the planner, a second.", Unit.PER_SECOND,
              Query(f"sum by (code) (rate(warpsmith_worker_calls_total{{{WORKER}}}[$__rate_interval]))", "{{code}}")),
        lines("Time of a call", "Of those that were answered; an idle worker's waits for work.", Unit.SECONDS,
              *quantiles("warpsmith_worker_call_seconds", WORKER)),
        lines("Results that wait", "What the planner has not taken yet. From 64 MiB on trials are thinned, at 256 MiB some are "
              "dropped.", Unit.BYTES, Query(f"warpsmith_worker_outbox_bytes{{{WORKER}}}", "kept"),
              Query(f"warpsmith_worker_outbox_limit_bytes{{{WORKER}}}", "limit"),
              alerts=["WarpsmithOutboxGrows"]),
    ])
    workers = chosen("worker", "Worker", f"label_values(warpsmith_worker_info{{{CLUSTER}}}, worker)")
    return Page("warpsmith-worker", "Warpsmith / Worker", "What one worker does with its time.",
                [now, work, worker_card(), planner_calls, process(WORKER, "{{worker}}")], [CLUSTERS, workers])


def planner_store() -> Row:
    behind = (f"warpsmith_planner_revision{{{PLANNER}}} - warpsmith_planner_checkpoint_revision{{{PLANNER}}} "
              f"and (warpsmith_planner_leads{{{PLANNER}}} == 1)")
    return Row("Store", [
        lines("Time of a commit", "A transaction of the store, with its tries. Nobody is answered before.",
              Unit.SECONDS,
              *quantiles("warpsmith_planner_commit_seconds", PLANNER, "instance"), limits=rising(orange=0.5),
              alerts=["WarpsmithCommitsSlow"]),
        lines("Commits and events", "Transactions and the events in them, a second.", Unit.PER_SECOND,
              Query(f"rate(warpsmith_planner_commit_seconds_count{{{PLANNER}}}[$__rate_interval])", "commits {{instance}}"),
              Query(f"rate(warpsmith_planner_events_total{{{PLANNER}}}[$__rate_interval])", "events {{instance}}")),
        lines("Commits that fail", "Tries a minute that the store did not answer, or refused.", Unit.PER_MINUTE,
              Query(f"60 * rate(warpsmith_planner_commit_failures_total{{{PLANNER}}}[$__rate_interval])", "{{instance}}"),
              alerts=["WarpsmithCommitsFail"]),
        lines("Store", "Sizes of its files.", Unit.BYTES,
              Query(f"warpsmith_planner_store_bytes{{{PLANNER}}}", "{{part}} {{instance}}"), width=6),
        lines("Problems and kernels", "As the last walk through them has found them: what no task names goes after a while.",
              Unit.BYTES, Query(f"warpsmith_planner_blob_bytes{{{PLANNER}}}", "{{use}} {{instance}}"), width=6),
        lines("Events since the checkpoint", "They are read again when a planner starts.", Unit.COUNT,
              Query(behind, "{{instance}}"), width=6, limits=rising(orange=20000), alerts=["WarpsmithCheckpointBehind"]),
        lines("Writes under way", "That are not durable yet.", Unit.COUNT,
              Query(f"warpsmith_planner_uncommitted_writes{{{PLANNER}}}", "{{instance}}"), width=6),
        lines("Limits", "Share of what the leader takes at most: workers, tasks outside the archive, writes that are not durable yet.",
              Unit.SHARE,
              Query(of_leader(f"sum by (cluster, instance) (warpsmith_workers{{{CLUSTER}, state!~\"left|lost\"}}) "
                              f"/ on (cluster, instance) warpsmith_planner_workers_limit{{{CLUSTER}}}"), "workers"),
              Query(of_leader(f"sum by (cluster, instance) (warpsmith_tasks{{{CLUSTER}}}) "
                              f"/ on (cluster, instance) warpsmith_planner_tasks_limit{{{CLUSTER}}}"), "tasks"),
              Query(of_leader(f"warpsmith_planner_uncommitted_writes{{{CLUSTER}}} "
                              f"/ warpsmith_planner_uncommitted_writes_limit{{{CLUSTER}}}"), "writes"), top=1),
    ])


def planner() -> Page:
    now = Row("Now", [
        number("Role", "One of a cluster leads; the others follow it.", Unit.PLAIN,
               Query(f"warpsmith_planner_leads{{{PLANNER}}}", "{{instance}}"), width=6,
               words={1: ("leads", "green"), 0: ("follows", "blue")}),
        number("Leaders", "Of the cluster: one.", Unit.COUNT, Query(f"sum(warpsmith_planner_leads{{{CLUSTER}}})"), width=3,
               limits=parts.Limits("red", ((1, "green"), (2, "orange"))),
               alerts=["WarpsmithNoLeader", "WarpsmithTwoLeaders"]),
        number("Do not answer", "Planners that Prometheus asks in vain.", Unit.COUNT,
               Query(f"sum(1 - up{{{CLUSTER}, job=~\"warpsmith-planner.*\"}})"), width=3, limits=rising(orange=1),
               alerts=["WarpsmithPlannerDown"]),
        number("Epoch", "In which it leads: a new leader has a higher one.", Unit.PLAIN,
               Query(f"max(warpsmith_planner_epoch{{{PLANNER}}})"), width=3),
        number("Certificate ends in", "The first that ends: its own, its authority's or the list of revocations.",
               Unit.SECONDS,
               Query(f"min(warpsmith_certificate_expiry_timestamp_seconds{{{PLANNER_PROCESS}}} > 0) - time()"), width=3,
               limits=falling(red=2 * DAY, orange=14 * DAY), alerts=["WarpsmithCertificateEnds"]),
        number("Up for", "The one that was started last.", Unit.SECONDS,
               Query(f"time() - max(process_start_time_seconds{{{PLANNER_PROCESS}}})"), width=3),
        number("Version", "What runs.", Unit.PLAIN,
               Query(f"count by (version) (warpsmith_build_info{{{PLANNER_PROCESS}}})", "{{version}}"), names=True, width=3),
    ])
    calls = f"warpsmith_planner_calls_total{{{PLANNER}}}"
    refused = f"warpsmith_planner_calls_total{{{PLANNER}, code=~\"resource_exhausted|unavailable\"}}"
    asked = Row("Calls", [
        lines("Calls by method", "That were answered, a second.", Unit.PER_SECOND,
              Query(f"sum by (method) (rate({calls}[$__rate_interval]))", "{{method}}"), stacked=Stacked.SUM),
        lines("Calls by code", "That were answered, a second. One that follows refuses all and says who leads: unavailable.",
              Unit.PER_SECOND, Query(f"sum by (code) (rate({calls}[$__rate_interval]))", "{{code}}")),
        lines("Refused", "Share of the calls that were answered that the planner cannot now.", Unit.SHARE,
              Query(f"sum by (instance) (rate({refused}[$__rate_interval])) "
                    f"/ (sum by (instance) (rate({calls}[$__rate_interval])) > 0)", "{{instance}}"), top=1,
              limits=rising(orange=0.1), alerts=["WarpsmithCallsRefused"]),
        lines("Wait for a turn", "From a call's arrival to its turn.", Unit.SECONDS,
              *quantiles("warpsmith_planner_queue_seconds", PLANNER, "instance")),
        lines("Calls that wait for work", "Idle workers'.", Unit.COUNT,
              Query(f"warpsmith_planner_parked_calls{{{PLANNER}}}", "{{instance}}")),
        lines("Epoch over time", "A step is a new leader.", Unit.PLAIN,
              Query(f"warpsmith_planner_epoch{{{PLANNER}}}", "{{instance}}")),
    ])
    planners = chosen("planner", "Planner", f"label_values(warpsmith_planner_leads{{{CLUSTER}}}, instance)", many=True)
    return Page("warpsmith-planner", "Warpsmith / Planner", "Who leads, how quickly it answers, and its store.",
                [now, asked, planner_store(), process(PLANNER_PROCESS, "{{instance}}")], [CLUSTERS, planners])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "dashboards", help="a folder that is there")
    parser.add_argument("--docs", default=parts.DOCS, help="begins the links to runbooks (default: %(default)s)")
    options = parser.parse_args()
    for page in (fleet(), run(), worker(), planner()):
        text = json.dumps(parts.made(page, options.docs), cls=JSONEncoder, indent=1, sort_keys=True, ensure_ascii=False)
        (options.out / f"{page.uid.removeprefix('warpsmith-')}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
