//! What requests that list filters, and their answers, have in common.

use alloc::vec::Vec;

use zzq_types::{PacketId, Properties, ReasonCode};

use super::fit::Parts;
use super::{EncodeError, Encoder, check_reason, ended, properties_len, put_properties};
use crate::{PacketType, ReasonCodes, Sender};

/// Identifier and properties.
type Head<'a> = (PacketId, Properties<'a>);

impl Encoder {
    /// Writes a request up to its list of `list` bytes; returns where the packet will end.
    pub(super) fn begin_request(
        self,
        packet: PacketType,
        (packet_id, properties): Head<'_>,
        list: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, EncodeError> {
        if list == 0 {
            return Err(EncodeError::NothingListed(packet));
        }
        let block = properties.as_bytes();
        let mut body = 2 + list;
        if self.version.is_v5() {
            body += properties_len(block.len()).map_err(|_| self.too_large(packet, block.len()))?;
        }
        let end = self.begin(packet, packet.bits() | 2, body, out)?;
        out.extend_from_slice(&packet_id.get().to_be_bytes());
        if self.version.is_v5() {
            put_properties(out, block);
        }
        Ok(end)
    }

    /// Writes an answer with a code for each filter.
    pub(super) fn answer(
        self,
        packet: PacketType,
        (packet_id, properties): Head<'_>,
        codes: ReasonCodes<'_>,
        out: &mut Vec<u8>,
        byte: impl Fn(ReasonCode) -> u8,
    ) -> Result<(), EncodeError> {
        if codes.is_empty() {
            return Err(EncodeError::NothingListed(packet));
        }
        for reason in codes.iter() {
            check_reason(packet, reason, &[Sender::Server])?;
        }
        let put = |out: &mut Vec<u8>| out.extend(codes.iter().map(byte));
        let head = &packet_id.get().to_be_bytes();
        let (first, tail) = (packet.bits(), codes.len());
        if self.version.is_v5() {
            let parts = Parts { packet, first, head, properties, bare: None, tail };
            return self.put_fitted(&parts, out, put);
        }
        let end = self.begin(packet, first, head.len() + tail, out)?;
        out.extend_from_slice(head);
        put(out);
        ended(packet, end, out);
        Ok(())
    }
}
