//! storage.conf: read, and written as upstream writes it, with the size of root file systems. Settings that upstream does not know are dropped.

use crate::toml::{self, Fields, ReadError, Reader, Toml};

use super::{RuntimeSpec, StorageError};

/// Returns the file with the size in it.
///
/// # Errors
/// The file before cannot be read, or the size is negative.
pub fn storage_conf(base: &str, spec: &RuntimeSpec) -> Result<String, StorageError> {
    let mut storage = toml::read(base, |document| document.table("storage", Storage::read))?;
    if let Some(size) = &spec.overlay_size {
        if size.bytes < 0 {
            return Err(StorageError::OverlaySize(size.text.clone()));
        }
        if size.bytes != 0 {
            storage.size.clone_from(&size.text);
        }
    }
    Ok(toml::document(&vec![("storage".to_owned(), Toml::Table(storage.fields()))]))
}

/// Tables of drivers below `storage.options`, with their texts; one without any is not written.
const DRIVERS: [(&str, &[&str]); 6] = [
    ("aufs", &["mountopt"]),
    ("btrfs", &["min_space", "size"]),
    ("thinpool", &[]),
    ("overlay", &["ignore_chown_errors", "mountopt", "mount_program", "size", "inodes", "skip_mount_home", "use_composefs", "force_mask"]),
    ("vfs", &["ignore_chown_errors"]),
    ("zfs", &["mountopt", "fsname", "size"]),
];

struct Storage {
    place: [(&'static str, String); 3],
    image_stores: Vec<String>,
    image_store: String,
    layer_stores: Vec<String>,
    size: String,
    early: [(&'static str, String); 2],
    force_mask: u32,
    root_user: String,
    least_size: u32,
    largest_size: u32,
    drivers: Vec<(&'static str, Fields)>,
    late: [(&'static str, String); 3],
    pull_options: Option<Vec<(String, String)>>,
    disable_volatile: bool,
}

fn named(table: Reader<'_>, name: &'static str) -> Result<(&'static str, String), ReadError> {
    Ok((name, table.text(name)?))
}

impl Storage {
    fn read(table: Reader<'_>) -> Result<Self, ReadError> {
        let place = [named(table, "driver")?, named(table, "runroot")?, named(table, "graphroot")?];
        table.table("options", |options| {
            let text = |name| named(options, name);
            Ok(Self {
                place,
                image_stores: options.texts("additionalimagestores")?.unwrap_or_default(),
                image_store: options.text("imagestore")?,
                layer_stores: options.texts("additionallayerstores")?.unwrap_or_default(),
                size: options.text("size")?,
                early: [text("ignore_chown_errors")?, text("use_composefs")?],
                force_mask: options.number("force_mask")?,
                root_user: options.text("root-auto-userns-user")?,
                least_size: options.number("auto-userns-min-size")?,
                largest_size: options.number("auto-userns-max-size")?,
                drivers: DRIVERS
                    .iter()
                    .map(|(name, texts)| Ok((*name, driver(options, name, texts)?)))
                    .collect::<Result<_, ReadError>>()?,
                late: [text("skip_mount_home")?, text("mount_program")?, text("mountopt")?],
                pull_options: options.text_table("pull_options")?,
                disable_volatile: options.bool("disable-volatile")?,
            })
        })
    }

    fn fields(self) -> Fields {
        let text = |(name, value): (&str, String)| (!value.is_empty()).then(|| (name.to_owned(), Toml::Text(value)));
        let texts = |name: &str, list: Vec<String>| (!list.is_empty()).then(|| (name.to_owned(), Toml::Texts(list)));
        let number = |name: &str, value: u32| Some((name.to_owned(), Toml::Int(i64::from(value))));
        let [ignore_chown_errors, use_composefs] = self.early;
        let mut options: Fields = [
            texts("additionalimagestores", self.image_stores),
            text(("imagestore", self.image_store)),
            texts("additionallayerstores", self.layer_stores),
            text(("size", self.size)),
            text(ignore_chown_errors),
            text(use_composefs),
            // Numbers are written even if they are 0.
            number("force_mask", self.force_mask),
            text(("root-auto-userns-user", self.root_user)),
            number("auto-userns-min-size", self.least_size),
            number("auto-userns-max-size", self.largest_size),
        ]
        .into_iter()
        .flatten()
        .collect();
        let drivers = self.drivers.into_iter().filter(|(_, fields)| !fields.is_empty());
        options.extend(drivers.map(|(name, fields)| (name.to_owned(), Toml::Table(fields))));
        options.extend(self.late.into_iter().filter_map(text));
        if let Some(pull_options) = self.pull_options.filter(|all| !all.is_empty()) {
            let pull_options = pull_options.into_iter().map(|(name, value)| (name, Toml::Text(value))).collect();
            options.push(("pull_options".to_owned(), Toml::Table(pull_options)));
        }
        options.extend(self.disable_volatile.then(|| ("disable-volatile".to_owned(), Toml::Bool(true))));
        let place = self.place.into_iter().map(|(name, value)| (name.to_owned(), Toml::Text(value)));
        place.chain([("options".to_owned(), Toml::Table(options))]).collect()
    }
}

fn driver(options: Reader<'_>, name: &str, texts: &[&'static str]) -> Result<Fields, ReadError> {
    options.table(name, |table| {
        let mut fields = Fields::new();
        for text in texts {
            let value = table.text(text)?;
            if !value.is_empty() {
                fields.push(((*text).to_owned(), Toml::Text(value)));
            }
        }
        Ok(fields)
    })
}
