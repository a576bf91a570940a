//! Measures loading, indexing, opening and querying a catalog: `index_bench <catalog.json> [copies]`.
//!
//! With copies, the packages are multiplied under other names, so that a large catalog can be made from a small one.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufWriter, Write};
use std::time::Instant;

use mainstay_catalog::{Index, Limits, MemorySource, MetaQuery, store};

fn main() {
    let mut args = std::env::args().skip(1);
    let path = args.next().expect("usage: index_bench <catalog.json> [copies]");
    let copies: usize = args.next().map_or(1, |n| n.parse().expect("copies is a number"));
    let mut content = Vec::new();
    {
        let text = std::fs::read_to_string(&path).expect("the catalog can be read");
        for copy in 0..copies {
            for line in text.lines() {
                // Renames packages only, which is enough to keep the copies apart.
                let renamed = if copy == 0 {
                    line.to_owned()
                } else {
                    let of = |line: String, key: &str| line.replacen(&format!("\"{key}\":\""), &format!("\"{key}\":\"copy{copy}-"), 1);
                    if line.contains("\"schema\":\"olm.package\"") { of(line.to_owned(), "name") } else { of(line.to_owned(), "package") }
                };
                content.extend_from_slice(renamed.as_bytes());
                content.push(b'\n');
            }
        }
    }
    println!("content: {} MB", content.len() / 1_000_000);
    let source = MemorySource::of("catalog.json", content);
    let target = std::env::temp_dir().join(format!("index-bench-{}.jsonl", std::process::id()));
    let mut lines = BufWriter::new(std::fs::File::create(&target).unwrap());
    let start = Instant::now();
    let bytes = store(&source, &Limits::default(), &mut lines).unwrap();
    lines.flush().unwrap();
    println!("load, store and index: {:?}, index {} KB", start.elapsed(), bytes.len() / 1000);
    let length = lines.get_ref().metadata().unwrap().len();
    std::fs::remove_file(&target).unwrap();
    let start = Instant::now();
    let index = Index::open(bytes, length).unwrap();
    println!("open: {:?}, {} packages, {} bundles", start.elapsed(), index.packages().len(), index.bundle_count());
    let start = Instant::now();
    let found = index.search("operator monitoring").len();
    println!("search: {:?}, {found} found", start.elapsed());
    let start = Instant::now();
    let query = MetaQuery { schema: Some("olm.bundle".into()), package: Some("keda".into()), name: None };
    println!("metas: {} found in {:?}", index.metas(&query).count(), start.elapsed());
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        for line in status.lines().filter(|line| line.starts_with("VmHWM")) {
            println!("peak memory, source in memory included: {}", line.trim_start_matches("VmHWM:").trim());
        }
    }
}
