//! Units: links, masks, drop-ins, and what `systemctl` says of them.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::{apply, at, config, folder, read, write};

fn units(units: &[Value]) -> Value {
    json!({"systemd": {"units": units}})
}

fn target(root: &std::path::Path, path: &str) -> Option<String> {
    std::fs::read_link(at(root, path)).ok().map(|target| target.display().to_string())
}

const UNITS: &str = "/etc/systemd/system";

/// MACH-NODE-11: links follow `[Install]` from one version to the next; disabling removes all of them, masks come and go.
#[test]
fn enabling_and_masking() {
    let folder = folder();
    let root = folder.path();
    write(
        root,
        "/usr/lib/systemd/system/system.service",
        0o644,
        "[Service]\nExecStart=/bin/true\n\n[Install]\nWantedBy=multi-user.target\nAlias=other.service\n",
    );
    let own = |install: &str| json!({"name": "a.service", "enabled": true, "contents": format!("[Service]\nExecStart=/bin/true\n[Install]\n{install}\n")});
    apply(root, &config("one", units(&[own("WantedBy=one.target"), json!({"name": "system.service", "enabled": true})])));
    assert_eq!(target(root, &format!("{UNITS}/one.target.wants/a.service")).as_deref(), Some("/etc/systemd/system/a.service"));
    let of_system = Some("/usr/lib/systemd/system/system.service");
    assert_eq!(target(root, &format!("{UNITS}/multi-user.target.wants/system.service")).as_deref(), of_system);
    assert_eq!(target(root, &format!("{UNITS}/other.service")).as_deref(), of_system);

    let dropped = json!({"name": "system.service", "enabled": false, "dropins": [{"name": "10.conf", "contents": "[Service]\nNice=1\n"}]});
    apply(root, &config("two", units(&[own("RequiredBy=two.target"), dropped])));
    assert_eq!(target(root, &format!("{UNITS}/one.target.wants/a.service")), None, "the old link goes with the old text");
    assert!(target(root, &format!("{UNITS}/two.target.requires/a.service")).is_some());
    assert_eq!(target(root, &format!("{UNITS}/multi-user.target.wants/system.service")), None);
    assert_eq!(target(root, &format!("{UNITS}/other.service")), None);
    assert_eq!(read(root, &format!("{UNITS}/system.service.d/10.conf")).as_deref(), Some("[Service]\nNice=1\n"));

    apply(root, &config("three", units(&[json!({"name": "a.service", "mask": true}), json!({"name": "system.service", "mask": true})])));
    for unit in ["a.service", "system.service"] {
        assert_eq!(target(root, &format!("{UNITS}/{unit}")).as_deref(), Some("/dev/null"), "{unit}");
    }
    assert_eq!(target(root, &format!("{UNITS}/two.target.requires/a.service")), None);
    assert_eq!(read(root, &format!("{UNITS}/system.service.d/10.conf")), None);
    apply(root, &config("four", units(&[json!({"name": "system.service", "mask": false})])));
    for unit in ["a.service", "system.service"] {
        assert!(std::fs::symlink_metadata(at(root, &format!("{UNITS}/{unit}"))).is_err(), "{unit}");
    }
}

/// MACH-NODE-11: `systemctl --root` sees the same, where there is one.
#[test]
fn systemctl_agrees() {
    if !Command::new("systemctl").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return;
    }
    let folder = folder();
    let root = folder.path();
    write(root, "/usr/lib/systemd/system/system.service", 0o644, "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n");
    write(root, "/usr/lib/systemd/system/on.service", 0o644, "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n");
    write(
        root,
        "/usr/lib/systemd/system/t@.service",
        0o644,
        "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\nDefaultInstance=x\n",
    );
    let service = |install: &str| format!("[Service]\nExecStart=/bin/true\n{install}");
    let all = [
        (json!({"name": "a.service", "enabled": true, "contents": service("[Install]\nWantedBy=multi-user.target\n")}), "enabled"),
        (json!({"name": "b.service", "enabled": false, "contents": service("[Install]\nWantedBy=multi-user.target\n")}), "disabled"),
        (json!({"name": "c.service", "contents": service("")}), "static"),
        (
            json!({"name": "d.service", "enabled": true, "contents": service("[Install]\nRequiredBy=x.target\nAlias=e.service\n")}),
            "enabled",
        ),
        (json!({"name": "m.service", "mask": true}), "masked"),
        (json!({"name": "system.service", "enabled": false}), "disabled"),
        (json!({"name": "on.service", "enabled": true}), "enabled"),
        (json!({"name": "t@7.service", "enabled": true}), "enabled"),
        (
            json!({"name": "s.socket", "enabled": true, "contents": "[Socket]\nListenStream=7\n[Install]\nWantedBy=sockets.target\nAlso=a.service\n"}),
            "enabled",
        ),
    ];
    apply(root, &config("one", units(&all.iter().map(|(unit, _)| unit.clone()).collect::<Vec<_>>())));
    let said = |unit: &str| {
        let output = Command::new("systemctl").arg(format!("--root={}", root.display())).args(["is-enabled", unit]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    for (unit, wanted) in &all {
        let name = unit["name"].as_str().unwrap();
        assert_eq!(said(name), *wanted, "{name}");
    }
    // What systemctl itself would make of the same tree is there already.
    for (unit, _) in all.iter().filter(|(unit, _)| unit["enabled"] == true) {
        let name = unit["name"].as_str().unwrap();
        let output = Command::new("systemctl").arg(format!("--root={}", root.display())).args(["enable", name]).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && !told.contains("Created symlink"), "{name}: {told}");
    }
}
