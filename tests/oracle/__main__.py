"""Runs the oracle of keys: ``python -m oracle --pairs 1000 --first 0``. Exits with 1 if it finds a defect."""

from __future__ import annotations

import argparse
import collections
import re
import sys
import time

from .judge import DEFECTS, Judge, pair, report, shrink


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--show", type=int, default=5, help="how many defects are shrunk and shown")
    parser.add_argument("--refusals", action="store_true", help="list why programs were refused")
    options = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    refusals: collections.Counter[str] = collections.Counter()
    shown = 0
    begin = time.monotonic()
    with Judge() as judge:
        for seed in range(options.first, options.first + options.pairs):
            case = pair(seed)
            verdict = judge(case)
            counts[verdict.kind] += 1
            if verdict.kind == "refused":
                refusals[re.sub(r"\d+", "N", verdict.detail.split("\n")[0])[:150]] += 1
            if verdict.kind in DEFECTS:
                if shown < options.show:
                    shown += 1
                    print(report(shrink(judge, case), verdict, seed), end="\n\n", flush=True)
                else:
                    print(f"seed {seed}: {verdict.kind}", flush=True)
            if seed % 5000 == 0:
                print(f"{seed - options.first + 1} pairs: {dict(counts.most_common())}", flush=True)
            if sys.stderr.isatty() and seed % 50 == 0:
                rate = (seed - options.first + 1) / (time.monotonic() - begin)
                print(
                    f"\r{seed - options.first + 1} pairs, {rate:.0f} a second",
                    end="",
                    file=sys.stderr,
                    flush=True,
                )
    valid = sum(counts.values()) - counts["invalid"]
    print(f"{sum(counts.values())} pairs, {valid} valid: {dict(counts.most_common())}")
    if options.refusals:
        for text, count in refusals.most_common(40):
            print(f"{count:5} {text}")
    return int(any(counts[kind] for kind in DEFECTS))


if __name__ == "__main__":
    sys.exit(main())
