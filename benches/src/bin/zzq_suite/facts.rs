//! What brokers do rather than how fast: under a receiver that does not read, and when killed.

use std::fmt::Write as _;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use zzq_bench::client::{Client, Patience, come_back, leave};
use zzq_bench::load::{Broker, Counts, Figures, Pattern, Plan, Target, run, usage};
use zzq_types::QoS;

use crate::peers::Found;

/// Messages of 4 KiB that a crash finds waiting: few, for a broker may write all of them anew with
/// each.
const WAITING: u32 = 200;

/// How long a session has been there when messages come for it. `RabbitMQ` 3.10 notes where its
/// quorum queues are some seconds late: of one that it made just before it is killed it knows no
/// replica afterwards, and its client is never answered again. Here it is messages that count.
const SETTLES: Duration = Duration::from_secs(5);

/// How long a client waits for them when it comes back. Brokers that have much to look through
/// after a crash answer late.
const BACK: Patience = Patience { quiet: Duration::from_secs(20), most: Duration::from_mins(3) };

/// Where a broker, or this setting of it, is not asked.
const NOT_MEASURED: &str = "not measured";

/// A table of each broker's answers; what fails is said in it.
pub(crate) fn text(brokers: &[Found], place: &Path, say: &mut dyn FnMut(&str)) -> String {
    let mut text = String::from(
        "| broker | QoS 0, receiver stalls | QoS 1, receiver stalls | killed (-9), with storage |\n\
         |---|---|---|---|\n",
    );
    for found in brokers {
        say(&found.version);
        let cells = [
            overload(found, QoS::AtMostOnce, place),
            overload(found, QoS::AtLeastOnce, place),
            crash(found, place),
        ]
        .map(|cell| cell.unwrap_or_else(|error| format!("failed: {error:#}")));
        // Writing to a string does not fail.
        let _written = writeln!(text, "| {} | {} |", found.version, cells.join(" | "));
    }
    text
}

/// One publisher as fast as it can, one subscriber that reads nothing for as long.
fn stalled(qos: QoS) -> Plan {
    const SPAN: Duration = Duration::from_secs(2);
    Plan {
        payload: 4096,
        window: 1000,
        duration: SPAN,
        threads: 2,
        stall: SPAN,
        patience: Duration::from_secs(10),
        ..Plan::plain(Pattern::Pairs(1), qos)
    }
}

fn overload(found: &Found, qos: QoS, place: &Path) -> Result<String> {
    let Some((command, start)) = found.start(false) else {
        return Ok(NOT_MEASURED.to_owned());
    };
    let broker = Broker::start_with(&command, start.files, Some(place))?;
    let before = usage(&broker.pid().to_string())?.resident_kib;
    let target = Target { address: broker.address(), pid: Some(broker.pid()) };
    Ok(told(qos, &run(&stalled(qos), target)?, before))
}

/// What became of the messages: lost is only what was acknowledged.
fn told(qos: QoS, figures: &Figures, before_kib: u64) -> String {
    let Figures { published, acknowledged, unacknowledged, counts, broker, .. } = figures;
    let Counts { lost, dropped, doubled, repeated, reordered, foreign, .. } = counts;
    let mut text = if qos == QoS::AtMostOnce {
        format!("{published} sent, {dropped} dropped")
    } else {
        format!("{acknowledged} acknowledged, {lost} lost")
    };
    for (count, what) in [
        (unacknowledged, "never acknowledged"),
        (doubled, "doubled"),
        (repeated, "repeated"),
        (reordered, "reordered"),
        (foreign, "that nobody sent"),
    ] {
        if *count > 0 {
            // Writing to a string does not fail.
            let _written = write!(text, ", {count} {what}");
        }
    }
    let peak = broker.map_or(0, |used| used.peak_kib.saturating_sub(before_kib)) / 1024;
    text + &format!(", {peak} MiB more")
}

/// Messages wait for a client that is away, all acknowledged; the broker is killed at once.
fn crash(found: &Found, place: &Path) -> Result<String> {
    let Some((command, start)) = found.start(true) else {
        return Ok(NOT_MEASURED.to_owned());
    };
    let mut broker = Broker::start_with(&command, start.files, Some(place))?;
    leave(broker.address(), "reader", "queue")?;
    sleep(SETTLES);
    let mut publisher = Client::connect(broker.address(), "p", false)?;
    publisher.publish(WAITING, 4096, false, |_| "queue".to_owned())?;
    let killed = Instant::now();
    broker.kill_and_restart()?;
    let came = come_back(broker.address(), "reader", usize::try_from(WAITING)?, BACK)?;
    let last = came.last.map(|last| last.duration_since(killed));
    Ok(recovered(came.messages, last))
}

/// How many of those that wait are there again, and how long that took.
fn recovered(messages: usize, after: Option<Duration>) -> String {
    let lost = usize::try_from(WAITING).unwrap_or(usize::MAX).saturating_sub(messages);
    let took = after.map(|after| format!(", recovered after {:.1} s", after.as_secs_f64()));
    format!("{WAITING} acknowledged, {lost} lost{}", took.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use zzq_bench::load::Usage;

    #[test]
    fn only_what_was_acknowledged_is_lost() {
        let counts = Counts { dropped: 3, ..Counts::default() };
        let broker = Some(Usage { peak_kib: 4096, ..Usage::default() });
        let figures = Figures { published: 10, counts, broker, ..Figures::default() };
        assert_eq!(told(QoS::AtMostOnce, &figures, 1024), "10 sent, 3 dropped, 3 MiB more");
        let counts = Counts { lost: 4, repeated: 5, ..Counts::default() };
        let acked = Figures { counts, acknowledged: 8, unacknowledged: 2, ..figures };
        let text = "8 acknowledged, 4 lost, 2 never acknowledged, 5 repeated, 0 MiB more";
        assert_eq!(told(QoS::AtLeastOnce, &acked, 4096), text);
    }

    #[test]
    fn how_long_it_took_stands_beside_what_came() {
        assert_eq!(recovered(0, None), "200 acknowledged, 200 lost");
        let text = "200 acknowledged, 5 lost, recovered after 1.5 s";
        assert_eq!(recovered(195, Some(Duration::from_millis(1500))), text);
    }
}
