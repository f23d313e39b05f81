//! What changes the digest of a function, and what does not.

use keyprint_source::Table;

/// The digest of the last function of a text that is not nested in another.
fn digest(text: &str) -> String {
    let table = Table::of(text).unwrap_or_else(|error| panic!("{error} in\n{text}"));
    let outer = table.functions.iter().rev().find(|function| !function.qualname.contains("<locals>"));
    outer.unwrap_or_else(|| panic!("no function in\n{text}")).digest.hex()
}

#[test]
fn how_it_is_written_does_not_count() {
    let plain = "def f(a, b=1):\n    x = a + b * 2\n    return g(x, 'ab', key=[1, 2])\n";
    let same = [
        "# comment\n\n\ndef f(a, b=1):\n    x = a + b * 2\n    return g(x, 'ab', key=[1, 2])\n",
        "def f(a, b=1):  # here\n\n    # there\n    x = a + b * 2\n\n\n    return g(x, 'ab', key=[1, 2])",
        "def f(a,b = 1 ) :\n  x=a+(b*2)\n  return g ( x ,\"ab\" , key = [ 1, 2, ] , )\n",
        "def f(a, b=1):\n    \"\"\"Say something.\"\"\"\n    x = a + b * 2\n    return g(x, 'ab', key=[1, 2])\n",
        "def f(a, b=1):\n    x = a + b * 2; return g(x, 'a' 'b', key=[1, 2])\n",
        "def f(a, b=1):\r\n    x = a \\\r\n      + b * 2\r\n    return g(x, r'ab', key=[0x1, 2])\r\n",
        "\u{FEFF}def f(a, b=1):\n\tx = a + b * 2\n\treturn g(x, '''ab''', key=[1, 0b10])\n",
        "def other():\n    pass\n\ndef f(a, b=1):\n    x = a + b * 2\n    return (g(x, '\\x61b', key=[1, 2]))\n",
        "@decorated\n@twice(1)\ndef f(a, b=1):\n    x = a + b * 2\n    return g(x, 'ab', key=[1, 2])\n",
    ];
    for text in same {
        assert_eq!(digest(text), digest(plain), "{text}");
    }
}

#[test]
fn docstrings_of_what_is_inside_do_not_count_either() {
    let with = "def f():\n    class C:\n        'doc'\n        def m(self):\n            'doc'\n            return 1\n    return C\n";
    let without = "def f():\n    class C:\n        def m(self):\n            return 1\n    return C\n";
    assert_eq!(digest(with), digest(without));
    // A string that stands anywhere else is not one.
    assert_ne!(digest("def f():\n    x = 1\n    'text'\n"), digest("def f():\n    x = 1\n"));
}

/// Pairs of which no two may agree, and no two pairs either.
const DIFFERENT: &[&str] = &[
    "def f(): pass",
    "def g(): pass",
    "async def f(): pass",
    "def f(): ...",
    "def f(a): pass",
    "def f(b): pass",
    "def f(a, /): pass",
    "def f(*, a): pass",
    "def f(*a): pass",
    "def f(**a): pass",
    "def f(a=1): pass",
    "def f(a=2): pass",
    "def f(a: int): pass",
    "def f(a: float): pass",
    "def f(a, b): pass",
    "def f(a, *, b): pass",
    "def f(a, b=1): pass",
    "def f(a=1, b=1): pass",
    "def f() -> int: pass",
    "def f() -> float: pass",
    "def f[T](a: T): pass",
    "def f[T: int](a: T): pass",
    "def f[*T](a: T): pass",
    "def f[**T](a: T): pass",
    "def f(): x = 1",
    "def f(): x: int = 1",
    "def f(): x: float = 1",
    "def f(): x: int",
    "def f(): (x): int",
    "def f(): x = 1.0",
    "def f(): x = 1j",
    "def f(): x = True",
    "def f(): x = False",
    "def f(): x = None",
    "def f(): x = ...",
    "def f(): x = '1'",
    "def f(): x = b'1'",
    "def f(): x = f'1'",
    "def f(): x = -1",
    "def f(): x = +1",
    "def f(): x = ~1",
    "def f(): x = not 1",
    "def f(): x = '\\ud800'",
    "def f(): x = '\\ud801'",
    "def f(): x = '\\ufffd'",
    "def f(): x = 340282366920938463463374607431768211456",
    "def f(): x = 340282366920938463463374607431768211457",
    "def f(): x = y = 1",
    "def f(): x += 1",
    "def f(): x -= 1",
    "def f(): x = a + b",
    "def f(): x = b + a",
    "def f(): x = a - b",
    "def f(): x = a @ b",
    "def f(): x = a and b",
    "def f(): x = a or b",
    "def f(): x = a < b",
    "def f(): x = a <= b",
    "def f(): x = a < b < c",
    "def f(): x = (a < b) < c",
    "def f(): x = a < (b < c)",
    "def f(): x = a is b",
    "def f(): x = a is not b",
    "def f(): x = a not in b",
    "def f(): x = (a + b) + c",
    "def f(): x = a + (b + c)",
    "def f(): x = a if b else c",
    "def f(): x = b if a else c",
    "def f(): x = a[b]",
    "def f(): x = a[b:]",
    "def f(): x = a[:b]",
    "def f(): x = a[::b]",
    "def f(): x = a[b:c]",
    "def f(): x = a[b::c]",
    "def f(): x = a[b, c]",
    "def f(): x = a[b][c]",
    "def f(): x = a.b",
    "def f(): x = a.c",
    "def f(): x = a.b.c",
    "def f(): x = a(b)",
    "def f(): x = a(b, c)",
    "def f(): x = a(b=c)",
    "def f(): x = a(*b)",
    "def f(): x = a(**b)",
    "def f(): x = a(b)(c)",
    "def f(): x = a, b",
    "def f(): x = a,",
    "def f(): x = [a, b]",
    "def f(): x = {a, b}",
    "def f(): x = {a: b}",
    "def f(): x = {**a, **b}",
    "def f(): x = {**a, b: c}",
    "def f(): x = {a: b, **c}",
    "def f(): x = [*a]",
    "def f(): x = [a for a in b]",
    "def f(): x = [a for b in a]",
    "def f(): x = [a for a in b if c]",
    "def f(): x = [a for a in b if c if d]",
    "def f(): x = [a for a in b for c in d]",
    "def f(): x = {a for a in b}",
    "def f(): x = {a: a for a in b}",
    "def f(): x = (a for a in b)",
    "async def f(): x = [a async for a in b]",
    "async def f(): x = [a for a in b]",
    "async def f(): x = await b",
    "async def f():\n  async with a: pass",
    "async def f():\n  with a: pass",
    "async def f():\n  async for a in b: pass",
    "async def f():\n  for a in b: pass",
    "def f(): x = lambda: a",
    "def f(): x = lambda a: a",
    "def f(): x = lambda a=1: a",
    "def f(): x = (y := a)",
    "def f(): yield",
    "def f(): yield a",
    "def f(): yield from a",
    "def f(): return",
    "def f(): return a",
    "def f(): x = f'{a}'",
    "def f(): x = f'{a!r}'",
    "def f(): x = f'{a!s}'",
    "def f(): x = f'{a:1}'",
    "def f(): x = f'{a:{b}}'",
    "def f(): x = f'{a=}'",
    "def f(): x = f'{a = }'",
    "def f(): x = f'{a}' 'b'",
    "def f(): x = f'{a}' 'c'",
    "def f(): x = f'{a}d'",
    "def f(): global x",
    "def f(): global x, y",
    "def f():\n  def g():\n    nonlocal x\n  x = 1",
    "def f():\n  def g():\n    global x\n  x = 1",
    "def f(): del x",
    "def f(): del x, y",
    "def f(): assert a",
    "def f(): assert a, b",
    "def f(): raise",
    "def f(): raise a",
    "def f(): raise a from b",
    "def f(): import a",
    "def f(): import a.b",
    "def f(): import a as b",
    "def f(): import a, b",
    "def f(): from a import b",
    "def f(): from a import b as c",
    "def f(): from .a import b",
    "def f(): from ..a import b",
    "def f(): from . import b",
    "def f():\n  for a in b: c",
    "def f():\n  for a in b: c; d",
    "def f():\n  for a in b: c\n  else: d",
    "def f():\n  for a in b: c\n  d",
    "def f():\n  while a: b",
    "def f():\n  while a: b; c",
    "def f():\n  while a: b\n  else: c",
    "def f():\n  while a: break",
    "def f():\n  while a: continue",
    "def f():\n  if a: b",
    "def f():\n  if a: b; c",
    "def f():\n  if a: b\n  c",
    "def f():\n  if a: b\n  else: c",
    "def f():\n  if a: b\n  elif c: d",
    "def f():\n  if a: b\n  elif c: d\n  else: e",
    "def f():\n  with a: b",
    "def f():\n  with a as b: b",
    "def f():\n  with a, b: b",
    "def f():\n  with a:\n    with b: b",
    "def f():\n  try: a\n  except: b",
    "def f():\n  try: a\n  except c: b",
    "def f():\n  try: a\n  except c as d: b",
    "def f():\n  try: a\n  except* c: b",
    "def f():\n  try: a\n  finally: b",
    "def f():\n  try: a\n  except: b\n  else: c",
    "def f():\n  try: a\n  except: b\n  finally: c",
    "def f():\n  try: a; b\n  finally: c",
    "def f():\n  try: a\n  finally: b; c",
    "def f():\n  match a:\n    case 1: b",
    "def f():\n  match a:\n    case 2: b",
    "def f():\n  match a:\n    case x: b",
    "def f():\n  match a:\n    case y: b",
    "def f():\n  match a:\n    case _: b",
    "def f():\n  match a:\n    case None: b",
    "def f():\n  match a:\n    case True: b",
    "def f():\n  match a:\n    case False: b",
    "def f():\n  match a:\n    case x if c: b",
    "def f():\n  match a:\n    case [x]: b",
    "def f():\n  match a:\n    case [*x]: b",
    "def f():\n  match a:\n    case [*_]: b",
    "def f():\n  match a:\n    case {1: x}: b",
    "def f():\n  match a:\n    case {1: x, **r}: b",
    "def f():\n  match a:\n    case C(): b",
    "def f():\n  match a:\n    case D(): b",
    "def f():\n  match a:\n    case C(x): b",
    "def f():\n  match a:\n    case C(x=x): b",
    "def f():\n  match a:\n    case C(y=x): b",
    "def f():\n  match a:\n    case 1 | 2: b",
    "def f():\n  match a:\n    case 1 as x: b",
    "def f():\n  match a:\n    case c.d: b",
    "def f():\n  class C: pass",
    "def f():\n  class D: pass",
    "def f():\n  class C(a): pass",
    "def f():\n  class C(a=b): pass",
    "def f():\n  class C[T]: pass",
    "def f():\n  @a\n  class C: pass",
    "def f():\n  def g(): pass",
    "def f():\n  @a\n  def g(): pass",
    "def f():\n  @b\n  def g(): pass",
    "def f():\n  @a\n  @b\n  def g(): pass",
    "def f():\n  @b\n  @a\n  def g(): pass",
    "def f():\n  type X = a",
    "def f():\n  type X[T] = a",
];

#[test]
fn everything_else_counts() {
    let digests: Vec<String> = DIFFERENT.iter().map(|text| digest(text)).collect();
    for (at, digest) in digests.iter().enumerate() {
        for (other, other_digest) in digests.iter().enumerate().skip(at + 1) {
            assert_ne!(digest, other_digest, "\n{}\n--\n{}", DIFFERENT[at], DIFFERENT[other]);
        }
    }
}

#[test]
fn decorators_count_by_themselves() {
    let table = Table::of("@a\n@b.c(1)\n@(x or y)\ndef f(): pass\n").unwrap();
    let paths: Vec<String> =
        table.functions[0].decorators.iter().map(|decorator| decorator.path.join(".")).collect();
    assert_eq!(paths, ["a", "b.c", ""]);
    assert_eq!(table.functions[0].line, 1);
    let other = Table::of("\n@b.c(2)\ndef f(): pass\n").unwrap();
    assert_ne!(table.functions[0].decorators[1].digest, other.functions[0].decorators[0].digest);
    assert_eq!(other.functions[0].decorators[0].line, 2);
}

#[test]
fn the_normal_form_is_pinned() {
    // Changing any of these means that `NORMAL_FORM_VERSION` must be raised.
    assert_eq!(keyprint_source::NORMAL_FORM_VERSION, 1);
    assert_eq!(
        digest("def f(a: int, *b, c=1.5, **d) -> str:\n    return [x for x in a if x > 2] or f'{c!r:>3}'\n"),
        "fbca0aa46559ff7236445de349c3ca46d86badb431742df245235cf1665dbedd"
    );
}

#[test]
fn tables_survive_as_bytes() {
    let table = Table::of("def f(a):\n    return a.b + g(a, k=a.c)\nh = lambda x: x\n").unwrap();
    let bytes = table.to_bytes();
    assert_eq!(Table::from_bytes(&bytes), Some(table));
    for end in 0..bytes.len() {
        assert_eq!(Table::from_bytes(&bytes[..end]), None, "{end}");
    }
    let mut other = bytes.clone();
    other[0] = 99;
    assert_eq!(Table::from_bytes(&other), None);
}
