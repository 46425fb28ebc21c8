//! `dahl train --find-lr`: losses by learning rate.

use std::sync::Arc;

use dahl::data::Dataset;
use dahl::nn::train::{RateSearch, Session};
use dahl::runtime::network::Member;

use crate::print;

/// Tries rates and prints what they give.
pub fn find(
    mut session: Session,
    train: Arc<dyn Dataset>,
    member: &mut Member,
) -> anyhow::Result<()> {
    let found = session.find_rate(member, train, RateSearch::default())?;
    if member.node() > 0 {
        return Ok(());
    }
    let mut table = print::table(&["learning rate", "loss"]);
    for (rate, loss) in found.losses.iter().step_by(5) {
        table.add_row([format!("{rate:.1e}"), format!("{loss:.4}")]);
    }
    print::align_right(&mut table, 0..=1);
    println!("{table}");
    let losses: Vec<f64> = found.losses.iter().map(|l| l.1).collect();
    println!("loss  {}", print::curve(&losses));
    match found.steepest() {
        Some(rate) => println!("the loss falls fastest at --lr {rate:.1e}"),
        None => println!("the loss never falls: check data and model"),
    }
    Ok(())
}
