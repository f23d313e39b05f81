//! Text to syntax tree, however deep it is.
//!
//! The parser, and everything that walks its trees, recurses. So depth is bounded before parsing, by a
//! look at the tokens, and the work is done on a thread whose stack is large enough for that bound.

use ruff_python_ast::token::TokenKind;
use ruff_python_ast::{Expr, ModModule, Stmt, StmtFunctionDef};
use ruff_python_parser::{Mode, ParseOptions, lexer};

/// Deeper trees are refused. CPython itself refuses at about this depth.
const MOST_LEVELS: u32 = 6000;

/// Enough for [`MOST_LEVELS`] in a build without optimisation. Only what is used takes memory.
const STACK: usize = 1 << 30;

/// Files below this need no thread: they cannot be deep enough to matter.
const SHALLOW: u32 = 60;

/// Why there is no table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// Not Python, or not any that is known.
    #[error("line {line}: {message}")]
    Syntax {
        /// Where.
        line: u32,
        /// What the parser says.
        message: String,
    },
    /// Nested too deeply.
    #[error("nested more than {MOST_LEVELS} levels deep")]
    Depth,
    /// Too long for positions of 32 bits.
    #[error("longer than 4 GiB")]
    Length,
    /// There is no memory for another thread.
    #[error("cannot start a thread to parse on: {0}")]
    Thread(String),
}

/// Parses a module and hands its tree to `work`, with stack enough for both.
pub(crate) fn with_tree<T: Send>(
    text: &str,
    work: impl FnOnce(&ModModule) -> T + Send,
) -> Result<T, SourceError> {
    if u32::try_from(text.len()).is_err() {
        return Err(SourceError::Length);
    }
    let levels = levels(text);
    if levels > MOST_LEVELS {
        return Err(SourceError::Depth);
    }
    let parse = || {
        let options = ParseOptions::from(Mode::Module);
        let parsed = ruff_python_parser::parse_unchecked(text, options)
            .try_into_module()
            .expect("a module was asked for");
        match parsed.errors().first() {
            None => Ok(work(parsed.syntax())),
            Some(error) => Err(SourceError::Syntax {
                line: crate::lines::Lines::of(text).at(error.location.start()),
                message: error.error.to_string(),
            }),
        }
    };
    if levels <= SHALLOW {
        return parse();
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("keyprint-parse".to_owned()).stack_size(STACK);
        match thread.spawn_scoped(scope, parse) {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(error) => Err(SourceError::Thread(error.to_string())),
        }
    })
}

/// Parses a function and hands it to `work`, on the stack at hand: a text that is nested more than `most` levels deep
/// is refused.
///
/// # Errors
///
/// If the text is not one function, or nested too deeply.
pub fn with_function<T>(
    text: &str,
    most: u32,
    work: impl FnOnce(&StmtFunctionDef) -> T,
) -> Result<T, SourceError> {
    if u32::try_from(text.len()).is_err() || levels(text) > most {
        return Err(SourceError::Depth);
    }
    match ruff_python_parser::parse_module(text) {
        Ok(parsed) => match &parsed.syntax().body[..] {
            [Stmt::FunctionDef(function)] => Ok(work(function)),
            _ => Err(SourceError::Syntax { line: 1, message: "expected one function".to_owned() }),
        },
        Err(error) => Err(SourceError::Syntax {
            line: crate::lines::Lines::of(text).at(error.location.start()),
            message: error.error.to_string(),
        }),
    }
}

/// Parses an expression that is short enough for the stack at hand, and hands it to `work`.
pub(crate) fn with_expression<T>(text: &str, work: impl FnOnce(&Expr) -> T) -> Result<T, SourceError> {
    if u32::try_from(text.len()).is_err() || levels(text) > SHALLOW {
        return Err(SourceError::Depth);
    }
    match ruff_python_parser::parse_expression(text) {
        Ok(parsed) => Ok(work(parsed.expr())),
        Err(error) => Err(SourceError::Syntax { line: 1, message: error.error.to_string() }),
    }
}

/// Operators seen since the last comma, inside one open bracket.
#[derive(Default)]
struct Bracket {
    operators: u32,
    /// A comma may belong to a lambda's parameters: what follows is nested all the same.
    has_lambda: bool,
}

/// A bound of the depth of the tree of a text: open brackets, blocks, and the operators that may nest
/// in each of them since the last comma or line.
fn levels(text: &str) -> u32 {
    let mut lexer = lexer::lex(text, Mode::Module);
    let mut outer: Vec<Bracket> = Vec::new();
    let mut inner = Bracket::default();
    // Operators in `outer`.
    let mut sum = 0u32;
    let (mut blocks, mut most) = (0u32, 0u32);
    loop {
        match lexer.next_token() {
            TokenKind::EndOfFile => return most,
            TokenKind::Indent => blocks += 1,
            TokenKind::Dedent => blocks = blocks.saturating_sub(1),
            TokenKind::Lpar
            | TokenKind::Lsqb
            | TokenKind::Lbrace
            | TokenKind::FStringStart
            | TokenKind::TStringStart => {
                inner.operators += 1;
                sum += inner.operators;
                outer.push(std::mem::take(&mut inner));
            }
            // What was opened counts as an operator from then on: `f(a)(b)(c)` nests too.
            TokenKind::Rpar
            | TokenKind::Rsqb
            | TokenKind::Rbrace
            | TokenKind::FStringEnd
            | TokenKind::TStringEnd => {
                if let Some(around) = outer.pop() {
                    sum -= around.operators;
                    inner = around;
                }
            }
            TokenKind::Newline => {
                outer.clear();
                inner = Bracket::default();
                sum = 0;
            }
            TokenKind::Comma if !inner.has_lambda => inner.operators = 0,
            TokenKind::Comment
            | TokenKind::NonLogicalNewline
            | TokenKind::Name
            | TokenKind::Int
            | TokenKind::Float
            | TokenKind::Complex
            | TokenKind::String
            | TokenKind::FStringMiddle
            | TokenKind::TStringMiddle => {}
            kind => {
                inner.operators += 1;
                inner.has_lambda |= kind == TokenKind::Lambda;
            }
        }
        most = most.max(sum.saturating_add(inner.operators).saturating_add(blocks));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> Result<usize, SourceError> {
        with_tree(text, |module| module.body.len())
    }

    #[test]
    fn depth_is_bounded_whatever_nests() {
        let deep = 100_000;
        let texts = [
            format!("x = {}1{}", "(".repeat(deep), ")".repeat(deep)),
            format!("x = {}1", "-".repeat(deep)),
            format!("x = {}1", "not ".repeat(deep)),
            format!("x = {}1", "lambda: ".repeat(deep)),
            format!("x = 1{}", " + 1".repeat(deep)),
            format!("x = 1{}", " ** 1".repeat(deep)),
            format!("x = a{}", ".b".repeat(deep)),
            format!("x = a{}", "()".repeat(deep)),
            format!("x = a{}", "[0]".repeat(deep)),
            format!("x = {}1", "lambda a, b: ".repeat(deep)),
            format!("x = {}1", "1 if 1 else ".repeat(deep)),
            format!("x = {}1{}", "f'{".repeat(deep), "}'".repeat(deep)),
            format!("x = {}1", "await ".repeat(deep)),
            (0..deep / 100).map(|level| format!("{}if x:\n", " ".repeat(level))).collect::<String>()
                + &" ".repeat(deep / 100)
                + "pass\n",
        ];
        for text in texts.iter().take(13) {
            assert!(count(text).is_err(), "{}", &text[..40]);
        }
        assert_eq!(count(&texts[13]), Ok(1));
    }

    #[test]
    fn what_cpython_takes_is_taken() {
        for deep in [50, 180, 2900, 5900] {
            assert_eq!(count(&format!("x = 1{}\n", " + 1".repeat(deep))), Ok(1), "{deep}");
            assert_eq!(count(&format!("x = a{}\n", ".b".repeat(deep))), Ok(1), "{deep}");
        }
        assert_eq!(count(&format!("x = {}1{}\n", "(".repeat(190), ")".repeat(190))), Ok(1));
    }

    #[test]
    fn long_is_not_deep() {
        let numbers = "-1, ".repeat(100_000);
        assert_eq!(levels(&format!("x = [{numbers}]\n")), 3);
        let lines = "x = -1\n".repeat(100_000);
        assert_eq!(levels(&lines), 2);
    }

    #[test]
    fn bad_syntax_says_where() {
        let error = count("x = 1\ndef f(:\n    pass\n").unwrap_err();
        assert!(matches!(error, SourceError::Syntax { line: 2, .. }), "{error}");
    }
}
