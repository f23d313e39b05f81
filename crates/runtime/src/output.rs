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

/// Prints a line: its parts stay together.
///
/// # Safety
///
/// There are `count` parts, and the texts in them are there.
pub(crate) unsafe extern "C" fn print(parts: *const Part, count: u64) {
    let mut line = String::new();
    // SAFETY: as the caller promises.
    let parts = unsafe { std::slice::from_raw_parts(parts, count as usize) };
    for part in parts {
        let _ = match u8::try_from(part.kind).unwrap_or(b't') {
            b't' => {
                // SAFETY: as the caller promises.
                let text = unsafe { std::slice::from_raw_parts(part.text, part.length as usize) };
                line.push_str(&String::from_utf8_lossy(text));
                Ok(())
            }
            b'i' => write!(line, "{}", part.bits as i64),
            b'b' => write!(line, "{}", if part.bits == 0 { "False" } else { "True" }),
            b's' => float(&mut line, f64::from_bits(part.bits) as f32),
            b'f' => float(&mut line, f64::from_bits(part.bits)),
            _ => write!(line, "{}", part.bits),
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
