//! The report of a run, one page that needs nothing else.
//!
//! Owns: its text and which pictures it has. Does not know: how they are drawn.

use std::fmt::Write;
use std::time::Duration;

use super::svg::{Picture, escape, number};
use super::{Round, Tally, Verdict};

const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;max-width:960px;margin:2em auto;padding:0 1em;color:#222}
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}.clean{color:#17693a}.broken{color:#b3261e}
pre{background:#f4f4f2;padding:1em;overflow-x:auto}table{border-collapse:collapse}
td,th{padding:.15em .9em .15em 0;text-align:left}td.n{text-align:right}svg{width:100%}
text{font:12px system-ui,sans-serif;fill:#555}.left{text-anchor:end}.below{text-anchor:middle}
.axis,polyline{fill:none}.axis{stroke:#999}polyline{stroke-width:1.8}
.acknowledged{stroke:#1f5fa8;fill:none}.received{stroke:#c77700;fill:none;stroke-dasharray:5 3}
.round{fill:#1f5fa8}.last{fill:#b3261e}.start{fill:#1f5fa8;fill-opacity:.6}.median{stroke:#c77700}";

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
        "A bar for each round: from its injury until all accounts were settled again.",
        &timeline(verdict),
    );
    add(
        "Acknowledged against received",
        "Acknowledged messages that are owed to each audience (line), and those of them that its \
         receivers have (dashed), both as the mean over the audiences. One of them is mostly away; \
         at the end of each data directory both are the same.",
        &counts(tally),
    );
    add(
        "Recovery times",
        "Each start until the broker served, in their order, power cuts too. The line is the \
         median.",
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
    seconds(&mut picture, end(rounds));
    picture.finish()
}

fn counts(tally: &Tally) -> String {
    let audiences = number(crate::cast::AUDIENCES.len() as u64);
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
    let count = number(tally.recoveries.len() as u64);
    let mut picture = Picture::new(240.0, count, ms(most));
    for (at, (round, span)) in tally.recoveries.iter().enumerate() {
        let title = format!("start {}, round {round}: {:.1} ms", at + 1, ms(*span));
        picture.point("start", number(at as u64), ms(*span), &title);
    }
    picture.line("median", [(0.0, ms(median)), (count, ms(median))].into_iter());
    picture.label(ms(most), &format!("{:.0} ms", ms(most)));
    picture.label(ms(median), &format!("{:.0} ms", ms(median)));
    picture.mark(count, &format!("{count:.0} starts"));
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
    use crate::accounts::Accounts;

    #[test]
    fn the_page_shows_each_round_and_each_start() {
        let mut verdict = Verdict::new(7);
        verdict.tally = Tally::new(Instant::now());
        for injury in ["kill -9", "kill -9", "disk full"] {
            verdict.tally.begin_round(injury);
            verdict.tally.recovered(Duration::from_millis(20));
            verdict.tally.end_round(&Accounts::default());
        }
        let page = page(&verdict);
        let count = |what: &str| page.matches(what).count();
        assert_eq!(count("<rect class=\"round\""), 3);
        assert_eq!(count("<circle class=\"start\""), 3);
        assert_eq!(count("<svg"), 3);
        assert!(page.contains("clean: seed 7") && page.contains("kill -9 (2)"));
        assert!(!page.contains("NaN") && !page.contains("inf\""));
    }
}
