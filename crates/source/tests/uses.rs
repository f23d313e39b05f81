//! What a function is found to read.

use keyprint_source::{Function, How, Root, Slot, Table};

fn function(text: &str, name: &str) -> Function {
    let table = Table::of(text).unwrap_or_else(|error| panic!("{error} in\n{text}"));
    let function = table.functions.into_iter().find(|function| function.name == name);
    function.unwrap_or_else(|| panic!("no `{name}` in\n{text}"))
}

fn path_text(function: &Function, root: &Root, path: &[String]) -> String {
    let root = match root {
        Root::Parameter(at) => format!("<{}>", function.parameters[usize::from(*at)].name),
        Root::Free(name) => format!("^{name}"),
        Root::Global(name) => name.clone(),
        Root::Import { module, level, name } => {
            format!(
                "import({}{module}{})",
                ".".repeat(*level as usize),
                name.as_ref().map_or(String::new(), |name| format!(":{name}"))
            )
        }
    };
    std::iter::once(root).chain(path.iter().cloned()).collect::<Vec<_>>().join(".")
}

/// Everything that `f` reads and passes on, as text.
fn reads(text: &str) -> Vec<String> {
    let function = function(text, "f");
    let uses = function.uses.iter().map(|usage| {
        let how = match usage.how {
            How::Whole => "",
            How::Called => "()",
            How::Annotation => ": ",
            How::Super => " super",
            How::Imported => " imported",
            How::Builtin => " builtin",
            How::Optional => "?",
            How::Type => " type",
            How::Dynamic => " dynamic",
            How::Documentation => " documentation",
            How::Identity => " identity",
            How::Assigned => " =",
            How::Written => " written",
            How::Stored => " stored",
            How::Updated => " updated",
            How::Mutated => " mutated",
            How::Order => " order",
            How::Annotations => " annotations",
            How::Names => " names",
        };
        format!("{}{how}", path_text(&function, &usage.root, &usage.path))
    });
    let flows = function.argument_flows.iter().map(|flow| {
        let slot = match &flow.slot {
            Slot::Position(at) => at.to_string(),
            Slot::Keyword(name) => name.clone(),
        };
        let callee = path_text(&function, &flow.callee, &flow.callee_path);
        format!("{} -> {callee}[{slot}]", path_text(&function, &flow.root, &flow.path))
    });
    uses.chain(flows).collect()
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    assert_eq!(reads(text), expected, "\n{text}");
}

#[test]
fn names_and_members() {
    check("def f(a): return a + TILE", &["<a>", "TILE"]);
    check("def f(a): return config.deep.TILE", &["config.deep.TILE"]);
    check("def f(a): return a.x.y + a.z", &["<a>.x.y", "<a>.z"]);
    check("def f(a): return a.x[a.i].y", &["<a>.x", "<a>.i"]);
    check("def f(a): a.x[0] = 1", &["<a>.x stored"]);
    check("def f(a): a.x[0] += 1", &["<a>.x updated"]);
    check("def f(a): a.x[0] += N", &["<a>.x", "N"]);
    check("def f(a):\n  global g\n  del g", &["g ="]);
    check("def f(a): LOG.append(a)", &["LOG.append mutated", "<a> -> LOG.append[0]"]);
    check("def f(a): return LOG.pop()", &["LOG.pop()"]);
    check("def f(a): a.x = N", &["N", "<a>.x ="]);
    check("def f(a): return a.x is None or a.y is not None", &["<a>.x type", "<a>.y type"]);
    check("def f(a): return hasattr(a, 'x')", &["hasattr builtin", "<a>.x?"]);
    check("def f(a): return getattr(a.b, 'x', N)", &["getattr builtin", "N", "<a>.b.x", "<a>.b.x?"]);
    check(
        "def f(a): return a.g.__globals__['x'], (lambda: 0).__globals__",
        &["__globals__ dynamic", "<a>.g.__globals__"],
    );
    check("def f(a): return getattr(a, 'x').y", &["getattr builtin", "<a>.x.y"]);
    check("def f(a): return getattr(a, n)", &["getattr()", "<a> -> getattr[0]", "n -> getattr[1]"]);
    check("def f(a):\n  x = 1\n  return x + y", &["y"]);
}

#[test]
fn calls_pass_things_on() {
    check("def f(a): return g(a.x, 1, k=a.y)", &["g()", "<a>.x -> g[0]", "<a>.y -> g[k]"]);
    check("def f(a): return m.g(a)", &["m.g()", "<a> -> m.g[0]"]);
    check("def f(self, a): return self.h(a.x)", &["<self>.h()", "<a>.x -> <self>.h[0]"]);
    check("def f(a, b): return g(*a, b)", &["g()", "<a>", "<b>"]);
    check("def f(a): return g(**a)", &["g()", "<a>"]);
    check("def f(a): return g(a.x + 1)", &["g()", "<a>.x"]);
    check("def f(a): return g()(a)", &["g()", "<a>"]);
    check("def f(a): return a.x.run(1).y", &["<a>.x.run()"]);
}

#[test]
fn other_names_for_the_same() {
    check("def f(a):\n  b = a.x\n  return b.y", &["<a>.x.y"]);
    check("def f(a):\n  b = a.x\n  c = b.y\n  return c.z", &["<a>.x.y.z"]);
    check("def f(a):\n  b: T = a.x\n  return b.y", &["T: ", "<a>.x.y"]);
    check("def f(a):\n  b = a.x\n  b = a.y\n  return b.z", &["<a>.x.z", "<a>.y.z"]);
    check("def f(a):\n  b = a.x\n  for b in c: pass\n  return b.z", &["c", "<a>.x.z"]);
    check("def f(a, b):\n  b = a.x\n  return b.z", &["<a>.x.z", "<b>.z"]);
    check("def f(a):\n  a = a.x\n  return a.y", &["<a>.x", "<a>.y"]);
    check(
        "def f(p):\n  a = p.x\n  b = a.y\n  a = b.z\n  return a.w",
        &["<p>.x", "<p>.x.y", "<p>.x.y.z", "<p>.x.w"],
    );
    check("def f(a):\n  while N: a = a.next\n  return a.v", &["N", "<a>.next", "<a>.v"]);
    check("def f(n):\n  s = CFG\n  return [s.x for CFG in n]", &["<n>", "CFG.x"]);
    check("def f(n):\n  s = CFG\n  return (lambda CFG: s.y)(n)", &["CFG.y", "<n>"]);
    check("def f(a, b):\n  s = a\n  def g(a): return s.x\n  return g(b)", &["<a>.x", "<b>"]);
    check(
        "def f(a):\n  s = a.x\n  def g():\n    nonlocal s\n    s = OTHER\n  return s.y",
        &["OTHER", "<a>.x.y"],
    );
    check("def f(a):\n  b = c\n  c = b\n  return c.z", &[]);
    check("def f(a):\n  b, c = a.x, a.y\n  return b.z", &["<a>.x", "<a>.y"]);
    check("def f(a):\n  b = a.x\n  def g(): return b.y\n  return g", &["<a>.x.y"]);
}

#[test]
fn long_chains_of_names_are_read_when_they_are_assigned() {
    let names: String = (2..40).map(|at| format!("  a{at} = a{}\n", at - 1)).collect();
    let uses = reads(&format!("def f(c):\n  a1 = CFG\n{names}  b = OTHER\n  if c: b = a39\n  return b.x\n"));
    assert_eq!(uses, ["CFG", "OTHER", "<c>"]);
}

#[test]
fn scopes() {
    check("def f(a):\n  global g\n  g += 1", &["g written"]);
    check("def f(a):\n  global g\n  g = 1", &[]);
    check("def f(a): return [x + y for x in a.z for y in x if w]", &["<a>.z", "w"]);
    check("def f(a): return [(z := x) for x in a] + [z]", &["<a>"]);
    check("x = 1\ndef f(a):\n  def g(b): return b.x + a.y + h\n  return g", &["<a>.y", "h"]);
    check("def f(a): return lambda b, c=D: b.x + a.y + c", &["D", "<a>.y"]);
    check(
        "def f(a):\n  class C(B):\n    y = a.x\n    def m(self): return y\n  return C",
        &["B", "<a>.x", "y"],
    );
    check("def f(a):\n  with o(a.x) as b: return b.y", &["o()", "<a>.x -> o[0]"]);
    check("def f(a):\n  try: return g\n  except E as e: return e.x", &["g", "E"]);
    check(
        "def f(a):\n  match a.x:\n    case C(y=z) if z > N: return z\n    case M.K: return 1",
        &["<a>.x", "C", "N", "M.K"],
    );
    check("def o(v):\n  w = 1\n  def f(a): return a + v.x + w + u\n  return f", &["<a>", "^v.x", "^w", "u"]);
    check("def o(v):\n  def f(a):\n    nonlocal v\n    v = a\n    return v.x\n  return f", &["<a>", "^v.x"]);
    check("def o(v):\n  global v2\n  v2 = 1\n  def f(a): return v2\n  return f", &["v2"]);
    check("class C:\n  v = 1\n  def f(self): return v", &["v"]);
    check("def f():\n  class C:\n    X = X\n  return C.X", &["X"]);
    check("def f(X):\n  class C:\n    X += 1\n  return C", &["X"]);
    check("def f[T](a: T) -> T: return N", &["N"]);
}

#[test]
fn annotations_are_read() {
    check("def f(a: A[B, 2]) -> m.R:\n  x: L = 1\n  return x", &["A: ", "B: ", "m.R: ", "L: "]);
    check("def f[T: K](a: T): pass", &["K: "]);
    check("def f(a: 'A[m.B, int]') -> 'no python at all': pass", &["A: ", "m.B: ", "int: "]);
    check("def f(a: A['B']): return 'C'", &["A: ", "B: "]);
    check(
        "def f(a: Literal['cfg', 'b'], b: Annotated['T', 'x', N]): pass",
        &["Literal: ", "Annotated: ", "T: ", "N"],
    );
}

#[test]
fn imports_inside() {
    check("def f(a):\n  import m.n\n  return m.n.x", &["import(m.n) imported", "import(m).n.x"]);
    check("def f(a):\n  import m.n as k\n  return k.x", &["import(m.n) imported", "import(m.n).x"]);
    check(
        "def f(a):\n  from ..m import x as y\n  return y.z",
        &["import(..m) imported", "import(..m:x) imported", "import(..m:x).z"],
    );
    check(
        "def f():\n  try: import a as c\n  except E: import b as c\n  return c.X",
        &["import(a) imported", "E", "import(b) imported", "import(a).X", "import(b).X"],
    );
    check(
        "def f():\n  from m import X\n  X = X + 1\n  return X",
        &["import(m) imported", "import(m:X) imported", "import(m:X)"],
    );
}

#[test]
fn private_members_carry_their_class() {
    check("class _C:\n  def f(self): return self.__x + __g", &["<self>._C__x", "_C__g"]);
    check("class C:\n  def f(self): return self.__x__", &["<self>.__x__"]);
}

#[test]
fn what_is_behind_a_class() {
    check(
        "class C(B):\n  def f(self, a): return super().g(a.x)",
        &["super builtin", "<self>.g super", "<a>.x"],
    );
    check(
        "class C(B):\n  def f(self):\n    s = super()\n    return s.g()",
        &["super builtin", "<self> super"],
    );
    check("class C(B):\n  def f(self): return super().v", &["super builtin", "<self>.v super"]);
    check("def f(a, b): return super(C, b).g()", &["super builtin", "C", "<b>.g super"]);
    check("class C:\n  def f(self): return __class__.T", &["^__class__.T"]);
}

#[test]
fn comprehensions_hold_names_for_what_is_inside() {
    let lambda = function("FS = [lambda x: x * k for k in (1, 2)]", "<lambda>");
    assert_eq!(lambda.uses[1].root, Root::Free("k".to_owned()));
    let lambda = function("def g(n): return {k: (lambda: k + j + n) for k in n for j in k}", "<lambda>");
    let roots: Vec<&Root> = lambda.uses.iter().map(|usage| &usage.root).collect();
    let free = |name: &str| Root::Free(name.to_owned());
    assert_eq!(roots, [&free("k"), &free("j"), &free("n")]);
}

#[test]
fn every_function_has_its_place() {
    let text = "@d\ndef f(a):\n    'doc'\n    x = 1\n    if x:\n        y = 2\n    g = lambda: 1\n    return x\n\nclass C:\n    def m(self): pass\n    h = [lambda: 1, lambda: 2]\n";
    let table = Table::of(text).unwrap();
    let places: Vec<(&str, u32)> =
        table.functions.iter().map(|function| (&*function.qualname, function.line)).collect();
    let expected =
        [("f", 1), ("f.<locals>.<lambda>", 7), ("C.m", 11), ("C.<lambda>", 12), ("C.<lambda>", 12)];
    assert_eq!(places, expected);
    assert_eq!(table.functions[0].statements, [4, 5, 6, 7, 8]);
    let text_of = |at: usize| &text[table.functions[at].start as usize..table.functions[at].end as usize];
    assert!(text_of(0).starts_with("@d\ndef f") && text_of(0).ends_with("return x"));
    assert_eq!(text_of(4), "lambda: 2");
}

#[test]
fn what_is_asked_of_things_in_general() {
    check("def f(a): return [h.__doc__ for h in L]", &["L", "__doc__ documentation"]);
    check("def f(a): return A is B", &["is identity", "A", "B"]);
    check("def f(a): return A is None", &["A type"]);
    check("def f(a): return a.__dict__", &["__dict__ order", "<a>.__dict__"]);
    check("def f(a): return g(attrgetter('x.__globals__'))", &["g()", "attrgetter()", "__globals__ dynamic"]);
    check("def f(a): return vars()", &["vars() dynamic", "vars()"]);
}
