//! The fold, checked against the plain recursive definition on random graphs.

use keyprint_fingerprint::{Folder, fold};
use proptest::prelude::*;

/// A graph: for each node, its children in order.
type Graph = Vec<Vec<usize>>;

/// What a graph looks like from a node: nested lists, with back references by relative depth.
fn unfold(graph: &Graph, node: usize, open: &mut Vec<usize>) -> String {
    if let Some(at) = open.iter().position(|&other| other == node) {
        return format!("^{}", open.len() - at);
    }
    open.push(node);
    let parts: Vec<String> = graph[node].iter().map(|&child| unfold(graph, child, open)).collect();
    open.pop();
    format!("{}({})", graph[node].len(), parts.join(","))
}

struct Render<'g> {
    graph: &'g Graph,
    opened: usize,
    repeated: usize,
}

impl Folder for Render<'_> {
    type Node = usize;
    type State = usize;
    type Output = String;
    type Key = usize;
    type Error = String;

    fn key(&self, node: &usize) -> Option<usize> {
        Some(*node)
    }

    fn open(&mut self, node: &usize) -> Result<(usize, Vec<usize>), String> {
        self.opened += 1;
        Ok((self.graph[*node].len(), self.graph[*node].clone()))
    }

    fn close(&mut self, count: usize, parts: Vec<String>) -> Result<String, String> {
        Ok(format!("{count}({})", parts.join(",")))
    }

    fn back(&mut self, _: &usize, distance: usize) -> Result<String, String> {
        Ok(format!("^{distance}"))
    }

    fn repeated(&mut self, _: &usize, times: usize) -> Result<(), String> {
        self.repeated = times;
        if times > 100_000 { Err("entangled".to_owned()) } else { Ok(()) }
    }
}

fn render(graph: &Graph, root: usize) -> (Result<String, String>, usize) {
    let mut folder = Render { graph, opened: 0, repeated: 0 };
    let result = fold(&mut folder, root);
    (result, folder.opened)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn agrees_with_recursion(graph in (1usize..7).prop_flat_map(|n| {
        prop::collection::vec(prop::collection::vec(0..n, 0..4), n)
    })) {
        for root in 0..graph.len() {
            let expected = unfold(&graph, root, &mut Vec::new());
            prop_assert_eq!(render(&graph, root).0.unwrap(), expected);
        }
    }
}

/// Only the number of nodes opened counts here: results grow too fast to be written out.
struct Count<'g>(&'g Graph, usize);

impl Folder for Count<'_> {
    type Node = usize;
    type State = ();
    type Output = ();
    type Key = usize;
    type Error = ();

    fn key(&self, node: &usize) -> Option<usize> {
        Some(*node)
    }

    fn open(&mut self, node: &usize) -> Result<((), Vec<usize>), ()> {
        self.1 += 1;
        if self.1 > 2_000_000 { Err(()) } else { Ok(((), self.0[*node].clone())) }
    }

    fn close(&mut self, (): (), _: Vec<()>) -> Result<(), ()> {
        Ok(())
    }

    fn back(&mut self, _: &usize, _: usize) -> Result<(), ()> {
        Ok(())
    }
}

fn opened(graph: &Graph) -> usize {
    let mut folder = Count(graph, 0);
    fold(&mut folder, 0).expect("polynomial");
    folder.1
}

#[test]
fn a_binary_dag_is_visited_once() {
    let mut graph: Graph = (0..60).map(|i| vec![i + 1, i + 1]).collect();
    graph.push(vec![]);
    assert_eq!(opened(&graph), 61);
}

#[test]
fn a_binary_dag_whose_leaf_points_at_its_root_is_visited_once() {
    let mut graph: Graph = (0..60).map(|i| vec![i + 1, i + 1]).collect();
    graph.push(vec![0]);
    assert_eq!(opened(&graph), 61);
}

#[test]
fn a_ladder_whose_leaves_point_at_its_root_is_visited_once() {
    // Node 0, then two nodes per level, each pointing at both nodes of the next level.
    let mut graph: Graph = vec![vec![1, 2]];
    for level in 0..60 {
        let next = 2 * level + 3;
        graph.push(vec![next, next + 1]);
        graph.push(vec![next, next + 1]);
    }
    graph.push(vec![0]);
    graph.push(vec![0]);
    assert_eq!(opened(&graph), graph.len());
}

#[test]
fn a_dag_of_mixed_depths_with_back_references_stays_polynomial() {
    // Every node points at the next and the one after it; the end points at the root. A node stands
    // at many depths, and counts apart at each, but no more often than that.
    let levels = 60;
    let mut graph: Graph = (0..levels).map(|i| vec![(i + 1).min(levels), (i + 2).min(levels)]).collect();
    graph.push(vec![0]);
    assert!(opened(&graph) < 2 * levels * levels, "{}", opened(&graph));
}

#[test]
fn parent_pointers_are_linear() {
    // A chain in which every node also points back at the one before.
    let mut graph: Graph = vec![vec![1]];
    graph.extend((1..50_000).map(|i| vec![i - 1, i + 1]));
    graph.push(vec![49_999]);
    assert_eq!(opened(&graph), graph.len());
}

#[test]
fn a_million_levels_do_not_touch_the_stack() {
    let mut graph: Graph = (0..1_000_000).map(|i| vec![i + 1]).collect();
    graph.push(vec![]);
    assert_eq!(opened(&graph), graph.len());
}

#[test]
fn an_entangled_graph_is_given_up_soon() {
    // Every node points at every node: the ways through it are beyond counting.
    let graph: Graph = (0..24).map(|_| (0..24).collect()).collect();
    struct Impatient<'g>(Count<'g>);
    impl Folder for Impatient<'_> {
        type Node = usize;
        type State = ();
        type Output = ();
        type Key = usize;
        type Error = ();
        fn key(&self, node: &usize) -> Option<usize> {
            self.0.key(node)
        }
        fn open(&mut self, node: &usize) -> Result<((), Vec<usize>), ()> {
            self.0.open(node)
        }
        fn close(&mut self, (): (), _: Vec<()>) -> Result<(), ()> {
            Ok(())
        }
        fn back(&mut self, _: &usize, _: usize) -> Result<(), ()> {
            Ok(())
        }
        fn repeated(&mut self, _: &usize, times: usize) -> Result<(), ()> {
            if times > 10_000 { Err(()) } else { Ok(()) }
        }
    }
    let mut folder = Impatient(Count(&graph, 0));
    assert_eq!(fold(&mut folder, 0), Err(()));
    assert!(folder.0.1 <= 11_000, "{}", folder.0.1);
}
