//! What kernels print: kept, piece by piece, until whoever launched them shows it.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// More than this is dropped, and said to be.
const MOST: usize = 16 << 20;

static BUFFER: Mutex<String> = Mutex::new(String::new());

/// A piece of what is printed, as the generated code declares it.
#[repr(C)]
pub struct Part {
    text: *const u8,
    length: u64,
    bits: u64,
    kind: u64,
}

/// Whether something was printed that nobody has shown yet.
static PENDING: AtomicBool = AtomicBool::new(false);

/// Whether anything was printed since the last time.
#[must_use]
#[inline]
pub fn is_pending() -> bool {
    PENDING.load(Ordering::Relaxed)
}

/// Everything that was printed since the last time.
#[must_use]
pub fn take() -> String {
    PENDING.store(false, Ordering::Relaxed);
    std::mem::take(&mut BUFFER.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A piece of a line.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'t> {
    /// As it is.
    Text(&'t str),
    /// A number of a kind: `i`, `u`, `b`, `f`, or `s` for single precision, whose bits are those of a double.
    Value(u8, u64),
}

/// Prints a line: its parts stay together.
///
/// # Safety
///
/// There are `count` parts, and the texts in them are there.
pub(crate) unsafe extern "C" fn print(parts: *const Part, count: u64) {
    // SAFETY: as the caller promises.
    let parts = unsafe { std::slice::from_raw_parts(parts, count as usize) };
    let texts: Vec<_> = parts
        .iter()
        .map(|part| {
            // SAFETY: as the caller promises.
            (part.kind == u64::from(b't')).then(|| unsafe {
                String::from_utf8_lossy(std::slice::from_raw_parts(part.text, part.length as usize))
            })
        })
        .collect();
    let pieces: Vec<Piece<'_>> = parts
        .iter()
        .zip(&texts)
        .map(|(part, text)| match text {
            Some(text) => Piece::Text(text),
            None => Piece::Value(part.kind as u8, part.bits),
        })
        .collect();
    line(&pieces);
}

/// Prints a line: its pieces stay together.
pub fn line(pieces: &[Piece<'_>]) {
    let mut line = String::new();
    for piece in pieces {
        let _ = match *piece {
            Piece::Text(text) => {
                line.push_str(text);
                Ok(())
            }
            Piece::Value(b'i', bits) => write!(line, "{}", bits as i64),
            Piece::Value(b'b', bits) => write!(line, "{}", if bits == 0 { "False" } else { "True" }),
            Piece::Value(b's', bits) => float(&mut line, f64::from_bits(bits) as f32),
            Piece::Value(b'f', bits) => float(&mut line, f64::from_bits(bits)),
            Piece::Value(_, bits) => write!(line, "{bits}"),
        };
    }
    let mut buffer = BUFFER.lock().unwrap_or_else(PoisonError::into_inner);
    if buffer.len() + line.len() <= MOST {
        buffer.push_str(&line);
        PENDING.store(true, Ordering::Relaxed);
    } else if !buffer.ends_with("...\n") {
        buffer.push_str("...\n");
    }
}

/// A float as Python shows it.
fn float(line: &mut String, value: impl std::fmt::Debug) -> std::fmt::Result {
    let text = format!("{value:?}");
    line.push_str(match text.as_str() {
        "NaN" => "nan",
        other => other,
    });
    Ok(())
}
