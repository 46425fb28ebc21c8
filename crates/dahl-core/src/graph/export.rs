//! Graphs as text: DOT for people (`dot -Tsvg`), JSON for programs.

use std::fmt::Write;

use super::Graph;

impl Graph {
    /// The graph in DOT. Tasks are coloured by codelet and grouped by section; edges carry nothing, as
    /// what they mean follows from the operands.
    pub fn to_dot(&self) -> String {
        let mut out = String::from("digraph dahl {\n  rankdir=TB;\n");
        out.push_str("  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\"];\n");
        for (s, section) in self.sections.iter().enumerate() {
            let tasks: Vec<u32> = (0..self.len() as u32)
                .filter(|&t| self.tasks[t as usize].section == s as u32)
                .collect();
            if tasks.is_empty() {
                continue;
            }
            if !section.is_empty() {
                let _ = writeln!(
                    out,
                    "  subgraph cluster_{s} {{\n    label={};",
                    quote(section)
                );
            }
            for t in tasks {
                let colour = hue(self.class_of(t).codelet as usize);
                let lines: Vec<String> = self
                    .accesses_of(t)
                    .iter()
                    .map(|a| format!("{:?} {}", a.mode, self.describe_access(a)))
                    .collect();
                let label = format!("{} #{t}\n{}", self.codelet_of(t).name, lines.join("\n"));
                let _ = writeln!(
                    out,
                    "    t{t} [label={}, fillcolor=\"{colour}\"];",
                    quote(&label)
                );
            }
            if !section.is_empty() {
                out.push_str("  }\n");
            }
        }
        for (from, to) in self.edges() {
            let _ = writeln!(out, "  t{from} -> t{to};");
        }
        out.push_str("}\n");
        out
    }

    /// The graph's program, edges and fingerprint in JSON. [`super::Program`] reads the first part.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "program": self.program(),
            "edges": self.edges().map(|(a, b)| [a, b]).collect::<Vec<_>>(),
            "temporary_bytes": self.memory.bytes,
            "fingerprint": format!("{:016x}", self.fingerprint()),
        })
    }
}

/// A DOT string: quotes and backslashes escaped, line breaks as `\n`.
fn quote(text: &str) -> String {
    let escaped = text
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    format!("\"{escaped}\"")
}

/// A light colour for the `i`-th kind of thing; neighbours differ by the golden angle.
fn hue(i: usize) -> String {
    format!("{:.3} 0.25 0.95", (i as f64 * 0.618_034).fract())
}
