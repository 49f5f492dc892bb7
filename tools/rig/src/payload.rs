//! Payloads that prove themselves: whoever gets one knows whose it is, and that it is whole.
//!
//! Owns: their layout and sizes. Does not know: packets.

use crate::cast::PUBLISHERS;
use zzq_wal::sim_disk::Random;

/// The bytes of a publisher's message. Most are short, some are longer than a block of the log, and
/// a few are longer than its largest record.
pub fn encode(by: usize, seq: u64) -> Vec<u8> {
    let mut bytes = format!("{by} {seq} ").into_bytes();
    let len = length(by, seq).max(bytes.len());
    let head = bytes.len();
    bytes.resize(len, 0);
    for (at, byte) in bytes.iter_mut().enumerate().skip(head) {
        *byte = fill(seq, at);
    }
    bytes
}

/// Whose it is, if it is exactly what [`encode`] has made.
pub fn decode(bytes: &[u8]) -> Option<(usize, u64)> {
    let head = &bytes[..bytes.len().min(32)];
    let mut words = head.split(|byte| *byte == b' ');
    let mut number = || std::str::from_utf8(words.next()?).ok()?.parse::<u64>().ok();
    let (by, seq) = (usize::try_from(number()?).ok()?, number()?);
    let head = format!("{by} {seq} ");
    let whole = bytes.starts_with(head.as_bytes())
        && bytes.len() == length(by, seq).max(head.len())
        && bytes.iter().enumerate().skip(head.len()).all(|(at, byte)| *byte == fill(seq, at));
    whole.then_some((by, seq))
}

fn length(by: usize, seq: u64) -> usize {
    let mixed = Random::new(seq << 8 | by as u64).number();
    let len = match mixed % 1024 {
        // No will is that long.
        0 if PUBLISHERS.get(by).is_none_or(|publisher| !publisher.is_mourned) => 280_000,
        0..16 => 3000 + mixed % 9000,
        _ => 20 + mixed % 120,
    };
    usize::try_from(len).unwrap_or_default()
}

fn fill(seq: u64, at: usize) -> u8 {
    (seq ^ (at as u64 / 16)).to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_or_length_is_noticed() {
        let (mut short, mut long) = (false, false);
        for seq in 1..5000 {
            let bytes = encode(3, seq);
            assert_eq!(decode(&bytes), Some((3, seq)));
            (short, long) = (short || bytes.len() < 50, long || bytes.len() > 262_144);
            let mut changed = bytes.clone();
            let at = bytes.len() - 1;
            changed[at] ^= 4;
            assert_eq!(decode(&changed), None);
            assert_eq!(decode(&bytes[..at]), None);
        }
        assert!(short && long, "all kinds of sizes");
        assert_eq!((decode(b""), decode(b"x y z")), (None, None));
    }
}
