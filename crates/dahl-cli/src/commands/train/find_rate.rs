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
    print::report(&found.report());
    Ok(())
}
