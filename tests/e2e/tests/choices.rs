//! What `mainstay install` decides where nobody said it: the channel, the namespace that is watched, and what else is installed.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use mainstay_e2e::bundles::{Toy, publish, until_installed, until_serving};
use mainstay_e2e::{Cluster, Registry, need_kubectl};
use serde_json::{Value, json};

/// A bundle in these channels, of which the first is the default, that supports these install modes.
fn toy(package: &'static str, version: &'static str, channels: &str, modes: &[&str]) -> Toy {
    let mut toy = Toy::new(package, version);
    let mut csv = toy.csv();
    let mode = |name: &str| json!({"type": name, "supported": modes.contains(&name)});
    csv["spec"]["installModes"] = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"].map(mode).to_vec().into();
    toy.more.push(("manifests/csv.yaml".to_owned(), csv));
    toy.more.push((
        "metadata/annotations.yaml".to_owned(),
        json!({"annotations": {
            "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
            "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
            "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
            "operators.operatorframework.io.bundle.package.v1": package,
            "operators.operatorframework.io.bundle.channels.v1": channels,
            "operators.operatorframework.io.bundle.channel.default.v1": "stable",
        }}),
    ));
    toy
}

fn channels(cluster: &Cluster, name: &str) -> Value {
    cluster.get(&["clusterextension", name]).unwrap()["spec"]["source"]["catalog"]["channels"].clone()
}

/// MS-CLI-05, OLM1-INST-02, OLM1-INST-11, MS-POL-01: install follows the default channel, installs in the mode that a bundle supports, and brings
/// what it needs; the plan says each, and a dry run changes nothing.
#[test]
fn what_install_decides() {
    let Some(()) = need_kubectl() else { return };
    let cluster = Cluster::up(&[]);
    let registry = Registry::ours();
    let bundles = cluster.folder().join("bundles");
    toy("gadget", "1.0.0", "stable,candidate", &["AllNamespaces"]).write(&bundles);
    toy("gadget", "1.1.0", "candidate", &["AllNamespaces"]).write(&bundles);
    toy("homely", "1.0.0", "stable", &["OwnNamespace", "SingleNamespace"]).write(&bundles);
    toy("single", "1.0.0", "stable", &["SingleNamespace"]).write(&bundles);
    let mut harbour = toy("harbour", "1.0.0", "stable", &["AllNamespaces"]);
    let needs = json!({"dependencies": [{"type": "olm.package", "value": {"packageName": "cellar", "version": ">=1.0.0"}}]});
    harbour.more.push(("metadata/dependencies.yaml".to_owned(), needs));
    harbour.write(&bundles);
    toy("cellar", "1.0.0", "stable", &["OwnNamespace"]).write(&bundles);
    let reference = publish(&registry, &bundles, cluster.folder(), "latest");
    cluster.mainstay(&["catalog", "add", "team", "--ref", &reference, "--timeout", "2m"]).ok();
    until_serving(&cluster, "team");

    let dry = cluster.mainstay(&["install", "gadget", "--dry-run"]).exits(0);
    assert!(dry.contains("follows channel stable, the default of package gadget; gadget.v1.1.0 is the newest of all channels"), "{dry}");
    assert!(cluster.get(&["clusterextension", "gadget"]).is_none() && cluster.get(&["namespace", "gadget-system"]).is_none());
    cluster.mainstay(&["install", "gadget", "--yes", "--timeout", "1m30s"]).ok();
    until_installed(&cluster, "gadget", "1.0.0");
    assert_eq!(channels(&cluster, "gadget"), json!(["stable"]));
    // A version that the default channel does not have needs none.
    let newer = cluster.mainstay(&["install", "gadget", "--name", "other", "--version", "1.1.0", "--dry-run"]);
    assert!(
        format!("{}{}", newer.stdout, newer.stderr).contains("the default channel stable of package gadget has nothing that fits"),
        "{newer:?}"
    );
    let wanted = cluster.mainstay(&["upgrade", "gadget", "--channel", "candidate", "--dry-run"]).exits(0);
    assert!(wanted.contains("upgrade gadget.v1.0.0 to gadget.v1.1.0"), "{wanted}");
    until_installed(&cluster, "gadget", "1.0.0");

    let own = cluster.mainstay(&["install", "homely", "--yes"]).exits(0);
    assert!(own.contains("homely watches namespace homely-system, its own: homely.v1.0.0 does not support to watch all"), "{own}");
    let single = cluster.mainstay(&["install", "single", "--yes"]).exits(0);
    assert!(single.contains("single watches namespace default alone"), "{single}");
    for (name, watched) in [("homely", "homely-system"), ("single", "default")] {
        let live = until_installed(&cluster, name, "1.0.0");
        assert_eq!(live["metadata"]["annotations"]["olm.operatorframework.io/watch-namespace"], watched);
    }

    let refused = cluster.mainstay(&["install", "harbour", "--yes"]).exits(4);
    assert!(refused.contains("--with-dependencies"), "{refused}");
    let along = cluster.mainstay(&["install", "harbour", "--with-dependencies", "--yes"]).exits(0);
    assert!(along.contains("cellar 1.0.0 is installed in addition"), "{along}");
    until_installed(&cluster, "cellar", "1.0.0");
    until_installed(&cluster, "harbour", "1.0.0");

    // Names, labels, and the cluster's flags before the command.
    cluster.kubectl(&["label", "clusterextension", "gadget", "team=sea"]).ok();
    let one = cluster.mainstay(&["list", "gadget", "-o", "name"]).ok();
    assert_eq!(one, "clusterextension.olm.operatorframework.io/gadget\n");
    assert_eq!(cluster.mainstay(&["list", "-l", "team=sea", "-o", "name"]).ok(), one);
    cluster.mainstay(&["list", "nothing"]).exits(3);
    let kubeconfig = cluster.kubeconfig().to_string_lossy().into_owned();
    assert_eq!(cluster.mainstay(&["--kubeconfig", &kubeconfig, "list", "gadget", "-o", "name"]).ok(), one);
    let fits = cluster.mainstay(&["__complete", "--", "uninstall", "ga"]).ok();
    assert_eq!(fits, "gadget\n");
    let packages = cluster.mainstay(&["__complete", "--", "install", "h"]).ok();
    assert_eq!(packages, "harbour\nhomely\n");

    let shared = cluster.mainstay(&["uninstall", "single", "--delete-namespace", "--yes"]).exits(0);
    assert!(shared.contains("single uninstalled"), "{shared}");
    cluster.until_gone(&["namespace", "single-system"]);
    let refused = cluster.mainstay(&["install", "single", "--namespace", "default", "--yes"]);
    assert_eq!(refused.code, Some(4), "{refused:?}");
}
