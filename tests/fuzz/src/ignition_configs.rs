//! Ignition configs of every version that is read, and Butane configs.

use mainstay_ignition::butane::{self, NoFiles, Options};
use mainstay_ignition::{parse, v2};

/// Configs are read or refused in words; what is written is read as the same, and merging with nothing changes nothing.
pub(crate) fn configs(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match parse(text) {
        Ok(parsed) => {
            let written = parsed.config.to_json();
            // An older version may allow what the newest one does not.
            if let Ok(again) = parse(&written) {
                assert_eq!(again.config.to_json(), written, "a config changes when it is written and read");
            }
            let nothing = mainstay_ignition::Config::default();
            assert_eq!(parsed.config.merged_with(&nothing).to_json(), written, "nothing changes a config");
        }
        Err(problem) => assert!(!problem.to_string().is_empty()),
    }
    if let Err(problem) = v2::parse(text) {
        assert!(!problem.to_string().is_empty());
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    vec![
        br#"{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/etc/a","mode":420,"contents":{"source":"data:,x%20y"}}],"links":[{"path":"/b","target":"a","hard":true}]}}"#.to_vec(),
        br#"{"ignition":{"version":"3.0.0","config":{"merge":[{"source":"https://x"}]}},"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["k"]}]},"systemd":{"units":[{"name":"a.service","contents":"[Unit]\n","dropins":[{"name":"b.conf"}]}]}}"#.to_vec(),
        br#"{"ignition":{"version":"2.2.0"},"storage":{"files":[{"filesystem":"root","path":"/a","mode":1,"contents":{"source":"data:;base64,YQ=="}}],"disks":[{"device":"/dev/a","partitions":[{"label":"x","number":1,"size":5}]}]}}"#.to_vec(),
    ]
}

/// Butane configs become an Ignition config that can be read, or are refused with a sentence.
pub(crate) fn butane_configs(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for raw in [false, true] {
        let answer = butane::answer(text, Options { raw, ..Options::default() }, &NoFiles);
        assert_eq!(answer.status == 0, !answer.stdout.is_empty());
        assert_eq!(answer.status == 1, answer.stderr.contains("Error translating config: "));
        if raw && answer.status == 0 && answer.stdout.contains("\"version\":\"3.4.0\"") {
            assert!(parse(&answer.stdout).is_ok(), "a config that cannot be read: {}", answer.stdout);
        }
    }
}

pub(crate) fn butane_seeds() -> Vec<Vec<u8>> {
    vec![
        b"variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n    - path: /etc/a\n      mode: 0644\n      contents:\n        inline: hello\n".to_vec(),
        b"variant: openshift\nversion: 4.19.0\nmetadata:\n  name: a\n  labels:\n    machineconfiguration.openshift.io/role: worker\nopenshift:\n  fips: true\nboot_device:\n  luks:\n    tpm2: true\n  mirror:\n    devices: [/dev/sda, /dev/sdb]\n".to_vec(),
        b"variant: fcos\nversion: 1.6.0\nstorage:\n  filesystems:\n    - &f\n      device: /dev/vda\n      path: /var/x\n      format: xfs\n      with_mount_unit: true\ngrub:\n  users:\n    - name: root\n      password_hash: x\n".to_vec(),
    ]
}
