"""Cached steps as people write them: each pipeline runs, is found again, and sees an edit of what it reaches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

for name in ("pandas", "sklearn", "torch", "pydantic", "click", "numba"):
    pytest.importorskip(name)

#: Programs: what is before the step, the step, a call that prints, and an edit that must be seen.
PIPELINES: dict[str, tuple[str, str, str, tuple[str, str]]] = {
    "pandas, grouped": (
        "import pandas as pd\nKEYS = ['k']\ndef clean(df):\n    return df.dropna().assign(v=lambda d: d.v * 2)",
        "def step(df):\n    return clean(df).groupby(KEYS).v.sum().to_dict()",
        "step(pd.DataFrame({'k': ['a', 'b', 'a'], 'v': [1.0, 2.0, None]}))",
        ("d.v * 2", "d.v * 3"),
    ),
    "pandas, a frame that is a global": (
        "import pandas as pd\nRATES = pd.DataFrame({'c': ['x', 'y'], 'r': [1.5, 2.0]}).set_index('c')",
        "def step(code, n):\n    return float(RATES.loc[code, 'r'] * n)",
        "step('x', 2)",
        ("1.5", "2.5"),
    ),
    "pandas, apply": (
        "import pandas as pd\nLIMIT = 2\ndef label(row):\n    return 'hi' if row.v > LIMIT else 'lo'",
        "def step(df):\n    return list(df.apply(label, axis=1))",
        "step(pd.DataFrame({'v': [1, 3]}))",
        ("LIMIT = 2", "LIMIT = 5"),
    ),
    "pandas, merge with a dataclass": (
        "import dataclasses\nimport pandas as pd\n@dataclasses.dataclass(frozen=True)\nclass Options:\n    how: str = 'inner'\n"
        "    def on(self):\n        return ['k']",
        "def step(a, b, options=Options()):\n    return len(pd.merge(a, b, on=options.on(), how=options.how))",
        "step(pd.DataFrame({'k': [1, 2]}), pd.DataFrame({'k': [2, 3]}))",
        ("'inner'", "'outer'"),
    ),
    "sklearn, a pipeline as a global": (
        "import numpy as np\nfrom sklearn.pipeline import make_pipeline\nfrom sklearn.preprocessing import StandardScaler\n"
        "from sklearn.linear_model import Ridge\nMODEL = make_pipeline(StandardScaler(), Ridge(alpha=1.0))",
        "def step(n):\n    from sklearn.base import clone\n    x = np.arange(n, dtype=float).reshape(-1, 1)\n"
        "    return float(clone(MODEL).fit(x, x.ravel()).predict([[9.0]])[0].round(6))",
        "step(5)",
        ("alpha=1.0", "alpha=9.0"),
    ),
    "sklearn, an estimator as an input": (
        "import numpy as np\nfrom sklearn.linear_model import LinearRegression, Ridge\nSCALE = 1.0",
        "def step(model, n):\n    x = np.arange(n, dtype=float).reshape(-1, 1) * SCALE\n    return model.fit(x, np.arange(n)).coef_.round(6).tolist()",
        "step(LinearRegression(), 5)",
        ("SCALE = 1.0", "SCALE = 2.0"),
    ),
    "sklearn, a transformer of one's own": (
        "import numpy as np\nfrom sklearn.base import BaseEstimator, TransformerMixin\nclass Shift(BaseEstimator, TransformerMixin):\n"
        "    def __init__(self, by=1):\n        self.by = by\n    def fit(self, x, y=None):\n        return self\n"
        "    def transform(self, x):\n        return x + self.by",
        "def step(t):\n    return t.fit_transform(np.zeros((1, 1))).tolist()",
        "step(Shift(2))",
        ("x + self.by", "x - self.by"),
    ),
    "torch, a module of one's own": (
        "import torch\nclass Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.l = torch.nn.Linear(2, 1, bias=False)\n"
        "        with torch.no_grad():\n            self.l.weight.fill_(1.0)\n    def forward(self, x):\n        return self.l(x).relu()",
        "def step(net, x):\n    with torch.no_grad():\n        return net(x).tolist()",
        "step(Net(), torch.ones(2))",
        (".relu()", ".relu() + 1"),
    ),
    "torch, a module as a global": (
        "import torch\nNET = torch.nn.Linear(2, 1)\nwith torch.no_grad():\n    NET.weight.fill_(1.0)\n    NET.bias.fill_(0.5)",
        "def step(n):\n    with torch.no_grad():\n        return NET(torch.full((2,), float(n))).tolist()",
        "step(3)",
        ("fill_(0.5)", "fill_(1.5)"),
    ),
    "torch, functional": (
        "import torch\nimport torch.nn.functional as F\nTEMPERATURE = 2.0",
        "def step(x):\n    return [round(v, 4) for v in F.softmax(x / TEMPERATURE, dim=0).tolist()]",
        "step(torch.arange(3.0))",
        ("= 2.0", "= 1.0"),
    ),
    "pydantic, a model as an input": (
        "import pydantic\nclass Config(pydantic.BaseModel):\n    n: int = 3\n    name: str = 'a'\n    @property\n    def double(self):\n        return self.n * 2",
        "def step(config):\n    return config.double",
        "step(Config(n=4))",
        ("self.n * 2", "self.n * 3"),
    ),
    "pydantic, validators": (
        "import pydantic\nclass Item(pydantic.BaseModel):\n    price: float\n    @pydantic.field_validator('price')\n    @classmethod\n"
        "    def check(cls, v):\n        return v + 1",
        "def step(raw):\n    return Item(**raw).price",
        "step({'price': 2})",
        ("v + 1", "v + 2"),
    ),
    "click, a command": (
        "import click\n@click.command()\n@click.option('--n', default=1)\ndef main(n):\n    return n * 10",
        "def step(args):\n    return main.main(args, standalone_mode=False)",
        "step(['--n', '4'])",
        ("n * 10", "n * 11"),
    ),
    "click, helpers of a program": (
        "import click\nDEFAULT = 2\ndef work(n, verbose=False):\n    if verbose:\n        click.echo('working', err=True)\n    return n + DEFAULT",
        "def step(n):\n    return work(n, verbose=True)",
        "step(3)",
        ("DEFAULT = 2", "DEFAULT = 7"),
    ),
    "numba, a helper": (
        "import numba\n@numba.njit\ndef add(x):\n    return x + 1",
        "def step(x):\n    return add(x)",
        "step(3)",
        ("x + 1", "x + 2"),
    ),
    "numpy, constants and polynomials": (
        "import numpy as np\nCOEF = np.array([1.0, 2.0])\nWINDOW = np.hanning(5)",
        "def step(x):\n    return float(np.polyval(COEF, x) + WINDOW.sum())",
        "step(2.0)",
        ("[1.0, 2.0]", "[1.0, 3.0]"),
    ),
    "logging, metrics and a registry": (
        "import logging, collections\nLOG = logging.getLogger(__name__)\nMETRICS = collections.Counter()\nHANDLERS = {}\n"
        "def handler(name):\n    def deco(fn):\n        HANDLERS[name] = fn\n        return fn\n    return deco\n"
        "@handler('up')\ndef up(x):\n    return x.upper()",
        "def step(kind, x):\n    LOG.info('running %s', kind)\n    METRICS.update([kind])\n    return HANDLERS[kind](x)",
        "step('up', 'abc')",
        ("x.upper()", "x.upper() + '!'"),
    ),
    "re, json, datetime and pathlib": (
        "import re, json, datetime, pathlib\nPATTERN = re.compile(r'(\\d+)-(\\d+)')\nEPOCH = datetime.date(2020, 1, 1)\nROOT = pathlib.PurePosixPath('/data')",
        "def step(text):\n    a, b = map(int, PATTERN.match(text).groups())\n"
        "    return json.dumps({'day': str(EPOCH + datetime.timedelta(days=a)), 'path': str(ROOT / str(b))}, sort_keys=True)",
        "step('3-4')",
        ("2020, 1, 1", "2021, 1, 1"),
    ),
    "a class with steps as methods": (
        "import functools\nclass Base:\n    factor = 2\n    def scale(self, x):\n        return x * self.factor\n"
        "class Flow(Base):\n    @functools.cached_property\n    def offset(self):\n        return 5\n    def run(self, x):\n        return self.scale(x) + self.offset\nFLOW = Flow()",
        "def step(x):\n    return FLOW.run(x)",
        "step(3)",
        ("factor = 2", "factor = 4"),
    ),
    "enums, dataclasses and dispatch": (
        "import enum, dataclasses, functools\nclass Kind(enum.Enum):\n    A = 1\n    B = 2\n@dataclasses.dataclass\nclass Job:\n    kind: Kind\n    n: int\n"
        "@functools.singledispatch\ndef cost(x):\n    return 0\n@cost.register\ndef _(job: Job):\n    return job.n * job.kind.value",
        "def step(job):\n    return cost(job)",
        "step(Job(Kind.B, 3))",
        ("B = 2", "B = 5"),
    ),
    "sqlite and csv, in memory": (
        "import sqlite3, csv, io\nSCHEMA = 'create table t (a int)'\ndef rows(text):\n    return [(int(r['a']),) for r in csv.DictReader(io.StringIO(text))]",
        "def step(text):\n    db = sqlite3.connect(':memory:')\n    db.execute(SCHEMA)\n    db.executemany('insert into t values (?)', rows(text))\n"
        "    return db.execute('select sum(a) from t').fetchone()[0]",
        "step('a\\n1\\n2\\n')",
        ("int(r['a'])", "int(r['a']) * 2"),
    ),
}

MAIN = """
import json
import keyprint as kp
from pipeline import *
CALLS = []
{step}
def counted(*arguments):
    CALLS.append(1)
    return step(*arguments)
plain, step_ = step, kp.cached(store=kp.Store())(counted)
found = {call}
print(json.dumps([found, len(CALLS)]))
"""


@pytest.mark.parametrize("name", PIPELINES)
def test_pipeline(name: str, tmp_path: Path) -> None:
    before, step, call, (old, new) = PIPELINES[name]
    assert old in before or old in step

    def run(replace: bool) -> list[object]:
        texts = [before, step]
        if replace:
            texts = [text.replace(old, new) for text in texts]
        (tmp_path / "pipeline.py").write_text(texts[0] + "\n")
        main = MAIN.format(step=texts[1], call=call.replace("step(", "step_(", 1))
        (tmp_path / "main.py").write_text(textwrap.dedent(main))
        env = {**os.environ, "KEYPRINT_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, "main.py"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        result: list[object] = json.loads(done.stdout)
        return result

    first = run(False)
    assert first[1] == 1
    assert run(False) == [first[0], 0], "found again"
    edited = run(True)
    assert edited[1] == 1, "the edit is seen"
    assert edited[0] != first[0]
