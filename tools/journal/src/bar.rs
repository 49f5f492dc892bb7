//! How far something is, for whoever waits for it: on a terminal a bar that is drawn again in its
//! place, elsewhere a plain line now and then.
//!
//! Owns: when it is drawn, and how. Does not know: what is done.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Between two drawings on a terminal.
const QUICK: Duration = Duration::from_millis(100);
/// Between two plain lines.
const SLOW: Duration = Duration::from_secs(5);
/// Characters of the bar itself.
const CELLS: usize = 30;
/// What a terminal shows in one line at least; what is longer would leave remains.
const WIDTH: usize = 79;

/// See the file.
pub struct Bar {
    out: Box<dyn Write + Send>,
    is_terminal: bool,
    told: Option<Instant>,
    is_drawn: bool,
}

impl Bar {
    /// On stderr.
    pub fn on_stderr() -> Self {
        Self::on(Box::new(io::stderr()), io::stderr().is_terminal())
    }

    fn on(out: Box<dyn Write + Send>, is_terminal: bool) -> Self {
        Self { out, is_terminal, told: None, is_drawn: false }
    }

    /// So much of it is done, from 0 to 1, and what there is to say about it. Not every call is
    /// shown.
    pub fn show(&mut self, done: f64, text: &str) {
        let every = if self.is_terminal { QUICK } else { SLOW };
        // The first plain line says more when some of it is done.
        let last = *self.told.get_or_insert_with(|| {
            let now = Instant::now();
            if self.is_terminal { now.checked_sub(every).unwrap_or(now) } else { now }
        });
        if last.elapsed() < every {
            return;
        }
        self.told = Some(Instant::now());
        let line = line(done, text);
        // Whoever has closed it does not want to know.
        let _ = if self.is_terminal {
            self.is_drawn = true;
            let shown: String = line.chars().take(WIDTH).collect();
            write!(self.out, "\r{shown}\x1b[K")
        } else {
            writeln!(self.out, "{}", &line[line.find(']').map_or(0, |end| end + 2)..])
        };
        let _ = self.out.flush();
    }

    /// Takes the bar away, so that something else can be said in its place.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            let _ = write!(self.out, "\r\x1b[K");
            let _ = self.out.flush();
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.clear();
    }
}

impl std::fmt::Debug for Bar {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Bar").field("is_terminal", &self.is_terminal).finish_non_exhaustive()
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
fn line(done: f64, text: &str) -> String {
    let percent = (done.clamp(0.0, 1.0) * 100.0) as usize;
    let full = percent * CELLS / 100;
    let mut line = format!("[{}{}] ", "=".repeat(full), " ".repeat(CELLS - full));
    // A text takes everything.
    let _ = write!(line, "{percent:3} %  {text}");
    line
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Paper {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    fn long_ago(bar: &mut Bar) {
        bar.told = Instant::now().checked_sub(SLOW);
    }

    #[test]
    fn a_terminal_has_a_bar_that_stays_in_its_line_and_goes() {
        let paper = Paper::default();
        let mut bar = Bar::on(Box::new(paper.clone()), true);
        bar.show(0.5, &"x".repeat(100));
        bar.show(0.6, "too soon");
        let cells = format!("[{}{}]", "=".repeat(15), " ".repeat(15));
        assert!(paper.text().starts_with(&format!("\r{cells}  50 %  xxx")), "{}", paper.text());
        assert_eq!(paper.text().matches('x').count(), WIDTH - CELLS - 10);
        assert!(!paper.text().contains("too soon"));
        long_ago(&mut bar);
        bar.show(7.0, "more than all");
        assert!(paper.text().contains("100 %  more than all"));
        drop(bar);
        assert!(paper.text().ends_with("\r\x1b[K") && !paper.text().contains('\n'));
    }

    #[test]
    fn elsewhere_it_is_a_plain_line_now_and_then() {
        let paper = Paper::default();
        let mut bar = Bar::on(Box::new(paper.clone()), false);
        bar.show(0.1, "nothing yet");
        assert_eq!(paper.text(), "");
        long_ago(&mut bar);
        bar.show(0.25, "3 of 12");
        bar.show(0.3, "too soon");
        drop(bar);
        assert_eq!(paper.text(), " 25 %  3 of 12\n");
    }
}
