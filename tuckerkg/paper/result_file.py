"""One small JSON per run: settings, seed, metrics, minutes, peak memory, commit. Written by the program only."""

from __future__ import annotations

import json
import platform
import resource
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import torch

from tuckerkg.config.describe import component_names
from tuckerkg.data.catalogue import KNOWN
from tuckerkg.evaluation.metrics import Evaluation
from tuckerkg.inference.run import Run
from tuckerkg.storage.sealed_folder import write_atomic
from tuckerkg.types import JsonObject


def result_of(run: Run, valid: Evaluation, test: Evaluation) -> JsonObject:
    """Everything a table of results needs to know about ``run``."""
    settings = run.settings
    encoder, decoder = component_names(settings)
    parts = (encoder, decoder) if settings.kind == "embedding" else (encoder,)
    rows = run.metrics
    without = {}
    if run.uses_messages:
        without = {"test_without_messages": run.evaluate("test", messages=False).overall.as_dict()}
    return {
        "experiment": settings.experiment or "-".join([settings.dataset, *parts]),
        "dataset": settings.dataset,
        "encoder": encoder,
        "decoder": decoder,
        "options": settings.as_dict(),
        "seed": settings.train.seed,
        "started_from": _last_state(run).get("started_from", ""),
        "commit": commit(),
        "threads": torch.get_num_threads(),
        "processor": processor(),
        "parameters": run.counts().as_dict(),
        "epochs": rows[-1]["epoch"] if rows else 0.0,
        "best_epoch": next((row["epoch"] for row in rows if row["step"] == run.step), 0.0),
        "minutes": round(_last_state(run)["minutes"], 3),
        "cpu_minutes": round(_last_state(run)["cpu_minutes"], 3),
        "peak_memory_mb": peak_memory_mb(),
        "valid": valid.overall.as_dict(),
        "test": test.overall.as_dict(),
        **without,
        "test_seen_only": test.seen_only.as_dict(),
        "test_ties": {rule: metrics.as_dict() for rule, metrics in test.ties.items()},
        "curve": [[round(row["minutes"], 3), round(row["valid"]["mrr"], 5)] for row in rows],
        "protocol": test.protocol,
    }


def write_result(path: Path, result: JsonObject) -> None:
    """Write one result file, small values on one line each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, (json.dumps(result, indent=1, ensure_ascii=False) + "\n").encode())


def result_path(results: Path, experiment: str, seed: int) -> Path:
    """Where a run's result is kept: ``runs/wn18rr/tgcn-tucker-seed0.json`` for ``wn18rr-tgcn-tucker``."""
    for folder in ("paper", *sorted(KNOWN, key=len, reverse=True)):
        if experiment.startswith(f"{folder}-"):
            return results / "runs" / folder / f"{experiment.removeprefix(f'{folder}-')}-seed{seed}.json"
    return results / "runs" / f"{experiment}-seed{seed}.json"


def peak_memory_mb() -> int:
    """The most memory this process has held, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1 << 20 if sys.platform == "darwin" else 1 << 10))


def processor() -> str:
    """The processor's name as the system gives it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def commit() -> str:
    """The source's git commit (marked when files were changed), or the installed version."""
    here = Path(__file__).resolve().parent.parent
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--dirty"],
            cwd=here,
            capture_output=True,
            text=True,
            check=True,
        )
        return found.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return f"version {metadata.version('tuckerkg')}"


def _last_state(run: Run) -> JsonObject:
    return run.folder.checkpoints.weights("newest").state
