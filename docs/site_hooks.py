"""What the site needs beyond Markdown: the benchmark reports as pages, and the roles of docstrings as code."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.structure.files import File

BENCH = Path(__file__).parent.parent / "bench"


def on_files(files, config):
    """Add the reports of the benchmarks, and their plots: they are written beside the benchmarks."""
    for report, page in (("report.md", "benchmarks.md"), ("gpu.md", "benchmarks-gpu.md")):
        files.append(File.generated(config, page, content=(BENCH / report).read_text()))
    for plot in sorted((BENCH / "plots").glob("*.svg")):
        files.append(File.generated(config, f"plots/{plot.name}", abs_src_path=str(plot)))
    return files


def on_page_content(html, page, config, files):
    """Show ``:class:`~keyprint.Key``` as code, and the `::` before an example as a colon."""
    html = re.sub(r":(?:class|func|mod|meth|exc):<code>~?(?:[\w.]*\.)?(\w+)</code>", r"<code>\1</code>", html)
    return re.sub(r"::</p>(\s*<(?:div|pre))", r":</p>\1", html)
