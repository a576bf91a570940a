//! Where the programs lie in the images of OpenShift's releases, and the names of their archives.

use super::marks::Marks;

const NONE: Marks = Marks { image: false, version: false, architecture: false };
const VERSION: Marks = Marks { image: false, version: true, architecture: false };
const ALL: Marks = Marks { image: true, version: true, architecture: true };

/// The processors that a program is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Processors {
    /// Those of the release.
    OfRelease,
    /// These, whatever the release is for.
    One(&'static str),
}

/// The description beside a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readme {
    /// Of `oc` and `kubectl`.
    Client,
    /// Of `oc.exe`.
    WindowsClient,
    /// Of the installer.
    Installer,
    /// Of `ccoctl`.
    Credentials,
}

/// A program in an image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tool {
    /// The system, as Go names it.
    pub system: &'static str,
    pub processors: Processors,
    /// The name that it is asked for by.
    pub command: &'static str,
    pub image: &'static str,
    pub path: &'static str,
    /// The name of its archive; `%s` is the version.
    pub archive: &'static str,
    pub readme: Readme,
    pub marks: Marks,
    /// Another name in the archive.
    pub link: Option<&'static str>,
    /// The name of the file, where it differs from the command.
    pub name: Option<&'static str>,
    /// Older releases do not have it.
    pub is_newer: bool,
    /// It is extracted only if it is asked for.
    pub only_by_name: bool,
}

impl Readme {
    /// The text.
    pub fn text(self) -> &'static str {
        match self {
            Self::Client => {
                "# Clients of the release\n\n`oc` works with a cluster of this release; `kubectl` is the same program under the name that \
                 Kubernetes' own client has.\n\nMove both to a folder of your PATH, such as `/usr/local/bin`, and log in:\n\n    oc login URL\n\n`oc help` \
                 lists what there is.\n"
            }
            Self::WindowsClient => {
                "# Client of the release\n\n`oc.exe` works with a cluster of this release. Move it to a folder of your PATH and log in:\n\n    \
                 oc login URL\n\nA copy of it that is named `kubectl.exe` behaves as Kubernetes' own client.\n"
            }
            Self::Installer => {
                "# Installer of the release\n\nThe program in this archive installs a cluster of this release, on a cloud or on machines of your \
                 own. Run it where it lies, or move it to a folder of your PATH.\n"
            }
            Self::Credentials => {
                "# Credentials of the release\n\n`ccoctl` makes the cloud credentials that a cluster of this release needs if the Cloud \
                 Credential Operator is in Manual mode. Run it where it lies, or move it to a folder of your PATH.\n"
            }
        }
    }
}

/// The programs, in the order in which they are looked for.
pub(super) const TOOLS: &[Tool] = &[
    Tool {
        system: "darwin",
        processors: Processors::One("amd64"),
        command: "oc",
        image: "cli-artifacts",
        path: "usr/share/openshift/mac/oc",
        archive: "openshift-client-mac-%s.tar.gz",
        readme: Readme::Client,
        marks: VERSION,
        link: Some("kubectl"),
        name: None,
        is_newer: false,
        only_by_name: false,
    },
    Tool {
        system: "darwin",
        processors: Processors::One("arm64"),
        command: "oc",
        image: "cli-artifacts",
        path: "usr/share/openshift/mac_arm64/oc",
        archive: "openshift-client-mac-arm64-%s.tar.gz",
        readme: Readme::Client,
        marks: VERSION,
        link: Some("kubectl"),
        name: None,
        is_newer: true,
        only_by_name: false,
    },
    Tool {
        system: "linux",
        processors: Processors::OfRelease,
        command: "oc",
        image: "cli",
        path: "usr/bin/oc",
        archive: "openshift-client-linux-%s.tar.gz",
        readme: Readme::Client,
        marks: VERSION,
        link: Some("kubectl"),
        name: None,
        is_newer: false,
        only_by_name: false,
    },
    Tool {
        system: "linux",
        processors: Processors::One("amd64"),
        command: "oc",
        image: "cli-artifacts",
        path: "usr/share/openshift/linux_amd64/oc",
        archive: "openshift-client-linux-amd64-%s.tar.gz",
        readme: Readme::Client,
        marks: VERSION,
        link: Some("kubectl"),
        name: None,
        is_newer: false,
        only_by_name: false,
    },
    Tool {
        system: "linux",
        processors: Processors::One("amd64"),
        command: "oc.rhel9",
        image: "cli-artifacts",
        path: "usr/share/openshift/linux_amd64/oc.rhel9",
        archive: "openshift-client-linux-amd64-rhel9-%s.tar.gz",
        readme: Readme::Client,
        marks: VERSION,
        link: Some("kubectl"),
        name: Some("oc"),
        is_newer: false,
        only_by_name: false,
    },
    Tool {
        system: "linux",
        processors: Processors::One("amd64"),
        command: "oc.rhel8",
        image: "cli-artifacts",
        path: "usr/share/openshift/linux_amd64/oc.rhel8",
        archive: "openshift-client-linux-amd64-rhel8-%s.tar.gz",
        readme: Readme::Client,
        marks: VERSION,
        link: Some("kubectl"),
        name: Some("oc"),
        is_newer: false,
        only_by_name: false,
    },
    Tool {
        system: "linux",
        processors: Processors::One("arm64"),
        command: "oc",
        image: "cli-artifacts",
        path: "usr/share/openshift/linux_arm64/oc",
        archive: "openshift-client-linux-arm64-%s.tar.gz",
        readme: Readme::Client,
        marks: VERSION,
        link: Some("kubectl"),
        name: None,
        is_newer: true,
        only_by_name: false,
    },
    Tool {
        system: "linux",
        processors: Processors::One("arm64"),
        command: "oc.rhel9",
        image: "cli-artifacts",
        path: "usr/share/openshift/linux_arm64/oc.rhel9",
        archive: "openshift-client-linux-arm64-rhel9-%s.tar.gz",
        readme: Readme::Client,
        marks: VERSION,
        link: Some("kubectl"),
        name: Some("oc"),
        is_newer: true,
        only_by_name: false,
    },
    Tool {
        system: "linux",
        processors: Processors::One("arm64"),
        command: "oc.rhel8",
        image: "cli-artifacts",
        path: "usr/share/openshift/linux_arm64/oc.rhel8",
        archive: "openshift-client-linux-arm64-rhel8-%s.tar.gz",
        readme: Readme::Client,
        marks: VERSION,
        link: Some("kubectl"),
        name: Some("oc"),
        is_newer: true,
        only_by_name: false,
    },
    Tool {
        system: "linux",
        processors: Processors::One("ppc64le"),
        command: "oc",
        image: "cli-artifacts",
        path: "usr/share/openshift/linux_ppc64le/oc",
        archive: "openshift-client-linux-ppc64le-%s.tar.gz",
        readme: Readme::Client,
        marks: VERSION,
        link: Some("kubectl"),
        name: None,
        is_newer: true,
        only_by_name: false,
    },
    Tool {
        system: "linux",
        processors: Processors::One("ppc64le"),
        command: "oc.rhel9",
        image: "cli-artifacts",
        path: "usr/share/openshift/linux_ppc64le/oc.rhel9",
        archive: "openshift-client-linux-ppc64le-rhel9-%s.tar.gz",
        readme: Readme::Client,
        marks: VERSION,
        link: Some("kubectl"),
        name: Some("oc"),
        is_newer: true,
        only_by_name: false,
    },
    Tool {
        system: "linux",
        processors: Processors::One("ppc64le"),
        command: "oc.rhel8",
        image: "cli-artifacts",
        path: "usr/share/openshift/linux_ppc64le/oc.rhel8",
        archive: "openshift-client-linux-ppc64le-rhel8-%s.tar.gz",
        readme: Readme::Client,
        marks: VERSION,
        link: Some("kubectl"),
        name: Some("oc"),
        is_newer: true,
        only_by_name: false,
    },
    Tool {
        system: "linux",
        processors: Processors::One("s390x"),
        command: "oc.rhel9",
        image: "cli-artifacts",
        path: "usr/share/openshift/linux_s390x/oc.rhel9",
        archive: "openshift-client-linux-s390x-rhel9-%s.tar.gz",
        readme: Readme::Client,
        marks: VERSION,
        link: Some("kubectl"),
        name: Some("oc"),
        is_newer: true,
        only_by_name: false,
    },
    Tool {
        system: "linux",
        processors: Processors::One("s390x"),
        command: "oc.rhel8",
        image: "cli-artifacts",
        path: "usr/share/openshift/linux_s390x/oc.rhel8",
        archive: "openshift-client-linux-s390x-rhel8-%s.tar.gz",
        readme: Readme::Client,
        marks: VERSION,
        link: Some("kubectl"),
        name: Some("oc"),
        is_newer: true,
        only_by_name: false,
    },
    Tool {
        system: "windows",
        processors: Processors::One("amd64"),
        command: "oc",
        image: "cli-artifacts",
        path: "usr/share/openshift/windows/oc.exe",
        archive: "openshift-client-windows-%s.zip",
        readme: Readme::WindowsClient,
        marks: VERSION,
        link: None,
        name: None,
        is_newer: false,
        only_by_name: false,
    },
    Tool {
        system: "darwin",
        processors: Processors::One("amd64"),
        command: "openshift-install",
        image: "installer-artifacts",
        path: "usr/share/openshift/mac/openshift-install",
        archive: "openshift-install-mac-%s.tar.gz",
        readme: Readme::Installer,
        marks: ALL,
        link: None,
        name: None,
        is_newer: false,
        only_by_name: false,
    },
    Tool {
        system: "darwin",
        processors: Processors::One("arm64"),
        command: "openshift-install",
        image: "installer-artifacts",
        path: "usr/share/openshift/mac_arm64/openshift-install",
        archive: "openshift-install-mac-arm64-%s.tar.gz",
        readme: Readme::Installer,
        marks: ALL,
        link: None,
        name: None,
        is_newer: true,
        only_by_name: false,
    },
    Tool {
        system: "linux",
        processors: Processors::OfRelease,
        command: "openshift-install",
        image: "installer",
        path: "usr/bin/openshift-install",
        archive: "openshift-install-linux-%s.tar.gz",
        readme: Readme::Installer,
        marks: ALL,
        link: None,
        name: None,
        is_newer: false,
        only_by_name: false,
    },
    Tool {
        system: "linux",
        processors: Processors::One("amd64"),
        command: "openshift-install",
        image: "installer-artifacts",
        path: "usr/share/openshift/linux_amd64/openshift-install",
        archive: "openshift-install-linux-amd64-%s.tar.gz",
        readme: Readme::Installer,
        marks: ALL,
        link: None,
        name: None,
        is_newer: true,
        only_by_name: false,
    },
    Tool {
        system: "linux",
        processors: Processors::One("arm64"),
        command: "openshift-install",
        image: "installer-artifacts",
        path: "usr/share/openshift/linux_arm64/openshift-install",
        archive: "openshift-install-linux-arm64-%s.tar.gz",
        readme: Readme::Installer,
        marks: ALL,
        link: None,
        name: None,
        is_newer: true,
        only_by_name: false,
    },
    Tool {
        system: "linux",
        processors: Processors::OfRelease,
        command: "openshift-baremetal-install",
        image: "baremetal-installer",
        path: "usr/bin/openshift-install",
        archive: "openshift-baremetal-install-linux-%s.tar.gz",
        readme: Readme::Installer,
        marks: ALL,
        link: None,
        name: None,
        is_newer: false,
        only_by_name: true,
    },
    Tool {
        system: "linux",
        processors: Processors::OfRelease,
        command: "openshift-install-fips",
        image: "baremetal-installer",
        path: "usr/bin/openshift-install",
        archive: "openshift-install-rhel-%s.tar.gz",
        readme: Readme::Installer,
        marks: ALL,
        link: None,
        name: None,
        is_newer: false,
        only_by_name: true,
    },
    Tool {
        system: "linux",
        processors: Processors::OfRelease,
        command: "ccoctl",
        image: "cloud-credential-operator",
        path: "usr/bin/ccoctl",
        archive: "ccoctl-linux-%s.tar.gz",
        readme: Readme::Credentials,
        marks: NONE,
        link: None,
        name: None,
        is_newer: true,
        only_by_name: false,
    },
    Tool {
        system: "linux",
        processors: Processors::OfRelease,
        command: "ccoctl.rhel8",
        image: "cloud-credential-operator",
        path: "usr/bin/ccoctl.rhel8",
        archive: "ccoctl-linux-rhel8-%s.tar.gz",
        readme: Readme::Credentials,
        marks: NONE,
        link: None,
        name: Some("ccoctl"),
        is_newer: true,
        only_by_name: false,
    },
    Tool {
        system: "linux",
        processors: Processors::OfRelease,
        command: "ccoctl.rhel9",
        image: "cloud-credential-operator",
        path: "usr/bin/ccoctl.rhel9",
        archive: "ccoctl-linux-rhel9-%s.tar.gz",
        readme: Readme::Credentials,
        marks: NONE,
        link: None,
        name: Some("ccoctl"),
        is_newer: true,
        only_by_name: false,
    },
];
