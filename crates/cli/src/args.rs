//! What can be asked for.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::output::Color;

/// Looks after a store of compiled artifacts.
#[derive(Debug, Parser)]
#[command(
    name = "keyprint",
    version,
    term_width = 100,
    after_help = "Examples:\n  \
        keyprint stats                  how full the store is, and what it saved\n  \
        keyprint ls --sort size         the largest entries\n  \
        keyprint why --last             why the last builds were needed\n  \
        keyprint show 3f2a              what went into the entry whose key begins with 3f2a\n\n\
        Exit codes: 0 done, 1 something is wrong or could not be done, 2 wrong arguments.\n\
        The store is in KEYPRINT_CACHE_DIR, or in `keyprint` in the platform's cache directory."
)]
pub(crate) struct Args {
    /// The directory of the store
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Print JSON, for programs
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say how full the store is, and what it did
    Stats {
        /// Begin to count anew, and say what there is then
        #[arg(long)]
        zero: bool,
    },
    /// List entries
    #[command(
        after_help = "Examples:\n  keyprint ls\n  keyprint ls 'lower*' --sort size --limit 10\n  keyprint ls --json"
    )]
    Ls(Ls),
    /// Show what went into an entry
    #[command(after_help = "Example:\n  keyprint show 3f2a9c")]
    Show {
        /// A key, or the beginning of one
        key: String,
    },
    /// Say why something had to be built: what changed since the nearest earlier entry of its name
    #[command(
        after_help = "Examples:\n  keyprint why --last        the latest misses\n  keyprint why 3f2a          against the nearest earlier entry\n  keyprint why 3f2a 77b0     from one to the other"
    )]
    Why(Why),
    /// Read every entry and put damaged ones aside
    Verify {
        /// Only say what is damaged
        #[arg(long)]
        keep: bool,
    },
    /// Remove leftovers, and the least recently used entries above the size limit
    #[command(
        after_help = "Examples:\n  keyprint gc --size '2 GiB'\n  keyprint gc --older-than '30 days' --dry-run"
    )]
    Gc(Gc),
    /// Remove one entry
    #[command(after_help = "Example:\n  keyprint rm 3f2a9c")]
    Rm {
        /// A key, or the beginning of one
        key: String,
    },
    /// Write a part of an entry to a file
    #[command(
        after_help = "Examples:\n  keyprint extract 3f2a kernel.c\n  keyprint extract 3f2a kernel.so -o kernel.so"
    )]
    Extract {
        /// A key, or the beginning of one
        key: String,
        /// The name of the part, as `keyprint show` lists it
        part: String,
        /// The file to write, instead of the standard output
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Remove entries
    #[command(
        after_help = "Examples:\n  keyprint clear             everything\n  keyprint clear 'lower*'    everything of such a name"
    )]
    Clear {
        /// Only entries of such a name; `*` stands for anything
        pattern: Option<String>,
        /// Only say what would go
        #[arg(long)]
        dry_run: bool,
    },
    /// Write the store to one file
    #[command(
        after_help = "Examples:\n  keyprint export warm.kpx\n  keyprint export - | ssh elsewhere keyprint import - --trust"
    )]
    Export {
        /// The file to write; `-` for the standard output
        file: PathBuf,
        /// Only entries of such a name; `*` stands for anything
        pattern: Option<String>,
    },
    /// Take in a file that `export` wrote
    #[command(after_help = "Example:\n  keyprint import warm.kpx --trust")]
    Import {
        /// The file to read; `-` for the standard input
        file: PathBuf,
        /// Take it in although this user did not make it here: whoever did can run code
        #[arg(long)]
        trust: bool,
    },
    /// Print the directory of the store
    Path,
    /// Look for trouble: permissions, file system, toolchain, limits
    Doctor,
    /// Print a completion script
    #[command(
        after_help = "Example:\n  keyprint completions bash > ~/.local/share/bash-completion/completions/keyprint"
    )]
    Completions {
        /// For which shell
        shell: Shell,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Gc {
    /// Down to this size instead of the limit
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<String>,
    /// Also what was not used for this long, such as `30 days`
    #[arg(long, value_name = "TIME")]
    pub(crate) older_than: Option<String>,
    /// Only say what would go
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Ls {
    /// Only entries of such a name; `*` stands for anything
    pub(crate) pattern: Option<String>,
    /// Also what Keyprint keeps for itself, whose names begin with a dot
    #[arg(long, short)]
    pub(crate) all: bool,
    /// What comes first
    #[arg(long, value_name = "BY", default_value = "age")]
    pub(crate) sort: Sort,
    /// The other way round
    #[arg(long, short)]
    pub(crate) reverse: bool,
    /// At most so many
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Sort {
    /// The newest first
    Age,
    /// The most recently used first
    Used,
    /// The largest first
    Size,
    /// By name
    Name,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Why {
    /// A key, or the beginning of one
    #[arg(required_unless_present = "last")]
    pub(crate) key: Option<String>,
    /// What to compare it with
    #[arg(conflicts_with = "last")]
    pub(crate) with: Option<String>,
    /// The last misses, at most so many
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "5", conflicts_with = "key")]
    pub(crate) last: Option<usize>,
}
