"""The README: its code is run from top to bottom, as a reader would."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import auspex

README = Path(__file__).parents[1] / "README.md"
FRONT_PAGE = Path(__file__).parents[3] / "README.md"


def blocks_of(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


def test_the_code_of_the_readme_runs(world: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    blocks = blocks_of(README)
    assert len(blocks) == 11
    names: dict[str, Any] = {"__name__": "readme"}
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"README.md, block {number}", "exec"), names)
    printed = capsys.readouterr().out
    # The verdict, the replay, the refused webhook, and the error.
    assert "Answer(signal='is_scammer', type='noul', noul=" in printed
    assert "True\n" in printed
    assert "401\n" in printed
    assert "404 not_found" in printed
    assert "Stories" in printed


def test_the_code_of_the_front_page_runs(world: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    [block] = blocks_of(FRONT_PAGE)
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
    assert "Answer(signal=" in capsys.readouterr().out


def test_every_name_in_the_readme_is_exported() -> None:
    for name in re.findall(r"`([A-Z]\w+(?:Error|Auspex))`", README.read_text()):
        assert hasattr(auspex, name), name
