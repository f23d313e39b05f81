//! What is written for small kernels. That it means the same is shown by running it: see `tests/python/language`.

use keyprint_lang::ir::{parse, verify};

use crate::{Code, generate};

fn code(text: &str) -> Code {
    let kernel = parse(text).unwrap();
    verify(&kernel).unwrap();
    generate(&kernel)
}

#[test]
fn only_what_is_used_is_asked_for() {
    let code = code(
        r#"(kernel "f" (array "p.x" f32 2 1 0 0 c argument) (array "y" f64 1 1 0 0 strided argument)
           (array "unused" f32 1 1 0 0 c argument) (number "a" f32) (number "b" i8) (results)
           (body (@1 store (at 0 _ (i64 1) (i64 2)) (number 0)) (@2 store (at 1 _ (i64 0)) (f64 0x0))))"#,
    );
    let slots: Vec<_> = code.slots.iter().map(crate::Slot::text).collect();
    assert_eq!(slots, ["p.x", "p.x.shape[1]", "y", "y.strides[0]", "a:f32"]);
    assert!(code.text.contains("p_x_a0[1LL * p_x_a0_s1 + 2LL] = a_n0;"), "{}", code.text);
}

#[test]
fn what_c_leaves_undefined_is_a_helper() {
    let code = code(
        r#"(kernel "f" (number "a" i32) (number "b" i32) (number "c" f32) (results i32 i32 i8 i32)
           (body (@1 return (floordiv (number 0) (number 1)) (shl (number 0) (number 1)) (cast i8 (number 2))
             (mod (number 0) (i32 7)))))"#,
    );
    for helper in ["kp_floordiv_i32", "kp_shl_i32", "kp_f32_to_i8", "kp_mod_i32"] {
        assert_eq!(
            code.text.matches(&format!("static inline i32 {helper}(")).count()
                + code.text.matches(&format!("static inline i8 {helper}(")).count(),
            1,
            "{helper}"
        );
    }
}

#[test]
fn numbers_are_written_exactly() {
    let code = code(
        r#"(kernel "f" (results i64 i32 f32 f64 u64 f32)
           (body (@1 return (i64 -9223372036854775808) (i32 -2147483648) (f32 0x3dcccccd) (f64 0x3fb999999999999a)
             (u64 18446744073709551615) (f32 0x7f800000))))"#,
    );
    for text in [
        "-9223372036854775807LL - 1",
        "-2147483647 - 1",
        "0.1f",
        "0.1)",
        "18446744073709551615ULL",
        "__builtin_inff()",
    ] {
        assert!(code.text.contains(text), "{text}: {}", code.text);
    }
}

#[test]
fn a_launch_begins_and_ends_at_checkpoints() {
    let code = code(
        r#"(kernel "f" (array "x" i32 0 1 0 0 c argument) (array "c" i32 0 1 0 0 c argument) (local "n" i32 0)
           (local "m" i32 0) (results) (graph) (checkpoints ("1" 1) ("2" 2))
           (body (var 0) (var 1) (@1 set 0 (i32 7)) (@2 store (at 0 _) %0)
             (@3 dowhile 1 (do (@4 checkpoint 0 0 (do)) (@5 checkpoint 1 _ (do)))) (@6 set 1 (load (at 0 _)))))"#,
    );
    let line = |text: &str| {
        code.text
            .lines()
            .position(|line| line.trim() == text)
            .unwrap_or_else(|| panic!("{text}: {}", code.text))
    };
    // What only depends on arguments is made wherever the launch begins; what has effects is behind a gate.
    assert!(line("n_0 = 7;") < line("if (!kp_skip) {"));
    assert!(line("if (!kp_skip) {") < line("x_a0[0] = n_0;"));
    assert!(line("x_a0[0] = n_0;") < line("if (!kp_skip || kp_from - 1 <= 1) do {"));
    assert!(
        line("if (kp_from == 1) kp_skip = 0;")
            < line("if (!kp_skip && x_a0[0] != 0) { w[2] = 1; goto kp_yield; }")
    );
    assert!(line("if (kp_from == 2) kp_skip = 0;") < line("} while (c_a1[0] != 0);"));
    assert_eq!(code.text.matches("goto kp_yield").count(), 1);
    assert_eq!(code.text.matches("m_1 = x_a0[0];").count(), 1);
}

#[test]
fn names_cannot_break_out() {
    let code = code(
        r#"(kernel "*/ evil(); /*" (array "x*/ y" f32 0 1 0 0 c argument) (local "9 lives; */" f32 0) (results)
           (body (var 0) (@1 set 0 (f32 0x0)) (@1 store (at 0 _) %0) (@2 print "*/ %d \"?\n")))"#,
    );
    assert_eq!(code.text.matches("*/ evil").count(), 0, "{}", code.text);
    assert!(code.text.contains("v9_lives") && code.text.contains(r#""*/ %d \"\077\n""#), "{}", code.text);
}
