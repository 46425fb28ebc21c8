//! What commands that run on several nodes share.

use dahl::runtime::network::Member;

use super::Exit;

/// Says who works together.
pub fn announce(member: &Member) {
    if member.nodes() > 1 {
        println!(
            "{} nodes, one graph: {}",
            member.nodes(),
            member.names().join(", ")
        );
    }
}

/// The end of a command on this node: together with the others, or with a word to them why not.
pub fn leave(member: &mut Member, result: anyhow::Result<()>) -> anyhow::Result<()> {
    let failed = match &result {
        Ok(()) => false,
        // All nodes come to the same end, whatever its exit code.
        Err(error) => error.downcast_ref::<Exit>().is_none(),
    };
    if failed {
        if let Err(error) = &result {
            member.leave_because(dahl::core::text::chain(error.as_ref()));
        }
        return result;
    }
    member.finish().map_err(|e| anyhow::anyhow!("{e}"))?;
    result
}
