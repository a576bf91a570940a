//! Images that are programs of this machine (`--run-image`), as the API server and the simulated nodes know them (KAPI-WL-07).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures::StreamExt as _;
use mainstay_apiserver::containers::{Containers, Log, LogOptions};
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_workloads::process::log::{Query, Reader};
use mainstay_workloads::process::mapping::RunImage;
use mainstay_workloads::process::{Machine, Settings};

use super::Options;
use super::components::Component;

/// The interval at which a log that is followed is read.
const FOLLOW: Duration = Duration::from_millis(200);

/// Arguments.
#[derive(Clone, Debug, Default, Args)]
#[group(skip)]
#[command(next_help_heading = "Simulated nodes")]
pub struct Arguments {
    /// A program of this machine that stands for an image, * standing for anything; may be repeated
    ///
    /// Containers of the image are real processes: the program takes the place of the image's entry point and of the first word of
    /// `command`, the rest of `command` and `args` follow its own arguments. Volumes lie below $MAINSTAY_ROOT, $KUBECONFIG leads to this
    /// cluster as the pod's service account. Nothing is isolated: a process has this user's files and network.
    #[arg(long = "run-image", value_name = "IMAGE=PROGRAM [ARG...]")]
    images: Vec<RunImage>,
    /// Allow --run-image although the API can be reached from other machines, whose users may then run these programs
    #[arg(long)]
    allow_processes: bool,
}

impl Arguments {
    /// True if images are mapped.
    pub fn any(&self) -> bool {
        !self.images.is_empty()
    }

    /// The mappings in words, for the start-up list.
    pub fn shown(&self) -> String {
        let images: Vec<String> = self.images.iter().map(ToString::to_string).collect();
        format!("{}; nothing is isolated", images.join("; "))
    }

    /// The machine that runs the processes, if images are mapped.
    ///
    /// # Errors
    /// A program is not there, or the API listens where others reach it.
    pub fn machine(&self, options: &Options) -> Result<Option<Machine>, Failure> {
        if self.images.is_empty() {
            return Ok(None);
        }
        let nodes = options.components.has(Component::Nodes);
        if !nodes || options.nodes == 0 {
            let other = if nodes { "--nodes 0" } else { "--components without nodes" };
            return Err(Failure::new(Exit::Usage, "--run-image", format!("cannot be used with {other}"))
                .because("the processes are containers of simulated nodes"));
        }
        if !options.listen.ip().is_loopback() && !self.allow_processes {
            let failure = Failure::new(Exit::Usage, "--run-image", format!("cannot be used with --listen {}", options.listen));
            return Err(failure
                .because("who reaches the API from another machine could run programs on this one")
                .hint("--listen 127.0.0.1:6443, or --allow-processes if everyone who may create pods may do that"));
        }
        let located = self.images.iter().map(|mapping| mapping.clone().located());
        let mappings = located.collect::<Result<Vec<_>, _>>().map_err(|error| Failure::of(Exit::Usage, "--run-image", &error))?;
        let supervisor = std::env::current_exe().map_err(|error| Failure::failed("mainstay", &error))?;
        let directory = options.data_dir.join("pods");
        Ok(Some(Machine::new(Settings { directory, mappings, supervisor })))
    }
}

/// The processes, as the API server asks for them.
pub struct Processes(pub Machine);

impl std::fmt::Debug for Processes {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Processes")
    }
}

impl Containers for Processes {
    fn log(&self, uid: &str, image: &str, options: &LogOptions) -> Log {
        if !self.is_process(image) {
            return Log::Simulated;
        }
        let size = |number: Option<u64>| number.map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        let query = Query {
            since: options.since,
            tail: size(options.tail),
            limit: size(options.limit),
            timestamps: options.timestamps,
            stream: None,
        };
        match self.0.log(uid, &options.container, options.previous, query) {
            None => Log::Missing,
            Some(reader) => Log::Found(read(self.0.clone(), uid.to_owned(), reader, options.clone()).boxed()),
        }
    }

    fn is_process(&self, image: &str) -> bool {
        self.0.program(image).is_some()
    }
}

/// Reads a log to its end, and goes on while its process runs if that is asked for.
fn read(
    machine: Machine,
    uid: String,
    reader: Reader,
    options: LogOptions,
) -> impl futures::Stream<Item = io::Result<bytes::Bytes>> + Send {
    // `None` when all is said.
    let begin = Some((reader, true));
    futures::stream::unfold(begin, move |state| {
        let (machine, uid, options) = (machine.clone(), uid.clone(), options.clone());
        async move {
            let (mut reader, mut first) = state?;
            let follows = options.follow && !options.previous;
            loop {
                // What is written before the end of the process is read after it.
                let over = !follows || machine.running(&uid, &options.container).is_none();
                if !first && follows {
                    tokio::time::sleep(FOLLOW).await;
                }
                let job = tokio::task::spawn_blocking(move || {
                    let part = if first { reader.first() } else { reader.more() };
                    (reader, part)
                });
                let (back, part) = match job.await {
                    Ok(done) => done,
                    Err(error) => return Some((Err(io::Error::other(error)), None)),
                };
                reader = back;
                first = false;
                let part = match part {
                    Ok(part) => part,
                    Err(error) => return Some((Err(error), None)),
                };
                let ends = over || reader.full();
                if !part.is_empty() {
                    return Some((Ok(bytes::Bytes::from(part)), (!ends).then_some((reader, false))));
                }
                if ends {
                    return None;
                }
            }
        }
    })
}

/// Where processes reach the API.
pub fn reached(apis: &super::Apis) -> mainstay_workloads::process::Reached {
    let address = apis.address;
    mainstay_workloads::process::Reached {
        host: address.ip().to_string(),
        port: address.port(),
        ca_pem: apis.server.ca_certificate().as_bytes().to_vec(),
    }
}

/// The processes of a machine, for the API server.
pub fn containers(machine: Option<&Machine>) -> Option<Arc<dyn Containers>> {
    machine.map(|machine| Arc::new(Processes(machine.clone())) as Arc<dyn Containers>)
}
