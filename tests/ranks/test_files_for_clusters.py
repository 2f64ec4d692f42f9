"""The files of the page on ranks work: as far as a machine without Slurm and Kubernetes can say, they are run."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from graphs import toy_dataset

from tuckerkg.storage.run_folder import RunFolder

PAGE = (Path(__file__).parents[2] / "docs" / "ranks.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^```\w+ (\S+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
SMALL = "--set train.steps=4 --set model.dim=8 --set model.relation_dim=8 --set train.evaluate_every=2.0"


def graph_in(place: Path) -> Path:
    dataset = toy_dataset()
    lines = [
        f"{dataset.entities[head]}\t{dataset.relations[relation]}\t{dataset.entities[tail]}\n"
        for head, relation, tail in dataset.train.tolist()
    ]
    (place / "graph.tsv").write_text("".join(lines), encoding="utf-8")
    return place / "graph.tsv"


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def variables(place: Path, **more: str) -> dict[str, str]:
    here = f"{place}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    names = {"GRAPH": str(graph_in(place)), "RUN": str(place / "run"), "OMP_NUM_THREADS": "1"}
    return {**os.environ, **names, "PATH": here, "GLOO_SOCKET_IFNAME": "lo", **more}


def small(text: str) -> str:
    """The file with one rank on each node, another port and a small model."""
    smaller = text.replace("--nproc-per-node=4", "--nproc-per-node=1").replace("29500", free_port())
    return smaller.replace("--decoder tucker", f"--decoder tucker {SMALL}").replace(
        "OMP_NUM_THREADS=2", "OMP_NUM_THREADS=1"
    )


@pytest.mark.faults
def test_the_batch_script_trains_on_two_nodes_and_goes_on(tmp_path):
    """With stand-ins: ``srun`` starts its command once for each node, ``scontrol`` knows one name for both."""
    (tmp_path / "srun").write_text('#!/bin/bash\n"$@" & first=$!\n"$@" & wait $! && wait $first\n')
    (tmp_path / "scontrol").write_text("#!/bin/bash\necho 127.0.0.1; echo 127.0.0.1\n")
    (tmp_path / "ranks.sbatch").write_text(small(FILES["ranks.sbatch"]))
    for name in ("srun", "scontrol"):
        (tmp_path / name).chmod(0o755)
    slurm = {"SLURM_NNODES": "2", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node[1-2]"}
    for _ in range(2):  # the second time there is nothing left to do
        done = subprocess.run(
            ["bash", "ranks.sbatch"], cwd=tmp_path, env=variables(tmp_path, **slurm), capture_output=True, text=True,
            timeout=240, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "best validation MRR" in done.stdout
    assert RunFolder.open(tmp_path / "run").checkpoints.steps()[-1] == 4
    options = re.findall(r"^#SBATCH --([\w-]+)=?(\S*)$", FILES["ranks.sbatch"], re.MULTILINE)
    assert dict(options)["nodes"] == "2"
    assert dict(options)["signal"] == "TERM@120"


@pytest.mark.faults
def test_the_program_of_the_pods_trains_on_two_of_them(tmp_path):
    yaml = pytest.importorskip("yaml")
    service, job = yaml.safe_load_all(small(FILES["ranks.yaml"]))
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert pod["subdomain"] == service["metadata"]["name"]
    named = {each["name"]: each["value"] for each in container["env"]}
    assert named["FIRST"] == f"{job['metadata']['name']}-0.{pod['subdomain']}"
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == 2
    assert [each["name"] for each in container["volumeMounts"]] == [each["name"] for each in pod["volumes"]]
    pods = [
        subprocess.Popen(
            [*container["command"], *container["args"]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=variables(tmp_path, FIRST="127.0.0.1", JOB_COMPLETION_INDEX=str(number)),
        )
        for number in range(2)
    ]  # fmt: skip
    said = [each.communicate(timeout=240)[0] for each in pods]
    assert [each.returncode for each in pods] == [0, 0], said
    assert "best validation MRR" in said[0]
    assert RunFolder.open(tmp_path / "run").checkpoints.steps()[-1] == 4


def test_the_page_has_both_files():
    assert set(FILES) == {"ranks.sbatch", "ranks.yaml"}
    done = subprocess.run(["bash", "-n"], input=FILES["ranks.sbatch"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
