//! The experiments that ship, each a question.

/// Name and text of each.
const SHIPPED: &[(&str, &str)] = &[
    ("pytorch", include_str!("../experiments/pytorch.toml")),
    (
        "granularity",
        include_str!("../experiments/granularity.toml"),
    ),
    ("batch-size", include_str!("../experiments/batch-size.toml")),
    ("cores", include_str!("../experiments/cores.toml")),
    ("policies", include_str!("../experiments/policies.toml")),
    ("cpu-gpu", include_str!("../experiments/cpu-gpu.toml")),
    (
        "float-types",
        include_str!("../experiments/float-types.toml"),
    ),
    ("arena", include_str!("../experiments/arena.toml")),
    ("plans", include_str!("../experiments/plans.toml")),
    ("simulator", include_str!("../experiments/simulator.toml")),
    ("overheads", include_str!("../experiments/overheads.toml")),
    ("cluster", include_str!("../experiments/cluster.toml")),
];

/// The shipped experiments, with their questions.
pub fn shipped() -> Vec<crate::Experiment> {
    let read = |(name, text): &(&str, &str)| {
        crate::Experiment::from_toml(text, &format!("experiments/{name}.toml"))
    };
    SHIPPED.iter().filter_map(|s| read(s).ok()).collect()
}

/// The one of this name.
pub(crate) fn find(name: &str) -> Result<crate::Experiment, crate::ExperimentError> {
    let all = shipped();
    let names: Vec<&str> = all.iter().map(|e| e.name.as_str()).collect();
    let unknown = dahl_core::text::unknown("experiment", name, &names);
    let found = all.iter().find(|e| e.name == name).cloned();
    found.ok_or_else(|| {
        crate::ExperimentError::Refused(format!("{unknown} (nor is there a file of that name)"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_experiment_can_be_read_and_has_cells_and_outputs() {
        for (name, text) in SHIPPED {
            let e = crate::Experiment::from_toml(text, name).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(e.name, *name);
            assert!(e.question.ends_with('?'), "{name}: {}", e.question);
            assert!(!e.cells().is_empty(), "{name}");
            assert!(e.figures.len() + e.tables.len() > 0, "{name}");
        }
        assert_eq!(shipped().len(), SHIPPED.len());
        assert_eq!(find("cores").expect("it ships").name, "cores");
        let error = find("core").expect_err("none").to_string();
        assert!(error.contains("did you mean \"cores\"?"), "{error}");
    }
}
