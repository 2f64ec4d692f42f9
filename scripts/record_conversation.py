"""Ask a run's tools again what docs/mcp.md records, and write down what they say now.

    tuckerkg train countries --out runs/countries --minutes 1
    python scripts/record_conversation.py runs/countries

The calls are those of the page's block "conversation.jsonl", a line for each; to record another one, add a line with
its "tool" and "arguments".
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

PAGE = Path(__file__).resolve().parent.parent / "docs" / "mcp.md"
BLOCK = re.compile(r"(?<=```jsonl conversation\.jsonl\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)


def recorded(page: str) -> list[dict[str, Any]]:
    """The calls and answers of a page."""
    found = BLOCK.search(page)
    assert found is not None, "the page has no block conversation.jsonl"
    return [json.loads(line) for line in found[0].splitlines()]


async def asked(calls: list[dict[str, Any]], words: list[str]) -> list[dict[str, Any]]:
    """The same calls with the answers of ``tuckerkg mcp`` with these words."""
    server = StdioServerParameters(command=sys.executable, args=["-m", "tuckerkg", "mcp", *words])
    lines = []
    async with Client(server) as client:
        for call in calls:
            result = await client.call_tool(call["tool"], call["arguments"])
            said = {"refused": result.content[0].text} if result.is_error else {"answer": result.structured_content}
            lines.append({"tool": call["tool"], "arguments": call["arguments"], **said})
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    given = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    lines = asyncio.run(asked(recorded(page), [str(given.run), "--decide-as", "a program"]))
    text = "".join(json.dumps(rounded(line), ensure_ascii=False) + "\n" for line in lines)
    PAGE.write_text(BLOCK.sub(lambda _: text, page), encoding="utf-8")


def rounded(value: Any) -> Any:
    """With probabilities as people read them."""
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main()
