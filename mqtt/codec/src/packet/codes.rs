//! The list of reason codes in SUBACK and UNSUBACK.

use zzq_types::ReasonCode;

/// Reason codes in the order of the filters they answer, read from a packet or to be written.
#[derive(Clone, Copy, Debug)]
pub struct ReasonCodes<'a>(Source<'a>);

#[derive(Clone, Copy, Debug)]
enum Source<'a> {
    /// Each byte was checked to be a code.
    Wire(&'a [u8]),
    Made(&'a [ReasonCode]),
}

impl<'a> ReasonCodes<'a> {
    /// Codes to be written.
    pub const fn new(codes: &'a [ReasonCode]) -> Self {
        Self(Source::Made(codes))
    }

    /// Codes that a decoder has checked byte for byte.
    pub(crate) const fn from_checked(bytes: &'a [u8]) -> Self {
        Self(Source::Wire(bytes))
    }

    /// How many there are.
    pub const fn len(self) -> usize {
        match self.0 {
            Source::Wire(bytes) => bytes.len(),
            Source::Made(codes) => codes.len(),
        }
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The codes in their order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = ReasonCode> + 'a {
        (0..self.len()).map(move |at| self.at(at))
    }

    fn at(self, at: usize) -> ReasonCode {
        match self.0 {
            Source::Wire(bytes) => {
                let code = ReasonCode::from_code(bytes[at]);
                assert!(code.is_some(), "codes were checked when they were read");
                code.unwrap_or(ReasonCode::UnspecifiedError)
            }
            Source::Made(codes) => codes[at],
        }
    }
}

impl PartialEq for ReasonCodes<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for ReasonCodes<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_and_made_lists_are_alike() {
        let made = ReasonCodes::new(&[ReasonCode::GrantedQoS1, ReasonCode::NotAuthorized]);
        assert_eq!(made, ReasonCodes::from_checked(&[0x01, 0x87]));
        assert_ne!(made, ReasonCodes::from_checked(&[0x01]));
        assert_eq!((made.len(), ReasonCodes::new(&[]).is_empty()), (2, true));
    }
}
