//! Fields of a block: little-endian integers and arrays at fixed places.
//!
//! Owns: reading and writing one field. Assumes: the caller has checked the block's length; a field
//! that passes its end is a broken invariant.

/// The integer in bytes `at` and behind.
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

/// The integer in bytes `at` and behind.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

/// The integer in bytes `at` and behind.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

/// The `N` bytes from `at` on.
pub fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

/// Writes a field, as many bytes as it has, from `at` on.
pub fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}
