//! Metrics of this process from the kernel.

use std::fmt;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// The unit of times in `/proc/self/stat`: a hundredth of a second wherever Linux runs.
const TICKS: f64 = 100.0;

/// The metrics of this process from the kernel. Unavailable ones are missing from the page.
#[derive(Debug)]
pub(super) struct Process {
    pub begun: SystemTime,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut gauge = |name: &str, help: &str, value: f64| {
            ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, ConstGauge::<f64>::TYPE)?)
        };
        let begun = self.begun.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        gauge("process_start_time_seconds", "When the process began, in seconds since 1970", begun)?;
        if let Some(bytes) = memory("VmRSS:") {
            gauge("process_resident_memory_bytes", "Memory that the process has", bytes)?;
        }
        if let Some(bytes) = memory("VmSize:") {
            gauge("process_virtual_memory_bytes", "Addresses that the process has", bytes)?;
        }
        if let Some(most) = most_fds() {
            gauge("process_max_fds", "Files that may be open at a time", most)?;
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            gauge("process_open_fds", "Open files", open.count() as f64)?;
        }
        if let Some(seconds) = processor() {
            let help = "Time on processors, in seconds";
            ConstCounter::new(seconds).encode(encoder.encode_descriptor(
                "process_cpu_seconds",
                help,
                None,
                ConstCounter::<f64>::TYPE,
            )?)?;
        }
        Ok(())
    }
}

fn most_fds() -> Option<f64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    // An unlimited value has no number.
    line.split_whitespace().next()?.parse().ok()
}

fn memory(which: &str) -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(which))?;
    Some(line.split_whitespace().next()?.parse::<f64>().ok()? * 1024.0)
}

fn processor() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the name in parentheses, which may contain any characters.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS)
}
