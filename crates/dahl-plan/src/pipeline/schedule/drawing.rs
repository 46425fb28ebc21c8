//! Schedules drawn in letters.

use super::{Operation, PipelineSchedule, PipelineWork};

impl PipelineSchedule {
    /// A line per device, a letter per moment of the shortest operation, at most as many as fit.
    pub fn drawing(&self, work: &PipelineWork) -> Vec<String> {
        let mut lines = Vec::new();
        const WIDEST: f64 = 150.0;
        let times = work.stages.iter().flatten().copied();
        let shortest = times.filter(|t| *t > 0.0).fold(f64::INFINITY, f64::min);
        let moment = shortest.min(self.makespan).max(self.makespan / WIDEST);
        for (device, (order, begins)) in self.orders.iter().zip(&self.begins).enumerate() {
            let mut line = String::new();
            let split = order
                .iter()
                .any(|s| s.operation == Operation::WeightGradient);
            for (slot, begin) in order.iter().zip(begins) {
                let [f, b, w] = work.stages[slot.stage];
                let (letter, seconds) = match slot.operation {
                    Operation::Forward => ('F', f),
                    Operation::InputGradient => ('B', if split { b } else { b + w }),
                    Operation::WeightGradient => ('W', w),
                };
                let place = |time: f64| (time / moment + 0.5) as usize;
                let gap = place(*begin).saturating_sub(line.chars().count());
                line.extend(std::iter::repeat_n('.', gap));
                let length = place(begin + seconds).saturating_sub(line.chars().count());
                line.extend(std::iter::repeat_n(letter, length));
            }
            lines.push(format!("{device:>4} {line}"));
        }
        lines
    }
}
