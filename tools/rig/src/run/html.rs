//! The report of a run, one page that needs nothing else.
//!
//! Owns: its text and which pictures it has. Does not know: how they are drawn.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use super::svg::{Picture, escape, number};
use super::{Hit, Mark, Recovery, Round, Tally, Verdict};

const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;max-width:960px;margin:2em auto;padding:0 1em;color:#222}
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}.clean{color:#17693a}.broken{color:#b3261e}
pre{background:#f4f4f2;padding:1em;overflow-x:auto}table{border-collapse:collapse}
td,th{padding:.15em .9em .15em 0;text-align:left}td.n{text-align:right}svg{width:100%}
text{font:12px system-ui,sans-serif;fill:#555}.left{text-anchor:end}.below{text-anchor:middle}
.axis,polyline{fill:none}.axis{stroke:#999}polyline{stroke-width:1.8}
.acknowledged{stroke:#1f5fa8;fill:none}.received{stroke:#c77700;fill:none;stroke-dasharray:5 3}
.round{fill:#dde5ee}.last{fill:#f3c9c5}.start{fill:#1f5fa8;fill-opacity:.6}.median{stroke:#c77700}
.hit{stroke-width:1.2}.hit0{stroke:#b3261e}.hit1{stroke:#222}.hit2{stroke:#c77700}
.hit3{stroke:#7a3fa0}.hit4{stroke:#17693a}.hit5{stroke:#1f8f8f}
.before{fill:none;stroke:#1f5fa8}.behind{fill:#c77700}
.lost{fill:#b3261e}.key{display:inline-block;margin-right:1.2em}.key b{font-weight:700}";

/// The page.
pub(super) fn page(verdict: &Verdict) -> String {
    let class = if verdict.is_clean() { "clean" } else { "broken" };
    let tally = &verdict.tally;
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>zzq_rig</title>\n\
         <style>{STYLE}</style>\n<h1 class=\"{class}\">{}</h1>\n",
        escape(&verdict.line())
    );
    let mut add = |title: &str, text: &str, body: &str| {
        // A string takes everything.
        let _ = write!(page, "<h2>{title}</h2>\n<p>{text}</p>\n{body}");
    };
    let table = format!("<pre>{}</pre>\n", escape(&verdict.to_string()));
    add("What was done", "All counts of the run.", &table);
    add(
        "Injuries over time",
        "A bar for each round, from its injury until all accounts were settled again, and in it a \
         stroke for each moment at which a broker was struck; point at one to see what had been \
         acknowledged by then and was there behind it. A power cut stands where its disk was put \
         in.",
        &timeline(verdict),
    );
    let (times, before, behind) = tally.marks.recovered();
    let text = format!(
        "What had been acknowledged on a data directory when its broker was struck (circles), and \
         how much of that was there when all was settled again (dots). {times} hits, {before} \
         acknowledged before them, {behind} recovered."
    );
    add("Acknowledged against recovered", &text, &recovered(tally));
    add(
        "Acknowledged against received",
        "Acknowledged messages that are owed to each audience (line), and those of them that its \
         receivers have (dashed), both as the mean over the audiences for which messages are \
         kept. One of them is mostly away; at the end of each data directory both are the same.",
        &counts(tally),
    );
    add(
        "Recovery times",
        "Each start until the broker served, power cuts too. The line is the median.",
        &recoveries(tally),
    );
    if tally.steps.count().0 > 0 {
        add(
            "Steps",
            "What the broker did to its data directory, and how often it was killed there.",
            &steps(tally),
        );
    }
    page
}

fn timeline(verdict: &Verdict) -> String {
    let rounds = &verdict.tally.rounds;
    let kinds = verdict.tally.injuries();
    let rows = number(kinds.len() as u64);
    let mut picture = Picture::new(42.0 + 22.0 * rows, end(rounds), rows);
    for (row, (kind, count)) in kinds.iter().enumerate() {
        picture.label(number(row as u64) + 0.5, &format!("{kind} ({count})"));
    }
    let failed =
        if verdict.failure.is_none() { rounds.len() } else { rounds.len().saturating_sub(1) };
    for (at, round) in rounds.iter().enumerate() {
        let row = kinds.iter().position(|(kind, _)| *kind == round.injury).unwrap_or_default();
        let class = if at >= failed { "last" } else { "round" };
        let (from, to) = (round.from.as_secs_f64(), round.to.as_secs_f64());
        let title = format!("round {}: {}, {from:.1} s to {to:.1} s", at + 1, round.injury);
        picture.bar(class, from, to, number(row as u64), &title);
    }
    let mut drawn = BTreeMap::new();
    for mark in verdict.tally.marks.iter() {
        // Before the first round nothing strikes.
        let Some(round) = rounds.get(mark.round.saturating_sub(1)) else { continue };
        let row = kinds.iter().position(|(kind, _)| *kind == round.injury).unwrap_or_default();
        let column = picture.column(mark.at.as_secs_f64());
        let (_, more) = drawn.entry((row, mark.hit, column)).or_insert((mark, 0));
        *more += 1;
    }
    for ((row, hit, _), (mark, count)) in drawn {
        let class = format!("hit hit{}", hit as usize);
        let title = told(mark, count);
        picture.stroke(&class, mark.at.as_secs_f64(), number(row as u64), &title);
    }
    seconds(&mut picture, end(rounds));
    key(&verdict.tally) + &picture.finish()
}

/// What a mark says, and how many lie below it, itself counted.
fn told(mark: &Mark, count: u64) -> String {
    let mut text = format!("{:.2} s: {}", mark.at.as_secs_f64(), mark.hit.name());
    // A string takes everything.
    let _ = match (mark.acknowledged, mark.recovered) {
        (Some(before), Some(behind)) => write!(text, ", {before} acknowledged, {behind} recovered"),
        (Some(before), None) => write!(text, ", {before} acknowledged, nothing recovered"),
        _ => Ok(()),
    };
    if count > 1 {
        let _ = write!(text, "; {} more here", count - 1);
    }
    text
}

/// What the strokes stand for, and how many there are.
fn key(tally: &Tally) -> String {
    let mut key = String::new();
    for hit in Hit::ALL {
        let count = tally.marks.iter().filter(|mark| mark.hit == hit).count();
        if count > 0 {
            let stroke = format!("<path class=\"hit hit{}\" d=\"M3 0V12\"/>", hit as usize);
            let _ = write!(
                key,
                "<span class=\"key\"><svg viewBox=\"0 0 6 12\" style=\"width:6px\">{stroke}</svg> \
                 {} <b>{count}</b></span>",
                hit.name()
            );
        }
    }
    format!("<p>{key}</p>\n")
}

/// Each hit of which it is known what had been acknowledged and what was recovered.
fn recovered(tally: &Tally) -> String {
    let known = || tally.marks.iter().filter_map(|mark| Some((mark, mark.acknowledged?)));
    let most = number(known().map(|(_, before)| before).max().unwrap_or_default());
    let mut picture = Picture::new(240.0, end(&tally.rounds), most);
    let mut drawn = BTreeMap::new();
    for (mark, before) in known() {
        let behind = mark.recovered.unwrap_or_default();
        let column = picture.column(mark.at.as_secs_f64());
        // What was lost is never hidden.
        let (_, more) = drawn.entry((column, before.saturating_sub(behind))).or_insert((mark, 0));
        *more += 1;
    }
    for ((_, lost), (mark, count)) in drawn {
        let (at, title) = (mark.at.as_secs_f64(), told(mark, count));
        let before = number(mark.acknowledged.unwrap_or_default());
        let behind = number(mark.recovered.unwrap_or_default());
        picture.point("before", at, before, &title);
        picture.point(if lost > 0 { "lost" } else { "behind" }, at, behind, &title);
    }
    picture.label(most, &format!("{most:.0}"));
    picture.label(0.0, "0");
    seconds(&mut picture, end(&tally.rounds));
    picture.finish()
}

fn counts(tally: &Tally) -> String {
    let audiences = number(crate::cast::kept_for().count() as u64);
    let rounds = &tally.rounds;
    let owed = |round: &Round| number(round.counts.owed) / audiences;
    let found = |round: &Round| number(round.counts.found) / audiences;
    let most = rounds.last().map_or(0.0, owed);
    let mut picture = Picture::new(240.0, end(rounds), most);
    let to = |round: &Round| round.to.as_secs_f64();
    let start = std::iter::once((0.0, 0.0));
    let points = |of: &dyn Fn(&Round) -> f64| -> Vec<(f64, f64)> {
        start.clone().chain(rounds.iter().map(|round| (to(round), of(round)))).collect()
    };
    picture.line("acknowledged", points(&owed).into_iter());
    picture.line("received", points(&found).into_iter());
    picture.label(most, &format!("{most:.0}"));
    picture.label(0.0, "0");
    seconds(&mut picture, end(rounds));
    picture.finish()
}

fn recoveries(tally: &Tally) -> String {
    let (median, most) = tally.recovery_times().unwrap_or_default();
    let ms = |span: Duration| span.as_secs_f64() * 1000.0;
    let end = end(&tally.rounds);
    let mut picture = Picture::new(240.0, end, ms(most));
    for (at, Recovery { round, at: moment, span }) in tally.recoveries.iter().enumerate() {
        let title = format!("start {}, round {round}: {:.1} ms", at + 1, ms(*span));
        picture.point("start", moment.as_secs_f64(), ms(*span), &title);
    }
    picture.line("median", [(0.0, ms(median)), (end, ms(median))].into_iter());
    picture.label(ms(most), &format!("{:.0} ms", ms(most)));
    picture.label(ms(median), &format!("{:.0} ms", ms(median)));
    seconds(&mut picture, end);
    picture.finish()
}

fn steps(tally: &Tally) -> String {
    let mut table = "<table><tr><th>when<th>step<th>kills\n".to_owned();
    for (phase, step, kills) in tally.steps.iter() {
        let _ = writeln!(table, "<tr><td>{phase}<td>{step}<td class=\"n\">{kills}");
    }
    table.push_str("</table>\n");
    table
}

fn end(rounds: &[Round]) -> f64 {
    rounds.last().map_or(1.0, |round| round.to.as_secs_f64())
}

fn seconds(picture: &mut Picture, end: f64) {
    picture.mark(0.0, "0 s");
    picture.mark(end, &format!("{end:.0} s"));
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::accounts::{Accounts, Entry};

    #[test]
    fn the_page_shows_each_round_each_hit_and_each_start() {
        let began = Instant::now();
        let mut verdict = Verdict::new(7);
        verdict.tally = Tally::new(began);
        let mut accounts = Accounts::default();
        accounts.apply(&Entry::Subscribed { who: 0 });
        accounts.apply(&Entry::Sent { by: 0, seq: 1, id: 1 });
        accounts.apply(&Entry::Acked { by: 0, seq: 1 });
        let later = |ms| began + Duration::from_millis(ms);
        for (at, injury) in ["kill -9", "kill -9", "disk full"].into_iter().enumerate() {
            verdict.tally.begin_round(injury);
            if at == 2 {
                // The one that is owed has not come behind these.
                verdict.tally.failed(&[later(10), later(20_000)], &accounts);
                verdict.tally.settled(&accounts, true);
            } else {
                verdict.tally.killed(&Accounts::default());
                verdict.tally.settled(&Accounts::default(), true);
            }
            verdict.tally.recovered(Duration::from_millis(20));
            verdict.tally.end_round(&Accounts::default());
        }
        for (at, round) in (1..).zip(&mut verdict.tally.rounds) {
            round.to = Duration::from_secs(at * 10);
        }
        let page = page(&verdict);
        let count = |what: &str| page.matches(what).count();
        assert_eq!(count("<rect class=\"round\""), 3);
        assert_eq!(count("<circle class=\"start\""), 3);
        // Both kills within the same half of a pixel are one stroke, and the words tell.
        assert_eq!((count("<path class=\"hit hit0\" d=\"M190"), count("; 1 more here")), (1, 3));
        assert_eq!(count("<path class=\"hit hit2\" d=\"M1"), 1);
        assert_eq!(count("<path class=\"hit hit2\" d=\"M6"), 1);
        assert!(page.contains("20.00 s: failed operation, 1 acknowledged, 0 recovered"));
        assert_eq!((count("class=\"lost\""), count("class=\"behind\"")), (2, 1));
        assert!(page.contains("4 hits, 2 acknowledged before them, 0 recovered"));
        assert!(page.contains("clean: seed 7") && page.contains("kill -9 (2)"));
        assert!(!page.contains("NaN") && !page.contains("inf\""));
    }
}
