//! How often what goes wrong in a seed.

use crate::chance::Chance;

/// How often what goes wrong.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the kinds of faults by their names")]
pub struct Faults {
    pub kill: u64,
    pub power_cut: u64,
    pub power_cut_at_operation: u64,
    pub stop: u64,
    pub cut: u64,
    pub write_fails: u64,
    pub step_fails: u64,
    pub disk_full: u64,
    pub disk_read_only: u64,
    pub clock_step: u64,
    pub lane_sleeps: u64,
    /// The longest sleep in ms.
    pub sleep_ms: u64,
    /// Once in so many deliveries that may be ahead of the disk the power goes just behind one.
    pub behind_delivery: u64,
    /// Once in so many starts the power goes while the log is recovered.
    pub in_recovery: u64,
    /// An image of the state is made; that is no fault, but faults meet it.
    pub image: u64,
    /// Once in so many images the power goes while one is made.
    pub in_image: u64,
    /// Once in so many starts the newest image is damaged, if there is another.
    pub spoils_image: u64,
    /// Once in so many deaths of the broker starts are tried on damaged copies of the disk.
    pub damage: u64,
    /// The log is copied, and at the end the broker goes on with a copy; no fault either.
    pub copy: u64,
}

impl Faults {
    /// Few ends of brokers and connections: where much is lost little is owed.
    pub(super) const fn rare(self) -> Self {
        let (kill, power_cut, cut) = (2000, 2000, 500);
        Self { kill, power_cut, power_cut_at_operation: 0, stop: 0, cut, ..self }
    }

    /// None of those of a disk that refuses something.
    pub(super) const fn with_a_sound_disk(self) -> Self {
        Self { write_fails: 0, step_fails: 0, disk_full: 0, disk_read_only: 0, ..self }
    }

    /// Those that there are without a disk.
    pub(super) const fn without_a_disk(self) -> Self {
        Self {
            power_cut_at_operation: 0,
            in_recovery: 0,
            image: 0,
            in_image: 0,
            spoils_image: 0,
            damage: 0,
            copy: 0,
            behind_delivery: 0,
            ..self.with_a_sound_disk()
        }
    }

    /// Never.
    pub const NONE: Self = Self {
        kill: 0,
        power_cut: 0,
        power_cut_at_operation: 0,
        stop: 0,
        cut: 0,
        write_fails: 0,
        step_fails: 0,
        disk_full: 0,
        disk_read_only: 0,
        clock_step: 0,
        lane_sleeps: 0,
        sleep_ms: 1,
        behind_delivery: 0,
        in_recovery: 0,
        image: 0,
        in_image: 0,
        spoils_image: 0,
        damage: 0,
        copy: 0,
    };

    /// Each kind is often there, rarely or not at all: what happens too often hides the rest.
    pub(super) fn new(chance: &mut Chance) -> Self {
        let mut draw = |often: &[u64]| *chance.pick(often);
        Self {
            kill: draw(&[120, 300, 300]),
            power_cut: draw(&[120, 300, 300]),
            power_cut_at_operation: draw(&[0, 150, 400]),
            stop: draw(&[0, 300, 600]),
            cut: draw(&[15, 40, 100]),
            write_fails: draw(&[0, 0, 100, 400]),
            step_fails: draw(&[0, 0, 0, 300]),
            disk_full: draw(&[0, 0, 300]),
            clock_step: draw(&[0, 0, 0, 200]),
            in_recovery: draw(&[0, 3, 6]),
            disk_read_only: draw(&[0, 0, 0, 400]),
            ..Self::NONE
        }
    }
}
