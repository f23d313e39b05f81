//! The program `keyprint`.

fn main() {
    std::process::exit(keyprint_cli::run_standard(std::env::args_os(), &[]));
}
