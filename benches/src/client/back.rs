//! A client that comes back to a broker that was killed: takes what waits for it, however long that
//! takes to be there, and connects again as long as it is turned away.

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use zzq_codec::{AckKind, Delivery, Packet, encode_ack};

use super::Client;

/// Between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(50);

/// How long a client that comes back waits for what it misses.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For the next packet. What has not come then is not there; what is not answered then is asked
    /// again.
    pub quiet: Duration,
    /// In all.
    pub most: Duration,
}

/// What a client got when it came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Came {
    /// Different messages.
    pub messages: usize,
    /// When the last of them came.
    pub last: Option<Instant>,
}

/// Comes back to a session, and takes what waits until that are so many different messages. With
/// fewer it ends when nothing has come for a while on a connection that was accepted, or when it
/// has taken too long. Fails if no connection was accepted until then.
pub fn come_back(address: SocketAddr, id: &str, due: usize, patience: Patience) -> Result<Came> {
    let began = Instant::now();
    let mut taken = Taken { numbers: HashSet::new(), last: None, due, end: began + patience.most };
    let mut accepted = false;
    loop {
        let client = Client::connect_within(address, id, true, patience.quiet);
        accepted |= client.is_ok();
        match client.and_then(|client| taken.take(client)) {
            Err(error) if !accepted && taken.is_too_late() => {
                let spent = began.elapsed().as_secs();
                return Err(error).with_context(|| format!("not accepted within {spent} s"));
            }
            Err(_) if !taken.is_too_late() => sleep(PAUSE),
            Ok(()) | Err(_) => {
                return Ok(Came { messages: taken.numbers.len(), last: taken.last });
            }
        }
    }
}

#[derive(Debug)]
struct Taken {
    numbers: HashSet<Option<u32>>,
    last: Option<Instant>,
    due: usize,
    end: Instant,
}

impl Taken {
    /// Takes what comes on one connection. Fails if the broker ends it.
    fn take(&mut self, mut client: Client) -> Result<()> {
        let outcome = client.each(|packet, out| {
            if let Packet::Publish(publish) = packet {
                let number = publish.payload.first_chunk().map(|n| u32::from_be_bytes(*n));
                if self.numbers.insert(number) {
                    self.last = Some(Instant::now());
                }
                if let Delivery::AtLeastOnce(id) = publish.delivery {
                    encode_ack(AckKind::PubAck, id, out);
                }
            }
            Ok(self.numbers.len() < self.due && !self.is_too_late())
        });
        let is_quiet =
            |error: &io::Error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
        match outcome {
            Err(error) if !error.downcast_ref().is_some_and(is_quiet) => Err(error),
            _ => Ok(()),
        }
    }

    fn is_too_late(&self) -> bool {
        Instant::now() >= self.end
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Long, for what is awaited in vain in no test.
    const LONG: Duration = Duration::from_mins(1);

    /// Reads the CONNECT of each connection and says so much. It closes those before the last of
    /// these, which is for all further ones too: a slow machine may make more.
    fn broker(connections: &'static [&'static [&'static [u8]]]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let mut held = Vec::new();
            for at in 0.. {
                let (mut stream, _) = listener.accept().unwrap();
                let mut start = [0; 2];
                stream.read_exact(&mut start).unwrap();
                stream.read_exact(&mut vec![0; start[1].into()]).unwrap();
                stream.write_all(&connections[at.min(connections.len() - 1)].concat()).unwrap();
                if at + 1 >= connections.len() {
                    held.push(stream);
                }
            }
        });
        address
    }

    const ACCEPTED: &[u8] = &[0x20, 2, 0, 0];
    // At QoS 0, to "q".
    const ZERO: &[u8] = &[0x30, 7, 0, 1, b'q', 0, 0, 0, 0];
    const ONE: &[u8] = &[0x30, 7, 0, 1, b'q', 0, 0, 0, 1];
    const TWO: &[u8] = &[0x30, 7, 0, 1, b'q', 0, 0, 0, 2];

    #[test]
    fn who_is_turned_away_connects_again_until_all_have_come() {
        let address = broker(&[&[], &[ACCEPTED, ZERO, ONE], &[ACCEPTED, ONE, TWO]]);
        let came = come_back(address, "reader", 3, Patience { quiet: LONG, most: LONG }).unwrap();
        assert_eq!(came.messages, 3);
        assert!(came.last.is_some());
    }

    #[test]
    fn what_has_not_come_for_a_while_is_not_there() {
        let address = broker(&[&[ACCEPTED, ZERO, TWO]]);
        let quiet = Duration::from_millis(50);
        let came = come_back(address, "reader", 3, Patience { quiet, most: LONG }).unwrap();
        assert_eq!(came.messages, 2);
    }

    #[test]
    fn a_connection_that_is_not_answered_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (_unanswered, _) = listener.accept().unwrap();
            let mut held = Vec::new();
            loop {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(&[ACCEPTED, ZERO].concat()).unwrap();
                held.push(stream);
            }
        });
        let patience = Patience { quiet: Duration::from_millis(50), most: LONG };
        assert_eq!(come_back(address, "reader", 1, patience).unwrap().messages, 1);
    }

    #[test]
    fn who_is_never_accepted_fails_in_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let patience = Patience { quiet: LONG, most: Duration::from_millis(120) };
        let error = come_back(address, "reader", 1, patience).unwrap_err();
        assert!(error.to_string().contains("not accepted"), "{error:#}");
    }
}
