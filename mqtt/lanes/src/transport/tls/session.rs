//! One connection's TLS: bytes of its socket on one side, those of the lane on the other.
//!
//! Owns: what rustls keeps of the connection. Memory of records that are not complete, not read or
//! not sent is bounded, and idle sessions have none of it but the 4 KiB that rustls reads into. Of
//! what is not complete rustls keeps 64 KiB of a message, and 18 KiB of a record.
//! Assumes: the driver tells of room and of input as [`Driver`] says; the lane writes again from
//! the first byte that was not taken.
use std::{
    io::{self, ErrorKind, IoSlice, Read as _, Write as _},
    sync::Arc,
};

use rustls::{
    CertificateError, Error, HandshakeKind, InvalidMessage,
    PeerMisbehaved::KeyEpochWithPendingFragment, ProtocolVersion, ServerConnection,
    SupportedCipherSuite,
};

use super::settings::{HandshakeFault, TlsServer};
use crate::{
    core::MAX_SLICES,
    driver::{Driver, Read, Write},
    id::ConnId,
    time::Millis,
    transport::{
        TlsPeer, TlsVersion,
        layer::{End, Session, Step},
    },
};

/// What a record has at most.
const RECORD_MOST: usize = 16 << 10;
/// Plaintext that is encrypted at once. What the socket does not take of it waits here.
const SEAL_AT_ONCE: usize = 32 << 10;
/// Plaintext that one write takes at most; the rest is for the next turn.
const WRITE_MOST: usize = 256 << 10;
/// Reads from the socket for one of the lane, which take more than one only where what comes has
/// nothing for it: a record that is not complete, or is empty.
const READS: usize = 8;
/// Bytes that a client may take for its handshake: rustls takes messages of 64 KiB, and none comes
/// near that but a chain of certificates.
const HANDSHAKE_MOST: usize = 128 << 10;
/// Of these, what is read at once.
const HANDSHAKE_PIECE: usize = 16 << 10;
/// Of these, what rustls may keep.
const MESSAGE_MOST: usize = 64 << 10;
/// Records that are encrypted at once, at most.
const RECORDS_AT_ONCE: u64 = (SEAL_AT_ONCE / RECORD_MOST + 1) as u64;
/// Records that rustls sends by itself under the keys of TLS 1.2: the end of the handshake, a
/// refusal to renegotiate, alerts.
const RECORDS_OF_ITS_OWN: u64 = 16;

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its handshake is under way.
    Handshake,
    /// The lane reads and writes it.
    Open,
    /// Nothing follows, or its handshake has failed: what comes is thrown away.
    Shut,
}

/// See the file.
pub struct TlsSession {
    conn: ConnId,
    server: Arc<TlsServer>,
    stage: Stage,
    /// `None`: nothing has come yet, and nothing is kept for it.
    tls: Option<Box<ServerConnection>>,
    /// Why nothing more is decrypted.
    fatal: Option<Error>,
    /// Why nothing more is sent.
    broken: Option<ErrorKind>,
    /// Plaintext that was decrypted and not read.
    plain: usize,
    /// Records that the socket has not taken.
    unsent: usize,
    /// Records that its keys may still encrypt. Only TLS 1.2 has no others to go on with.
    seals: u64,
    /// Bytes of the socket that another driver had taken from it and rustls has not, and those that
    /// another driver had been given for it.
    early: Vec<u8>,
    late: Vec<u8>,
    /// The lane's next byte is encrypted already. It is left to the lane for as long as records
    /// wait, so that the lane knows that not all is sent.
    ahead: bool,
    /// The socket is shut once all is sent.
    shuts: bool,
    /// The peer has said that nothing follows, or its socket has.
    ended: bool,
    began: Millis,
    /// Bytes of its handshake.
    received: usize,
}

impl Session for TlsSession {
    type Server = TlsServer;
    type Fault = HandshakeFault;

    /// Each may take a signature, which takes up to a millisecond.
    const STEPS: usize = 8;
    const OVERDUE: HandshakeFault = HandshakeFault::Timeout;

    fn new(server: Arc<TlsServer>) -> Self {
        Self {
            // Known when a driver takes it.
            conn: ConnId { index: 0, generation: 0 },
            server,
            stage: Stage::Handshake,
            tls: None,
            fatal: None,
            broken: None,
            plain: 0,
            unsent: 0,
            seals: u64::MAX,
            early: Vec::new(),
            late: Vec::new(),
            ahead: false,
            shuts: false,
            ended: false,
            began: Millis::default(),
            received: 0,
        }
    }

    fn begin(&mut self, conn: ConnId, now: Millis) {
        self.conn = conn;
        if self.stage == Stage::Handshake {
            self.began = now;
        }
    }

    /// Nothing but sockets lies below.
    fn below_done(&mut self, _: Option<Arc<TlsPeer>>) {}

    fn is_handshaking(&self) -> bool {
        self.stage == Stage::Handshake
    }

    fn has_begun(&self) -> bool {
        self.tls.is_some()
    }

    /// Memory of what waits here. Begins of records are not counted.
    fn held(&self) -> usize {
        let message = if self.is_handshaking() { self.received.min(MESSAGE_MOST) } else { 0 };
        self.plain + self.unsent + self.early.capacity() + self.late.capacity() + message
    }

    /// Whether there is something for the lane without a further event.
    fn has_input(&self) -> bool {
        self.plain > 0 || !self.early.is_empty() || self.fatal.is_some() || self.ended
    }

    /// How much can be read without anything else from the peer, at most, where so much is in the
    /// socket: the begin of a record may be here.
    fn unread(&self, below: usize) -> usize {
        let coming = below + self.early.len();
        self.plain + if coming > 0 { coming + RECORD_MOST } else { 0 }
    }

    /// One step of the handshake: what one read gives.
    fn step<D: Driver>(
        &mut self,
        driver: &mut D,
        scratch: &mut [u8],
        end: End,
    ) -> Step<HandshakeFault> {
        assert!(self.early.is_empty(), "a handshake has read more than it took");
        let more = match driver.read(self.conn, &mut scratch[..HANDSHAKE_PIECE]) {
            Read::Bytes(count, more) => {
                self.received += count;
                if let Err(error) = self.start() {
                    return Step::Failed(HandshakeFault::Internal, false, error.to_string());
                }
                self.feed(&scratch[..count], &mut []);
                self.flush_late(driver);
                more || end.is_in_sight()
            }
            Read::Blocked if end.broken => {
                return Step::Failed(HandshakeFault::Gone, false, "its socket broke".to_owned());
            }
            Read::Blocked => return Step::Waits,
            Read::Ended => {
                return Step::Failed(HandshakeFault::Gone, false, "the end of it".to_owned());
            }
            Read::Failed(kind) | Read::Refused(kind) => {
                return Step::Failed(HandshakeFault::Gone, false, kind.to_string());
            }
        };
        if let Some(error) = &self.fatal {
            return Step::Failed(HandshakeFault::of(error), true, describe(error));
        }
        match &self.tls {
            Some(tls) if !tls.is_handshaking() => {
                let peer = peer(tls, driver.now().since(self.began));
                self.seals = seals(tls);
                self.stage = Stage::Open;
                Step::Done(Some(Arc::new(peer)))
            }
            _ if self.ended => Step::Failed(HandshakeFault::Gone, false, "close_notify".to_owned()),
            _ if self.received > HANDSHAKE_MOST => Step::Failed(
                HandshakeFault::TooLong,
                true,
                format!("more than {HANDSHAKE_MOST} bytes"),
            ),
            _ if more => Step::More,
            _ => Step::Waits,
        }
    }

    /// What comes from now on is thrown away.
    fn refuse(&mut self) {
        self.stage = Stage::Shut;
    }

    /// A read of the lane.
    fn read<D: Driver>(&mut self, driver: &mut D, into: &mut [u8], scratch: &mut [u8]) -> Read {
        if self.stage == Stage::Shut {
            return driver.read(self.conn, into);
        }
        let most = into.len().min(scratch.len());
        let early = std::mem::take(&mut self.early);
        let given = self.feed(&early, into);
        if given > 0 {
            self.flush_late(driver);
            return Read::Bytes(given, true);
        }
        let mut left = scratch.len();
        for _ in 0..READS {
            if left == 0 {
                break;
            }
            if self.fatal.is_some() {
                return Read::Failed(self.fault());
            }
            if self.ended {
                return Read::Ended;
            }
            let (count, more) = match driver.read(self.conn, &mut scratch[..most.min(left)]) {
                Read::Bytes(count, more) => (count, more),
                // Without a close_notify: that is an end as any other, as it is for brokers.
                Read::Ended => {
                    self.ended = true;
                    return Read::Ended;
                }
                other => return other,
            };
            left -= count;
            let given = self.feed(&scratch[..count], into);
            self.flush_late(driver);
            if given > 0 {
                return Read::Bytes(given, more || self.has_input());
            }
        }
        Read::Bytes(0, true)
    }

    /// A write of the lane. `true`: it took less than the socket would, and the lane is to be told
    /// that it can go on.
    fn write<D: Driver>(&mut self, driver: &mut D, pieces: &[IoSlice<'_>]) -> (Write, bool) {
        match self.flush(driver) {
            Ok(true) => {}
            Ok(false) => return (Write::Took(0), false),
            Err(kind) => return (Write::Failed(kind), false),
        }
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut at = usize::from(std::mem::take(&mut self.ahead));
        assert!(at <= total, "the byte that is ahead is the lane's next");
        let most = total.min(at + WRITE_MOST);
        while at < most {
            match self.seal(pieces, at) {
                Ok(sealed) => at += sealed,
                Err(kind) => {
                    // Why goes out, and then nothing more.
                    self.flush_late(driver);
                    self.broken = Some(kind);
                    return (Write::Failed(kind), false);
                }
            }
            match self.flush(driver) {
                Ok(true) => {}
                Ok(false) => {
                    self.ahead = true;
                    return (Write::Took(at - 1), false);
                }
                Err(kind) => return (Write::Failed(kind), false),
            }
        }
        (Write::Took(at), at < total)
    }

    /// Sends what the lane has not asked for: answers of the protocol. That it fails is told to the
    /// lane when it writes.
    fn flush_late<D: Driver>(&mut self, driver: &mut D) {
        let _ = self.flush(driver);
    }

    /// Whether records wait for room.
    fn waits_for_room(&self) -> bool {
        self.broken.is_none()
            && (!self.late.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.wants_write()))
    }

    /// Nothing follows: says so, and shuts the socket behind it.
    fn shut<D: Driver>(&mut self, driver: &mut D) {
        if let Some(tls) = &mut self.tls
            && self.stage == Stage::Open
            && self.fatal.is_none()
        {
            tls.send_close_notify();
            // What is wrong with what comes behind it cannot be said any more.
            self.stage = Stage::Shut;
        }
        self.shuts = true;
        self.flush_late(driver);
    }

    /// What the driver that gives it away had taken of it.
    fn travel(&mut self, unread: &[u8], unsent: Vec<u8>) {
        self.early.extend_from_slice(unread);
        let behind = std::mem::replace(&mut self.late, unsent);
        self.late.extend_from_slice(&behind);
    }

    fn count_done(&self, peer: Option<&TlsPeer>) {
        self.server.count_done(peer.is_some_and(|peer| peer.resumed));
    }

    fn count_failed(&self, why: HandshakeFault) -> bool {
        self.server.count_failed(why);
        // Those who look whether the port is open do just that.
        why != HandshakeFault::Gone
    }

    fn say_failed(why: HandshakeFault, what: &str, failed: u64) {
        tracing::warn!(fault = why.name(), what, failed, "TLS handshakes fail");
    }
}

impl TlsSession {
    fn start(&mut self) -> Result<(), Error> {
        if self.tls.is_none() {
            let mut tls = ServerConnection::new(self.server.config())?;
            tls.set_buffer_limit(Some(SEAL_AT_ONCE));
            self.tls = Some(Box::new(tls));
        }
        Ok(())
    }

    /// Decrypts `raw`, and gives plaintext, first what was there before. What there is no room for
    /// is kept. Returns how much it gives.
    fn feed(&mut self, mut raw: &[u8], into: &mut [u8]) -> usize {
        let mut given = 0;
        loop {
            given += self.give(&mut into[given..]);
            let Some(tls) = &mut self.tls else { return given };
            if raw.is_empty() || self.fatal.is_some() || self.ended {
                return given;
            }
            match tls.read_tls(&mut raw) {
                Ok(0) => return given,
                Ok(_) => {}
                // It takes no more while there is plaintext of a record and more.
                Err(_) if self.plain > 0 => {
                    self.early.extend_from_slice(raw);
                    return given;
                }
                // Nor of a message that is longer than any may be, whose end is not here.
                Err(_) => {
                    let too_long = InvalidMessage::HandshakePayloadTooLarge;
                    self.fatal = Some(Error::InvalidMessage(too_long));
                    return given;
                }
            }
            match tls.process_new_packets() {
                Ok(state) => {
                    self.plain = state.plaintext_bytes_to_read();
                    self.unsent = state.tls_bytes_to_write();
                    self.ended = state.peer_has_closed();
                }
                // What was decrypted before it stays readable.
                Err(error) => self.fatal = Some(error),
            }
        }
    }

    fn give(&mut self, into: &mut [u8]) -> usize {
        let Some(tls) = &mut self.tls else { return 0 };
        // How much there is, is not told along with an error.
        if into.is_empty() || self.plain == 0 && self.fatal.is_none() {
            return 0;
        }
        // That there is nothing is an error, as are ends, which are known.
        let count = tls.reader().read(into).unwrap_or(0);
        self.plain = self.plain.saturating_sub(count);
        count
    }

    /// Why its input has failed.
    fn fault(&self) -> ErrorKind {
        match self.fatal {
            Some(Error::AlertReceived(_)) => ErrorKind::ConnectionAborted,
            _ => ErrorKind::InvalidData,
        }
    }

    /// Encrypts some of the pieces, without their first `skip` bytes.
    fn seal(&mut self, pieces: &[IoSlice<'_>], skip: usize) -> Result<usize, ErrorKind> {
        assert!(pieces.len() <= MAX_SLICES, "{} pieces in one write", pieces.len());
        let Some(tls) = &mut self.tls else { return Err(ErrorKind::NotConnected) };
        if self.seals < RECORDS_AT_ONCE {
            // The library would take what it does not send.
            tracing::info!("the keys of a connection are used up, which in TLS 1.2 ends it");
            return Err(ErrorKind::QuotaExceeded);
        }
        let mut slots = [IoSlice::new(&[]); MAX_SLICES];
        slots[..pieces.len()].copy_from_slice(pieces);
        let mut left = &mut slots[..pieces.len()];
        IoSlice::advance_slices(&mut left, skip);
        let total: usize = left.iter().map(|piece| piece.len()).sum();
        match tls.writer().write_vectored(left) {
            // It ends at a record, and neither with the bytes nor where it is full, which a begin
            // of a record puts elsewhere: its keys are used up, and a message of the peer whose end
            // is not here is in the way of others.
            Ok(sealed) if sealed < total.min(SEAL_AT_ONCE) && sealed % RECORD_MOST == 0 => {
                self.fatal = Some(Error::PeerMisbehaved(KeyEpochWithPendingFragment));
                Err(ErrorKind::InvalidData)
            }
            Ok(sealed) => {
                self.seals -= sealed.div_ceil(RECORD_MOST) as u64;
                Ok(sealed)
            }
            // After a fault of the peer nothing is sent but what it is.
            Err(error) => Err(error.kind()),
        }
    }

    /// Sends records that wait. True: none is left.
    fn flush<D: Driver>(&mut self, driver: &mut D) -> Result<bool, ErrorKind> {
        let flushed = match self.broken {
            Some(kind) => Err(kind),
            None => self.try_flush(driver),
        };
        if let Err(kind) = flushed {
            self.broken = Some(kind);
            self.unsent = 0;
        }
        // Nor does anything follow where it fails.
        if flushed != Ok(false) && std::mem::take(&mut self.shuts) {
            driver.shut(self.conn);
        }
        flushed
    }

    fn try_flush<D: Driver>(&mut self, driver: &mut D) -> Result<bool, ErrorKind> {
        if !self.late.is_empty() {
            match driver.write(self.conn, &[IoSlice::new(&self.late)]) {
                Write::Took(count) => drop(self.late.drain(..count)),
                Write::Failed(kind) | Write::Refused(kind) => return Err(kind),
            }
            if !self.late.is_empty() {
                return Ok(false);
            }
            self.late = Vec::new();
        }
        let Some(tls) = &mut self.tls else { return Ok(true) };
        while tls.wants_write() {
            let mut pipe = Pipe { driver: &mut *driver, conn: self.conn, left: 0 };
            tls.write_tls(&mut pipe).map_err(|error| error.kind())?;
            self.unsent = pipe.left;
            if pipe.left > 0 {
                return Ok(false);
            }
        }
        self.unsent = 0;
        Ok(true)
    }
}

/// The driver's socket, as rustls writes to it.
struct Pipe<'a, D: Driver> {
    driver: &'a mut D,
    conn: ConnId,
    /// What was not taken.
    left: usize,
}

impl<D: Driver> io::Write for Pipe<'_, D> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let given: usize = pieces.iter().map(|piece| piece.len()).sum();
        match self.driver.write(self.conn, pieces) {
            Write::Took(taken) => {
                self.left = given - taken;
                Ok(taken)
            }
            Write::Failed(kind) | Write::Refused(kind) => Err(kind.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How many records the keys of a session may encrypt, of the lane's bytes. TLS 1.3 changes them in
/// time (RFC 8446, 5.5).
fn seals(tls: &ServerConnection) -> u64 {
    match tls.negotiated_cipher_suite() {
        Some(SupportedCipherSuite::Tls12(suite)) => {
            suite.common.confidentiality_limit.saturating_sub(RECORDS_OF_ITS_OWN)
        }
        _ => u64::MAX,
    }
}

fn peer(tls: &ServerConnection, handshake: std::time::Duration) -> TlsPeer {
    let certificates = tls.peer_certificates().unwrap_or_default();
    let suite = tls.negotiated_cipher_suite().map(|suite| suite.suite());
    TlsPeer {
        server_name: tls.server_name().map(str::to_owned),
        certificates: certificates.iter().map(|der| der.to_vec()).collect(),
        alpn: tls.alpn_protocol().map(<[u8]>::to_vec),
        version: match tls.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => TlsVersion::V12,
            _ => TlsVersion::V13,
        },
        cipher_suite: suite.and_then(|suite| suite.as_str()).unwrap_or("unknown"),
        resumed: tls.handshake_kind() == Some(HandshakeKind::Resumed),
        handshake,
    }
}

/// An error of the library, in words: some of its names say little.
fn describe(error: &Error) -> String {
    match error {
        Error::InvalidMessage(_) => "what came is not TLS".to_owned(),
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "the client's certificate comes from another CA".to_owned()
        }
        error => error.to_string(),
    }
}
