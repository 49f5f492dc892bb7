//! Records that prove themselves: whoever finds one knows who staged it, and that it is whole.
//!
//! Owns: the body's layout. Does not know: the log.

/// Whose record it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Body {
    /// Which process of the workload staged it.
    pub life: u64,
    /// Which lane.
    pub lane: u64,
    /// The lane's count, over all lives.
    pub number: u64,
}

const HEAD: usize = 32;

impl Body {
    /// Its bytes, at least 32 of them.
    pub fn encode(&self, len: usize) -> Vec<u8> {
        let len = len.max(HEAD);
        let mut bytes: Vec<u8> = [self.life, self.lane, self.number, len as u64]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        bytes.resize(len, 0);
        for (at, byte) in bytes.iter_mut().enumerate().skip(HEAD) {
            *byte = self.fill(at);
        }
        bytes
    }

    /// Whose it is, if it is exactly what [`encode`](Self::encode) has made.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(8 * at..)?.first_chunk()?));
        let body = Self { life: word(0)?, lane: word(1)?, number: word(2)? };
        let whole = word(3)? == bytes.len() as u64
            && bytes.iter().enumerate().skip(HEAD).all(|(at, byte)| *byte == body.fill(at));
        whole.then_some(body)
    }

    fn fill(&self, at: usize) -> u8 {
        let mixed = (self.number * 31 + self.lane * 7 + self.life) ^ (at as u64 / 16);
        mixed.to_le_bytes()[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_is_noticed() {
        let body = Body { life: 2, lane: 1, number: 300 };
        for len in [0, 32, 33, 5000] {
            let bytes = body.encode(len);
            assert_eq!(Body::decode(&bytes), Some(body));
            for at in (24..bytes.len()).step_by(7) {
                let mut changed = bytes.clone();
                changed[at] ^= 4;
                assert_eq!(Body::decode(&changed), None, "{len} {at}");
            }
        }
        assert_eq!(Body::decode(&[0; 10]), None);
    }
}
