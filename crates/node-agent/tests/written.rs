//! The content of a tree after a config was written.

use serde_json::json;

use crate::support::{apply, at, config, everything, file, files, folder, mode, read, take, write};

/// MACH-NODE-09, MACH-NODE-10: files come with content and mode; what was there before comes back when a config no longer has it, and what was
/// not goes; a second time nothing is written.
#[test]
fn files_come_and_go() {
    let folder = folder();
    let root = folder.path();
    write(root, "/etc/chrony.conf", 0o640, "of the system");
    let before = everything(root);
    let one =
        config("one", files(&[file("/etc/chrony.conf", 0o600, "ours"), file("/etc/new/deep", 0o755, "x"), file("/opt/plain", 0o644, "")]));
    assert!(apply(root, &one) > 3);
    assert_eq!((read(root, "/etc/chrony.conf").as_deref(), mode(root, "/etc/chrony.conf")), (Some("ours"), 0o600));
    assert_eq!((read(root, "/etc/new/deep").as_deref(), mode(root, "/etc/new/deep")), (Some("x"), 0o755));
    assert_eq!((read(root, "/opt/plain").as_deref(), mode(root, "/etc/new")), (Some(""), 0o755));
    let own = "/etc/machine-config-daemon";
    assert_eq!(read(root, &format!("{own}/orig/etc/chrony.conf.mcdorig")).as_deref(), Some("of the system"));
    assert_eq!(read(root, &format!("{own}/noorig/etc/new/deep.mcdnoorig")).as_deref(), Some(""));
    assert!(read(root, &format!("{own}/currentconfig")).unwrap().contains("\"one\""));
    assert_eq!(apply(root, &one), 0, "it is there already");

    // The original is kept over later versions, not the first one of ours.
    let two = config("two", files(&[file("/etc/chrony.conf", 0o600, "newer")]));
    apply(root, &two);
    assert_eq!(read(root, "/etc/new/deep"), None);
    assert_eq!(read(root, &format!("{own}/orig/etc/chrony.conf.mcdorig")).as_deref(), Some("of the system"));
    apply(root, &config("three", json!({})));
    assert_eq!((read(root, "/etc/chrony.conf").as_deref(), mode(root, "/etc/chrony.conf")), (Some("of the system"), 0o640));
    let after = everything(root);
    let left: Vec<&String> = after.keys().filter(|path| !before.contains_key(*path) && !path.starts_with(own)).collect();
    assert!(left.iter().all(|path| after[*path].starts_with("folder")), "{left:?}");
    assert!(!after.keys().any(|path| path.contains(".mcd") || path.contains(".mainstay")), "{after:?}");
}

/// MACH-NODE-10: a link at the end of a path is replaced and comes back; one on the way is followed below the root alone.
#[test]
fn links_stay_below_the_root() {
    let (folder, outside) = (folder(), folder());
    let root = folder.path();
    write(outside.path(), "/secret", 0o600, "untouched");
    std::fs::create_dir_all(root.join("etc")).unwrap();
    std::os::unix::fs::symlink("/run/resolv.conf", at(root, "/etc/resolv.conf")).unwrap();
    std::os::unix::fs::symlink(outside.path(), at(root, "/etc/absolute")).unwrap();
    std::os::unix::fs::symlink("../../../../../../../../../../var/lib", at(root, "/etc/relative")).unwrap();
    std::fs::create_dir_all(root.join("var/lib")).unwrap();
    apply(root, &config("one", files(&[file("/etc/resolv.conf", 0o644, "ours"), file("/etc/relative/a", 0o644, "a")])));
    assert!(std::fs::symlink_metadata(at(root, "/etc/resolv.conf")).unwrap().is_file());
    assert_eq!(read(root, "/var/lib/a").as_deref(), Some("a"), "dots end at the root");
    apply(root, &config("two", json!({})));
    assert_eq!(std::fs::read_link(at(root, "/etc/resolv.conf")).unwrap().to_str(), Some("/run/resolv.conf"));
    // The absolute link leads to a folder of that path below the root, which is not there.
    let tree = take(root);
    let change = tree.plan(&config("three", files(&[file("/etc/absolute/secret", 0o644, "overwritten")]))).unwrap();
    assert!(tree.write(&change, None).is_err());
    assert_eq!(read(outside.path(), "/secret").as_deref(), Some("untouched"));
    assert_eq!(everything(outside.path()).len(), 1);
}

/// MACH-NODE-10: keys and password of user core; a tree that has users and not this one is left alone.
#[test]
fn keys_and_passwords() {
    let user = json!({"passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["one", "two"], "passwordHash": "$6$new"}]}});
    let keys = "/home/core/.ssh/authorized_keys.d/ignition";
    let bare = folder();
    apply(bare.path(), &config("one", user.clone()));
    assert_eq!((read(bare.path(), keys).as_deref(), mode(bare.path(), keys)), (Some("one\ntwo\n"), 0o600));
    assert_eq!(mode(bare.path(), "/home/core/.ssh"), 0o700);
    apply(bare.path(), &config("two", json!({})));
    assert_eq!(read(bare.path(), keys).as_deref(), Some(""), "no key is left");

    let me = std::fs::metadata(bare.path()).unwrap();
    let (uid, gid) = (std::os::unix::fs::MetadataExt::uid(&me), std::os::unix::fs::MetadataExt::gid(&me));
    let users = folder();
    write(users.path(), "/etc/passwd", 0o644, &format!("root:x:0:0::/root:/bin/sh\ncore:x:{uid}:{gid}::/home/core:/bin/sh\n"));
    write(users.path(), "/etc/shadow", 0o600, "root:*:1::\ncore:!:1::\n");
    write(users.path(), "/etc/os-release", 0o644, "ID=fedora\nVARIANT_ID=coreos\n");
    write(users.path(), "/home/core/.ssh/authorized_keys", 0o600, "stranger");
    write(users.path(), "/home/core/.ssh/authorized_keys.d/other", 0o600, "stranger");
    apply(users.path(), &config("one", user.clone()));
    assert_eq!(read(users.path(), "/etc/shadow").as_deref(), Some("root:*:1::\ncore:$6$new:1::\n"));
    assert_eq!(mode(users.path(), "/etc/shadow"), 0o600);
    assert_eq!(read(users.path(), keys).as_deref(), Some("one\ntwo\n"));
    assert_eq!(read(users.path(), "/home/core/.ssh/authorized_keys"), None);
    assert_eq!(read(users.path(), "/home/core/.ssh/authorized_keys.d/other"), None);

    let strangers = folder();
    write(strangers.path(), "/etc/passwd", 0o644, "root:x:0:0::/root:/bin/sh\n");
    apply(strangers.path(), &config("one", user));
    assert_eq!(read(strangers.path(), keys), None);
}

/// MACH-NODE-12: below a root that is no host's, changes of the operating system are recorded.
#[test]
fn the_operating_system_is_recorded() {
    let folder = folder();
    let mut one = config("one", json!({}));
    one.spec.os_image_url = "registry.example/os:1".to_owned();
    one.spec.kernel_arguments = vec!["quiet".to_owned()];
    apply(folder.path(), &one);
    let recorded = read(folder.path(), "/etc/machine-config-daemon/recorded.json").unwrap();
    assert!(recorded.contains("registry.example/os:1") && recorded.contains("quiet"), "{recorded}");
}
