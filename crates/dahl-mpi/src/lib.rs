//! The nodes of a cluster over MPI.
//!
//! `mpirun`, `mpiexec` or `srun` starts the same program on every node; [`join`] makes of each a node, by which the
//! runtime sends and receives. MPI is loaded while running, as GPUs are: building needs none, and one program runs
//! under Open MPI and under MPICH and what shares its binary interface.
//!
//! MPI is used narrowly: point-to-point messages whose ends both know them beforehand, started and tested by one thread.
//! No collective operation, no waiting inside MPI, which would poll and cost a core: who waits sleeps.
//!
//! | file | what |
//! |---|---|
//! | `library` | finds and loads MPI; its functions |
//! | `abi` | handles and constants of the two binary interfaces |
//! | `node` | the transport: messages of graphs |
//! | `control` | signs of life, and farewells |

#![cfg_attr(not(test), warn(unreachable_pub))]

mod abi;
mod control;
mod library;
mod node;

use std::ffi::c_int;
use std::sync::Arc;

use dahl_runtime::network::{Launched, Transport};

use abi::{Abi, Mpich, OpenMpi};
use library::Library;
use node::MpiNode;

/// Why this process cannot be a node.
#[derive(Debug, thiserror::Error)]
pub enum MpiError {
    /// There is no MPI here, or not the one that the launcher belongs to.
    #[error(
        "{by} started {nodes} processes, but its library was not found: {tried}; install it (Debian: {package}), or name \
         the file in DAHL_MPI"
    )]
    NotFound {
        /// Who started this process.
        by: &'static str,
        /// How many processes there are.
        nodes: u16,
        /// Files that were tried, with what was wrong.
        tried: String,
        /// A package that has it.
        package: &'static str,
    },
    /// A function of MPI failed.
    #[error("{call}: {why}")]
    Failed {
        /// Which.
        call: &'static str,
        /// What MPI says.
        why: String,
    },
    /// The library belongs to another launcher.
    #[error(
        "{by} started {launched} processes, but the MPI library ({library}) sees {seen}: start with the launcher of that \
         library, name another in DAHL_MPI, or under Slurm use srun --mpi=pmix or --mpi=pmi2"
    )]
    OtherLauncher {
        /// Who started this process.
        by: &'static str,
        /// How many processes it says there are.
        launched: u16,
        /// How many MPI knows of.
        seen: c_int,
        /// What the library calls itself.
        library: String,
    },
}

/// Makes this process a node of the cluster that a launcher has started. Once per process.
pub fn join(launched: &Launched) -> Result<Box<dyn Transport>, MpiError> {
    let library = library::load(launched)?;
    match abi::is_open_mpi(&library) {
        true => join_as(OpenMpi::new(&library)?, library, launched),
        false => join_as(Mpich, library, launched),
    }
}

fn join_as<A: Abi>(
    abi: A,
    library: libloading::Library,
    launched: &Launched,
) -> Result<Box<dyn Transport>, MpiError> {
    let library = Arc::new(Library::new(abi, library)?);
    library.init()?;
    let (rank, nodes) = library.place()?;
    if nodes != c_int::from(launched.nodes) {
        return Err(MpiError::OtherLauncher {
            by: launched.by,
            launched: launched.nodes,
            seen: nodes,
            library: library.version(),
        });
    }
    Ok(Box::new(MpiNode::new(
        library,
        rank as u16,
        launched.nodes,
    )?))
}
