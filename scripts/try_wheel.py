"""Builds a wheel, installs it into an empty environment, and uses it away from the sources."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run(*command: str | Path, cwd: Path) -> str:
    return subprocess.run([str(part) for part in command], cwd=cwd, check=True, capture_output=True, text=True).stdout


def page_files() -> set[str]:
    """What the page is made of, the libraries of others and their licences too."""
    web = ROOT / "tuckerkg" / "serve" / "web"
    return {path.relative_to(ROOT).as_posix() for path in web.rglob("*") if path.is_file()}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        away = Path(folder)
        run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", away, ROOT, cwd=away)
        (wheel,) = away.glob("tuckerkg-*.whl")
        missing = page_files() - set(zipfile.ZipFile(wheel).namelist())
        if missing:
            sys.exit(f"the wheel lacks {', '.join(sorted(missing))}")
        venv.create(away / "env", with_pip=True)
        pip = (
            away / "env/bin/pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "-c",
            ROOT / "constraints.txt",
        )
        run(*pip, "torch==2.13.0", cwd=away)
        run(*pip, wheel, cwd=away)
        tuckerkg = away / "env/bin/tuckerkg"
        counts = json.loads(run(tuckerkg, "params", "fb15k-237", "--json", cwd=away))
        if counts != {"efp": 1_501_500, "nfp": 3_021_400, "enfp": 2_021_200}:
            sys.exit(f"the installed wheel counts {counts}")
        run(tuckerkg, "train", "-s", "countries-tgcn-tucker", "--set", "train.epochs=1.0", "--out", "run", cwd=away)
        answer = json.loads(run(tuckerkg, "predict", "run", "--head", "France", "--format", "json", cwd=away))
        print(f"{wheel.name}: installed, counted, trained and answered with {len(answer)} facts")


if __name__ == "__main__":
    main()
