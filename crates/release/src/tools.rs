//! The programs that images of a release bring for people: which are extracted, under which names, and the places in them that name the release
//! (CVO-RELX-02).
//!
//! ```text
//!   command, system, processors, images of the release ── select ── Selected { tools, missing }
//!   program, Marks { image, version, architectures } ── copy ── program that knows its release
//! ```

mod marks;
mod table;

use std::collections::BTreeSet;

use mainstay_golang::quote;

pub use marks::{Mark, MarkError, Marks, copy};
pub use table::Readme;
use table::{Processors, TOOLS, Tool as Entry};

/// The request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request<'a> {
    /// One command; all of them if none is named.
    pub command: Option<&'a str>,
    /// The system, or the system and the processors: `linux`, `linux/arm64`, `*` for all.
    pub system: Option<&'a str>,
    /// The system and the processors of this machine, as Go names them.
    pub here: (&'a str, &'a str),
    /// The processors that the release is for.
    pub release: &'a str,
    /// The version of the release.
    pub version: &'a str,
    /// The release as it was asked for.
    pub asked: &'a str,
}

/// A program to extract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// The image of the release.
    pub image: &'static str,
    /// The path in the image.
    pub path: &'static str,
    /// The name of the program.
    pub command: &'static str,
    /// The name of the file that is written.
    pub file: String,
    /// It is packed: with a description, and with other names.
    pub archive: Option<Archive>,
    /// The places in it that name the release are filled in.
    pub marks: Marks,
    /// A release without it is as good.
    pub is_optional: bool,
}

/// The packing of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Archive {
    /// A ZIP archive, not a compressed tar archive.
    pub is_zip: bool,
    /// Another name of the program.
    pub link: Option<&'static str>,
    /// The description that lies beside it.
    pub readme: Readme,
}

/// The programs that are extracted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selected {
    /// The programs.
    pub tools: Vec<Tool>,
    /// Images that the release lacks.
    pub missing: BTreeSet<&'static str>,
}

/// Programs that cannot be extracted, in `oc`'s words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// The system has more than two parts.
    #[error("invalid --command-os value")]
    System,
    /// There is no such command.
    #[error("command {} does not exist in targets or does not support the operating system {}", quote(.command), quote(.system))]
    NoCommand {
        /// The command.
        command: String,
        /// The system.
        system: String,
    },
    /// The only image is missing.
    #[error("the image {} containing the desired command is not available", quote(.0))]
    NoImage(String),
    /// Several are.
    #[error("some required images are missing: {0}")]
    NoImages(String),
    /// There is nothing for that system.
    #[error("the command '{command}' is not available for {system} on {release}")]
    NotAvailable {
        /// The command; empty if all were asked for.
        command: String,
        /// The system and the processors.
        system: String,
        /// The release.
        release: String,
    },
    /// An image lacks the program.
    #[error("image did not contain {0}")]
    NoFile(String),
    /// Images lack several.
    #[error("unable to find multiple files: {0}")]
    NoFiles(String),
}

/// Chooses the programs; `has` says which images the release has.
///
/// # Errors
/// Nothing is left to extract.
pub fn select(request: &Request<'_>, has: impl Fn(&str) -> bool) -> Result<Selected, ToolError> {
    let (system, processors) = system(request)?;
    let named = |entry: &&Entry| request.command.map_or(!entry.only_by_name, |command| entry.command == command);
    let entries: Vec<&Entry> = TOOLS.iter().filter(named).collect();
    if let Some(command) = request.command.filter(|_| entries.is_empty()) {
        return Err(ToolError::NoCommand { command: command.to_owned(), system: system.to_owned() });
    }
    let packs = request.command.is_none() || request.system == Some("*");
    let (mut selected, mut of_release) = (Selected::default(), BTreeSet::new());
    for entry in entries.into_iter().filter(|entry| system == "*" || entry.system == system) {
        let fits = match entry.processors {
            Processors::OfRelease => processors == "*" || processors == request.release,
            Processors::One(one) => processors == "*" || processors == one,
        };
        if !fits {
            continue;
        }
        match entry.processors {
            Processors::OfRelease => drop(of_release.insert(entry.command)),
            // The same program, which is named for the release's own processors already.
            Processors::One(one) if entry.system == "linux" && one == request.release && of_release.contains(entry.command) => continue,
            Processors::One(_) => {}
        }
        if !has(entry.image) {
            if !entry.is_newer {
                selected.missing.insert(entry.image);
            }
            continue;
        }
        selected.tools.push(entry.tool(packs, request));
    }
    if selected.tools.is_empty() {
        let missing: Vec<&str> = selected.missing.iter().copied().collect();
        return Err(match missing.as_slice() {
            [] => ToolError::NotAvailable {
                command: request.command.unwrap_or_default().to_owned(),
                system: format!("{system}/{processors}"),
                release: request.asked.to_owned(),
            },
            [one] => ToolError::NoImage((*one).to_owned()),
            several => ToolError::NoImages(several.join(", ")),
        });
    }
    Ok(selected)
}

/// The system and the processors that are asked for.
fn system<'a>(request: &Request<'a>) -> Result<(&'a str, &'a str), ToolError> {
    let (system, processors) = match request.system {
        None | Some("") => request.here,
        Some("*") => ("*", "*"),
        Some(named) => match named.split_once('/') {
            None => (named, "amd64"),
            Some((_, processors)) if processors.contains('/') => return Err(ToolError::System),
            Some(both) => both,
        },
    };
    Ok((if system == "mac" { "darwin" } else { system }, processors))
}

/// The error of programs that were not found in their images.
pub fn not_found(paths: &BTreeSet<&str>) -> Option<ToolError> {
    let paths: Vec<&str> = paths.iter().copied().collect();
    match paths.as_slice() {
        [] => None,
        [one] => Some(ToolError::NoFile((*one).to_owned())),
        several => Some(ToolError::NoFiles(several.join(", "))),
    }
}

impl Entry {
    fn tool(&self, packs: bool, request: &Request<'_>) -> Tool {
        let command = self.name.unwrap_or(self.command);
        let file = if packs { self.archive.replace("%s", request.version) } else { command.to_owned() };
        let archive = Archive { is_zip: self.system == "windows", link: self.link, readme: self.readme };
        Tool {
            image: self.image,
            path: self.path,
            command,
            file,
            archive: packs.then_some(archive),
            marks: self.marks,
            is_optional: self.is_newer || request.command.is_none() && self.path.contains(".rhel"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn files(command: Option<&str>, system: Option<&str>, release: &str) -> Result<Vec<String>, ToolError> {
        let request = Request { command, system, here: ("linux", "amd64"), release, version: "4.19.1", asked: "r.test/release" };
        let selected = select(&request, |image| image != "baremetal-installer")?;
        Ok(selected.tools.iter().map(|tool| format!("{} {}", tool.file, tool.path)).collect())
    }

    /// CVO-RELX-02: one command for this machine or another, all as archives, and each refusal in upstream's words.
    #[test]
    fn selections() {
        assert_eq!(files(Some("oc"), None, "amd64").unwrap(), ["oc usr/bin/oc"]);
        assert_eq!(files(Some("oc"), None, "arm64").unwrap(), ["oc usr/share/openshift/linux_amd64/oc"]);
        assert_eq!(files(Some("oc"), Some("mac/arm64"), "amd64").unwrap(), ["oc usr/share/openshift/mac_arm64/oc"]);
        assert_eq!(files(Some("oc.rhel9"), Some("linux"), "amd64").unwrap(), ["oc usr/share/openshift/linux_amd64/oc.rhel9"]);
        assert_eq!(files(Some("oc"), Some("windows"), "amd64").unwrap(), ["oc usr/share/openshift/windows/oc.exe"]);
        let all = files(None, Some("*"), "amd64").unwrap();
        for file in [
            "openshift-client-linux-4.19.1.tar.gz",
            "openshift-client-windows-4.19.1.zip",
            "openshift-install-mac-arm64-4.19.1.tar.gz",
            "ccoctl-linux-4.19.1.tar.gz",
        ] {
            assert!(all.iter().any(|found| found.starts_with(file)), "{file} {all:?}");
        }
        assert!(
            !all.iter().any(|found| found.contains("baremetal") || found.starts_with("openshift-client-linux-amd64-4.19.1")),
            "{all:?}"
        );
        let linux = files(None, None, "amd64").unwrap();
        assert!(linux.iter().all(|file| !file.contains("mac") && !file.contains("arm64") && !file.contains("windows")), "{linux:?}");
        for (command, system, expected) in [
            ("oc", "a/b/c", "invalid --command-os value"),
            ("odo", "linux", "command \"odo\" does not exist in targets or does not support the operating system \"linux\""),
            ("ccoctl", "darwin", "the command 'ccoctl' is not available for darwin/amd64 on r.test/release"),
            ("openshift-baremetal-install", "linux", "the image \"baremetal-installer\" containing the desired command is not available"),
        ] {
            assert_eq!(files(Some(command), Some(system), "amd64").unwrap_err().to_string(), expected);
        }
        assert_eq!(not_found(&BTreeSet::from(["a", "b"])).unwrap().to_string(), "unable to find multiple files: a, b");
        assert_eq!(not_found(&BTreeSet::new()), None);
    }
}
