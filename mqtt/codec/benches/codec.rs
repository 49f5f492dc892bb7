//! Time for each packet kind, both ways: `cargo bench -p zzq-codec`.

mod cases;

use anyhow::Result;
use criterion::Criterion;

fn main() -> Result<()> {
    let mut criterion = Criterion::default().configure_from_args();
    for mut case in cases::cases()? {
        criterion.bench_function(&case.name, |bencher| bencher.iter(|| (case.run)()));
    }
    criterion.final_summary();
    Ok(())
}
