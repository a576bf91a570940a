//! `--overwrite-latest`: the head of a channel is replaced by a bundle of the same name.

use rusqlite::{Connection, params};

use super::query::{remove_bundle, texts};
use crate::error::Error;
use crate::tables::text;

/// Removes a bundle that nothing replaces; the channels fall back to the bundle that it replaced.
pub(super) fn remove_head(connection: &Connection, package: &str, bundle: &str) -> Result<(), Error> {
    let replacing = "SELECT operatorbundle.name || ' on channel ' || channel_entry.channel_name FROM channel_entry
        LEFT OUTER JOIN channel_entry replaces ON replaces.replaces = channel_entry.entry_id
        INNER JOIN operatorbundle ON replaces.operatorbundle_name = operatorbundle.name
        WHERE channel_entry.package_name = ? AND channel_entry.operatorbundle_name = ? LIMIT 1";
    if let Some(by) = texts(connection, replacing, [package, bundle])?.first() {
        return Err(Error::content(format!("cannot overwrite bundle {bundle} from package {package}: replaced by {by}")));
    }
    let mut statement = connection.prepare(
        "SELECT channel_entry.channel_name, replaces.name, min(depth) FROM channel_entry
         LEFT JOIN (
             SELECT entry_id, name FROM channel_entry INNER JOIN operatorbundle ON channel_entry.operatorbundle_name = operatorbundle.name
         ) AS replaces ON channel_entry.replaces = replaces.entry_id
         WHERE channel_entry.package_name = ? AND channel_entry.operatorbundle_name = ?
         GROUP BY channel_name",
    )?;
    let mut rows = statement.query([package, bundle])?;
    let mut below = Vec::new();
    while let Some(row) = rows.next()? {
        let channel = text(row, 0)?.ok_or_else(|| Error::content(format!("channel name column corrupt for bundle {bundle}")))?;
        below.push((channel, text(row, 1)?.filter(|name| !name.is_empty())));
    }
    for (channel, replaced) in below {
        match replaced {
            Some(replaced) => connection.execute(
                "UPDATE channel SET head_operatorbundle_name = ? WHERE package_name = ? AND name = ? AND head_operatorbundle_name = ?",
                params![replaced, package, channel, bundle],
            )?,
            // The default channel stays, though without a head, so that it can be found again.
            None => connection.execute(
                "UPDATE channel SET head_operatorbundle_name = NULL
                 WHERE name = ?1 AND package_name = ?2 AND name IN (SELECT default_channel FROM package WHERE name = ?2)",
                params![channel, package],
            )?,
        };
    }
    remove_bundle(connection, bundle)?;
    connection.execute("DELETE FROM deprecated WHERE operatorbundle_name = ?", [bundle])?;
    Ok(())
}
