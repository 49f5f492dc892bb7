//! Before the clock starts: everybody connects, subscribers subscribe.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use zzq_codec::{Connect, Decoder, Encoder, Limits, Packet, Subscribe, SubscriptionsBuf};
use zzq_types::{PacketId, PropertiesBuf, Property, ReasonCode, SubscribeOptions};

use super::link::Link;
use super::plan::Plan;
use super::run::RunError;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_mins(1);
/// Of sessions that outlive their connection, in seconds.
const EXPIRY: u32 = 3600;

/// A connection that will publish.
pub(super) fn publisher(address: SocketAddr, plan: &Plan, number: u32) -> Result<Link, RunError> {
    let stream = connect(host(address, plan, number), plan, &format!("load-p{number}"), false)?;
    Ok(Link::new(stream)?)
}

/// A connection with its subscription.
pub(super) fn subscriber(address: SocketAddr, plan: &Plan, number: u32) -> Result<Link, RunError> {
    let mut stream =
        connect(host(address, plan, number), plan, &format!("load-s{number}"), plan.persistent)?;
    let mut subscriptions = SubscriptionsBuf::new();
    let options = SubscribeOptions::with_qos(plan.qos);
    subscriptions.push(&plan.filter(number), options)?;
    let none = PropertiesBuf::new();
    let subscribe = Subscribe {
        packet_id: PacketId::of_queue_number(1),
        properties: none.as_properties(),
        subscriptions: subscriptions.subscriptions(),
    };
    let mut out = Vec::new();
    Encoder::new(plan.version).subscribe(&subscribe, &mut out)?;
    stream.write_all(&out)?;
    let answer = answer(&mut stream)?;
    match decode(plan, &answer)? {
        Packet::SubAck(ack) if ack.codes.iter().all(|code| code.code() == plan.qos.bits()) => {
            Ok(Link::new(stream)?)
        }
        other => Err(RunError::Answer(format!("{other:?}"))),
    }
}

/// The address that a connection goes to.
fn host(address: SocketAddr, plan: &Plan, number: u32) -> SocketAddr {
    host_in_turn(address, u32::from(plan.hosts), number)
}

/// Of so many addresses from this one on the one whose turn it is.
pub fn host_in_turn(address: SocketAddr, hosts: u32, number: u32) -> SocketAddr {
    let SocketAddr::V4(first) = address else { return address };
    let ip = first.ip().to_bits().wrapping_add(number % hosts.max(1));
    SocketAddr::from((Ipv4Addr::from_bits(ip), first.port()))
}

fn connect(
    address: SocketAddr,
    plan: &Plan,
    id: &str,
    persistent: bool,
) -> Result<TcpStream, RunError> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut properties = PropertiesBuf::new();
    if plan.version.is_v5() && persistent {
        // A number is never too long.
        let _pushed = properties.push(Property::SessionExpiry(EXPIRY));
    }
    let connect = Connect {
        clean_start: !persistent,
        properties: properties.as_properties(),
        // Some brokers take no client without one; no run is so long.
        keep_alive: u16::MAX,
        ..Connect::new(plan.version, id)
    };
    let mut out = Vec::new();
    Encoder::new(plan.version).connect(&connect, &mut out)?;
    stream.write_all(&out)?;
    let answer = answer(&mut stream)?;
    match decode(plan, &answer)? {
        Packet::ConnAck(ack) if ack.reason == ReasonCode::Success => Ok(stream),
        other => Err(RunError::Answer(format!("{other:?}"))),
    }
}

fn decode<'a>(plan: &Plan, packet: &'a [u8]) -> Result<Packet<'a>, RunError> {
    let decoder = Decoder::of_servers(plan.version, Limits::default());
    match decoder.decode(packet)? {
        Some((packet, _)) => Ok(packet),
        None => Err(RunError::Answer("half a packet".to_owned())),
    }
}

/// Exactly one packet, so that nothing behind it is lost.
fn answer(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut packet = vec![0; 2];
    stream.read_exact(&mut packet)?;
    while packet[packet.len() - 1] & 0x80 != 0 && packet.len() < 5 {
        packet.push(0);
        let last = packet.len() - 1;
        stream.read_exact(&mut packet[last..])?;
    }
    let len = packet[1..].iter().rev().fold(0, |len, byte| len << 7 | usize::from(byte & 0x7F));
    let body = packet.len();
    packet.resize(body + len, 0);
    stream.read_exact(&mut packet[body..])?;
    Ok(packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_go_to_hosts_in_turns() {
        let first: SocketAddr = "127.0.0.1:1883".parse().unwrap();
        let hosts = [0, 1, 2, 3].map(|number| host_in_turn(first, 3, number).to_string());
        assert_eq!(
            hosts,
            ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.1"].map(|ip| ip.to_owned() + ":1883")
        );
        assert_eq!(host_in_turn(first, 1, 7), first);
    }
}
