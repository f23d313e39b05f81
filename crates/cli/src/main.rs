//! The program `keyprint`.

use std::io::{self, IsTerminal};
use std::time::SystemTime;

use keyprint_cli::{Context, run};

fn main() {
    let (mut out, mut err, mut input) = (io::stdout(), io::stderr(), io::stdin());
    let (out_is_terminal, err_is_terminal) = (out.is_terminal(), err.is_terminal());
    let context = Context {
        out: &mut out,
        err: &mut err,
        input: &mut input,
        out_is_terminal,
        err_is_terminal,
        now: SystemTime::now(),
    };
    std::process::exit(run(std::env::args_os(), context));
}
