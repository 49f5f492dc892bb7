//! Log lines at a bounded rate: what happens to many at once is told by one line and a number.

/// Between two lines of one kind.
const PAUSE_MS: u64 = 1000;

/// One kind of line.
#[derive(Debug, Default)]
pub(crate) struct Seldom {
    next_ms: u64,
    untold: u64,
}

impl Seldom {
    /// Whether a line may be written now; if so, how many were not since the last.
    pub(crate) fn tell(&mut self, now_ms: u64) -> Option<u64> {
        if now_ms < self.next_ms {
            self.untold += 1;
            return None;
        }
        self.next_ms = now_ms.saturating_add(PAUSE_MS);
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_says_how_many_there_were() {
        let mut seldom = Seldom::default();
        let told = [0, 0, 999, 1000, 1001, 5000].map(|now_ms| seldom.tell(now_ms));
        assert_eq!(told, [Some(0), None, None, Some(2), None, Some(1)]);
    }
}
