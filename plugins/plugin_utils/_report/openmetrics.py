# Copyright (c) 2026, gpufabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to the collection: it may change in any release.

"""results.prom: OpenMetrics text of gauges, which node_exporter's textfile collector and a Pushgateway read too."""

from __future__ import annotations

import typing as t

from ansible_collections.gpufabric.nccl.plugins.module_utils._nccl_tests.parser import VERDICTS
from ansible_collections.gpufabric.nccl.plugins.plugin_utils._report.data import Report

try:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.openmetrics.exposition import generate_latest
except ImportError:
    # Then this format is left out, see formats.py.
    CollectorRegistry = None

_PREFIX = "gpufabric_nccl"
_TEST_LABELS = ("run", "test", "point", "collective", "tool")
_LABELS = (*_TEST_LABELS, "size_bytes", "type", "redop", "root", "placement", "cycle")


def render_openmetrics(report: Report) -> str:
    """Base units as Prometheus wants them: bytes, seconds, bytes a second. Without time stamps, which textfiles forbid."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(report))
    return generate_latest(registry).decode("utf-8")


class _Collector:
    def __init__(self, report: Report) -> None:
        self._report = report

    def collect(self) -> t.Iterator[t.Any]:
        """One family after the other, as the format wants it."""
        yield from self._tests()
        yield from self._checks()
        yield from self._measurements()

    def _tests(self) -> t.Iterator[t.Any]:
        report = self._report
        overall = _gauge(
            "verdict", "1 for the verdict over all tests of the run, 0 for the others.", ("run", "tool", "verdict")
        )
        # A test that printed nothing, since a host was lost, names no program.
        tools = ",".join(filter(None, dict.fromkeys(test.document["tool"]["name"] for test in report.tests)))
        for verdict in VERDICTS:
            overall.add_metric([report.run_id, tools, verdict], int(verdict == report.verdict))
        yield overall
        verdicts = _gauge(
            "test_verdict", "1 for the verdict of the test, 0 for the others.", (*_TEST_LABELS, "verdict")
        )
        hosts = _gauge("hosts", "Hosts that took part in the test.", _TEST_LABELS)
        ranks = _gauge("ranks", "Ranks that took part in the test.", _TEST_LABELS)
        rows = _gauge("lost_rows", "Rows of the output that could not be put together.", _TEST_LABELS)
        problems = _gauge("problems", "Problems that the test has.", (*_TEST_LABELS, "severity"))
        average = _gauge("average_busbw", "The average that the program printed.", _TEST_LABELS, "bytes_per_second")
        for test in report.tests:
            labels, document = self._labels(test), test.document
            for verdict in VERDICTS:
                verdicts.add_metric([*labels, verdict], int(verdict == test.verdict))
            hosts.add_metric(labels, document["host_count"])
            ranks.add_metric(labels, document["rank_count"])
            rows.add_metric(labels, document["lost_rows"])
            for severity in ("error", "warning"):
                number = sum(entry["severity"] == severity for entry in document["problems"])
                problems.add_metric([*labels, severity], number)
            if document["summary"]["avg_busbw"] is not None:
                average.add_metric(labels, _bytes(document["summary"]["avg_busbw"]))
        yield from (verdicts, hosts, ranks, rows, problems, average)
        yield from self._transport()
        yield from self._stragglers()
        yield from self._soaks()

    def _soaks(self) -> t.Iterator[t.Any]:
        """Of tests that ran their sizes several times."""
        labels = (*_TEST_LABELS, "type", "redop", "root", "size")
        drift = _gauge(
            "soak_drift", "Bandwidth of the last third of the cycles against the first, less 1.", labels, "ratio"
        )
        dips = _gauge("soak_dips", "Cycles in which the bandwidth of a size was far below its median.", labels)
        for test in self._report.tests:
            soak = test.document.get("soak")
            for entry in soak["sizes"] if soak else ():
                own = [entry["type"], entry["redop"], str(entry["root"]), str(entry["size"])]
                dips.add_metric([*self._labels(test), *own], entry["dips"])
                if entry["drift_percent"] is not None:
                    drift.add_metric([*self._labels(test), *own], entry["drift_percent"] / 100)
        yield from (family for family in (drift, dips) if family.samples)

    def _stragglers(self) -> t.Iterator[t.Any]:
        """The ranks that the others wait for; tests whose programs do not tell times of ranks have none of these."""
        late = _gauge(
            "straggler_share",
            "What part of the time of an operation the other ranks wait for this one.",
            (*_TEST_LABELS, "host", "rank"),
            "ratio",
        )
        for test in self._report.tests:
            for one in test.document.get("stragglers") or ():
                late.add_metric([*self._labels(test), one["host"], str(one["rank"])], one["share"])
        yield from [late] if late.samples else []

    def _transport(self) -> t.Iterator[t.Any]:
        """What NCCL's log tells; tests without one have none of these."""
        used = _gauge(
            "transport",
            "1 for the transport of the test; an empty label is not known.",
            (*_TEST_LABELS, "network", "gdr", "nvls", "mnnvl"),
        )
        channels = _gauge("channels", "Channels that NCCL set up for collectives.", _TEST_LABELS)
        nics = _gauge("nics", "Ports that the connections of a host go over.", (*_TEST_LABELS, "host"))
        for test in self._report.tests:
            transport = test.document.get("transport")
            if not transport:
                continue
            labels = self._labels(test)
            flags = [
                "" if flag is None else str(int(flag))
                for flag in (transport["gdr"], transport["nvls"], transport["mnnvl"])
            ]
            used.add_metric([*labels, transport["network"] or "", *flags], 1)
            if transport["channels"] is not None:
                channels.add_metric(labels, transport["channels"])
            for host, ports in transport["nics"].items():
                if ports is not None:
                    nics.add_metric([*labels, host], len(ports))
        yield from (family for family in (used, channels, nics) if family.samples)

    def _checks(self) -> t.Iterator[t.Any]:
        labels = (*_TEST_LABELS, "rule")
        kept = _gauge("rule_kept", "1 if the test keeps the rule, 0 if not; absent if that is unknown.", labels)
        margin = _gauge(
            "rule_margin", "How much better than the limit the value is; worse if negative.", labels, "ratio"
        )
        for test in self._report.tests:
            for check in test.checks:
                if check.passed is not None:
                    kept.add_metric([*self._labels(test), check.name], int(check.passed))
                if check.percent is not None:
                    margin.add_metric([*self._labels(test), check.name], round(check.percent / 100, 12))
        yield from (kept, margin)

    def _measurements(self) -> t.Iterator[t.Any]:
        busbw = _gauge("busbw", "Bus bandwidth.", _LABELS, "bytes_per_second")
        algbw = _gauge("algbw", "Algorithm bandwidth.", _LABELS, "bytes_per_second")
        time = _gauge("time", "Time of one operation.", _LABELS, "seconds")
        wrong = _gauge(
            "wrong_values", "Values that differ from the expected; absent if they were not checked.", _LABELS
        )
        for test in self._report.tests:
            for item in test.measurements:
                root = "" if item.root is None else str(item.root)
                labels = [
                    *self._labels(test),
                    *(str(item.size), item.type, item.redop, root, item.placement, str(item.cycle)),
                ]
                if item.busbw is not None:
                    busbw.add_metric(labels, _bytes(item.busbw))
                if item.algbw is not None:
                    algbw.add_metric(labels, _bytes(item.algbw))
                if item.time_us is not None:
                    time.add_metric(labels, round(item.time_us / 1e6, 12))
                if item.wrong is not None:
                    wrong.add_metric(labels, item.wrong)
        yield from (busbw, algbw, time, wrong)

    def _labels(self, test: t.Any) -> list[str]:
        return [self._report.run_id, str(test.number), test.point, test.collective, test.document["tool"]["name"] or ""]


def _gauge(name: str, text: str, labels: t.Sequence[str], unit: str = "") -> t.Any:
    return GaugeMetricFamily(f"{_PREFIX}_{name}", text, labels=labels, unit=unit)


def _bytes(gigabytes: float) -> float:
    """Bytes a second of GB/s: rounded to a thousandth, so that the product is not off by its last bit."""
    return round(gigabytes * 1e9, 3)
