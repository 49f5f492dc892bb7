//! What the broker counts: plain numbers on each lane, published for others to read now and then.
//!
//! Assumes: one lane writes a [`LaneMetrics`]; readers may see numbers of different moments.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use zzq_lanes::{CloseReason, ListenerStats};
#[cfg(feature = "tls")]
use zzq_lanes::{HandshakeFault, TlsStats};
#[cfg(feature = "web")]
use zzq_lanes::{WebFault, WebStats};
use zzq_types::ReasonCode;

use crate::hooks::Dropped;

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// The numbers of one lane, or their sums.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        #[derive(Debug, Default)]
        struct Published {
            $($name: AtomicU64,)+
        }

        impl Published {
            fn store(&self, counts: &Counts) {
                $(self.$name.store(counts.$name, Ordering::Relaxed);)+
            }

            fn add_to(&self, sum: &mut Counts) {
                $(sum.$name += self.$name.load(Ordering::Relaxed);)+
            }
        }
    };
}

impl Counts {
    /// Counts a connection that is closed for a fault of its peer.
    pub(crate) fn fault(&mut self, reason: ReasonCode) {
        self.peer_faults += 1;
        match reason {
            ReasonCode::PacketTooLarge => self.faults_size += 1,
            ReasonCode::ReceiveMaximumExceeded => self.faults_inbound += 1,
            ReasonCode::TopicAliasInvalid => self.faults_alias += 1,
            ReasonCode::QoSNotSupported | ReasonCode::RetainNotSupported => {
                self.faults_unoffered += 1;
            }
            _ => {}
        }
    }

    /// Counts a connection that has ended.
    pub(crate) fn closed(&mut self, why: CloseReason) {
        let gone = [ErrorKind::TimedOut, ErrorKind::HostUnreachable, ErrorKind::NetworkUnreachable];
        let has_vanished = matches!(why, CloseReason::Failed(kind) if gone.contains(&kind));
        self.vanished_peers += u64::from(has_vanished);
    }

    /// Counts a filter that is refused.
    pub(crate) fn filter_refused(&mut self, code: ReasonCode) {
        self.refused_filters += 1;
        match code {
            ReasonCode::QuotaExceeded => self.refused_filters_quota += 1,
            ReasonCode::TopicFilterInvalid => self.refused_filters_invalid += 1,
            ReasonCode::SharedSubscriptionsNotSupported
            | ReasonCode::WildcardSubscriptionsNotSupported => self.refused_filters_unoffered += 1,
            _ => {}
        }
    }

    /// Adds what a listener counts.
    pub(crate) fn add_listener(&mut self, stats: &ListenerStats) {
        self.turned_away += stats.refused() + stats.refused_address();
        self.turned_away_address += stats.refused_address();
        self.accepts_failed += stats.faults();
    }

    /// Adds what the handshakes of endpoints over TLS have come to.
    #[cfg(feature = "tls")]
    pub(crate) fn add_handshakes(&mut self, stats: &TlsStats) {
        self.handshakes += stats.done;
        self.handshakes_resumed += stats.resumed;
        let each = HandshakeFault::ALL.map(|why| stats.failed(why));
        self.handshakes_failed += each.iter().sum::<u64>();
        self.handshakes_certificate += stats.failed(HandshakeFault::Certificate);
        self.handshakes_alert += stats.failed(HandshakeFault::Alert);
        self.handshakes_not_tls += stats.failed(HandshakeFault::NotTls);
        self.handshakes_timeout += stats.failed(HandshakeFault::Timeout);
    }

    /// Adds what the handshakes of endpoints for WebSocket have come to.
    #[cfg(feature = "web")]
    pub(crate) fn add_web_handshakes(&mut self, stats: &WebStats) {
        self.web_handshakes += stats.done;
        self.web_handshakes_failed +=
            WebFault::ALL.map(|why| stats.failed(why)).iter().sum::<u64>();
        self.web_handshakes_not_web +=
            stats.failed(WebFault::NotHttp) + stats.failed(WebFault::NotWebSocket);
        self.web_handshakes_path += stats.failed(WebFault::Path);
        self.web_handshakes_subprotocol += stats.failed(WebFault::Subprotocol);
        self.web_handshakes_timeout += stats.failed(WebFault::Timeout);
    }

    /// Messages dropped so far, for whatever reason.
    pub fn dropped(&self) -> u64 {
        self.drops().iter().map(|(_, count)| count).sum()
    }

    /// The same by the reason.
    pub(crate) const fn drops(&self) -> [(Dropped, u64); 6] {
        [
            (Dropped::SlowReceiver, self.dropped_slow),
            (Dropped::TooLarge, self.dropped_large),
            (Dropped::Expired, self.expired),
            (Dropped::QueueFull, self.dropped_full),
            (Dropped::SessionEnded, self.dropped_ended),
            (Dropped::Denied, self.dropped_denied),
        ]
    }
}

counters! {
    /// Connections that are open now.
    connections,
    /// Connections accepted so far.
    accepted,
    /// Clients let in so far: CONNECTs whose CONNACK says so.
    connects,
    /// Connections closed as they came, because there were as many as there may be at all, or from
    /// their address.
    turned_away,
    /// Of these because of their address.
    turned_away_address,
    /// Times that accepting failed: no descriptors or no memory, as a rule.
    accepts_failed,
    /// TLS handshakes that are done.
    handshakes,
    /// Of these, those that went on with the secrets of an earlier connection.
    handshakes_resumed,
    /// Those that failed.
    handshakes_failed,
    /// Of these because the client's certificate was missing or did not hold.
    handshakes_certificate,
    /// Because the client did not want to go on, as where it does not trust the certificate.
    handshakes_alert,
    /// Because what came was not TLS.
    handshakes_not_tls,
    /// Because they took too long.
    handshakes_timeout,
    /// Handshakes for WebSocket that are done.
    web_handshakes,
    /// Those that failed.
    web_handshakes_failed,
    /// Of these because what came was no request for a WebSocket.
    web_handshakes_not_web,
    /// Because of the path that was asked for.
    web_handshakes_path,
    /// Because no subprotocol was offered that means MQTT.
    web_handshakes_subprotocol,
    /// Because they took too long.
    web_handshakes_timeout,
    /// CONNECTs refused so far.
    refused,
    /// Of these for their client identifiers.
    refused_ids,
    /// Of these because there were as many sessions, or they took as much memory, as they may.
    refused_sessions,
    /// Connections closed because their CONNECT, or an AUTH before CONNACK, did not come in time.
    silent_connects,
    /// Connections closed because nothing came within their keep alive.
    silent_clients,
    /// Connections that the system gave up because it heard nothing of the peer.
    vanished_peers,
    /// Connections closed because they kept room for a packet that others waited for.
    overdue_inputs,
    /// Memory of packets that have come in part, or wait to be handled.
    input_bytes,
    /// Memory of topic aliases, those that clients have defined and those that they were given.
    alias_bytes,
    /// Times that a connection was not read because there was no room for its packet.
    input_waits,
    /// Connections closed for a fault of the peer.
    peer_faults,
    /// Of these for a packet that is too large.
    faults_size,
    /// Of these for more publishes under way than Receive Maximum.
    faults_inbound,
    /// Of these for a topic alias that is not known, or above the maximum.
    faults_alias,
    /// Of these for a QoS, or for retaining, that is not offered.
    faults_unoffered,
    /// Clients that are connected now, past their CONNACK.
    clients,
    /// Sessions, connected or not.
    sessions,
    /// What these take in memory with their subscriptions and wills.
    session_memory,
    /// Sessions that have ended because their expiry interval was over.
    expired_sessions,
    /// Subscriptions of these sessions.
    subscriptions,
    /// Of these shared ones.
    shared_subscriptions,
    /// Retained messages.
    retained,
    /// Bytes of retained messages with their topics and properties.
    retained_bytes,
    /// Messages that wait in queues or for their acknowledgement.
    queued,
    /// What these weigh with their topics and properties, rounded up to 16 bytes each.
    queued_bytes,
    /// What queues take in memory: references, and messages that are nowhere else.
    queue_memory,
    /// Packets received.
    packets_in,
    /// Packets sent.
    packets_out,
    /// Bytes received.
    bytes_in,
    /// Bytes sent or queued for sending.
    bytes_out,
    /// PUBLISH packets received.
    publishes_in,
    /// PUBLISH packets sent.
    publishes_out,
    /// Bytes of payloads received.
    payload_in,
    /// Bytes of payloads sent.
    payload_out,
    /// Deliveries at QoS 0 dropped because the receiver's output was full.
    dropped_slow,
    /// Deliveries dropped because they exceed the receiver's Maximum Packet Size.
    dropped_large,
    /// Messages dropped because they had expired.
    expired,
    /// Messages that a session did not get because its queue was full: dropped from it, or never
    /// put there.
    dropped_full,
    /// Messages that waited in sessions that ended because their queue was full.
    dropped_ended,
    /// Messages dropped because their receiver may not have them.
    dropped_denied,
    /// Sessions that ended because their queue was full.
    ended_full,
    /// Publishes refused because a quota was reached.
    refused_quota,
    /// Of these because the queues of all sessions took as much memory as they may.
    refused_total,
    /// Of these because the disk was full.
    refused_space,
    /// Publishes refused for their topics.
    refused_topics,
    /// Publishes refused because they say that they are UTF-8, and are not.
    refused_payloads,
    /// Publishes refused, or delivered and not retained, because no more may be.
    refused_retained,
    /// Filters of SUBSCRIBEs that were refused.
    refused_filters,
    /// Of these because their session has as many as it may have.
    refused_filters_quota,
    /// Of these because they are too long, too deep, or no filters.
    refused_filters_invalid,
    /// Of these because filters of their kind are not offered.
    refused_filters_unoffered,
    /// Publishes, and wills, that the authoriser has denied.
    denied_publishes,
    /// Filters that it has denied.
    denied_filters,
    /// Questions to hooks that were not answered in time.
    unanswered,
    /// Events that were lost because their stream was full.
    events_lost,
    /// Times that a client was not read because it had sent too much.
    throttled,
    /// Publishes thrown away unanswered, with the connections that had to wait with them.
    shed,
    /// Records handed to the log.
    records,
    /// Answers that wait for what they depend on to be committed.
    held_answers,
    /// Bytes of publishes that are held for a slow receiver, a full queue or a full disk.
    held_bytes,
    /// Groups of the log that were followed.
    groups,
    /// Commits that were timed, one of each lane at a time.
    commits_timed,
    /// Milliseconds that they took, from the turn that handed over the first of their records.
    commit_ms,
    /// The same in microseconds, by the clock of the disk.
    commit_us,
}

/// The numbers of one lane, as others see them.
#[derive(Clone, Debug, Default)]
pub(crate) struct LaneMetrics(Arc<Published>);

impl LaneMetrics {
    /// Shows `counts` to readers.
    pub(crate) fn publish(&self, counts: &Counts) {
        self.0.store(counts);
    }
}

/// What is known of images, for others to see.
#[derive(Debug, Default)]
pub(crate) struct ImageMetrics {
    made: AtomicU64,
    failed: AtomicU64,
    bytes: AtomicU64,
    offset: AtomicU64,
    oldest_ms: AtomicU64,
    log_bytes: AtomicU64,
    newest_at: Mutex<Option<Instant>>,
}

/// These numbers at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ImageCounts {
    /// Made since the start.
    pub(crate) made: u64,
    /// Attempts that failed since the start.
    pub(crate) failed: u64,
    /// Size of the newest.
    pub(crate) bytes: u64,
    /// The last record that it covers; zero: there is none.
    pub(crate) offset: u64,
    /// When the oldest record of the log was written, in ms since 1970; zero: not known.
    pub(crate) oldest_ms: u64,
    /// Bytes of records in the log.
    pub(crate) log_bytes: u64,
    /// Seconds since the newest was made, or found at the start.
    pub(crate) age_s: Option<u64>,
}

impl ImageMetrics {
    /// There is a newest one, of so many bytes.
    pub(crate) fn newest(&self, offset: u64, bytes: u64) {
        self.offset.store(offset, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        *self.newest_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// The log holds so many bytes, from a record of this time on.
    pub(crate) fn holds(&self, oldest_ms: u64, bytes: u64) {
        self.oldest_ms.store(oldest_ms, Ordering::Relaxed);
        self.log_bytes.store(bytes, Ordering::Relaxed);
    }

    /// One was made: see [`ImageMetrics::newest`].
    pub(crate) fn made(&self) {
        self.made.fetch_add(1, Ordering::Relaxed);
    }

    /// One was to be made, and was not.
    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> ImageCounts {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        ImageCounts {
            made: read(&self.made),
            failed: read(&self.failed),
            bytes: read(&self.bytes),
            offset: read(&self.offset),
            oldest_ms: read(&self.oldest_ms),
            log_bytes: read(&self.log_bytes),
            age_s: {
                let at = *self.newest_at.lock().unwrap_or_else(PoisonError::into_inner);
                at.map(|at| at.elapsed().as_secs())
            },
        }
    }
}

/// The sums over `lanes`.
pub(crate) fn total(lanes: &[LaneMetrics]) -> Counts {
    let mut sum = Counts::default();
    for lane in lanes {
        lane.0.add_to(&mut sum);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_add_what_lanes_published_last() {
        let lanes = [LaneMetrics::default(), LaneMetrics::default()];
        lanes[0].publish(&Counts { clients: 9, ..Counts::default() });
        lanes[0].publish(&Counts { clients: 2, expired: 1, ..Counts::default() });
        lanes[1].publish(&Counts { clients: 3, ..Counts::default() });
        assert_eq!(total(&lanes), Counts { clients: 5, expired: 1, ..Counts::default() });
    }
}
