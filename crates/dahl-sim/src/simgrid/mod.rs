//! SimGrid platform files: machines for its simulators, and its platforms for ours.

mod names;
mod read;
pub mod replay;
mod routes;
#[cfg(test)]
mod tests;
mod write;

use dahl_core::Machine;
use dahl_core::machine::MachineError;

/// The version of our properties in a platform file.
const VERSION: u64 = 1;

/// A bandwidth that limits nothing: the most that a machine may have.
const UNBOUNDED: f64 = 1e21;

/// Reads a platform: one that [`write()`] made, or another one made of hosts, links and routes in zones with
/// full routing. `file` is its name, for errors.
pub fn read(text: &str, file: &str) -> Result<Machine, MachineError> {
    read::machine(text, file)
}

/// The machine as a platform, with the wattages of SimGrid's energy plugin.
pub fn write(machine: &Machine) -> String {
    write::platform(machine)
}

/// Reads a `machine.toml` or a platform, told apart by the first character.
pub fn read_machine(text: &str, file: &str) -> Result<Machine, MachineError> {
    if text.trim_start().starts_with('<') {
        read(text, file)
    } else {
        Machine::from_toml(text, file)
    }
}
