//! A pipeline's plan for people, beside what plainer ones take.

use dahl_core::report::{Report, Table};
use dahl_core::{Bytes, Seconds};

use super::{PipelineOptions, PipelinePlan, Platform, Profile, partition};

impl PipelinePlan {
    /// Its stages, and how long a batch takes without replicas and on the fastest unit alone.
    pub fn report(
        &self,
        profile: &Profile,
        platform: &Platform,
        options: &PipelineOptions,
    ) -> Report {
        let mut out = Report::default();
        let mut table = Table::new("stage|layers|from|to|replicas|units|>time|>in|>out|>memory");
        let shown = |seconds: f64| Seconds(seconds).to_string();
        for (number, stage) in self.stages.iter().enumerate() {
            // In the machine's order, in which a row of equal units reads well.
            let named = platform.units.iter().map(|u| &u.name[..]);
            let named: Vec<&str> = named
                .filter(|n| stage.units.iter().any(|u| u == n))
                .collect();
            let units = match &named[..] {
                [first, _, .., _, last] => format!("{first} … {last}"),
                few => few.join(", "),
            };
            table.row([
                number.to_string(),
                stage.layers.to_string(),
                stage.first.clone(),
                stage.last.clone(),
                stage.replicas.to_string(),
                units,
                shown(stage.seconds),
                shown(stage.transfers[0]),
                shown(stage.transfers[1]),
                Bytes(stage.memory_bytes as u64).to_string(),
            ]);
        }
        out.table(table);
        let used: usize = self.stages.iter().map(|s| s.replicas).sum();
        out.line(format!(
            "{} layers on {used} of {} units: {} per batch, lower bound {} (gap {:.2} %)",
            profile.layers.len(),
            platform.units.len(),
            shown(self.seconds),
            shown(self.lower_bound),
            100.0 * self.gap()
        ));
        match options.micro_batches {
            Some(m) => out.line(format!(
                "{m} micro-batches, then a flush: one version of the weights"
            )),
            None => out.line("no flush: every batch in flight has its version of the weights"),
        }
        if self.joined {
            out.line("there are too many ways to cut the branches: some were joined");
        }
        for (name, most) in [("straight", 1), ("on one unit", 0)] {
            let mut platform = platform.clone();
            if most == 0 {
                let fastest = |a: &usize, b: &usize| {
                    let speed = |u: &usize| platform.units[*u].speed;
                    speed(a).total_cmp(&speed(b))
                };
                let best = (0..platform.units.len()).max_by(fastest).unwrap_or(0);
                platform.units = vec![platform.units[best].clone()];
            }
            let options = PipelineOptions {
                most_replicas: Some(1),
                ..*options
            };
            let text = match partition(profile, &platform, &options) {
                Ok(other) => format!("{} per batch", shown(other.seconds)),
                Err(_) => "does not fit".into(),
            };
            out.line(format!("{name}: {text}"));
        }
        out
    }
}
