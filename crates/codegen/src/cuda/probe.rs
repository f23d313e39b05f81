//! A graph whose ways are timed, so that others can be chosen between: a loop of two small parallel tasks and a statement.

use keyprint_lang::ir;

use super::{CudaCode, generate_cuda};

/// `while c: for i in x: x[i] = x[i] * 0.5 + 1; for i in x: x[i] = x[i] * 0.5 + 2; c -= 1`
const TEXT: &str = r#"
(kernel "turns"
  (array "c" i32 0 1 0 0 c argument)
  (array "x" f32 1 1 0 0 c argument)
  (local "i" i32 0)
  (local "i" i32 0)
  (results )
  (graph)
  (body
    (@1 dowhile 0
      (do
        (@2 parallel ((0 (i32 0) (cast i32 (size 1 0)))) _ ()
          (do (@3 store (at 1 _ (cast i64 %0)) (add (mul (load (at 1 _ (cast i64 %0))) (f32 0x3f000000)) (f32 0x3f800000)))))
        (@4 parallel ((1 (i32 0) (cast i32 (size 1 0)))) _ ()
          (do (@5 store (at 1 _ (cast i64 %1)) (add (mul (load (at 1 _ (cast i64 %1))) (f32 0x3f000000)) (f32 0x40000000)))))
        (@6 store (at 0 _) (sub (load (at 0 _)) (i32 1)))))))
"#;

/// The slots of the addresses of the counter and of the elements, and of how many elements there are.
pub const PROBE_SLOTS: [usize; 3] = [0, 1, 2];

/// The graph, as code.
///
/// # Panics
///
/// Never: its text is tested.
#[must_use]
pub fn probe() -> CudaCode {
    generate_cuda(&ir::parse(TEXT).expect("the text of a kernel"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Slot;

    #[test]
    fn the_probe_is_a_graph_of_three_tasks() {
        let kernel = ir::parse(TEXT).unwrap();
        ir::verify(&kernel).unwrap();
        let code = probe();
        let slots = [Slot::Address("c".into()), Slot::Address("x".into()), Slot::Size("x".into(), 0)];
        assert_eq!(code.slots, slots);
        assert_eq!(code.plan.tasks.len(), 3);
        assert!(code.plan.graph.unwrap().has_loops);
        assert!(code.plan.mail.is_empty() && code.plan.frame == 0 && code.plan.checks.len() == 1);
    }
}
