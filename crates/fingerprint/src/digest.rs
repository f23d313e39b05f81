//! [`Fingerprint`]: the 256-bit identity of a value.

use std::fmt;
use std::str::FromStr;

/// The identity of a value: a keyed BLAKE3 digest over its canonical encoding.
///
/// Ordered and hashed by its bytes; printed as 64 lower-case hexadecimal digits.
///
/// ```
/// use keyprint_fingerprint::{Fingerprint, fingerprint};
///
/// let id = fingerprint("hello");
/// assert_eq!(id.to_string().parse::<Fingerprint>().unwrap(), id);
/// assert!(id.to_string().starts_with(&id.short()));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; Fingerprint::LEN]);

impl Fingerprint {
    /// Length in bytes.
    pub const LEN: usize = 32;

    /// Wraps the bytes of a digest made elsewhere.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// The digest's bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// All 64 hexadecimal digits.
    #[must_use]
    pub fn hex(&self) -> String {
        self.to_string()
    }

    /// The first 12 hexadecimal digits: for people, never for keys.
    #[must_use]
    pub fn short(&self) -> String {
        let mut text = self.to_string();
        text.truncate(12);
        text
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0u8; 2 * Self::LEN];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        f.write_str(std::str::from_utf8(&text).expect("hexadecimal digits are ASCII"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// Why a text is not a fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParseFingerprintError {
    /// Not 64 characters long; carries the length found.
    Length(usize),
    /// Something other than a hexadecimal digit; carries its byte position.
    Digit(usize),
}

impl fmt::Display for ParseFingerprintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(length) => {
                write!(f, "a fingerprint has 64 hexadecimal digits, found {length} characters")
            }
            Self::Digit(at) => {
                write!(f, "a fingerprint has only hexadecimal digits, found something else at position {at}")
            }
        }
    }
}

impl std::error::Error for ParseFingerprintError {}

impl FromStr for Fingerprint {
    type Err = ParseFingerprintError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() != 2 * Self::LEN {
            return Err(ParseFingerprintError::Length(text.chars().count()));
        }
        let digit = |at: usize| {
            char::from(text.as_bytes()[at])
                .to_digit(16)
                .map(|digit| digit as u8)
                .ok_or(ParseFingerprintError::Digit(at))
        };
        let mut bytes = [0u8; Self::LEN];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = digit(2 * i)? << 4 | digit(2 * i + 1)?;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips_and_orders_like_bytes() {
        let low = Fingerprint::from_bytes([1; 32]);
        let high = Fingerprint::from_bytes([0xab; 32]);
        assert!(low < high && low.hex() < high.hex());
        assert_eq!(high.hex().parse(), Ok(high));
        assert_eq!(high.hex().to_uppercase().parse(), Ok(high));
        assert_eq!(high.short(), "abababababab");
    }

    #[test]
    fn bad_text_says_what_is_wrong() {
        assert_eq!("abc".parse::<Fingerprint>(), Err(ParseFingerprintError::Length(3)));
        let text = format!("{}g", "0".repeat(63));
        assert_eq!(text.parse::<Fingerprint>(), Err(ParseFingerprintError::Digit(63)));
        assert!("é".repeat(32).parse::<Fingerprint>().is_err());
    }
}
