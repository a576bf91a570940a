//! The config server: how many machines a second get their first configuration.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use super::{Bench, Figure, time};

const CONNECTIONS: usize = 16;
const LOAD: Duration = Duration::from_secs(5);
const REQUEST: &str =
    "GET /config/worker HTTP/1.1\r\nhost: localhost\r\naccept: application/vnd.coreos.ignition+json;version=3.4.0\r\n\r\n";

impl Bench {
    /// MACH-MCS-01: server and machines on the same cores.
    pub(super) fn config_server(&mut self) -> anyhow::Result<()> {
        let arguments = ["--components", "controllers,machine-config", "--nodes", "0", "--machine-config-server-plain", "127.0.0.1:0"];
        let cluster = self.cluster(&arguments);
        let log = cluster.log();
        let address = log.split("http://").nth(1).and_then(|rest| rest.split('/').next()).context("no address of the config server")?;
        let begun = Instant::now();
        let size = loop {
            if let Some(size) = Machine::connect(address)?.ask()? {
                break size;
            }
            ensure!(begun.elapsed() < Duration::from_secs(60), "no config is served");
            std::thread::sleep(Duration::from_millis(20));
        };
        let clients: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                let address = address.to_owned();
                std::thread::spawn(move || load(&address))
            })
            .collect();
        let mut took = Vec::new();
        for client in clients {
            match client.join() {
                Ok(all) => took.extend(all?),
                Err(_) => bail!("a client panicked"),
            }
        }
        took.sort_unstable();
        let what = format!("config server, {} KiB a config, {CONNECTIONS} connections", size >> 10);
        let rate = took.len() as f64 / LOAD.as_secs_f64();
        self.add(Figure { what: format!("{what}: answers"), measured: format!("{rate:.0}/s"), budget: "2000/s", holds: rate >= 2_000.0 });
        self.add(time(&format!("{what}: 99 of 100 within"), took[took.len() * 99 / 100], "20 ms", 20));
        Ok(())
    }
}

fn load(address: &str) -> anyhow::Result<Vec<Duration>> {
    let (mut machine, begun, mut took) = (Machine::connect(address)?, Instant::now(), Vec::new());
    while begun.elapsed() < LOAD {
        let asked = Instant::now();
        machine.ask()?.context("the config is no longer served")?;
        took.push(asked.elapsed());
    }
    Ok(took)
}

/// A machine that asks again and again over one connection.
struct Machine(BufReader<TcpStream>);

impl Machine {
    fn connect(address: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::with_capacity(256 << 10, stream)))
    }

    /// The size of the config; none if it is not served yet.
    fn ask(&mut self) -> anyhow::Result<Option<usize>> {
        self.0.get_mut().write_all(REQUEST.as_bytes())?;
        let (mut line, mut length) = (String::new(), 0);
        self.0.read_line(&mut line)?;
        let is_served = line.contains(" 200 ");
        loop {
            line.clear();
            ensure!(self.0.read_line(&mut line)? > 0, "the connection ended");
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        Ok(is_served.then_some(length))
    }
}
