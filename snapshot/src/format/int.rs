//! Integers in LEB128, in their shortest form: of up to 32 bits, as lengths within nodes are, and
//! of up to 64.

/// The longest form of 64 bits.
const LONG_MAX: usize = 10;

/// Appends one.
pub(crate) fn put(out: &mut Vec<u8>, value: u32) {
    put_long(out, value.into());
}

/// Appends one of up to 64 bits.
pub(crate) fn put_long(out: &mut Vec<u8>, value: u64) {
    let mut left = value;
    while left >= 0x80 {
        out.push(left.to_le_bytes()[0] | 0x80);
        left >>= 7;
    }
    out.push(left.to_le_bytes()[0]);
}

/// Takes one that [`put_long`] has appended.
pub(crate) fn take_long(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u128;
    for (at, &byte) in bytes.iter().take(LONG_MAX).enumerate() {
        value |= u128::from(byte & 0x7F) << (7 * at);
        if byte < 0x80 {
            *bytes = &bytes[at + 1..];
            return u64::try_from(value).ok().filter(|_| at == 0 || byte > 0);
        }
    }
    None
}

/// How many bytes [`put`] appends.
pub(crate) const fn len(value: u32) -> usize {
    match value {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        0x4000..0x20_0000 => 3,
        0x20_0000..0x1000_0000 => 4,
        _ => 5,
    }
}

/// Takes one from the front of `bytes`; `None` if there is none in its shortest form.
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u32> {
    u32::try_from(take_long(bytes)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edge_has_one_form_and_is_read_back() {
        for bits in 0..=32 {
            let edge = 1_u64 << bits;
            for value in
                [edge - 1, edge, edge + 1].into_iter().filter_map(|n| u32::try_from(n).ok())
            {
                let mut bytes = Vec::new();
                put(&mut bytes, value);
                assert_eq!(bytes.len(), len(value), "{value}");
                let mut rest = &bytes[..];
                assert_eq!((take(&mut rest), rest.len()), (Some(value), 0));
                assert_eq!(take(&mut &bytes[..bytes.len() - 1]), None, "{value} cut short");
            }
        }
    }

    #[test]
    fn long_ones_too() {
        for bits in 0..64 {
            for value in [(1_u64 << bits) - 1, 1 << bits, u64::MAX >> bits] {
                let mut bytes = Vec::new();
                put_long(&mut bytes, value);
                let mut rest = &bytes[..];
                assert_eq!((take_long(&mut rest), rest.len()), (Some(value), 0));
                assert_eq!(take_long(&mut &bytes[..bytes.len() - 1]), None, "{value} cut short");
            }
        }
        for bytes in [&[0x80, 0][..], &[0xFF; 11], &[0x80; 10], &[]] {
            assert_eq!(take_long(&mut &*bytes), None, "{bytes:?}");
        }
        let beyond = [&[0xFF; 9][..], &[2]].concat();
        assert_eq!(take_long(&mut &beyond[..]), None);
    }

    #[test]
    fn longer_forms_and_greater_values_are_none() {
        for bytes in [&[0x80, 0][..], &[0xFF, 0xFF, 0xFF, 0xFF, 0x10], &[0x80; 6], &[]] {
            assert_eq!(take(&mut &*bytes), None, "{bytes:?}");
        }
    }
}
