//! Configs of 2.2 as configs of 3.4, by way of 2.3 and 3.0 as upstream goes.

use std::collections::{BTreeMap, HashMap, HashSet};

use mainstay_golang::quote;

use super::{Config, report, rules::Flavor, walk};
use crate::data::{Data, Struct};
use crate::model::{Spec, Type};
use crate::report::Report;
use crate::translate::to_newest;
use crate::validate::{config as validate, joined};

/// Why a config of 2.2 has no counterpart in 3.x, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TranslationError {
    /// It breaks a rule of 2.3, or uses what 2.3 no longer has.
    #[error("Invalid input config:\n{0}")]
    Invalid(report::Report),
    /// It has units of networkd.
    #[error("config includes deprecated networkd section - use Files instead")]
    Networkd,
    /// A filesystem is not the root.
    #[error("Config defined filesystem {} but no mapping was defined.Please specify a path to be used as the filesystem mountpoint.", quote(.0))]
    Filesystem(String),
    /// Two nodes have one path.
    #[error("Config has conflicting inodes: {} and {}.  All files, directories and links must specify a unique `path`.", quote(.0), quote(.1))]
    Conflict(String, String),
    /// A node is below a link of the same config.
    #[error("{node} uses link defined in config {}. Please use a link not defined in Storage:Links", quote(.link))]
    OwnLink {
        /// The kind and path of the node.
        node: String,
        /// The path of the link.
        link: String,
    },
    /// Two units have one name.
    #[error("Config has duplicate unit name {}.  All units must specify a unique `name`.", quote(.0))]
    Unit(String),
    /// Two drop-ins of a unit have one name.
    #[error("Config has duplicate dropin name {} in unit {}.  All dropins must specify a unique `name`.", quote(.name), quote(.unit))]
    Dropin {
        /// The unit.
        unit: String,
        /// The drop-in.
        name: String,
    },
    /// It breaks a rule of 3.0.
    #[error("{0}")]
    New(Report),
}

/// The same config in 3.4.
pub fn translate(config: &Config) -> Result<crate::Config, TranslationError> {
    check(&config.0)?;
    let new = new_config(&config.0);
    let report = validate(&new, Spec::V3_0, None);
    if report.is_fatal() {
        return Err(TranslationError::New(report));
    }
    let newest = to_newest(&new, Spec::V3_0);
    // It is of the type of 3.4, because it was just made so.
    Ok(crate::Config::from_struct(newest).unwrap_or_default())
}

/// The path of a node, where only the root filesystem has a place.
fn place_of(node: &Struct) -> String {
    let root = if node.text_or_empty("filesystem") == "root" { "/" } else { "" };
    joined(root, node.text_or_empty("path"))
}

fn absolute_place_of(node: &Struct) -> String {
    joined("/", &place_of(node))
}

fn check(config: &Struct) -> Result<(), TranslationError> {
    let found = walk::config(config, None, Flavor::Translate);
    if found.is_fatal() || found.is_deprecated() {
        return Err(TranslationError::Invalid(found));
    }
    if config.child("networkd").is_some_and(|networkd| !networkd.list("units").is_empty()) {
        return Err(TranslationError::Networkd);
    }
    if let Some(storage) = config.child("storage") {
        if let Some(other) = storage.structs("filesystems").find(|filesystem| filesystem.text_or_empty("name") != "root") {
            return Err(TranslationError::Filesystem(other.text_or_empty("name").to_owned()));
        }
        check_paths(storage)?;
    }
    check_units(config)
}

fn check_paths(storage: &Struct) -> Result<(), TranslationError> {
    let links: Vec<String> = storage.structs("links").map(absolute_place_of).collect();
    let mut known: HashMap<String, String> = HashMap::new();
    for (list, kind) in [("files", "File"), ("directories", "Directory"), ("links", "Link")] {
        for node in storage.structs(list) {
            let path = absolute_place_of(node);
            let name = format!("{kind}: {path}");
            if let Some(old) = known.get(&path) {
                return Err(TranslationError::Conflict(old.clone(), name));
            }
            if let Some(link) = links.iter().find(|link| path.starts_with(link.as_str()) && path != **link) {
                return Err(TranslationError::OwnLink { node: name, link: link.clone() });
            }
            known.insert(path, name);
        }
    }
    Ok(())
}

fn check_units(config: &Struct) -> Result<(), TranslationError> {
    let mut units = HashSet::new();
    for unit in config.child("systemd").into_iter().flat_map(|systemd| systemd.structs("units")) {
        let name = unit.text_or_empty("name");
        if !units.insert(name) {
            return Err(TranslationError::Unit(name.to_owned()));
        }
        let mut dropins = HashSet::new();
        if let Some(twice) = unit.structs("dropins").find(|dropin| !dropins.insert(dropin.text_or_empty("name"))) {
            return Err(TranslationError::Dropin { unit: name.to_owned(), name: twice.text_or_empty("name").to_owned() });
        }
    }
    Ok(())
}

/// A struct of 3.0 with these values.
fn build(of: Option<&'static Type>, values: BTreeMap<&str, Data>) -> Data {
    let Some(of) = of else { return Data::Absent };
    let mut new = Struct::new(of);
    for (name, value) in values {
        if value != Data::Absent {
            new.set(name, value);
        }
    }
    Data::Struct(new)
}

/// A text that is absent if it is empty.
fn text(of: &Struct, field: &str) -> Data {
    match of.text_or_empty(field) {
        "" => Data::Absent,
        text => Data::Text(text.to_owned()),
    }
}

/// A truth that is absent if it is not so.
fn truth(of: &Struct, field: &str) -> Data {
    if of.is_true(field) { Data::Bool(true) } else { Data::Absent }
}

fn copied(of: &Struct, field: &str) -> Data {
    of.get(field).clone()
}

/// A list in which each entry is made from an old one; absent if there is none.
fn listed(of: &Struct, field: &str, make: impl Fn(&Struct) -> Data) -> Data {
    let items: Vec<Data> = of.structs(field).map(make).collect();
    if items.is_empty() { Data::Absent } else { Data::List(items) }
}

/// A list of texts; absent if there is none.
fn texts(of: &Struct, field: &str) -> Data {
    match of.list(field) {
        [] => Data::Absent,
        items => Data::List(items.to_vec()),
    }
}

fn new_config(old: &Struct) -> Struct {
    let root = Spec::V3_0.root();
    let empty = |name: &str| Struct::new(Spec::V2_2.root().child(name).unwrap_or(root));
    let section = |name: &str| old.child(name).cloned().unwrap_or_else(|| empty(name));
    let mut new = Struct::new(root);
    new.set("ignition", ignition(&section("ignition"), root.child("ignition")));
    new.set("passwd", passwd(&section("passwd"), root.child("passwd")));
    new.set("storage", storage(&section("storage"), root.child("storage")));
    new.set("systemd", systemd(&section("systemd"), root.child("systemd")));
    new
}

fn child(of: Option<&'static Type>, name: &str) -> Option<&'static Type> {
    of.and_then(|of| of.child(name))
}

fn verification(of: &Struct, into: Option<&'static Type>) -> Data {
    let hash = of.child("verification").map_or(Data::Absent, |verification| copied(verification, "hash"));
    build(child(into, "verification"), BTreeMap::from([("hash", hash)]))
}

fn reference(of: &Struct, into: Option<&'static Type>) -> Data {
    build(into, BTreeMap::from([("source", copied(of, "source")), ("verification", verification(of, into))]))
}

fn ignition(old: &Struct, into: Option<&'static Type>) -> Data {
    let mut values = BTreeMap::from([("version", Data::Text(Spec::V3_0.text().to_owned()))]);
    if let Some(config) = old.child("config") {
        let of = child(into, "config");
        let replace = config.child("replace").map_or(Data::Absent, |old| reference(old, child(of, "replace")));
        let merge = listed(config, "append", |old| reference(old, child(of, "merge")));
        values.insert("config", build(of, BTreeMap::from([("replace", replace), ("merge", merge)])));
    }
    if let Some(tls) = old.child("security").and_then(|security| security.child("tls")) {
        let of = child(into, "security");
        let new_tls = child(of, "tls");
        let authorities = listed(tls, "certificateAuthorities", |old| reference(old, child(new_tls, "certificateAuthorities")));
        let tls = build(new_tls, BTreeMap::from([("certificateAuthorities", authorities)]));
        values.insert("security", build(of, BTreeMap::from([("tls", tls)])));
    }
    if let Some(timeouts) = old.child("timeouts") {
        let fields = ["httpResponseHeaders", "httpTotal"].map(|field| (field, copied(timeouts, field)));
        values.insert("timeouts", build(child(into, "timeouts"), BTreeMap::from(fields)));
    }
    build(into, values)
}

fn passwd(old: &Struct, into: Option<&'static Type>) -> Data {
    let users = listed(old, "users", |user| {
        let mut values = BTreeMap::from([
            ("name", copied(user, "name")),
            ("passwordHash", copied(user, "passwordHash")),
            ("sshAuthorizedKeys", texts(user, "sshAuthorizedKeys")),
            ("groups", texts(user, "groups")),
            ("uid", copied(user, "uid")),
        ]);
        values.extend(["gecos", "homeDir", "primaryGroup", "shell"].map(|field| (field, text(user, field))));
        values.extend(["noCreateHome", "noUserGroup", "noLogInit", "system"].map(|field| (field, truth(user, field))));
        build(child(into, "users"), values)
    });
    let groups = listed(old, "groups", |group| {
        let values = BTreeMap::from([
            ("name", copied(group, "name")),
            ("gid", copied(group, "gid")),
            ("passwordHash", text(group, "passwordHash")),
            ("system", truth(group, "system")),
        ]);
        build(child(into, "groups"), values)
    });
    build(into, BTreeMap::from([("users", users), ("groups", groups)]))
}

fn systemd(old: &Struct, into: Option<&'static Type>) -> Data {
    let of = child(into, "units");
    let units = listed(old, "units", |unit| {
        // The older field counts only where the newer one does not say no.
        let enabled = match (unit.bool("enabled"), unit.is_true("enable")) {
            (Some(false), _) => Data::Bool(false),
            (Some(true), _) | (None, true) => Data::Bool(true),
            (None, false) => Data::Absent,
        };
        let dropins = listed(unit, "dropins", |dropin| {
            let values = BTreeMap::from([("name", copied(dropin, "name")), ("contents", text(dropin, "contents"))]);
            build(child(of, "dropins"), values)
        });
        let values = BTreeMap::from([
            ("name", copied(unit, "name")),
            ("enabled", enabled),
            ("mask", truth(unit, "mask")),
            ("contents", text(unit, "contents")),
            ("dropins", dropins),
        ]);
        build(of, values)
    });
    build(into, BTreeMap::from([("units", units)]))
}

fn storage(old: &Struct, into: Option<&'static Type>) -> Data {
    let disks = listed(old, "disks", |disk| {
        // Partitions do not come here: any of them makes a config of 2.2 one that is not translated.
        build(child(into, "disks"), BTreeMap::from([("device", copied(disk, "device")), ("wipeTable", truth(disk, "wipeTable"))]))
    });
    let raid = listed(old, "raid", |raid| {
        let spares = match raid.int("spares") {
            None | Some(0) => Data::Absent,
            Some(spares) => Data::Int(spares),
        };
        let values = BTreeMap::from([
            ("name", copied(raid, "name")),
            ("level", copied(raid, "level")),
            ("devices", texts(raid, "devices")),
            ("spares", spares),
            ("options", texts(raid, "options")),
        ]);
        build(child(into, "raid"), values)
    });
    let files = listed(old, "files", |old| file(old, child(into, "files")));
    let directories = listed(old, "directories", |directory| {
        let of = child(into, "directories");
        let mut values = node(directory, of);
        values.insert("mode", copied(directory, "mode"));
        build(of, values)
    });
    let links = listed(old, "links", |link| {
        let of = child(into, "links");
        let mut values = node(link, of);
        values.extend([("hard", truth(link, "hard")), ("target", copied(link, "target"))]);
        build(of, values)
    });
    let values = BTreeMap::from([("disks", disks), ("raid", raid), ("files", files), ("directories", directories), ("links", links)]);
    build(into, values)
}

fn node(old: &Struct, into: Option<&'static Type>) -> BTreeMap<&'static str, Data> {
    let owner = |kind: &str| {
        let values = match old.child(kind) {
            Some(owner) => BTreeMap::from([("id", copied(owner, "id")), ("name", text(owner, "name"))]),
            None => BTreeMap::new(),
        };
        build(child(into, kind), values)
    };
    let (user, group) = (owner("user"), owner("group"));
    BTreeMap::from([("path", Data::Text(place_of(old))), ("user", user), ("group", group), ("overwrite", copied(old, "overwrite"))])
}

fn file(old: &Struct, into: Option<&'static Type>) -> Data {
    let mut values = node(old, into);
    let appends = old.is_true("append");
    if appends || !old.has("overwrite") {
        // Files of 2.x overwrite unless they append.
        values.insert("overwrite", Data::Bool(!appends));
    }
    values.insert("mode", copied(old, "mode"));
    let of = child(into, "contents");
    let contents = old.child("contents").map_or(Data::Absent, |contents| {
        let values = BTreeMap::from([
            ("compression", text(contents, "compression")),
            ("source", copied(contents, "source")),
            ("verification", verification(contents, of)),
        ]);
        build(of, values)
    });
    if appends {
        values.insert("append", Data::List(vec![contents]));
    } else {
        values.insert("contents", contents);
    }
    build(into, values)
}
