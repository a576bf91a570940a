//! The boot device: mirrored over several disks, or encrypted, or both.

use super::Making;
use super::paths::{Paths, joined, merged, then, way};
use super::sugar::built;
use super::translate::part;
use super::variant::Variant;
use crate::data::{Data, Struct};
use crate::model::Type;

const RESERVED_TYPE: &str = "8DA63339-0007-60C0-C436-083AC8230908";
const BIOS_TYPE: &str = "21686148-6449-6E6F-744E-656564454649";
const PREP_TYPE: &str = "9E1A2D38-C612-4316-AA26-8B49521E5A8B";
const ESP_TYPE: &str = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B";

/// The layout of a boot disk, by the machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    X86,
    Arm,
    Power,
    /// A mainframe; how many partitions stand before the root, if it has no label.
    Mainframe(Option<u8>),
}

impl Layout {
    fn of(device: &Struct) -> Self {
        match device.text("layout") {
            Some("aarch64") => Layout::Arm,
            Some("ppc64le") => Layout::Power,
            Some("s390x-eckd") => Layout::Mainframe(Some(2)),
            Some("s390x-zfcp") => Layout::Mainframe(Some(4)),
            Some("s390x-virt") => Layout::Mainframe(None),
            _ => Layout::X86,
        }
    }

    /// The partitions before that of `/boot`: label, size and type.
    fn first_partitions(self) -> [(&'static str, i64, &'static str); 2] {
        let (bios, prep) = (("bios", 1, BIOS_TYPE), ("prep", 4, PREP_TYPE));
        let (esp, reserved) = (("esp", 127, ESP_TYPE), ("reserved", 1, RESERVED_TYPE));
        match self {
            Layout::X86 => [bios, esp],
            Layout::Arm => [reserved, esp],
            Layout::Power => [prep, reserved],
            Layout::Mainframe(_) => [reserved, reserved],
        }
    }

    fn has_esp(self) -> bool {
        matches!(self, Layout::X86 | Layout::Arm)
    }
}

fn text(text: impl Into<String>) -> Data {
    Data::Text(text.into())
}

/// Storage as it is put together.
struct Storage {
    of: Option<&'static Type>,
    paths: Paths,
    disks: Vec<Data>,
    filesystems: Vec<Data>,
}

impl Storage {
    fn child(&self, name: &str) -> Option<&'static Type> {
        self.of.and_then(|of| of.child(name))
    }

    fn filesystem(&mut self, from: &str, device: &str, format: &str, label: &str) {
        let values = [("device", text(device)), ("format", text(format)), ("label", text(label)), ("wipeFilesystem", Data::Bool(true))];
        let filesystem = built(self.child("filesystems"), values);
        self.paths.add_all(&way(from), &then(&way("storage.filesystems"), self.filesystems.len()), &filesystem);
        self.filesystems.push(filesystem);
    }

    fn disk(&mut self, index: usize, device: &str, layout: Layout) {
        let number = self.disks.len() + 1;
        let of = self.child("disks");
        let of_partition = of.and_then(|of| of.child("partitions"));
        let mut partitions: Vec<Data> = layout
            .first_partitions()
            .map(|(label, size, guid)| {
                let values = [("label", text(format!("{label}-{number}"))), ("sizeMiB", Data::Int(size)), ("typeGuid", text(guid))];
                built(of_partition, values)
            })
            .into();
        partitions.push(built(of_partition, [("label", text(format!("boot-{number}"))), ("sizeMiB", Data::Int(384))]));
        partitions.push(built(of_partition, [("label", text(format!("root-{number}")))]));
        let values = [("device", text(device)), ("wipeTable", Data::Bool(true)), ("partitions", Data::List(partitions))];
        let disk = built(of, values);
        let from = format!("boot_device.mirror.devices.{index}");
        self.paths.add_all(&way(&from), &then(&way("storage.disks"), self.disks.len()), &disk);
        self.disks.push(disk);
        if layout.has_esp() {
            self.filesystem(&from, &format!("/dev/disk/by-partlabel/esp-{number}"), "vfat", &format!("esp-{number}"));
        }
    }

    fn raid(&mut self, name: &str, options: &[&str]) -> Data {
        let devices = (1..=self.disks.len()).map(|number| text(format!("/dev/disk/by-partlabel/{name}-{number}"))).collect();
        let options = if options.is_empty() { Data::Absent } else { Data::List(options.iter().copied().map(text).collect()) };
        let values =
            [("devices", Data::List(devices)), ("level", text("raid1")), ("name", text(format!("md-{name}"))), ("options", options)];
        built(self.child("raid"), values)
    }
}

/// Adds the disks, volumes and filesystems of the boot device.
pub(super) fn add(config: &Struct, variant: Variant, making: &mut Making) {
    let Some(device) = config.child("boot_device") else { return };
    let luks = device.child("luks");
    let has_cex = luks.and_then(|luks| luks.child("cex")).is_some_and(|cex| cex.is_true("enabled"));
    let luks = luks.filter(|luks| luks.is_true("tpm2") || !luks.list("tang").is_empty() || variant.has_cex() && has_cex);
    let mirror: Vec<&str> = device.child("mirror").into_iter().flat_map(|mirror| mirror.texts("devices")).collect();
    if luks.is_none() && mirror.is_empty() {
        return;
    }
    let layout = Layout::of(device);
    let root = making.config.of();
    let mut storage = Storage { of: root.child("storage"), paths: Paths::default(), disks: Vec::new(), filesystems: Vec::new() };
    let mut raids = Data::Absent;
    for (index, device) in mirror.iter().enumerate() {
        storage.disk(index, device, layout);
    }
    if !mirror.is_empty() {
        storage.paths.add(&way("boot_device.mirror.devices"), &way("storage.disks"));
        raids = Data::List(vec![storage.raid("boot", &["--metadata=1.0"]), storage.raid("root", &[])]);
        storage.paths.add_all(&way("boot_device.mirror"), &way("storage.raid"), &raids);
        storage.filesystem("boot_device.mirror", "/dev/md/md-boot", "ext4", "boot");
    }
    let mut volumes = Data::Absent;
    if let Some(luks) = luks {
        volumes = Data::List(vec![volume(luks, layout, !mirror.is_empty(), has_cex, &mut storage)]);
    }
    let root_device = if luks.is_some() { "/dev/mapper/root" } else { "/dev/md/md-root" };
    storage.filesystem("boot_device", root_device, "xfs", "root");
    storage.paths.add(&way("boot_device"), &way("storage.filesystems"));
    storage.paths.add(&way("boot_device"), &way("storage"));
    let disks = if storage.disks.is_empty() { Data::Absent } else { Data::List(storage.disks) };
    let values = [("disks", disks), ("filesystems", Data::List(storage.filesystems)), ("luks", volumes), ("raid", raids)];
    let mut rendered = Struct::new(root);
    rendered.set("storage", built(storage.of, values));
    (making.config, making.paths) = merged(&rendered, &storage.paths, &making.config, &making.paths);
}

/// The encrypted volume below the root filesystem.
fn volume(luks: &Struct, layout: Layout, is_mirrored: bool, has_cex: bool, storage: &mut Storage) -> Data {
    let of = storage.child("luks");
    let device = match layout {
        Layout::Mainframe(Some(partition)) => format!("{}{partition}", luks.text_or_empty("device")),
        _ if is_mirrored => "/dev/md/md-root".to_owned(),
        _ => "/dev/disk/by-partlabel/root".to_owned(),
    };
    let (from, to) = (way("boot_device.luks"), way("storage.luks.0"));
    let key = if has_cex { "cex" } else { "clevis" };
    let to_key = then(&to, key);
    let of_key = of.and_then(|of| of.child(key));
    // The servers and the threshold are those of the config; CEX has a section of its own.
    let (source, fields): (&Struct, &[&str]) = match luks.child("cex").filter(|_| has_cex) {
        Some(cex) => (cex, &["enabled"]),
        None => (luks, &["tang", "threshold", "tpm2"]),
    };
    let mut values = Vec::new();
    for name in fields {
        let Some(field) = of_key.and_then(|of| of.fields.iter().find(|field| field.name == *name)) else { continue };
        let made = part(source.get(name), &field.kind, &then(&from, *name), &then(&to_key, *name), &mut storage.paths);
        values.push((*name, made));
    }
    storage.paths.add(&from, &to_key);
    storage.paths.add(&then(&from, "discard"), &then(&to, "discard"));
    for field in ["device", "label", "name", "wipeVolume"] {
        storage.paths.add(&from, &then(&to, field));
    }
    storage.paths.add(&from, &to);
    storage.paths.add(&from, &joined(&way("storage"), &way("luks")));
    let values = [
        (key, built(of_key, values)),
        ("device", text(device)),
        ("discard", luks.get("discard").clone()),
        ("label", text("luks-root")),
        ("name", text("root")),
        ("wipeVolume", Data::Bool(true)),
    ];
    built(of, values)
}
