//! Frames of the WebSocket protocol (RFC 6455, 5), in place: the payload of what comes is unmasked
//! where it was read, and what goes is the lane's own output behind a header. No message is kept
//! here, however long it is, and it need not be a packet: MQTT cuts its packets itself.
//!
//! Owns: where in a frame either direction is, and the control frames that are owed.
//! Does not know: sockets, MQTT.
use std::io::Cursor;

use tungstenite::{
    error::Error,
    protocol::frame::{
        FrameHeader,
        coding::{CloseCode, Control, Data, OpCode},
    },
};

/// The longest header.
const HEADER_MOST: usize = 14;
/// The longest payload of a control frame (RFC 6455, 5.5).
const CONTROL_MOST: usize = 125;

/// What ends a connection's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The peer has closed, with this code.
    Closed(Option<u16>),
    /// It breaks the protocol.
    Fault(Fault),
}

/// How it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// In what RFC 6455 says of frames.
    Frame,
    /// By a frame of text: MQTT is binary.
    Text,
}

impl Fault {
    /// As the peer is told (RFC 6455, 7.4.1).
    pub(super) fn code(self) -> CloseCode {
        match self {
            Self::Frame => CloseCode::Protocol,
            Self::Text => CloseCode::Unsupported,
        }
    }
}

/// What comes from a client.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    /// The begin of a header.
    head: [u8; HEADER_MOST],
    head_len: usize,
    /// What is left of the payload of a frame, how it is masked from here on, and its kind.
    left: u64,
    mask: [u8; 4],
    control: Option<Control>,
    /// A message has begun, whose last frame has not.
    in_message: bool,
    /// Of a control frame.
    payload: Vec<u8>,
    pub(super) end: Option<End>,
}

impl Inbound {
    /// Takes bytes that were received, and leaves the payload at their front: returns how much.
    /// Behind an end nothing is looked at.
    pub(super) fn take(&mut self, bytes: &mut [u8], owed: &mut Owed) -> usize {
        let (mut read, mut kept) = (0, 0);
        while read < bytes.len() && self.end.is_none() {
            if self.left == 0 {
                read += self.take_header(&bytes[read..], owed);
                continue;
            }
            let rest = bytes.len() - read;
            let count = usize::try_from(self.left).map_or(rest, |left| left.min(rest));
            let payload = &mut bytes[read..read + count];
            unmask(payload, &mut self.mask);
            if self.control.is_some() {
                self.payload.extend_from_slice(payload);
            } else {
                bytes.copy_within(read..read + count, kept);
                kept += count;
            }
            read += count;
            self.left -= count as u64;
            if self.left == 0 {
                self.frame_ends(owed);
            }
        }
        kept
    }

    /// Returns how many bytes it took.
    fn take_header(&mut self, bytes: &[u8], owed: &mut Owed) -> usize {
        let before = self.head_len;
        let count = bytes.len().min(HEADER_MOST - before);
        self.head[before..before + count].copy_from_slice(&bytes[..count]);
        let mut cursor = Cursor::new(&self.head[..before + count]);
        match FrameHeader::parse(&mut cursor) {
            Ok(None) => {
                self.head_len += count;
                count
            }
            Ok(Some((header, length))) => {
                let end = usize::try_from(cursor.position()).unwrap_or(HEADER_MOST);
                self.head_len = 0;
                match self.begin(&header, length) {
                    Ok(()) if length == 0 => self.frame_ends(owed),
                    Ok(()) => {}
                    Err(fault) => self.end = Some(End::Fault(fault)),
                }
                end - before
            }
            Err(_) => {
                self.end = Some(End::Fault(Fault::Frame));
                count
            }
        }
    }

    /// A frame begins.
    //= MQTT5-6.0.0-1
    //= MQTT5-6.0.0-2
    //= MQTT311-6.0.0-1
    //= MQTT311-6.0.0-2
    fn begin(&mut self, header: &FrameHeader, length: u64) -> Result<(), Fault> {
        let FrameHeader { is_final, rsv1, rsv2, rsv3, opcode, mask } = header;
        let Some(mask) = mask else { return Err(Fault::Frame) };
        if *rsv1 || *rsv2 || *rsv3 || i64::try_from(length).is_err() {
            return Err(Fault::Frame);
        }
        match opcode {
            OpCode::Control(_) if !is_final || length > CONTROL_MOST as u64 => {
                return Err(Fault::Frame);
            }
            OpCode::Control(control) => self.control = Some(*control),
            OpCode::Data(Data::Text) => return Err(Fault::Text),
            OpCode::Data(data) => {
                if self.in_message != (*data == Data::Continue) {
                    return Err(Fault::Frame);
                }
                self.in_message = !is_final;
                self.control = None;
            }
        }
        (self.left, self.mask) = (length, *mask);
        Ok(())
    }

    /// Its last byte was taken.
    fn frame_ends(&mut self, owed: &mut Owed) {
        let payload = std::mem::take(&mut self.payload);
        match self.control.take() {
            Some(Control::Close) => {
                self.end = Some(match payload.as_slice() {
                    [] => End::Closed(None),
                    [_] => End::Fault(Fault::Frame),
                    [high, low, ..] => End::Closed(Some(u16::from_be_bytes([*high, *low]))),
                });
            }
            // The last of several may be answered for all (RFC 6455, 5.5.3).
            Some(Control::Ping) => owed.pong = Some(payload),
            _ => {}
        }
    }
}

/// Takes the mask off, and turns it for what follows.
fn unmask(bytes: &mut [u8], mask: &mut [u8; 4]) {
    let [a, b, c, d] = *mask;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (chunks, rest) = bytes.as_chunks_mut::<8>();
    for chunk in chunks {
        *chunk = (u64::from_ne_bytes(*chunk) ^ wide).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip([a, b, c, d, a, b, c]) {
        *byte ^= mask;
    }
    mask.rotate_left(rest.len() % 4);
}

/// Control frames to be sent, between others.
#[derive(Debug, Default)]
pub(super) struct Owed {
    pong: Option<Vec<u8>>,
    pub(super) close: Option<CloseCode>,
}

impl Owed {
    pub(super) fn is_empty(&self) -> bool {
        self.pong.is_none() && self.close.is_none()
    }

    /// Memory of it.
    pub(super) fn held(&self) -> usize {
        self.pong.as_ref().map_or(0, Vec::capacity)
    }

    /// Writes these frames, and owes them no more.
    pub(super) fn put(&mut self, out: &mut Vec<u8>) {
        if let Some(payload) = self.pong.take() {
            put_frame(OpCode::Control(Control::Pong), &payload, out);
        }
        if let Some(code) = self.close.take() {
            put_frame(OpCode::Control(Control::Close), &u16::from(code).to_be_bytes(), out);
        }
    }
}

fn put_frame(opcode: OpCode, payload: &[u8], out: &mut Vec<u8>) {
    put_header(opcode, payload.len(), out);
    out.extend_from_slice(payload);
}

/// Writes the header of a frame that is a message of its own.
fn put_header(opcode: OpCode, length: usize, out: &mut Vec<u8>) {
    let header = FrameHeader { opcode, ..FrameHeader::default() };
    let written: Result<(), Error> = header.format(length as u64, out);
    assert!(written.is_ok(), "memory takes what is written");
}

/// The header of a message with so many bytes of the lane's.
//= MQTT5-6.0.0-1
//= MQTT311-6.0.0-1
pub(super) fn put_data_header(length: usize, out: &mut Vec<u8>) {
    put_header(OpCode::Data(Data::Binary), length, out);
}

/// How a close is answered: with its code, if that may be in a frame (RFC 6455, 7.4).
pub(super) fn answer_to(code: Option<u16>) -> CloseCode {
    let code = CloseCode::from(code.unwrap_or(1000));
    if code.is_allowed() { code } else { CloseCode::Protocol }
}
