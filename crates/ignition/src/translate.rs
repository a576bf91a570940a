//! Configs of 3.0 to 3.3 as configs of 3.4.

use crate::data::{Data, Struct};
use crate::model::{Kind, Spec, Type};

/// Special mode bits, which versions before 3.4 do not have.
const SPECIAL_BITS: i64 = 0o7000;

/// The same config in 3.4.
pub(crate) fn to_newest(config: &Struct, from: Spec) -> Struct {
    let mut new = moved(config, Spec::V3_4.root());
    if let Some(Data::Struct(ignition)) = new.get_mut("ignition") {
        ignition.set("version", Data::Text(Spec::V3_4.text().to_owned()));
    }
    if from < Spec::V3_4
        && let Some(Data::Struct(storage)) = new.get_mut("storage")
    {
        mask_modes(storage);
    }
    new
}

fn mask_modes(storage: &mut Struct) {
    for list in ["files", "directories"] {
        let Some(Data::List(items)) = storage.get_mut(list) else { continue };
        for item in items {
            if let Data::Struct(node) = item
                && let Some(mode) = node.int("mode")
            {
                node.set("mode", Data::Int(mode & !SPECIAL_BITS));
            }
        }
    }
}

/// Returns whether a file or directory has special mode bits.
pub(crate) fn special_bits(node: &Struct) -> bool {
    node.int("mode").is_some_and(|mode| mode & SPECIAL_BITS != 0)
}

/// The values of a struct in the type of another version, by the names of fields. A field that became optional has a value, even if it is empty,
/// but for a struct of which nothing is said; a field that became required is empty where it was not there.
pub(crate) fn moved(old: &Struct, to: &'static Type) -> Struct {
    let mut new = Struct::new(to);
    for (field, value) in old.entries() {
        let Some(index) = to.index(&field.name) else { continue };
        let slot = new.at_mut(index);
        let value = converted(value, &to.fields[index].kind);
        if value != Data::Absent {
            *slot = value;
        }
    }
    new
}

fn converted(value: &Data, kind: &Kind) -> Data {
    match (value, kind) {
        (Data::Struct(old), Kind::Optional(_)) if old.is_zero() => Data::Absent,
        (value, Kind::Optional(inner)) => converted(value, inner),
        (Data::Struct(old), Kind::Struct(of)) => Data::Struct(moved(old, of)),
        (Data::List(items), Kind::List(_, item)) => Data::List(items.iter().map(|old| converted(old, item)).collect()),
        (value, _) => value.clone(),
    }
}
