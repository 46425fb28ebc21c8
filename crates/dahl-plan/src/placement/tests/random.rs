//! Random problems, as text.

use dahl_core::random::Random;
use serde_json::{Value, json};

/// Draws one number after the other.
pub struct Dice {
    random: Random,
    drawn: u64,
}

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice {
            random: Random::new(seed, 0),
            drawn: 0,
        }
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.drawn += 1;
        self.random.below(self.drawn, n)
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Often 0, so that equal loads and weightless nodes come up.
    fn time(&mut self) -> f64 {
        if self.chance(35) {
            0.0
        } else {
            self.below(40) as f64 / 4.0 + 0.1
        }
    }
}

/// A small problem in which everything that the format knows may occur.
pub fn small(dice: &mut Dice) -> Value {
    let n = 1 + dice.below(8) as usize;
    let backward = if dice.chance(60) {
        dice.below(n as u64 / 2 + 1) as usize
    } else {
        0
    };
    let forward = n - backward;
    let heavy = dice.chance(50);
    let colours = 1 + dice.below(n as u64 + 2);
    let mut nodes = Vec::new();
    for i in 0..n {
        let mut node = json!({
            "id": 10 + 3 * i,
            "supportedOnFpga": u8::from(dice.chance(92)),
            "cpuLatency": dice.time() * if heavy { 4.0 } else { 1.0 },
            "fpgaLatency": dice.time(),
            "isBackwardNode": i >= forward,
            "size": if dice.chance(30) { 0 } else { dice.below(8) },
        });
        let partner = i >= forward && dice.chance(70);
        if partner && nodes.len() > i - forward {
            // A backward node with the colour of the forward node that it mirrors.
            let mirror: &Value = &nodes[(2 * forward - 1 - i) % forward];
            node["colorClass"] = mirror["colorClass"].clone();
        } else if dice.chance(75) {
            node["colorClass"] = json!(dice.below(colours));
        }
        nodes.push(node);
    }
    let dense = 10 + dice.below(40);
    let mut edges = Vec::new();
    for a in 0..n {
        let cost = dice.time() / 4.0;
        for b in a + 1..n {
            if dice.chance(dense) {
                edges.push(json!({ "sourceId": 10 + 3 * a, "destId": 10 + 3 * b, "cost": cost }));
            }
        }
    }
    json!({
        "maxSizePerFPGA": 3 + dice.below(20),
        "maxFPGAs": dice.below(4),
        "maxCPUs": u8::from(dice.chance(50)) + u8::from(dice.chance(10)),
        "nodes": nodes,
        "edges": edges,
    })
}

/// Branches side by side between a first and a last node: very many ideals.
pub fn wide(dice: &mut Dice, branches: usize, length: usize) -> Value {
    let count = branches * length + 2;
    let mut node = |id: usize| {
        let time = 1.0 + dice.below(1000) as f64 / 100.0;
        json!({
            "id": id, "supportedOnFpga": true, "cpuLatency": 10.0 * time, "fpgaLatency": time,
            "isBackwardNode": 0, "size": 1.0,
        })
    };
    let nodes: Vec<Value> = (0..count).map(&mut node).collect();
    let edge = |a: usize, b: usize| json!({ "sourceId": a, "destId": b, "cost": 0.25 });
    let mut edges = Vec::new();
    for branch in 0..branches {
        let at = |step: usize| 1 + branch * length + step;
        edges.push(edge(0, at(0)));
        edges.extend((1..length).map(|step| edge(at(step - 1), at(step))));
        edges.push(edge(at(length - 1), count - 1));
    }
    json!({
        "maxSizePerFPGA": count, "maxFPGAs": 4, "maxCPUs": 1, "nodes": nodes, "edges": edges,
    })
}
