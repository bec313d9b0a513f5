"""A fleet as text for the textfile collector of Prometheus' node exporter.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/ (2026-11).
"""

from __future__ import annotations

from gambrel.measure.fleet.records import FleetReport


def textfile(report: FleetReport) -> str:
    """One gauge for rates, one for devices that are not like their peers."""
    lines = [
        "# HELP gambrel_rate Measured ceiling of a device, FLOP/s or B/s.",
        "# TYPE gambrel_rate gauge",
    ]
    for one in report.checkups:
        own = _labels(worker=one.worker, host=one.host, device=one.device, sku=one.sku)
        for f in one.figures:
            labels = f"{own},{_labels(figure=f.name, unit=f.unit)}"
            lines.append(f"gambrel_rate{{{labels}}} {f.value!r}")
    lines += [
        "# HELP gambrel_suspect Whether a device is not like its peers, by cause.",
        "# TYPE gambrel_suspect gauge",
    ]
    for s in report.suspects:
        labels = _labels(worker=s.worker, device=s.device, cause=s.cause, confidence=s.confidence)
        lines.append(f"gambrel_suspect{{{labels}}} 1")
    return "\n".join(lines) + "\n"


def _labels(**values: str) -> str:
    return ",".join(f'{name}="{_escaped(text)}"' for name, text in values.items())


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
