//! Another channel (CVO-CHAN-01, CVO-CHAN-02).

use serde_json::{Value, json};

use crate::cluster_version::{list, text};
use crate::request::quoted;
use crate::screen::Screen;

/// The reason for which a channel is not set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelRefusal {
    /// The current channel is a known one, and would be cleared.
    #[error(
        "You are requesting to clear the update channel. The current channel {} is one of the available channels, you must pass --allow-explicit-channel to continue\n",
        quoted(.0)
    )]
    Clears(String),
    /// The channel is none of the known ones.
    #[error("the requested channel {} is not one of the available channels ({}), you must pass --allow-explicit-channel to continue\n", quoted(.channel), .available.join(", "))]
    Unknown {
        /// The channel.
        channel: String,
        /// The known channels.
        available: Vec<String>,
    },
}

/// Decides about another channel; an empty one clears it.
pub fn channel(wanted: &str, allow_explicit: bool, cluster_version: &Value) -> Result<Screen, ChannelRefusal> {
    let now = text(&cluster_version["spec"]["channel"]);
    let desired = &cluster_version["status"]["desired"];
    if wanted == now {
        return Ok(Screen::line(match now {
            "" => "info: Cluster channel is already clear (no change)".to_owned(),
            now => format!("info: Cluster is already in {now} (no change)"),
        }));
    }
    let available: Vec<String> = list(&desired["channels"]).iter().map(|channel| text(channel).to_owned()).collect();
    let is_available = |channel: &str| available.iter().any(|one| one == channel);
    let mut screen = Screen::default();
    if available.is_empty() {
        if !wanted.is_empty() {
            let (version, wanted) = (quoted(text(&desired["version"])), quoted(wanted));
            screen.warn(format_args!("No channels known to be compatible with the current version {version}; unable to validate {wanted}. Setting the update channel to {wanted} anyway."));
        }
    } else if wanted.is_empty() {
        if is_available(now) && !allow_explicit {
            return Err(ChannelRefusal::Clears(now.to_owned()));
        }
    } else if !is_available(wanted) {
        if !allow_explicit {
            return Err(ChannelRefusal::Unknown { channel: wanted.to_owned(), available });
        }
        let (wanted, available) = (quoted(wanted), available.join(", "));
        screen.warn(format_args!("The requested channel {wanted} is not one of the available channels ({available}). You have used --allow-explicit-channel to proceed anyway. Setting the update channel to {wanted}."));
    }
    if wanted.is_empty() {
        screen.warn(format_args!("Clearing channel {}; cluster will no longer request available update recommendations.", quoted(now)));
    }
    screen.patch = Some(json!({"spec": {"channel": wanted}}));
    Ok(screen)
}
