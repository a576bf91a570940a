//! Selection of the cluster that a command talks to (MS-CLI-02). It keeps users from changing production by accident.
//!
//! ```text
//!   --kubeconfig, --context   ─┐
//!   --embedded                 ├─ first that is given ──► the cluster
//!   MAINSTAY_CLUSTER, KUBECONFIG
//!   in a pod                  ─┘
//!   a running embedded cluster │ ~/.kube/config: the one that exists; both: ask
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use mainstay_operations::Session;

use crate::errors::{Exit, Failure, note};
use crate::images::UserRegistries;
use crate::registration::{self, Entry};

/// Which cluster, and as whom.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArgs {
    /// The kubeconfig of the cluster
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// The running embedded cluster; MAINSTAY_CLUSTER=embedded says the same
    #[arg(long, conflicts_with_all = ["kubeconfig", "context"])]
    pub embedded: bool,
    /// Act as this user
    #[arg(long = "as", value_name = "USER")]
    pub act_as: Option<String>,
}

/// The place of the selected cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// A kubeconfig file; `None` means the files of `$KUBECONFIG`.
    Kubeconfig(Option<PathBuf>),
    /// The cluster that this process runs in.
    InCluster,
}

/// The inputs of the selection besides the command line.
#[derive(Clone, Debug, Default)]
struct Surroundings {
    embedded_wanted: bool,
    kubeconfig_variable: bool,
    in_cluster: bool,
    running: Vec<Entry>,
    default_kubeconfig: Option<PathBuf>,
}

impl ClusterArgs {
    /// Finds the cluster and creates a client; no request is sent yet.
    pub async fn open(&self) -> Result<Session, Failure> {
        let registries = Arc::new(UserRegistries);
        Ok(match choose(self, &surroundings()?)? {
            Place::InCluster => Session::in_cluster(registries)?,
            Place::Kubeconfig(file) => {
                Session::of_kubeconfig(file.as_deref(), self.context.as_deref(), self.act_as.as_deref(), registries).await?
            }
        })
    }

    /// Opens a session as [`ClusterArgs::open`] does, for commands that change something: names the cluster first.
    pub async fn open_to_change(&self) -> Result<Session, Failure> {
        let session = self.open().await?;
        note(format!("cluster: {} ({})", session.context, session.server));
        Ok(session)
    }
}

/// Returns the user's own kubeconfig, `~/.kube/config`.
pub fn default_path() -> Option<PathBuf> {
    std::env::home_dir().filter(|home| !home.as_os_str().is_empty()).map(|home| home.join(".kube/config"))
}

fn surroundings() -> Result<Surroundings, Failure> {
    let token = Path::new("/var/run/secrets/kubernetes.io/serviceaccount/token");
    let embedded_wanted = match std::env::var("MAINSTAY_CLUSTER").as_deref() {
        Ok("embedded") => true,
        Ok("") | Err(_) => false,
        Ok(other) => {
            return Err(Failure::new(Exit::Usage, "MAINSTAY_CLUSTER", format!("expected embedded, found {other:?}")));
        }
    };
    Ok(Surroundings {
        embedded_wanted,
        kubeconfig_variable: std::env::var_os("KUBECONFIG").is_some_and(|value| !value.is_empty()),
        in_cluster: std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() && token.exists(),
        running: registration::running()?,
        default_kubeconfig: default_path().filter(|path| path.exists()),
    })
}

fn choose(arguments: &ClusterArgs, around: &Surroundings) -> Result<Place, Failure> {
    if arguments.kubeconfig.is_some() {
        return Ok(Place::Kubeconfig(arguments.kubeconfig.clone()));
    }
    if arguments.context.is_some() {
        return Ok(Place::Kubeconfig(None));
    }
    if arguments.embedded || around.embedded_wanted {
        return the_embedded(&around.running);
    }
    if around.kubeconfig_variable {
        return Ok(Place::Kubeconfig(None));
    }
    if around.in_cluster {
        return Ok(Place::InCluster);
    }
    match (around.running.as_slice(), &around.default_kubeconfig) {
        ([], None) => Err(Failure::new(Exit::NotFound, "cluster", "not found")
            .because("no embedded cluster is running, and no kubeconfig is there")
            .hint("mainstay up starts one")),
        ([], Some(path)) => Ok(Place::Kubeconfig(Some(path.clone()))),
        (running, None) => the_embedded(running),
        (running, Some(path)) => {
            let failure = Failure::new(Exit::Usage, "cluster", "there is more than one, and none was chosen");
            let failure = running.iter().fold(failure, |failure, entry| failure.because(described(entry)));
            Err(failure
                .because(format!("the kubeconfig {}", path.display()))
                .hint("--embedded, or MAINSTAY_CLUSTER=embedded, chooses the embedded cluster")
                .hint(format!("--kubeconfig {}, or KUBECONFIG, chooses the other", path.display())))
        }
    }
}

fn the_embedded(running: &[Entry]) -> Result<Place, Failure> {
    match running {
        [] => Err(Failure::new(Exit::NotFound, "cluster", "no embedded cluster of yours is running; mainstay up starts one")),
        [one] => Ok(Place::Kubeconfig(Some(one.kubeconfig.clone()))),
        several => {
            let failure = Failure::new(Exit::Usage, "cluster", "several embedded clusters are running, and none was chosen");
            let failure = several.iter().fold(failure, |failure, entry| failure.because(described(entry)));
            Err(failure.hint(format!("--kubeconfig {} chooses one", several[0].kubeconfig.display())))
        }
    }
}

fn described(entry: &Entry) -> String {
    format!("the embedded cluster of process {} at {} ({})", entry.pid, entry.server, entry.data_dir.display())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn entry(pid: u32) -> Entry {
        let at = |name: &str| PathBuf::from(format!("/data/{pid}/{name}"));
        Entry {
            pid,
            server: "https://127.0.0.1:1".into(),
            kubeconfig: at("kubeconfig"),
            data_dir: at(""),
            components: Vec::new(),
            nodes: 0,
        }
    }

    fn file(path: &str) -> Place {
        Place::Kubeconfig(Some(path.into()))
    }

    /// MS-CLI-02: every way to choose a cluster, in order, and what is refused.
    #[test]
    fn selection() {
        let mine = || Some(PathBuf::from("/home/me/.kube/config"));
        let none = Surroundings::default();
        let home = Surroundings { default_kubeconfig: mine(), ..none.clone() };
        let running = Surroundings { running: vec![entry(7)], ..none.clone() };
        let both = Surroundings { default_kubeconfig: mine(), ..running.clone() };
        let variable = Surroundings { kubeconfig_variable: true, ..both.clone() };
        let wanted = Surroundings { embedded_wanted: true, ..variable.clone() };
        let pod = Surroundings { in_cluster: true, ..both.clone() };
        let several = Surroundings { running: vec![entry(7), entry(8)], ..none.clone() };
        let plain = ClusterArgs::default();
        let explicit = ClusterArgs { kubeconfig: Some("/k".into()), ..plain.clone() };
        let context = ClusterArgs { context: Some("prod".into()), ..plain.clone() };
        let embedded = ClusterArgs { embedded: true, ..plain.clone() };

        let exit = |outcome: Result<Place, Failure>| outcome.unwrap_err().exit;
        assert_eq!(choose(&explicit, &wanted).unwrap(), file("/k"));
        assert_eq!(choose(&context, &wanted).unwrap(), Place::Kubeconfig(None));
        assert_eq!(choose(&embedded, &variable).unwrap(), file("/data/7/kubeconfig"));
        assert_eq!(choose(&plain, &wanted).unwrap(), file("/data/7/kubeconfig"));
        assert_eq!(choose(&plain, &variable).unwrap(), Place::Kubeconfig(None));
        assert_eq!(choose(&plain, &pod).unwrap(), Place::InCluster);
        assert_eq!(choose(&plain, &running).unwrap(), file("/data/7/kubeconfig"));
        assert_eq!(choose(&plain, &home).unwrap(), file("/home/me/.kube/config"));
        assert_eq!(exit(choose(&plain, &both)), Exit::Usage);
        assert_eq!(exit(choose(&plain, &several)), Exit::Usage);
        assert_eq!(exit(choose(&embedded, &home)), Exit::NotFound);
        let nothing = choose(&plain, &none).unwrap_err();
        assert_eq!(nothing.exit, Exit::NotFound);
        assert!(nothing.hints()[0].as_str().contains("mainstay up"));
    }
}
