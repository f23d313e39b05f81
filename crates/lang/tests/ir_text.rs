//! The text of the IR: what can be read, and what makes no sense.

use keyprint_lang::ir::{parse, print, verify};

const HEAD: &str = r#"(array "x" f32 1 1 0 0 c argument) (array "v" f32 1 3 1 0 strided argument) (number "n" i32)
    (local "i" i32 0) (local "s" f32 0) (local "w" f32 2) (site "f" 3 "bounds:x") (results f32)"#;

fn kernel(body: &str) -> String {
    format!("(kernel \"f\" {HEAD} (body {body}))")
}

#[test]
fn every_statement_is_read_back() {
    let text = kernel(
        r#"(var 1) (var 2)
        (@1 set 1 (f32 0x3f800000))
        (@2 setlane 2 (i64 1) (select (lt (number 0) (i32 -3)) %1 (call sqrt %1)))
        (@3 parallel ((0 (i32 0) (cast i32 (size 0 0)))) 64 ()
          (do
            (@4 if (and (eq %0 (number 0)) (not (lt %0 (i32 1))))
              (then (@4 continue))
              (else (@5 store (at 1 (i64 2) (cast i64 %0)) (lane 2 (i64 1)))))
            (@6 atomic max (at 0 _ (cast i64 %0)) (load (at 1 (i64 0) (cast i64 %0))) _)
            (@6 atomic add (lane 2 (i64 0)) (f32 0x0) _)))
        (@7 for 0 (i32 0) (number 0) (do (@7 break)))
        (@8 loop (do (@8 break)))
        (@9 scope 4 (do (@9 leave 4)))
        (@10 check 0 (ne %1 (f32 0x0)) (number 0))
        (@11 print "a \"b\"\n" (bits i32 %1))
        (@12 return (neg %1))"#,
    );
    let kernel = parse(&text).unwrap();
    verify(&kernel).unwrap();
    let printed = print(&kernel);
    assert_eq!(parse(&printed).unwrap(), kernel);
    assert_eq!(print(&parse(&printed).unwrap()), printed);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let cases = [
        ("(@1 return %1)", "local 1 is not there"),
        ("(@1 return (i32 1))", "expected f32, found i32"),
        ("(@1 return)", "another number of results"),
        ("(@1 let 1 (i32 1)) (@2 return %1)", "and set to i32"),
        ("(var 1) (@1 let 1 (f32 0x0)) (@2 return %1)", "made twice"),
        ("(@1 break) (@2 return (f32 0x0))", "no loop to leave"),
        ("(@1 leave 3)", "no scope 3"),
        ("(@1 store (at 0 _) (f32 0x0))", "has 1 dimensions"),
        ("(@1 store (at 1 _ (i64 0)) (f32 0x0))", "has lanes"),
        ("(@1 store (at 1 (i64 3) (i64 0)) (f32 0x0))", "lane 3 of 3"),
        ("(@1 store (at 0 _ (i32 0)) (f32 0x0))", "expected i64, found i32"),
        ("(@1 store (at 7 _ (i64 0)) (f32 0x0))", "no array 7"),
        ("(var 2) (@1 return %2)", "has lanes"),
        ("(@1 return (add (f32 0x0) (i32 1)))", "expected f32, found i32"),
        ("(@1 return (bitand (f32 0x0) (f32 0x0)))", "`bitand` of f32"),
        ("(@1 return (call sqrt (i32 4)))", "`sqrt` of i32"),
        ("(@1 return (call atan2 (f32 0x0)))", "`atan2` with 1 arguments"),
        ("(@1 check 4 (bool 1))", "no site 4"),
        ("(@1 check 0 (i32 1))", "expected bool, found i32"),
        (
            "(@1 parallel ((0 (i32 0) (i32 9))) _ () (do (@2 return (f32 0x0))))",
            "a parallel loop that returns",
        ),
        ("(@1 parallel ((0 (i32 0) (i32 9))) _ () (do (@2 break)))", "a parallel loop that is left"),
        ("(@1 parallel ((0 (i32 0) (i64 9))) _ () (do))", "expected i32, found i64"),
        ("(@1 return (size 0 4))", "no dimension 4"),
        ("(@1 return (bits f32 (i64 1)))", "bits of another size"),
    ];
    for (body, expected) in cases {
        let kernel = parse(&kernel(body)).unwrap();
        let error = verify(&kernel).unwrap_err().to_string();
        assert!(error.contains(expected), "{body}: {error}");
    }
}

const GRAPH: &str = r#"(array "x" i32 1 1 0 0 c argument) (array "c" i32 0 1 0 0 c argument) (array "f" f32 0 1 0 0 c argument)
    (local "a" i32 0) (local "b" i32 0) (site "f" 3 "") (results) (graph) (checkpoints ("Stage.A" 3) ("-4" -4))"#;

fn graph(body: &str) -> String {
    format!("(kernel \"f\" {GRAPH} (body {body}))")
}

#[test]
fn every_piece_of_a_graph_is_read_back() {
    let text = graph(
        r"(@1 at 0) (@1 dowhile 1 (do (@2 checkpoint 0 1 (do (@3 sections (section) (section (@3 at 0))))) (@4 checkpoint 1 _ (do))))",
    );
    let kernel = parse(&text).unwrap();
    verify(&kernel).unwrap();
    let labels = kernel.labels.as_ref().unwrap();
    assert_eq!((labels[0].name.as_str(), labels[1].value), ("Stage.A", -4));
    assert_eq!(parse(&print(&kernel)).unwrap(), kernel);
}

#[test]
fn graphs_that_make_no_sense_are_refused() {
    let pair = "(@1 checkpoint 0 _ (do)) (@1 checkpoint 1 _ (do))";
    let cases = [
        (format!("(@1 checkpoint 1 _ (do)) {pair}"), "out of order"),
        ("(@1 checkpoint 0 _ (do))".to_owned(), "labels without checkpoints"),
        ("(@1 checkpoint 0 _ (do (@1 checkpoint 1 _ (do))))".to_owned(), "inside a task or another"),
        (format!("{pair} (@1 dowhile 0 (do))"), "not one `i32`"),
        (format!("{pair} (@1 dowhile 2 (do))"), "not one `i32`"),
        (format!("{pair} (@1 dowhile 9 (do))"), "not one `i32`"),
        (
            format!("{pair} (@1 if (bool 1) (then (@1 dowhile 1 (do))) (else))"),
            "a loop of a graph inside a task",
        ),
        (format!("{pair} (@1 scope 1 (do (@1 dowhile 1 (do))))"), "a loop of a graph inside a task"),
        (format!("{pair} (@1 sections (section (@1 dowhile 1 (do))))"), "a loop of a graph inside a task"),
        (format!("{pair} (@1 sections (section (@1 sections)))"), "sections inside a task or each other"),
        (format!("{pair} (@1 sections (section (@1 return)))"), "a section that returns"),
        (format!("{pair} (@1 loop (do (@1 dowhile 1 (do (@1 break)))))"), "a loop of a graph inside a task"),
        (format!("{pair} (@1 dowhile 1 (do (@1 break)))"), "no loop to leave"),
        (format!("{pair} (@1 dowhile 1 (do (var 0))) (@1 set 0 (i32 1))"), "local 0 is not there"),
        (format!("{pair} (@1 at 4)"), "no site 4"),
    ];
    for (body, expected) in cases {
        let error = verify(&parse(&graph(&body)).unwrap()).unwrap_err().to_string();
        assert!(error.contains(expected), "{body}: {error}");
    }
    let same = graph(pair).replace("-4", "3");
    assert!(verify(&parse(&same).unwrap()).unwrap_err().to_string().contains("two checkpoints are 3"));
    let none = graph(pair).replace("(graph)", "");
    assert!(verify(&parse(&none).unwrap()).is_err());
}

#[test]
fn other_texts_are_refused() {
    let deep = "(".repeat(100_000);
    for text in [
        "",
        "(",
        ")",
        "kernel",
        "(kernel)",
        "(kernel \"f\" (body)) more",
        "(kernel \"f\" (nonsense))",
        "(kernel \"f\" (body (@1 nonsense)))",
        "(kernel \"f\" (body (set 1 (f32 0))))",
        "(kernel \"f\" (body (@1 return (f32 zero))))",
        "(kernel \"f\" (local \"a\" f8 0))",
        "(kernel \"unended",
        &deep,
    ] {
        assert!(parse(text).is_err(), "{}", &text[..text.len().min(40)]);
    }
}
