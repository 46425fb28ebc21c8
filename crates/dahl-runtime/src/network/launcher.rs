//! Whether this process is one of several that a launcher started together.
//!
//! `mpirun`, `mpiexec` and `srun` say so in environment variables. Nothing is loaded and nobody is called here, so that a
//! program without MPI can tell too.

/// What a launcher said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launched {
    /// The number of this process.
    pub rank: u16,
    /// How many there are; more than one.
    pub nodes: u16,
    /// How many of them are on this computer, as far as the launcher says.
    pub here: u16,
    /// Who started them: `Open MPI`, `MPICH`, `Slurm`.
    pub by: &'static str,
}

/// Variables with the number of processes on this computer.
const HERE: [&str; 2] = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"];

/// By launcher: the variables with rank and number of processes, and one that must be there as well.
const LAUNCHERS: [(&str, &str, &str, Option<&str>); 3] = [
    (
        "Open MPI",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        None,
    ),
    ("MPICH", "PMI_RANK", "PMI_SIZE", None),
    // A batch script has the first two as well; only `srun` numbers its steps.
    (
        "Slurm",
        "SLURM_PROCID",
        "SLURM_NTASKS",
        Some("SLURM_STEP_ID"),
    ),
];

/// What the launcher of this process said; none if it was started alone.
pub fn launched() -> Option<Launched> {
    launched_by(|name| std::env::var(name).ok())
}

fn launched_by(variable: impl Fn(&str) -> Option<String>) -> Option<Launched> {
    let number = |name| variable(name)?.parse::<u16>().ok();
    LAUNCHERS.iter().find_map(|&(by, rank, nodes, also)| {
        if also.is_some_and(|name| number(name).is_none()) {
            return None;
        }
        let (rank, nodes) = (number(rank)?, number(nodes)?);
        let here = HERE.iter().find_map(|name| number(name)).unwrap_or(1);
        let launched = Launched {
            rank,
            nodes,
            here,
            by,
        };
        (nodes > 1 && rank < nodes).then_some(launched)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(all: &[(&str, &str)]) -> Option<Launched> {
        launched_by(|name| {
            let found = all.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| value.to_string())
        })
    }

    #[test]
    fn launchers_are_known_by_their_variables() {
        let said = |rank, nodes, by| {
            Some(Launched {
                rank,
                nodes,
                here: 1,
                by,
            })
        };
        let ompi = [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "4")];
        assert_eq!(with(&ompi), said(1, 4, "Open MPI"));
        let here = [ompi[0], ompi[1], ("OMPI_COMM_WORLD_LOCAL_SIZE", "2")];
        assert_eq!(with(&here).unwrap().here, 2);
        let mpich = [("PMI_RANK", "0"), ("PMI_SIZE", "2")];
        assert_eq!(with(&mpich), said(0, 2, "MPICH"));
        let batch = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")];
        assert_eq!(with(&batch), None, "a batch script is one process");
        let srun = [batch[0], batch[1], ("SLURM_STEP_ID", "0")];
        assert_eq!(with(&srun), said(0, 8, "Slurm"));
    }

    #[test]
    fn one_process_is_no_cluster() {
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[("PMI_RANK", "0"), ("PMI_SIZE", "1")]), None);
        assert_eq!(with(&[("PMI_RANK", "x"), ("PMI_SIZE", "2")]), None);
        assert_eq!(with(&[("PMI_RANK", "2"), ("PMI_SIZE", "2")]), None);
    }
}
