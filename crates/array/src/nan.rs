//! NaNs: of a scalar, every one is the same value.

/// Makes every NaN of a float or complex scalar the same. `code` is the scalar's type, such as `f8` or `c16`.
pub fn make_nans_alike(code: &str, bytes: &mut [u8]) {
    let width = match code.as_bytes().first() {
        Some(b'f') => bytes.len(),
        Some(b'c') => bytes.len() / 2,
        _ => return,
    };
    if width == 0 {
        return;
    }
    for part in bytes.chunks_exact_mut(width) {
        let (exponent, mantissa, canonical): (u64, u64, u64) = match width {
            2 => (0x7c00, 0x03ff, 0x7e00),
            4 => (0x7f80_0000, 0x007f_ffff, 0x7fc0_0000),
            8 => (0x7ff0 << 48, (1 << 52) - 1, 0x7ff8 << 48),
            10 => {
                // Sign and exponent are the last two bytes; the mantissa has an explicit leading bit.
                let exponent = u16::from_le_bytes([part[8], part[9]]) & 0x7fff;
                let mantissa = u64::from_le_bytes(*part.first_chunk().expect("ten bytes")) << 1;
                if exponent == 0x7fff && mantissa != 0 {
                    part.copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0xc0, 0xff, 0x7f]);
                }
                continue;
            }
            _ => continue,
        };
        let mut bits = [0u8; 8];
        bits[..width].copy_from_slice(part);
        let bits = u64::from_le_bytes(bits);
        if bits & exponent == exponent && bits & mantissa != 0 {
            part.copy_from_slice(&canonical.to_le_bytes()[..width]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn alike(code: &str, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        make_nans_alike(code, &mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn nans_are_one_and_numbers_stay(bits: u64) {
            let value = f64::from_bits(bits);
            let written = f64::from_le_bytes(*alike("f8", &value.to_le_bytes()).first_chunk().unwrap());
            prop_assert_eq!(written.to_bits(), if value.is_nan() { 0x7ff8 << 48 } else { bits });
            let value = f32::from_bits(bits as u32);
            let written = f32::from_le_bytes(*alike("f4", &value.to_le_bytes()).first_chunk().unwrap());
            prop_assert_eq!(written.to_bits(), if value.is_nan() { 0x7fc0_0000 } else { bits as u32 });
            let half = bits as u16;
            let is_nan = half & 0x7fff > 0x7c00;
            prop_assert_eq!(alike("f2", &half.to_le_bytes()), (if is_nan { 0x7e00 } else { half }).to_le_bytes());
        }
    }

    #[test]
    fn parts_of_complex_numbers_and_extended_floats() {
        let odd_nan = f32::from_bits(0xffc0_0001).to_le_bytes();
        let one = 1f32.to_le_bytes();
        let canonical = 0x7fc0_0000u32.to_le_bytes();
        assert_eq!(alike("c8", &[one, odd_nan].concat()), [one, canonical].concat());
        let infinity = [0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0xff];
        assert_eq!(alike("f16", &infinity), infinity);
        let nan = [1, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0xff];
        assert_eq!(alike("f16", &nan), [0, 0, 0, 0, 0, 0, 0, 0xc0, 0xff, 0x7f]);
        // Whole numbers may have any bits.
        assert_eq!(alike("i4", &odd_nan), odd_nan);
        assert_eq!(alike("", &odd_nan), odd_nan);
        assert_eq!(alike("f0", &[]), [0u8; 0]);
    }
}
