//! Records what ran where and when, sums it up, and writes the viewer's page.
//!
//!     cargo run --release -p dahl --example trace

use dahl::prelude::*;
use dahl::trace::{self, Summary};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let data = Data::open_first("fashion-mnist-small", [1, 28, 28], 1280, 100)?;
    let mut trainer = Trainer::new(models::lenet5()).epochs(1).record(1 << 16);
    trainer.fit(&data)?;
    let trace = trainer.take_trace()?.expect("recording was asked for");

    let summary = Summary::of(&trace);
    let milliseconds = |ns: u64| ns as f64 / 1e6;
    println!(
        "{} tasks in {:.1} ms",
        summary.tasks,
        milliseconds(summary.span_ns)
    );
    for unit in &summary.units {
        let busy = 100.0 * unit.busy_ns as f64 / unit.span_ns as f64;
        println!(
            "  {}: {} tasks, busy {busy:.0} % of the time",
            unit.unit, unit.tasks
        );
    }
    for codelet in summary.codelets.iter().take(3) {
        println!(
            "  {}: {:.1} ms",
            codelet.codelet,
            milliseconds(codelet.time.total_ns)
        );
    }

    let folder = std::env::temp_dir();
    let (file, page) = (
        folder.join("dahl-example.trace"),
        folder.join("dahl-example.html"),
    );
    trace::save(&trace, &file)?;
    dahl::core::file::write_atomically(&page, |out| trace::view::write(&trace, out))?;
    println!(
        "open {} in a browser; dahl trace summary {}",
        page.display(),
        file.display()
    );
    Ok(())
}
