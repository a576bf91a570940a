//! Configs and trees that mean harm, or are broken: refused as a whole.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{at, config, everything, file, files, folder, take, write};
use mainstay_node_agent::{Error, Root, Tree};

/// MACH-NODE-10: what cannot be written is refused before anything is.
#[test]
fn nothing_is_half_written() {
    let folder = folder();
    let root = folder.path();
    write(root, "/etc/dir/x", 0o644, "x");
    drop(take(root));
    let before = everything(root);
    let unit = |unit: Value| json!({"systemd": {"units": [unit]}});
    let good = file("/etc/a", 0o644, "a");
    let owned = json!({"path": "/etc/b", "contents": {"source": "data:,b"}, "user": {"name": "nobody-here"}});
    let large = json!({"path": "/etc/b", "contents": {"source": format!("data:,{}", "x".repeat((1 << 20) + 1))}});
    let bomb = json!({"path": "/etc/b", "contents": {"compression": "gzip", "source": format!("data:;base64,{}", bomb())}});
    let cases = [
        (files(&[good.clone(), file("/etc/dir", 0o644, "b")]), "/etc/dir is a folder"),
        (files(&[good.clone(), file("/etc/dir/x/below", 0o644, "b")]), "/etc/dir/x"),
        (files(&[good.clone(), owned]), "user \"nobody-here\""),
        (files(&[good.clone(), large]), "more than 1048576 bytes"),
        (files(&[good.clone(), bomb]), "more than 1048576 bytes"),
        (files(&[good.clone(), file("/etc/machine-config-daemon/currentconfig", 0o644, "x")]), "the agent's own"),
        (unit(json!({"name": "a.service", "contents": "[Unit]\nDescription=a\n\nno equals sign\n"})), "line 4"),
        (unit(json!({"name": "../../etc/cron.d/a.service", "contents": "[Unit]\n"})), "is no name"),
        (unit(json!({"name": "gone.service", "enabled": true})), "cannot be enabled"),
        (unit(json!({"name": "a.service", "enabled": true, "mask": true})), "both masked and enabled"),
        (
            unit(json!({"name": "a.service", "enabled": true, "contents": "[Install]\nWantedBy=../../etc.target\n"})),
            "is not the name of a unit",
        ),
    ];
    for (rest, wanted) in cases {
        let tree = take(root);
        let refused = match tree.plan(&config("bad", rest)) {
            Err(error) => error,
            Ok(change) => tree.write(&change, None).unwrap_err(),
        };
        assert!(refused.to_string().contains(wanted), "{refused}");
        drop(tree);
        assert_eq!(everything(root), before, "{wanted}");
    }
}

/// A mebibyte and a half of nothing, compressed and in base64.
fn bomb() -> String {
    use std::io::Write as _;

    use base64::Engine as _;
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(&vec![0; 3 << 19]).unwrap();
    base64::engine::general_purpose::STANDARD.encode(packed.finish().unwrap())
}

/// MACH-NODE-09: one agent a root; pipes and devices are not read; a broken memory is named with its file.
#[test]
fn trees_that_are_in_use_or_broken() {
    let folder = folder();
    let root = folder.path();
    let tree = take(root);
    assert!(matches!(Tree::take(Root::open(root).unwrap()), Err(Error::Locked(_))));
    drop(tree);

    std::fs::create_dir_all(at(root, "/etc")).unwrap();
    let pipe = std::process::Command::new("mkfifo").arg(at(root, "/etc/pipe")).status().unwrap();
    assert!(pipe.success());
    let begun = std::time::Instant::now();
    let refused = take(root).plan(&config("one", files(&[file("/etc/pipe", 0o644, "x")]))).unwrap_err();
    assert!(refused.to_string().contains("a device, socket or pipe"), "{refused}");
    assert!(begun.elapsed() < Duration::from_secs(5));

    write(root, "/etc/machine-config-daemon/currentconfig", 0o600, "{\"kind\": ");
    let refused = take(root).disk().unwrap_err();
    assert!(refused.to_string().starts_with("/etc/machine-config-daemon/currentconfig: EOF"), "{refused}");
    write(root, "/etc/machine-config-daemon/pending/journal.json", 0o600, "no journal");
    let refused = Tree::take(Root::open(root).unwrap()).unwrap_err();
    assert!(refused.to_string().contains("journal.json") && refused.to_string().contains("remove the file"), "{refused}");
}
