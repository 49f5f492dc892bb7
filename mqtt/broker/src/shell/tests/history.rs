//! History for many who do not read: what is read of the log for them counts as output does.

use zzq_types::ProtocolVersion::{V5, V311};
use zzq_types::QoS::{AtLeastOnce, AtMostOnce};

use super::harness::*;
use super::withheld::fail_all;
use crate::options::LogPolicy;

const READERS: usize = 12;
const MESSAGES: usize = 60;
const LENGTH: usize = 20_000;
/// What all outputs together may have.
const TOTAL: usize = 512 << 10;

/// What each may have beside that, and a message that comes on top: in its output, and read ahead.
const EACH: usize = 2 * ((32 << 10) + LENGTH);

/// Each reader's thread of history held half a MiB, and as much again that was read ahead.
#[test]
fn what_is_read_for_those_who_do_not_read_is_bounded() {
    for version in [V311, V5] {
        let mut setup = Setup::new(version);
        setup.options.log = LogPolicy::All;
        setup.options.limits.max_output_bytes = 256 << 10;
        setup.options.limits.max_output_bytes_total = TOTAL;
        let mut world = setup.start();
        let mut publisher = world.guest("publisher");
        let text = |n: usize| format!("{n:0LENGTH$}");
        for n in 1..=MESSAGES {
            let text = text(n);
            world.publish(&mut publisher, Line::new("t", &text, AtLeastOnce, 1));
        }
        let mut readers = Vec::new();
        for n in 0..READERS {
            let mut reader = world.guest(&format!("reader {n}"));
            reader.takes(100);
            reader.subscribe(9, "$replay/all/t", AtMostOnce);
            readers.push(reader);
            world.pass(20);
            let held = world.shell(0).replaying.counted();
            assert!(held <= TOTAL + EACH * (n + 1), "{held} for {n}");
            assert!(held > 0, "they wait for somebody who does not read");
        }
        for reader in &readers {
            reader.takes(usize::MAX);
        }
        let mut got = vec![Vec::new(); READERS];
        for _ in 0..MESSAGES {
            world.pass(20);
            for (got, reader) in got.iter_mut().zip(&mut readers) {
                got.extend(reader.got());
            }
        }
        let all: Vec<_> = (1..=MESSAGES).map(|n| format!("t={}", text(n))).collect();
        for got in got {
            assert_eq!(got[0], "SUBACK 9");
            assert!(got[1..] == all, "{} of {MESSAGES}", got.len() - 1);
        }
        assert_eq!((world.shell(0).replaying.counted(), world.shell(0).replaying.memory()), (0, 0));
    }
}

/// What was published between UNSUBSCRIBE and SUBSCRIBE was decided for neither. The fence of the
/// first was taken for that of the second, so history ended in front of it.
#[test]
fn history_that_is_asked_for_again_begins_behind_its_own_fence() {
    for version in [V311, V5] {
        let mut setup = Setup::new(version);
        setup.options.log = LogPolicy::All;
        let mut world = setup.start();
        let mut reader = world.member("reader");
        world.publish(&mut reader, Line::new("t", "one", AtLeastOnce, 1));
        reader.subscribe(9, "$replay/all/t", AtMostOnce);
        world.pass(20);
        assert_eq!(reader.got(), ["SUBACK 9", "t=one"], "{version:?}");
        world.disk.hold();
        reader.unsubscribe(2, "$replay/all/t");
        world.settle();
        // One record behind the other, in a group of their own.
        reader.gather();
        reader.publish(Line::new("t", "two", AtLeastOnce, 3));
        reader.subscribe(4, "$replay/all/t", AtMostOnce);
        reader.flush();
        world.settle();
        assert!(world.disk.release_next().is_some());
        world.settle();
        assert_eq!(reader.got(), ["UNSUBACK 2"], "{version:?}");
        world.disk.release_all();
        while world.disk.release_next().is_some() {
            world.pass(20);
        }
        world.pass(20);
        let got = reader.got();
        assert_eq!(got, ["PUBACK 3", "SUBACK 4", "t=one", "t=two"], "{version:?}");
    }
}

/// It stayed with clients that had left, and all outputs had less room for as long as the broker
/// ran.
#[test]
fn what_was_read_goes_when_no_history_can_follow_in_a_failed_log() {
    let mut setup = Setup::new(V5);
    setup.options.log = LogPolicy::All;
    setup.options.limits.max_output_bytes = 64 << 10;
    let mut world = setup.start();
    let mut publisher = world.guest("publisher");
    let text = "x".repeat(LENGTH);
    for _ in 0..MESSAGES {
        world.publish(&mut publisher, Line::new("t", &text, AtLeastOnce, 1));
    }
    let mut reader = world.guest("reader");
    reader.takes(100);
    reader.subscribe(9, "$replay/all/t", AtMostOnce);
    world.pass(20);
    assert!(world.shell(0).replaying.memory() > 0, "it waits for somebody who does not read");
    world.disk.hold();
    publisher.publish(Line::new("t", "lost", AtLeastOnce, 2));
    world.settle();
    fail_all(&mut world);
    fail_all(&mut world);
    assert!(world.is_read_only());
    world.pass(20);
    assert_eq!((world.shell(0).replaying.counted(), world.shell(0).replaying.memory()), (0, 0));
}

/// A start knows no more of what was let go than the log. That may begin with the end of a message
/// whose beginning is gone: who asked for the oldest there was sent away, however often it asked.
#[test]
fn after_a_start_history_begins_with_what_is_whole() {
    for version in [V311, V5] {
        let mut without_beginning = 0;
        for messages in 3..9 {
            let mut setup = Setup::new(version);
            setup.options.log = LogPolicy::All;
            let mut world = setup.start();
            let mut publisher = world.guest("publisher");
            // Each over two segments.
            let texts: Vec<_> = (0..messages).map(|n| long(n, 300_000)).collect();
            for text in &texts {
                world.publish(&mut publisher, Line::new("t", text, AtLeastOnce, 1));
                world.image();
            }
            let mut world = world.kill();
            let (kept, whole) = (world.log().segments()[0].first, world.log().first_whole());
            without_beginning += u32::from(kept < whole);
            let mut reader = world.guest("reader");
            reader.subscribe(9, "$replay/@1/t", AtMostOnce);
            world.pass(20);
            let got = reader.got();
            let whole = whole.get();
            let said = format!("SUBACK 9 offset 1 is gone: it starts with {whole}, the oldest");
            assert_eq!(got[0], if version == V5 && whole > 1 { &said } else { "SUBACK 9" });
            let newest = &texts[texts.len() + 1 - got.len()..];
            let is_of = |(line, text): (&String, &String)| line.strip_prefix("t=") == Some(text);
            assert!(got.len() > 1 && got[1..].iter().zip(newest).all(is_of), "{messages}");
        }
        assert!(without_beginning > 0);
    }
}

/// Segments go as a whole: of the one in which it is let go, what lies in front of that stays. Who
/// asked for all that there is began behind it until the next start, and with what lies in front of
/// it from then on.
#[test]
fn history_begins_with_the_oldest_that_is_left() {
    for version in [V311, V5] {
        // The first all lie in one segment, each of the last over two.
        for (length, messages) in [(10, 9), (30_000, 24), (300_000, 6)] {
            let mut setup = Setup::new(version);
            setup.options.log = LogPolicy::All;
            let mut world = setup.start();
            let mut publisher = world.guest("publisher");
            let mut all = Vec::new();
            for n in 0..messages {
                let text = long(n, length);
                world.publish(&mut publisher, Line::new("t", &text, AtLeastOnce, 1));
                all.push((world.log().appended(), text));
                world.image();
                // The log's helper lets go what may go.
                world.pass(20);
                let oldest = world.log().first_whole();
                let left = all.iter().filter(|(lsn, _)| *lsn >= oldest);
                let left: Vec<_> = left.map(|(_, text)| format!("t={text}")).collect();
                let mut reader = world.guest("reader");
                reader.takes(usize::MAX);
                reader.subscribe(9, "$replay/all/t", AtMostOnce);
                world.pass(20);
                let got = reader.got();
                assert_eq!(got[0], "SUBACK 9");
                assert!(got[1..] == left, "{} of {} from {oldest} on", got.len() - 1, left.len());
            }
            let (first, oldest) = (all[0].0, world.log().first_whole());
            assert_eq!(first >= oldest, length == 10, "the log is let go where it is long");
        }
    }
}
