"""``tuckerkg`` and ``python -m tuckerkg``."""

from __future__ import annotations

import errno
import os
import sys


def main() -> None:
    """Run the command line; a user's mistake is one message and exit code 2, never a traceback."""
    try:
        _run()
    except SystemExit as ended:
        if os.environ.get("RANK"):  # as torchrun sets it
            from tuckerkg.ranks.group import end_process

            end_process(ended.code if isinstance(ended.code, int) else int(ended.code is not None))
        raise


def _run() -> None:
    from tuckerkg.cli.app import app
    from tuckerkg.errors import TuckerkgError
    from tuckerkg.out_of_memory import explain_out_of_memory

    try:
        with explain_out_of_memory(lambda: "Close what else runs, or give it a machine with more memory."):
            app()
    except TuckerkgError as error:
        print(f"tuckerkg: {error}", file=sys.stderr)
        sys.exit(getattr(error, "exit_code", 2))
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC) or error.filename is not None:
            raise
        # Nobody reads (``| head``) or the output's disk is full. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141 if error.errno == errno.EPIPE else 1)


if __name__ == "__main__":
    main()
