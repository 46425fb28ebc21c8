//! How commands print: tables for people, JSON for programs.

use comfy_table::{ContentArrangement, Table, presets};

/// A table with these column heads.
pub fn table(heads: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(heads);
    table
}

/// Prints a value as one line of JSON.
pub fn json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(value)?);
    Ok(())
}

/// Lets a closed pipe end the process silently.
pub fn die_with_the_pipe() {
    #[cfg(unix)]
    // SAFETY: restores the default action of a signal, before any thread exists.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}
