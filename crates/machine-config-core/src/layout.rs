//! The files and links that a MachineConfig wants on a real disk, checked before anything is written (MACH-NODE-10, MACH-NODE-11).
//!
//! ```text
//!   MachineConfig ── layout ──► paths and what is there, units, keys, password
//!   unit's text ── unit_file ──► [Install] ── install ──► links
//!   old layout, new layout, the disk ── edits ──► what is written, kept and taken back, in order
//! ```

mod edits;
mod install;
mod paths;
mod read;
mod unit_file;
mod users;

pub use edits::{Edit, EditError, Live, Target, View, edits};
pub use install::{InstallError, Links};
pub use paths::{PathError, check_path};
pub use read::{File, Id, Layout, LayoutError, Unit, layout};
pub use unit_file::{Syntax, UnitFile};
pub use users::{Account, PasswordError, account, group_id, with_password};

/// The folder of the agent: what it keeps about this host.
pub const OWN: &str = "/etc/machine-config-daemon";
/// The configuration that was written last.
pub const CURRENT_CONFIG: &str = "/etc/machine-config-daemon/currentconfig";
/// Changes of the operating system that are recorded and not applied.
pub const RECORDED: &str = "/etc/machine-config-daemon/recorded.json";

/// Where the content of a file is kept that was there before the first write.
pub fn original(path: &str) -> String {
    format!("{OWN}/orig{path}.mcdorig")
}

/// The mark of a file before whose first write nothing was there.
pub fn no_original(path: &str) -> String {
    format!("{OWN}/noorig{path}.mcdnoorig")
}
