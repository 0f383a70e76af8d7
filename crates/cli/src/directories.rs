//! Where data is kept when nobody says where.

use std::path::PathBuf;

use anyhow::anyhow;

/// The directory of this user's state: `$XDG_STATE_HOME/outlast`, or the usual place for it.
pub(crate) fn state() -> anyhow::Result<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let state = variable("XDG_STATE_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".local/state")))
        .ok_or_else(|| anyhow!("neither XDG_STATE_HOME nor HOME is set; give --data DIR"))?;
    Ok(state.join("outlast"))
}

/// The data directory of `outlast node`.
pub(crate) fn node() -> anyhow::Result<PathBuf> {
    Ok(state()?.join("node"))
}
