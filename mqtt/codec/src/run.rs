//! Runs: PUBLISH after PUBLISH with the same first byte and topic, as busy publishers send them.
//! The topic of the first is the topic of all: it is neither checked nor matched again.

mod acks;
mod whole;

pub use acks::AckRun;
pub use whole::{Run, RunMessage, RunPlaces};

use crate::cursor::Cursor;
use crate::decode::{Context, decode_behind_topic};
use crate::{DecodeError, Decoder, FixedHeader, PacketType, Publish};

impl Decoder {
    /// Decodes the PUBLISH at the front of `bytes` if it is there in full and goes on with the run
    /// of `previous`, which this decoder has read: the same first byte (QoS, DUP, RETAIN) and the
    /// same topic, byte for byte. Returns it with its size. `None`: whatever comes is for
    /// [`Decoder::decode`].
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    #[inline]
    pub fn decode_run<'a>(
        self,
        previous: &Publish<'a>,
        bytes: &'a [u8],
    ) -> Result<Option<(Publish<'a>, usize)>, DecodeError> {
        let (Some(topic), Some(version)) = (previous.topic, self.version()) else {
            return Ok(None);
        };
        let first = first_byte(previous);
        if bytes.first() != Some(&first) {
            return Ok(None);
        }
        // The type and the flags were good in the packet before.
        let fail = |fault| self.error(PacketType::Publish, fault);
        let header = FixedHeader::read(PacketType::Publish, bytes, self.limits(), Some(version));
        let Some(header) = header.map_err(fail)? else { return Ok(None) };
        let Some(packet) = bytes.get(..header.total_len()) else { return Ok(None) };
        let mut cursor = Cursor::new(&packet[header.header_len()..]);
        if cursor.binary() != Ok(topic.as_str().as_bytes()) {
            return Ok(None);
        }
        let context = Context { sender: self.sender(), version, first };
        let publish = decode_behind_topic(context, Some(topic), cursor).map_err(fail)?;
        Ok(Some((publish, header.total_len())))
    }
}

#[inline]
fn first_byte(publish: &Publish<'_>) -> u8 {
    PacketType::Publish.bits()
        | u8::from(publish.dup) << 3
        | publish.delivery.qos().bits() << 1
        | u8::from(publish.retain)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::{Limits, Packet};
    use std::vec::Vec;
    use zzq_types::ProtocolVersion;

    fn decoder(version: ProtocolVersion) -> Decoder {
        let mut decoder = Decoder::of_clients(Limits::default());
        decoder.connected(version);
        decoder
    }

    fn first(decoder: Decoder, bytes: &[u8]) -> (Publish<'_>, usize) {
        match decoder.decode(bytes) {
            Ok(Some((Packet::Publish(publish), size))) => (publish, size),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_run_goes_on_with_the_same_first_byte_and_topic() {
        let decoder = decoder(ProtocolVersion::V311);
        let one = [0x32, 6, 0, 1, b't', 0, 1, b'a'];
        let two = [0x32, 8, 0, 1, b't', 0, 2, b'b', b'c', b'd'];
        let bytes = [&one[..], &two].concat();
        let (publish, size) = first(decoder, &bytes);
        let (next, next_size) = decoder.decode_run(&publish, &bytes[size..]).unwrap().unwrap();
        assert_eq!((next, next_size), first(decoder, &two));
    }

    #[test]
    fn everything_else_is_left_to_decode() {
        let decoder = decoder(ProtocolVersion::V311);
        let one = [0x32, 6, 0, 1, b't', 0, 1, b'a'];
        let others: [&[u8]; 7] = [
            &[],
            &[0x32],
            &[0x32, 6, 0, 1, b't', 0, 1],
            &[0x33, 6, 0, 1, b't', 0, 1, b'a'],
            &[0x32, 6, 0, 1, b'u', 0, 1, b'a'],
            &[0x32, 6, 0, 2, b't', b't', 0, 1],
            &[0xC0, 0],
        ];
        for other in others {
            let bytes = [&one[..], other].concat();
            let (publish, size) = first(decoder, &bytes);
            assert_eq!(decoder.decode_run(&publish, &bytes[size..]), Ok(None), "{other:?}");
        }
    }

    #[test]
    fn a_run_refuses_what_decode_refuses() {
        let decoder = decoder(ProtocolVersion::V5);
        let one = [0x32, 7, 0, 1, b't', 0, 1, 0, b'a'];
        let bad: [&[u8]; 3] = [
            &[0x32, 7, 0, 1, b't', 0, 0, 0, b'a'],
            &[0x32, 9, 0, 1, b't', 0, 1, 3, 0x23, 0, 0],
            &[0x32, 5, 0, 1, b't', 0, 1],
        ];
        for bad in bad {
            let bytes = [&one[..], bad].concat();
            let (publish, size) = first(decoder, &bytes);
            let refused = decoder.decode_run(&publish, &bytes[size..]).unwrap_err();
            assert_eq!(Err(refused), decoder.decode(bad).map(|_| ()));
        }
    }

    #[test]
    fn aliased_topics_make_no_run() {
        let decoder = decoder(ProtocolVersion::V5);
        let one = [0x30, 6, 0, 0, 3, 0x23, 0, 1];
        let bytes: Vec<u8> = [one, one].concat();
        let (publish, size) = first(decoder, &bytes);
        assert_eq!(decoder.decode_run(&publish, &bytes[size..]), Ok(None));
    }
}
