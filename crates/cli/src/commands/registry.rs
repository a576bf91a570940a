//! `mainstay registry login|logout|serve`: passwords of registries, and a registry for a laptop or a pipeline, to which bundles and catalogs can be
//! pushed.

mod login;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use mainstay_oci::registry::{Access, Options, Registry};
use mainstay_serve::Server;
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::{images, output, private, runtime};
use tokio_util::sync::CancellationToken;

use crate::up;

/// Sub-commands.
#[derive(Debug, Subcommand)]
pub enum Commands {
    /// Keep a registry's password for later commands
    Login(login::Login),
    /// Forget a registry's password
    Logout(login::Logout),
    /// Serve a registry until Ctrl-C
    Serve(Serve),
}

/// Arguments of `registry serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay registry serve                                      on 127.0.0.1:5000, in memory
  mainstay registry serve --data-dir ./images                  keeps what is pushed
  MAINSTAY_REGISTRY_PASSWORD=... mainstay registry serve --listen 0.0.0.0:5000 --user ci

It speaks plain HTTP: clients on other machines must be told that it is insecure. Without --user everybody may read and write, so it
listens on this machine only unless told otherwise.

The line `mainstay: registry ready address=ADDR:PORT` on standard output is for scripts.")]
pub struct Serve {
    /// Where it listens; port 0 is a free port
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:5000")]
    listen: SocketAddr,
    /// Where images are kept; in memory when not given
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Ask for this user name and a password
    #[arg(long, value_name = "NAME", requires = "password")]
    user: Option<String>,
    /// The password that goes with --user
    #[arg(long, env = "MAINSTAY_REGISTRY_PASSWORD", hide_env_values = true, value_name = "PASSWORD", requires = "user")]
    password: Option<String>,
}

/// Runs one of the commands.
pub fn run(command: Commands) -> Result<(), Failure> {
    match command {
        Commands::Login(arguments) => login::login(&arguments),
        Commands::Logout(arguments) => login::logout(&arguments),
        Commands::Serve(arguments) => serve(arguments),
    }
}

fn serve(arguments: Serve) -> Result<(), Failure> {
    if let Some(directory) = &arguments.data_dir {
        private::own_images(directory)?;
    }
    runtime::block_on(async {
        let mut signals = up::Signals::take()?;
        let access = match (arguments.user, arguments.password) {
            (Some(user), Some(password)) => Access::Basic { user, password },
            _ => Access::Open,
        };
        let registry = Registry::new(Options { directory: arguments.data_dir, access, ..Options::default() })
            .map_err(|error| images::failure("registry", &error))?;
        let server = Server::bind(arguments.listen).await.map_err(|error| {
            Failure::of(Exit::Failed, "registry", &error).hint("another address is chosen with --listen ADDR:PORT; port 0 is a free port")
        })?;
        output::line(format!("mainstay: registry ready address={}", server.address()))?;
        let stop = CancellationToken::new();
        let serving = tokio::spawn(server.run(registry.router(), stop.clone()));
        signals.next().await;
        stop.cancel();
        serving.await.map(drop).map_err(|error| Failure::failed("registry", &error))
    })
}
