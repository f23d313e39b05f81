//! Functions to IR: what comes out, as text, without Python.

use keyprint_lang::error::Code;
use keyprint_lang::graph::{Gate, Loop, Node, graph_of, not_live_at_resume, rematerialised};
use keyprint_lang::host::{
    Annotation, ArraySpec, Constant, FunctionSource, Handle, Host, NumberSpec, Parameter,
};
use keyprint_lang::ir::{self, Kernel};
use keyprint_lang::lower::builtins::builtin;
use keyprint_lang::types::Scalar;
use keyprint_lang::{LangError, Lowered, Member, Options, lower, passes};

/// Functions by name; `kp` is the language, `x` and `y` are arrays, `n` and `a` numbers.
struct Program {
    functions: Vec<(&'static str, &'static str)>,
}

impl Host for Program {
    fn name(&mut self, _: Handle, name: &str) -> Result<Option<Constant>, LangError> {
        if name == "kp" {
            return Ok(Some(Constant::Object(1000, "the module `keyprint`".to_owned())));
        }
        if let Some(at) = self.functions.iter().position(|(known, _)| *known == name) {
            return Ok(Some(Constant::Function(at, None)));
        }
        Ok(match name {
            "graph" => Some(Constant::Object(2000, "graphs".to_owned())),
            "STAGE" => Some(Constant::Enum(77, 9, true)),
            "WIDTH" => Some(Constant::Int(3)),
            _ => builtin(name).map(Constant::Builtin),
        })
    }

    fn member(&mut self, of: Handle, name: &str) -> Result<Option<Constant>, LangError> {
        if of == 2000 {
            return Ok(builtin(&format!("graph.{name}")).map(Constant::Builtin));
        }
        Ok(Scalar::of_name(name).map(Constant::Scalar).or_else(|| builtin(name).map(Constant::Builtin)))
    }

    fn item(&mut self, _: Handle, _: &Constant) -> Result<Option<Constant>, LangError> {
        Ok(None)
    }

    fn function(&mut self, function: Handle) -> Result<FunctionSource, LangError> {
        let (name, text) = self.functions[function];
        let inside = text.split_once('(').unwrap().1.split_once(')').unwrap().0;
        let parameter = |name: &str| Parameter {
            name: name.trim().to_owned(),
            annotation: Annotation::Template,
            default: None,
        };
        Ok(FunctionSource {
            name: name.to_owned(),
            file: "program.py".to_owned(),
            line: 1,
            indent: 0,
            text: text.to_owned(),
            parameters: inside.split(',').filter(|part| !part.is_empty()).map(parameter).collect(),
            returns: Annotation::Missing,
        })
    }
}

fn array(name: &str, scalar: Scalar, ndim: u8) -> Constant {
    Constant::Array(ArraySpec {
        name: name.to_owned(),
        scalar,
        ndim,
        element: None,
        lanes_in_shape: false,
        contiguous: true,
        read_only: None,
        fixed: None,
    })
}

fn number(name: &str, scalar: Scalar) -> Constant {
    Constant::Number(NumberSpec { name: name.to_owned(), scalar, can_be_constant: false })
}

fn argument(name: &str) -> Constant {
    match name {
        "x" | "y" => array(name, Scalar::F32, 1),
        "m" => array(name, Scalar::F32, 2),
        "n" => number(name, Scalar::I32),
        "a" => number(name, Scalar::F32),
        "c" | "f" => array(name, Scalar::I32, 0),
        other => panic!("{other}"),
    }
}

fn lowered(functions: &[(&'static str, &'static str)], options: Options) -> Result<Lowered, LangError> {
    let mut program = Program { functions: functions.to_vec() };
    let source = program.function(0).unwrap();
    let arguments = source.parameters.iter().map(|parameter| argument(&parameter.name)).collect();
    lower(&mut program, 0, arguments, options)
}

/// Lowers and optimises; every stage makes sense and can be read back.
fn kernel(functions: &[(&'static str, &'static str)]) -> Kernel {
    let mut kernel = lowered(functions, Options::default()).unwrap().kernel;
    ir::verify(&kernel).unwrap();
    assert_eq!(ir::parse(&ir::print(&kernel)).unwrap(), kernel);
    passes::optimise(&mut kernel);
    ir::verify(&kernel).unwrap();
    assert_eq!(ir::parse(&ir::print(&kernel)).unwrap(), kernel);
    kernel
}

/// The body of what a function is lowered to.
fn check(functions: &[(&'static str, &'static str)], expected: &str) {
    let text = ir::print(&kernel(functions));
    let body = text.split_once("(body\n").unwrap().1;
    let trimmed = |text: &str| {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.collect::<Vec<_>>().join("\n")
    };
    let printed = trimmed(body);
    let printed = printed.strip_suffix(")\n)").unwrap().trim();
    assert_eq!(printed, trimmed(expected), "found:\n{printed}\n");
}

#[test]
fn own_elements_are_changed_without_atomics() {
    check(
        &[("f", "def f(a, x, y):\n    for i in x:\n        y[i] += a * x[i]\n")],
        "(@2 parallel ((0 (i32 0) (cast i32 (size 0 0)))) _ ()
         (do
         (@3 store (at 1 _ (cast i64 %0)) (add (load (at 1 _ (cast i64 %0))) (mul (number 0) (load (at 0 _ (cast i64 %0))))))
         )
         )",
    );
}

#[test]
fn elements_that_others_may_change_stay_atomic() {
    check(
        &[("f", "def f(x, y):\n    for i in x:\n        y[i + 1] += x[i]\n        y[i] += 1\n")],
        "(@2 parallel ((0 (i32 0) (cast i32 (size 0 0)))) _ ()
         (do
         (@3 atomic add (at 1 _ (add (cast i64 %0) (i64 1))) (load (at 0 _ (cast i64 %0))) _)
         (@4 atomic add (at 1 _ (cast i64 %0)) (f32 0x3f800000) _)
         )
         )",
    );
}

#[test]
fn sums_become_reductions() {
    check(
        &[("f", "def f(x):\n    s = 0.0\n    for i in x:\n        s += x[i]\n    return s\n")],
        "(var 0)
         (@2 set 0 (f32 0x0))
         (@3 parallel ((1 (i32 0) (cast i32 (size 0 0)))) _ ((add 3 %0))
         (do
         (@4 set 3 (add %3 (load (at 0 _ (cast i64 %1)))))
         )
         )
         (@5 return %0)",
    );
}

#[test]
fn elements_of_an_iteration_are_its_own_beside_sums() {
    // `c` is no array like `x`: it is apart, or the launch is refused.
    let text = "def f(x, c):\n    for i in x:\n        x[i] += 1.0\n        c[()] += i\n";
    assert_eq!(kernel(&[("f", text)]).noalias, [(0, 1)]);
    check(
        &[("f", text)],
        "(@2 parallel ((0 (i32 0) (cast i32 (size 0 0)))) _ ((add 3 (at 1 _)))
         (do
         (@3 store (at 0 _ (cast i64 %0)) (add (load (at 0 _ (cast i64 %0))) (f32 0x3f800000)))
         (@4 set 3 (add %3 %0))
         )
         )",
    );
    // Nothing becomes plain: they may overlap.
    let text = "def f(x, c):\n    for i in x:\n        x[i] = 1.0\n        c[()] += i\n";
    assert_eq!(kernel(&[("f", text)]).noalias, []);
    // `y` may be `x` by another name.
    check(
        &[("f", "def f(x, y):\n    for i in x:\n        x[i] += 1.0\n        y[0] += 2.0\n")],
        "(@2 parallel ((0 (i32 0) (cast i32 (size 0 0)))) _ ()
         (do
         (@3 atomic add (at 0 _ (cast i64 %0)) (f32 0x3f800000) _)
         (@4 atomic add (at 1 _ (i64 0)) (f32 0x40000000) _)
         )
         )",
    );
}

#[test]
fn several_arrays_are_reduced_into_in_one_way() {
    let reductions = |text| {
        let kernel = kernel(&[("f", text)]);
        let mut count = 0;
        kernel.body.each(&mut |statement| {
            if let ir::Kind::Parallel(loop_stmt) = &statement.kind {
                count = loop_stmt.reductions.len();
            }
        });
        count
    };
    assert_eq!(
        reductions("def f(x, c, f):\n    for i in x:\n        c[()] += i\n        f[()] += 2 * i\n"),
        2
    );
    // One of them may be the other.
    assert_eq!(
        reductions("def f(x, c, f):\n    for i in x:\n        c[()] += i\n        kp.atomic_max(f[()], i)\n"),
        0
    );
    assert_eq!(reductions("def f(x, c, y):\n    for i in x:\n        c[()] += i\n        y[0] += 1.0\n"), 0);
}

#[test]
fn what_is_known_is_computed_and_unrolled() {
    check(
        &[(
            "f",
            "def f(x):\n    for k in kp.static(range(2)):\n        x[k] = WIDTH * 2 + k\n    if kp.static(WIDTH > 5):\n        x[9] = 1\n",
        )],
        "(@3 store (at 0 _ (i64 0)) (f32 0x40c00000))
         (@3 store (at 0 _ (i64 1)) (f32 0x40e00000))",
    );
}

#[test]
fn calls_are_inlined_and_can_be_left() {
    check(
        &[
            ("f", "def f(n):\n    return g(n) + 1\n"),
            ("g", "def g(n):\n    if n > 3:\n        return 3\n    return n\n"),
        ],
        "(var 0)
         (@2 scope 1
         (do
         (@2 if (lt (i32 3) (number 0))
         (then
         (@3 set 0 (i32 3))
         (@3 leave 1)
         )
         (else
         )
         )
         (@4 set 0 (number 0))
         (@4 leave 1)
         )
         )
         (@2 return (add %0 (i32 1)))",
    );
}

#[test]
fn rows_and_columns_are_in_64_bits() {
    let text =
        ir::print(&kernel(&[("f", "def f(m):\n    for i, j in m:\n        m[i, j] = m[i - 1, j * 2]\n")]));
    assert!(
        text.contains("(load (at 0 _ (sub (cast i64 %0) (i64 1)) (mul (cast i64 %1) (i64 2))))"),
        "{text}"
    );
}

#[test]
fn debug_mode_checks_indices_and_divisors() {
    let options = Options { debug: true, ..Options::default() };
    let kernel = lowered(&[("f", "def f(x, n):\n    x[n] = 7 // n\n")], options).unwrap().kernel;
    ir::verify(&kernel).unwrap();
    let texts: Vec<_> = kernel.sites.iter().map(|site| (site.statement, site.text.as_str())).collect();
    assert_eq!(texts, [(0, "division"), (0, "bounds:x")]);
}

#[test]
fn errors_say_where_through_functions() {
    let error = lowered(
        &[("f", "def f(n):\n    x = 1\n    return g(n)\n"), ("g", "def g(n):\n    return n.nope\n")],
        Options::default(),
    )
    .unwrap_err();
    assert_eq!(error.code, Code::Attribute);
    let places: Vec<_> = error
        .trace
        .iter()
        .map(|place| (place.function.as_str(), place.line, place.column, place.width))
        .collect();
    assert_eq!(places, [("f", 3, 11, 4), ("g", 2, 11, 6)]);
    assert_eq!(error.trace[1].text, "    return n.nope");
}

#[test]
fn values_that_are_needed_are_named() {
    let mut program = Program { functions: vec![("f", "def f(p):\n    return kp.static(p)\n")] };
    let spec = NumberSpec { name: "p.n".to_owned(), scalar: Scalar::I32, can_be_constant: true };
    let error = lower(&mut program, 0, vec![Constant::Number(spec)], Options::default()).unwrap_err();
    assert_eq!((error.code, error.needs), (Code::ConstantNeeded, vec!["p.n".to_owned()]));
}

/// Lowers a graph with checkpoints; every stage makes sense and can be read back.
fn graph(text: &'static str) -> Lowered {
    let options = Options { graph: true, checkpoints: true, ..Options::default() };
    let mut lowered = lowered(&[("f", text)], options).unwrap();
    assert_eq!(ir::parse(&ir::print(&lowered.kernel)).unwrap(), lowered.kernel);
    ir::verify(&lowered.kernel).unwrap();
    passes::optimise(&mut lowered.kernel);
    ir::verify(&lowered.kernel).unwrap();
    lowered
}

const STEP: &str = "def f(x, c, f):
    n = x.shape[0] // 2
    for i in range(n):
        x[i] = 1
    while graph.do_while(c):
        with checkpoint(STAGE, yield_on=f):
            for i in range(n):
                x[i] = 2
        c[()] -= 1
        x[0] = 3
    with graph.parallel_context():
        with graph.parallel():
            x[1] = 4
        with graph.parallel():
            for i in range(n):
                x[i] = 5
";

#[test]
fn a_graph_has_tasks_loops_and_gates() {
    let lowered = graph(STEP);
    let labels = lowered.kernel.labels.as_ref().unwrap();
    assert_eq!((labels.len(), labels[0].name.as_str(), labels[0].value), (1, "STAGE", 9));
    assert_eq!(lowered.members, [Some(Member { handle: 77, is_named: true })]);
    let task_graph = graph_of(&lowered.kernel);
    assert_eq!(task_graph.loops, [Loop { counter: 1, parent: None }]);
    let gate = |label, flag, parent| Gate { label, flag, parent };
    let expected = [gate(None, None, None), gate(Some(0), Some(2), Some(0)), gate(None, None, None)];
    assert_eq!(task_graph.gates, expected);
    let [Node::Task(first), Node::Loop(0, Some(site), body), Node::Sections(_, sections)] =
        &task_graph.nodes[..]
    else {
        panic!("{task_graph:?}")
    };
    assert!(first.is_parallel && first.writes == [0] && first.reads.is_empty());
    assert_eq!(lowered.kernel.sites[*site as usize].statement, 3);
    let [Node::Checkpoint(1, Some(site), inner), Node::Task(rest)] = &body[..] else {
        panic!("{task_graph:?}")
    };
    assert_eq!(lowered.kernel.sites[*site as usize].statement, 4);
    assert_eq!(inner.len(), 1);
    assert!(!rest.is_parallel && rest.reads == [1] && rest.writes == [0, 1]);
    assert_eq!(sections.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn what_only_depends_on_arguments_is_made_again() {
    let kernel = graph(STEP).kernel;
    let known = rematerialised(&kernel);
    let names: Vec<&str> = known.iter().map(|id| kernel.locals[*id as usize].name.as_str()).collect();
    assert!(names.contains(&"n"), "{names:?}");
    assert_eq!(not_live_at_resume(&kernel), None);
}

#[test]
fn what_would_be_lost_is_refused_where_it_is_used() {
    let text = "def f(x, c):
    t = x[1]
    with checkpoint(1):
        for i in x:
            x[i] = 0
    x[0] = t
";
    let options = Options { graph: true, checkpoints: true, ..Options::default() };
    let error = lowered(&[("f", text)], options).unwrap_err();
    assert_eq!((error.code, error.trace[0].line), (Code::Checkpoint, 6));
    // Without a checkpoint there is nothing to lose.
    let text = "def f(x, c):\n    t = x[1]\n    while graph.do_while(c):\n        x[0] = t\n        t += 1\n";
    assert!(lowered(&[("f", text)], Options { checkpoints: false, ..options }).is_ok());
}
