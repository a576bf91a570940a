//! A tree as plans look at it.

use mainstay_machine_config_core::layout::{Live, View};

use crate::Error;
use crate::root::{Found, Root};

impl View for Root {
    type Error = Error;

    fn live(&self, path: &str) -> Result<Live, Error> {
        Ok(match self.found(path)? {
            Found::Absent => Live::Absent,
            Found::File(attributes) => Live::File { mode: attributes.mode },
            Found::Link(target) => Live::Link(target),
            Found::Folder => Live::Folder,
            Found::Other => Live::Other,
        })
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(Root::read(self, path)?)
    }

    fn names(&self, folder: &str) -> Result<Vec<String>, Error> {
        Ok(Root::names(self, folder)?)
    }
}
