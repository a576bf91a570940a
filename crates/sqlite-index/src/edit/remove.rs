//! Removal of packages and of rows without references.

use std::collections::BTreeSet;

use rusqlite::Connection;
use serde::Deserialize;

use super::query::{packages, remove_bundle, texts};
use super::{Editor, OnError};
use crate::error::Error;
use crate::migrations::sql::FORGET_TRUNCATED;
use crate::tables::text;

impl Editor {
    /// `registry rm`: removes packages; returns the errors that were skipped (CATLG-60).
    pub fn remove(&mut self, packages: &[String], on_error: OnError) -> Result<Vec<Error>, Error> {
        let warnings = self.remove_each(packages.iter().map(String::as_str), on_error)?;
        self.remove_stranded()?;
        self.vacuum()?;
        Ok(warnings)
    }

    /// `registry prune`: removes all packages but these (CATLG-57).
    pub fn prune(&mut self, keep: &[String], on_error: OnError) -> Result<Vec<Error>, Error> {
        let mut all = packages(&self.connection)?;
        all.retain(|package| !keep.contains(package));
        let warnings = self.remove_each(all.iter().map(String::as_str), on_error)?;
        self.vacuum()?;
        Ok(warnings)
    }

    /// `registry prune-stranded`: removes bundles that are in no channel (CATLG-60).
    pub fn prune_stranded(&mut self) -> Result<(), Error> {
        self.remove_stranded()?;
        self.vacuum()
    }

    fn remove_each<'a>(&self, packages: impl Iterator<Item = &'a str>, on_error: OnError) -> Result<Vec<Error>, Error> {
        let mut warnings = Vec::new();
        for list in packages {
            // One argument may itself be a list.
            let mut seen = BTreeSet::new();
            let mut errors = Vec::new();
            for package in list.split(',').filter(|package| !package.is_empty() && seen.insert(package.to_owned())) {
                if let Err(error) = self.remove_package(package) {
                    errors.push(Error::content(format!("error removing operator package {package}: {error}")));
                }
            }
            if let Err(error) = Error::collect(errors) {
                let error = Error::content(format!("error deleting packages from database: {error}"));
                match on_error {
                    OnError::Stop => return Err(error),
                    OnError::Continue => warnings.push(error),
                }
            }
        }
        Ok(warnings)
    }

    pub(super) fn remove_package(&self, package: &str) -> Result<(), Error> {
        let transaction = self.begin()?;
        transaction.execute(
            "DELETE FROM deprecated WHERE operatorbundle_name IN (SELECT operatorbundle_name FROM channel_entry WHERE package_name = ?)",
            [package],
        )?;
        let bundles = texts(&transaction, "SELECT DISTINCT operatorbundle_name FROM channel_entry WHERE package_name = ?", [package])?;
        if bundles.is_empty() {
            return Err(Error::content(format!("no package found for packagename {package}")));
        }
        for bundle in &bundles {
            remove_bundle(&transaction, bundle)?;
        }
        transaction.execute("DELETE FROM package WHERE name = ?", [package])?;
        transaction.execute("DELETE FROM channel WHERE package_name = ?", [package])?;
        transaction.commit()?;
        self.remove_stranded()
    }

    pub(super) fn remove_stranded(&self) -> Result<(), Error> {
        let transaction = self.begin()?;
        transaction.execute(
            "DELETE FROM operatorbundle WHERE name NOT IN (SELECT operatorbundle_name FROM channel_entry)
             AND name NOT IN (SELECT operatorbundle_name FROM deprecated)",
            [],
        )?;
        remove_strangers(&transaction)?;
        transaction.commit()?;
        Ok(())
    }
}

/// Removes bundles of packages that are gone, and forgets deprecations of bundles that are gone.
pub(super) fn remove_strangers(connection: &Connection) -> Result<(), Error> {
    #[derive(Deserialize)]
    struct Package {
        #[serde(rename = "packageName", default)]
        name: Option<String>,
    }
    let known: BTreeSet<String> = packages(connection)?.into_iter().collect();
    if known.contains("") {
        return Err(Error::content("invalid package { true}"));
    }
    let mut strangers = Vec::new();
    let mut statement = connection.prepare("SELECT DISTINCT operatorbundle_name, value FROM properties WHERE type = 'olm.package'")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let filled = |index| Ok::<_, Error>(text(row, index)?.filter(|text| !text.is_empty()));
        let Some(bundle) = filled(0)? else { return Err(Error::content("a property of no bundle")) };
        let Some(value) = filled(1)? else { return Err(Error::content(format!("invalid package property on {bundle}"))) };
        let package: Package = serde_json::from_str(&value).map_err(|error| Error::content(error.to_string()))?;
        if !known.contains(package.name.as_deref().unwrap_or_default()) {
            strangers.push(bundle);
        }
    }
    for bundle in strangers {
        remove_bundle(connection, &bundle)?;
    }
    connection.execute_batch(FORGET_TRUNCATED)?;
    Ok(())
}
