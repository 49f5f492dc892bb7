//! Two brokers in turns: what moves the machine moves both, so that their ratio tells.

use super::figures::Figures;

/// One figure of the first broker in proportion to the second's, over all rounds.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Ratio {
    /// Which figure.
    pub name: &'static str,
    /// The medians of both.
    pub first: f64,
    /// As `first`.
    pub second: f64,
    /// The median of the ratios of the rounds.
    pub median: f64,
    /// The least and the greatest ratio of a round.
    pub spread: (f64, f64),
}

/// All rounds, and what they say.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Versus {
    /// A pair of runs for each round.
    pub rounds: Vec<(Figures, Figures)>,
    /// Figure by figure.
    pub ratios: Vec<Ratio>,
}

/// A figure that can be compared; `None` where it was not measured.
type Measure = (&'static str, fn(&Figures) -> Option<f64>);

const MEASURES: [Measure; 9] = [
    ("published/s", |run| Some(run.published_per_second)),
    ("delivered/s", |run| Some(run.delivered_per_second)),
    ("broker us/delivery", |run| run.broker_us_per_delivery),
    ("deliver p50 us", |run| Some(run.deliver.p50_us)),
    ("deliver p99 us", |run| Some(run.deliver.p99_us)),
    ("ack p50 us", |run| Some(run.ack.p50_us)),
    ("ack p99 us", |run| Some(run.ack.p99_us)),
    ("peak KiB", |run| run.broker.map(|used| float(used.peak_kib))),
    ("own us/delivery", |run| Some(run.own_us_per_delivery)),
];

#[expect(clippy::cast_precision_loss, reason = "memory in KiB is below 2^53")]
fn float(kib: u64) -> f64 {
    kib as f64
}

/// The figures of one run that can be compared, by name.
pub fn measures(run: &Figures) -> impl Iterator<Item = (&'static str, f64)> {
    MEASURES.iter().filter_map(|(name, measure)| Some((*name, measure(run)?)))
}

/// Compares round by round; figures that are zero or missing in any round are left out.
pub fn ratios(rounds: &[(Figures, Figures)]) -> Vec<Ratio> {
    MEASURES.iter().filter_map(|(name, measure)| ratio(name, *measure, rounds)).collect()
}

fn ratio(
    name: &'static str,
    measure: fn(&Figures) -> Option<f64>,
    rounds: &[(Figures, Figures)],
) -> Option<Ratio> {
    let positive = |run| measure(run).filter(|value| *value > 0.0);
    let pairs = rounds
        .iter()
        .map(|(first, second)| Some((positive(first)?, positive(second)?)))
        .collect::<Option<Vec<_>>>()?;
    let sorted = |value: fn(&(f64, f64)) -> f64| {
        let mut values: Vec<f64> = pairs.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let ratios = sorted(|(first, second)| first / second);
    Some(Ratio {
        name,
        first: median(&sorted(|pair| pair.0))?,
        second: median(&sorted(|pair| pair.1))?,
        median: median(&ratios)?,
        spread: (*ratios.first()?, *ratios.last()?),
    })
}

/// Of sorted values.
fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let upper = sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        Some(*upper)
    } else {
        Some(f64::midpoint(sorted[middle - 1], *upper))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(rate: f64) -> Figures {
        Figures { delivered_per_second: rate, ..Figures::default() }
    }

    #[test]
    fn ratios_are_made_round_by_round() {
        // The machine halves its speed in the second round: the ratio does not move.
        let rounds =
            [(rate(200.0), rate(100.0)), (rate(100.0), rate(50.0)), (rate(30.0), rate(20.0))];
        let ratios = ratios(&rounds);
        assert_eq!(ratios.len(), 1, "figures that are zero are left out");
        let want = Ratio {
            name: "delivered/s",
            first: 100.0,
            second: 50.0,
            median: 2.0,
            spread: (1.5, 2.0),
        };
        assert_eq!(ratios[0], want);
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), Some(3.0));
        assert_eq!(median(&[]), None);
    }
}
