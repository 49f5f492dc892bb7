//! Results as the text of a page: tables, charts, and where we are behind.
//!
//! Owns: what counts as behind. Of several settings of a peer the better one counts, measure by
//! measure.

use std::fmt::Write as _;

use zzq_bench::chart::{Bars, Chart};
use zzq_bench::page::{distinct, wrap};

use crate::cells::{ACK, Asked, CELLS, CPU, Cell, DELIVER, Of, PEAK, RATE, Section, Work};
use crate::cells::{more_is_better, of_peer};
use crate::faults::sum;
use crate::peers::{PEERS, SUBJECT, Setting, Start};
use crate::results::{Compared, Record, newest};

/// Families of peers in the order of their tables, and how they are called there.
const FAMILIES: [(&str, &str); 10] = [
    ("zzq-broker", "zzq-broker 0.5.0"),
    ("mosquitto", "mosquitto"),
    ("mosquitto-default", "mosquitto as it comes"),
    ("nats-server", "nats-server"),
    ("rabbitmq", "RabbitMQ"),
    ("rabbitmq-default", "RabbitMQ as it comes"),
    ("rumqttd", "rumqttd"),
    ("aedes", "aedes"),
    ("aedes-default", "aedes as it comes"),
    ("amqtt", "amqtt"),
];

const COLUMNS: [(&str, &str); 5] = [
    (CPU, "broker CPU a delivery"),
    (RATE, "delivered/s"),
    (ACK, "p50 to the acknowledgement"),
    (DELIVER, "p50 to the delivery"),
    (PEAK, "peak memory"),
];

/// How a measure is called in the list of what is behind.
const SHORT: [(&str, &str); 5] =
    [(CPU, "CPU"), (RATE, "rate"), (ACK, "ack p50"), (DELIVER, "deliver p50"), (PEAK, "memory")];

/// What the figures of a cell with a family are, the least good for us of its settings.
fn worst(records: &[Record], cell: &str, family: &str, measure: &str) -> Option<Compared> {
    let settings = PEERS.iter().filter(|peer| peer.family == family);
    let all = settings.filter_map(|peer| newest(records, cell, peer.name));
    let found = all.filter_map(|record| record.measures.get(measure).copied());
    let by_ratio = |a: &Compared, b: &Compared| a.ratio.median.total_cmp(&b.ratio.median);
    if more_is_better(measure) { found.min_by(by_ratio) } else { found.max_by(by_ratio) }
}

fn misses(measure: &str, value: f64, bound: f64) -> bool {
    if more_is_better(measure) { value < bound } else { value > bound }
}

/// The whole text.
pub(crate) fn text(records: &[Record]) -> String {
    let mut text = head(records);
    for (family, called) in FAMILIES {
        for (section, title) in
            [(Section::Memory, "Without storage"), (Section::Storage, "With storage")]
        {
            let rows: Vec<String> =
                cells(section).filter_map(|cell| stream_row(records, cell, family)).collect();
            if rows.is_empty() {
                continue;
            }
            // Writing to a string does not fail.
            let _written = write!(text, "\n### {title}, in proportion to {called}\n\n");
            table_head(&mut text);
            text.push_str(&rows.join(""));
            if family == CHARTED {
                charts_of(&mut text, section);
            }
        }
    }
    state_table(&mut text, records);
    behind(&mut text, records);
    settings(&mut text, records);
    text
}

/// How each broker that was measured was started, and why others were not.
fn settings(text: &mut String, records: &[Record]) {
    let measured = |setting: &Setting| records.iter().any(|record| record.peer == setting.name);
    text.push_str("\n## Settings\n\n");
    text.push_str(&wrap(
        "As brokers come, but for what is said here: a port, a folder, no password, and queues \
         without bounds where messages would be dropped otherwise.",
    ));
    for setting in [&SUBJECT].into_iter().chain(PEERS.iter().filter(|one| measured(one))) {
        let _written = write!(text, "\n**{}** (`{}`)\n", setting.name, setting.install);
        if !setting.lacks.is_empty() {
            let _written = write!(text, "\n{}", wrap(&format!("Not measured: {}.", setting.lacks)));
        }
        let [memory, storage] = [setting.memory, setting.storage];
        let starts: &[(&str, Option<Start>)] = if memory == storage {
            &[("without storage and with it", memory)]
        } else {
            &[("without storage", memory), ("with storage", storage)]
        };
        for (title, start) in starts.iter().filter_map(|(title, start)| Some((title, (*start)?))) {
            let _written = write!(text, "\n{title}\n\n```text\n{}```\n", told(&start));
        }
    }
}

/// A command, broken where it is too long for a page, and files.
fn told(start: &Start) -> String {
    let mut text = wrap(start.command);
    for (name, lines) in start.files {
        let _written = write!(text, "\n# {name}\n{lines}");
    }
    text
}

/// The family that charts are about.
const CHARTED: &str = "zzq-broker";

/// Links to the charts of a section.
fn charts_of(text: &mut String, section: Section) {
    for (file, title, _, _) in CHARTS.iter().filter(|(_, _, of, _)| *of == section) {
        let _written = write!(text, "\n![{title}](doc/charts/{file})\n");
    }
}

/// Files, titles, cells and measures of all charts.
const CHARTS: [(&str, &str, Section, &str); 3] = [
    ("cpu.svg", "broker CPU a delivery, without storage: less is better", Section::Memory, CPU),
    ("ack.svg", "p50 to the acknowledgement, with storage: less is better", Section::Storage, ACK),
    ("rate.svg", "deliveries a second, with storage: more is better", Section::Storage, RATE),
];

fn cells(section: Section) -> impl Iterator<Item = &'static Cell> {
    CELLS.iter().filter(move |cell| cell.section == section)
}

fn head(records: &[Record]) -> String {
    let distinct = |of| distinct(records, of);
    let rounds = records.iter().map(|record| record.rounds).min().unwrap_or(0);
    let ours = sum(records.iter().map(|record| (record.faults.0, record.went.0, record.rounds)));
    let ours = if ours.is_clean() {
        "None of our runs lost, doubled or reordered a message.".to_owned()
    } else {
        format!("Of our {}.", ours.text())
    };
    wrap(&format!(
        "Measured on {} by `zzq_suite`: {} against {}, zzq and zzq-broker with one lane each, the \
         others with the threads that they take; at least {rounds} rounds in turns of {} s, \
         64-byte payloads where nothing else is said, MQTT 3.1.1. Machine: {}, shared with the \
         load generator. Each figure is the median of the rounds' ratios, ours by the peer's, \
         with the least and the greatest; of the two settings of zzq-broker (its default and \
         `--spin-us 0`) the one that is better in it. {ours}",
        distinct(|record| record.date.clone()),
        distinct(|record| record.version.clone()),
        distinct(|record| record.peer_version.clone()),
        distinct(|record| record.seconds.to_string()),
        distinct(|record| record.machine.clone()),
    ))
}

fn table_head(text: &mut String) {
    let titles: Vec<&str> = COLUMNS.iter().map(|(_, title)| *title).collect();
    let _written = writeln!(text, "| load | {} | asked |", titles.join(" | "));
    let _written = writeln!(text, "|---|{}---|", "--:|".repeat(COLUMNS.len()));
}

fn stream_row(records: &[Record], cell: &Cell, family: &str) -> Option<String> {
    let column = |measure: &str| {
        let Some(compared) = worst(records, cell.name, family, measure) else {
            return "–".to_owned();
        };
        let missed = asked_of(cell, family).any(|asked| {
            asked.measure == measure && misses(measure, compared.ratio.median, asked.bound)
        });
        if missed {
            let ratio = compared.ratio;
            format!("**{:.2}** ({:.2}-{:.2})", ratio.median, ratio.least, ratio.most)
        } else {
            compared.ratio.to_string()
        }
    };
    worst(records, cell.name, family, CPU)?;
    let columns: Vec<String> = COLUMNS.iter().map(|(measure, _)| column(measure)).collect();
    let asked: Vec<String> = asked_of(cell, family)
        .map(|asked| format!("{} {}", short(asked.measure), bound(asked)))
        .collect();
    let faults = faults(records, cell, family);
    Some(format!("| {}{faults} | {} | {} |\n", cell.title, columns.join(" | "), asked.join(", ")))
}

/// What a peer did wrong stands beside what it was measured by.
fn faults(records: &[Record], cell: &Cell, family: &str) -> String {
    let settings = PEERS.iter().filter(|peer| peer.family == family);
    let all = settings.filter_map(|peer| newest(records, cell.name, peer.name));
    let theirs = sum(all.map(|one| (one.faults.1, one.went.1, one.rounds)));
    if theirs.is_clean() { String::new() } else { format!(" (of the peer's {})", theirs.text()) }
}

fn asked_of<'a>(cell: &'a Cell, family: &'a str) -> impl Iterator<Item = &'a Asked> {
    cell.asked.iter().filter(move |asked| of_peer(asked) == Some(family))
}

fn bound(asked: &Asked) -> String {
    let sign = if more_is_better(asked.measure) { ">=" } else { "<=" };
    format!("{sign} {}", asked.bound)
}

fn short(measure: &str) -> &str {
    SHORT.iter().find(|(name, _)| *name == measure).map_or(measure, |(_, short)| short)
}

fn state_table(text: &mut String, records: &[Record]) {
    let families: Vec<(&str, &str)> = FAMILIES
        .into_iter()
        .filter(|(family, _)| {
            cells(Section::State).any(|cell| figure(records, cell, family).is_some())
        })
        .collect();
    if families.is_empty() {
        return;
    }
    let names: Vec<&str> = families.iter().map(|(_, called)| *called).collect();
    let _written = write!(text, "\n### State\n\n| what | zzq | {} | asked |\n", names.join(" | "));
    let _written = writeln!(text, "|---|--:|{}---|", "--:|".repeat(families.len()));
    for cell in cells(Section::State) {
        let figures: Vec<Option<Compared>> =
            families.iter().map(|(family, _)| figure(records, cell, family)).collect();
        let Some(ours) = figures.iter().flatten().next().map(|compared| compared.ours) else {
            continue;
        };
        let theirs: Vec<String> = figures
            .iter()
            .map(|figure| {
                figure.map_or("–".into(), |it| format!("{} ({})", amount(it.theirs), it.ratio))
            })
            .collect();
        let asked: Vec<String> = cell
            .asked
            .iter()
            .map(|asked| match asked.of {
                Of::Itself => bound(asked),
                Of::Peer(peer) => format!("{} of {peer}", bound(asked)),
            })
            .collect();
        let missed = if missed(records, cell).is_empty() { "" } else { "**" };
        let _written = writeln!(
            text,
            "| {} | {missed}{}{missed} | {} | {} |",
            cell.title,
            amount(ours),
            theirs.join(" | "),
            asked.join(", ")
        );
    }
}

fn figure(records: &[Record], cell: &Cell, family: &str) -> Option<Compared> {
    let Work::State(state) = &cell.work else { return None };
    worst(records, cell.name, family, state.measure())
}

fn amount(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// The targets of a cell that are missed, with what there is instead.
fn missed(records: &[Record], cell: &Cell) -> Vec<(Asked, f64)> {
    let value = |asked: &Asked| match asked.of {
        Of::Peer(family) => Some(worst(records, cell.name, family, asked.measure)?.ratio.median),
        Of::Itself => {
            let mut all = FAMILIES.iter();
            Some(all.find_map(|(family, _)| worst(records, cell.name, family, asked.measure))?.ours)
        }
    };
    let all = cell.asked.iter().filter_map(|asked| Some((*asked, value(asked)?)));
    all.filter(|(asked, value)| misses(asked.measure, *value, asked.bound)).collect()
}

/// Every cell in which a target is missed, or a peer is ahead.
fn behind(text: &mut String, records: &[Record]) {
    let mut lines = String::new();
    for cell in CELLS {
        let mut said = Vec::new();
        for (asked, value) in missed(records, cell) {
            let of = of_peer(&asked).map_or(String::new(), |peer| format!(" of {peer}"));
            let number = if of.is_empty() { amount(value) } else { format!("{value:.2}") };
            said.push(format!("{} {number}{of}, asked {}", short(asked.measure), bound(&asked)));
        }
        for (family, called) in FAMILIES {
            for (measure, short) in SHORT {
                let target =
                    |asked: &Asked| asked.measure == measure && of_peer(asked) == Some(family);
                let Some(compared) = worst(records, cell.name, family, measure) else { continue };
                let told = missed(records, cell).iter().any(|(asked, _)| target(asked));
                if !told && misses(measure, rounded(compared.ratio.median), 1.0) {
                    said.push(format!("{short} {:.2} of {called}", compared.ratio.median));
                }
            }
            if let Some(compared) = figure(records, cell, family)
                && missed(records, cell).iter().all(|(asked, _)| of_peer(asked) != Some(family))
                && compared.ratio.median > 1.0
            {
                said.push(format!("{:.2} of {called}", compared.ratio.median));
            }
        }
        if !said.is_empty() {
            lines.push_str(&wrap(&format!("- **{}**: {}.", cell.title, said.join("; "))));
        }
    }
    text.push_str("\n## Where we are behind\n\n");
    if lines.is_empty() {
        text.push_str("In none of the cells above.\n");
    } else {
        text.push_str("A target missed, or a peer ahead by its median:\n\n");
        text.push_str(&lines);
    }
}

fn rounded(ratio: f64) -> f64 {
    (ratio * 100.0).round() / 100.0
}

/// Charts by their file names.
pub(crate) fn charts(records: &[Record]) -> Vec<(&'static str, String)> {
    let chart = |title, section, measure: &'static str| {
        let bars = cells(section).filter_map(|cell| {
            let compared = worst(records, cell.name, CHARTED, measure)?;
            let mut asked = asked_of(cell, CHARTED);
            let target = asked.find(|asked| asked.measure == measure).map(|asked| asked.bound);
            Some(Bars { name: cell.name.to_owned(), ratios: vec![compared.ratio], target })
        });
        let cells = bars.collect();
        Chart { title, subjects: &["zzq"], reference: "zzq-broker 0.5.0", cells }.svg()
    };
    let all = CHARTS.iter();
    all.map(|(file, title, section, measure)| (*file, chart(title, *section, measure))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Went;
    use crate::results::tests::record;

    #[test]
    fn the_better_setting_of_a_peer_counts() {
        let records = [
            record("1-1-q0", "zzq-broker", &[(CPU, 0.7), (RATE, 1.1)]),
            record("1-1-q0", "zzq-broker-no-spin", &[(CPU, 0.8), (RATE, 1.3)]),
        ];
        let ratio =
            |measure| worst(&records, "1-1-q0", "zzq-broker", measure).unwrap().ratio.median;
        assert!((ratio(CPU) - 0.8).abs() < 1e-9 && (ratio(RATE) - 1.1).abs() < 1e-9);
        let row = stream_row(&records, &CELLS[0], "zzq-broker").unwrap();
        assert!(row.starts_with("| 1 to 1, QoS 0 | 0.80 (0.40-1.60) | 1.10"), "{row}");
        assert_eq!(stream_row(&records, &CELLS[0], "mosquitto"), None);
        let text = text(&records);
        assert!(text.contains("### Without storage, in proportion to zzq-broker 0.5.0"), "{text}");
        assert!(!text.contains("mosquitto"), "{text}");
        assert!(text.contains("In none of the cells above."), "{text}");
    }

    #[test]
    fn what_is_missed_or_behind_is_named() {
        let records = [
            record("1-1-q0", "zzq-broker", &[(CPU, 0.95), (RATE, 0.9), (DELIVER, 1.001)]),
            record("idle", "mosquitto", &[("idle bytes", 1.1)]),
        ];
        let text = text(&records);
        assert!(text.contains("| **0.95** (0.47-1.90) | 0.90"), "{text}");
        let line = "- **1 to 1, QoS 0**: CPU 0.95 of zzq-broker, asked <= 0.9; rate 0.90 of \
                    zzq-broker 0.5.0.";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("bytes**: 1.10 of mosquitto."), "{text}");
    }

    #[test]
    fn faults_stand_beside_the_figures() {
        let mut faulty = record("1-10-q0", "mosquitto", &[(CPU, 0.1)]);
        faulty.faults = (1, 8);
        faulty.went.0.reordered = 1;
        faulty.went.1 = Went { doubled: 8, dropped: 2, ..Went::default() };
        let text = text(&[faulty]);
        let theirs = "| 1 to 10, QoS 0 (of the peer's 9 runs, messages were doubled in 8; dropped, \
                      as QoS 0 allows, in 2) |";
        assert!(text.contains(theirs), "{text}");
        let prose = text.replace('\n', " ");
        assert!(prose.contains("Of our 9 runs, messages were reordered in 1."), "{text}");
    }

    #[test]
    fn every_peer_has_a_table() {
        for peer in PEERS {
            assert!(FAMILIES.iter().any(|(family, _)| *family == peer.family), "{}", peer.name);
        }
    }

    #[test]
    fn settings_are_those_of_the_peers_that_were_measured() {
        let text = text(&[record("1-1-q0", "mosquitto", &[(CPU, 0.7)])]);
        let (_, settings) = text.split_once("\n## Settings\n").unwrap();
        assert!(settings.contains("**zzq** (`") && settings.contains("**mosquitto** (`"), "{text}");
        assert!(settings.contains("\n# mosquitto.conf\nlistener {port}"), "{text}");
        assert!(!settings.contains("rabbitmq"), "{text}");
        assert!(settings.lines().all(|line| line.chars().count() <= 100), "{text}");
    }

    #[test]
    fn a_chart_has_a_bar_for_each_cell_that_was_measured() {
        let records = [record("disk-1x1", "zzq-broker", &[(ACK, 0.55), (RATE, 1.5)])];
        let charts = charts(&records);
        assert!(charts[1].1.contains(">0.55<") && charts[2].1.contains(">1.50<"));
        assert!(!charts[0].1.contains("NaN"));
    }
}
