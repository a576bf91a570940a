//! Units: their files, drop-ins and masks, and the links by which they are enabled.

use std::collections::BTreeMap;

use super::{EditError, Live, Plan, Target, View, in_the_way};
use crate::daemon::disk::UNITS;
use crate::layout::install::{Found, InstallError, Links, links, template};
use crate::layout::read::{DEFAULT_MODE, File, Layout, Unit};
use crate::layout::unit_file::UnitFile;

/// The target of masks.
const NOTHING: &str = "/dev/null";
/// Folders of units that the operating system brings, after the one that configs write.
const SYSTEM_UNITS: [&str; 4] = ["/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];

impl<V: View> Plan<'_, V> {
    pub(super) fn units(&mut self) -> Result<(), V::Error> {
        let mut changes: BTreeMap<String, Option<String>> = BTreeMap::new();
        for unit in &self.old.units {
            // What was enabled by the old text is not left behind when the new one asks for other links.
            if unit.enabled == Some(true) && unit.mask != Some(true) {
                for (path, to) in self.old_links(unit)? {
                    if self.disk.live(&path)? == Live::Link(to) {
                        changes.insert(path, None);
                    }
                }
            }
        }
        for unit in &self.new.units {
            self.unit(unit)?;
            match unit.enabled {
                Some(true) if unit.mask == Some(true) => return Err(InstallError::Masked(unit.name.clone()).into()),
                Some(true) => {
                    let wanted = links(&unit.name, |name| self.found(self.new, name))?;
                    changes.extend(wanted.into_iter().map(|(path, to)| (path, Some(to))));
                }
                Some(false) => changes.extend(self.links_to(&unit.name)?.into_iter().map(|path| (path, None))),
                None => {}
            }
        }
        for (path, to) in changes {
            let live = self.disk.live(&path)?;
            match to {
                Some(to) if live == Live::Link(to.clone()) => {}
                Some(to) => match in_the_way(&live) {
                    Some(what) => return Err(EditError::InTheWay { path, what }.into()),
                    None => self.set(path, Target::Link(to)),
                },
                None if live == Live::Absent => {}
                None => self.set(path, Target::Absent),
            }
        }
        Ok(())
    }

    fn unit(&mut self, unit: &Unit) -> Result<(), V::Error> {
        let was = self.old.units.iter().find(|old| old.name == unit.name);
        for (name, text) in &unit.drop_ins {
            let path = format!("{UNITS}/{}.d/{name}", unit.name);
            let was_ours = was.is_some_and(|old| old.drop_ins.iter().any(|(known, text)| known == name && text.is_some()));
            match text {
                Some(text) => self.file(&path, &File::plain(DEFAULT_MODE, text.as_bytes()), was_ours)?,
                None => self.take_back(&path)?,
            }
        }
        let path = format!("{UNITS}/{}", unit.name);
        let was_ours = was.is_some_and(|old| old.contents.is_some() || old.mask == Some(true));
        let live = self.disk.live(&path)?;
        match (unit.mask, &unit.contents) {
            (Some(true), _) => {
                if let Some(what) = in_the_way(&live) {
                    return Err(EditError::InTheWay { path, what }.into());
                }
                self.keep(&path, &live, was_ours)?;
                if live != Live::Link(NOTHING.to_owned()) {
                    self.set(path, Target::Link(NOTHING.to_owned()));
                }
            }
            (_, Some(text)) => self.file(&path, &File::plain(DEFAULT_MODE, text.as_bytes()), was_ours)?,
            (mask, None) => {
                if was_ours || (mask == Some(false) && live == Live::Link(NOTHING.to_owned())) {
                    self.take_back(&path)?;
                }
            }
        }
        Ok(())
    }

    /// The file of a unit, or of its template: of the layout, else of the disk.
    fn found(&self, layout: &Layout, name: &str) -> Result<Option<Found>, V::Error> {
        for candidate in [Some(name.to_owned()), template(name)].into_iter().flatten() {
            let own = layout.units.iter().find(|unit| unit.name == candidate);
            let own_path = format!("{UNITS}/{candidate}");
            let text = own.and_then(|unit| unit.contents.clone());
            let text = match (text, layout.files.get(&own_path)) {
                (Some(text), _) => Some((own_path, text.into_bytes())),
                (None, Some(file)) => Some((own_path, file.content.clone())),
                (None, None) => self.on_disk(&candidate)?,
            };
            let Some((path, text)) = text else { continue };
            let mut unit = UnitFile::read(&String::from_utf8_lossy(&text));
            for (_, drop_in) in own.iter().flat_map(|unit| &unit.drop_ins) {
                unit.extend(UnitFile::read(drop_in.as_deref().unwrap_or_default()));
            }
            return Ok(Some(Found { path, unit }));
        }
        Ok(None)
    }

    fn on_disk(&self, name: &str) -> Result<Option<(String, Vec<u8>)>, V::Error> {
        for folder in [UNITS].iter().chain(&SYSTEM_UNITS) {
            let path = format!("{folder}/{name}");
            // A file of the old layout goes before the links are made.
            let goes = *folder == UNITS && self.old.units.iter().any(|unit| unit.name == name && unit.contents.is_some());
            if !goes && let Some(text) = self.disk.read(&path)? {
                return Ok(Some((path, text)));
            }
        }
        Ok(None)
    }

    /// The links that the old layout made; none of a unit that cannot be read any more.
    fn old_links(&self, unit: &Unit) -> Result<Links, V::Error> {
        let found = self.found(self.old, &unit.name)?;
        if found.is_none() {
            return Ok(Links::new());
        }
        links(&unit.name, |name| self.found(self.old, name))
    }

    /// All links of the folder of units by which a unit is enabled: those of its name in other units' folders, and its aliases.
    fn links_to(&self, name: &str) -> Result<Vec<String>, V::Error> {
        let mut paths = Vec::new();
        for entry in self.disk.names(UNITS)? {
            let path = format!("{UNITS}/{entry}");
            if [".wants", ".requires", ".upholds"].iter().any(|ending| entry.ends_with(ending)) {
                for linked in self.disk.names(&path)? {
                    let path = format!("{path}/{linked}");
                    if let Live::Link(to) = self.disk.live(&path)?
                        && (linked == name || is_unit(&to, name))
                    {
                        paths.push(path);
                    }
                }
            } else if entry != name && matches!(self.disk.live(&path)?, Live::Link(to) if is_unit(&to, name)) {
                paths.push(path);
            }
        }
        Ok(paths)
    }
}

/// Returns whether a link leads to the file of a unit or of its template.
fn is_unit(target: &str, name: &str) -> bool {
    let last = target.rsplit('/').next().unwrap_or_default();
    last == name
}
