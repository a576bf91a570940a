//! What must hold for any bytes that a client may send.
//!
//! A target is a function of bytes that panics when something does not hold. The ones here are run twice: by `tests/smoke.rs`, bounded,
//! with every test run; and by libFuzzer for as long as one likes (`make fuzz`, folder `fuzz`).
#![allow(clippy::panic, reason = "a panic is how a target says that it found something")]

mod bodies;
mod bundle_folders;
mod bundles;
mod catalogs;
mod choices;
mod classic;
mod connections;
mod credentials;
mod curators;
mod databases;
mod drawings;
mod expressions;
mod http2_frames;
mod ignition_configs;
mod image_entries;
mod images;
mod indexes;
mod patches;
mod requests;
mod templates;

/// One reader of outside input.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, and that of its fuzz target.
    pub name: &'static str,
    /// Panics when something does not hold for these bytes.
    pub run: fn(&[u8]),
    /// What it usually gets: where mutation begins.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "json_bodies", run: bodies::json, seeds: bodies::json_seeds },
    Target { name: "yaml_bodies", run: bodies::yaml, seeds: bodies::yaml_seeds },
    Target { name: "protobuf_bodies", run: bodies::protobuf, seeds: bodies::protobuf_seeds },
    Target { name: "names", run: bodies::names, seeds: bodies::name_seeds },
    Target { name: "patches", run: patches::patches, seeds: patches::patch_seeds },
    Target { name: "applies", run: patches::applies, seeds: patches::apply_seeds },
    Target { name: "selectors", run: requests::selectors, seeds: requests::selector_seeds },
    Target { name: "urls", run: requests::urls, seeds: requests::url_seeds },
    Target { name: "http2_frames", run: http2_frames::frames, seeds: http2_frames::frame_seeds },
    Target { name: "connections", run: connections::connections, seeds: connections::connection_seeds },
    Target { name: "columns", run: expressions::columns, seeds: expressions::column_seeds },
    Target { name: "cel", run: expressions::cel, seeds: expressions::cel_seeds },
    Target { name: "variables", run: expressions::variables, seeds: expressions::variable_seeds },
    Target { name: "tokens", run: credentials::tokens, seeds: credentials::token_seeds },
    Target { name: "certificates", run: credentials::certificates, seeds: credentials::certificate_seeds },
    Target { name: "catalog_json", run: catalogs::files, seeds: catalogs::json_seeds },
    Target { name: "catalog_yaml", run: catalogs::files, seeds: catalogs::yaml_seeds },
    Target { name: "templates", run: templates::templates, seeds: templates::seeds },
    Target { name: "index_ignore", run: catalogs::ignores, seeds: catalogs::ignore_seeds },
    Target { name: "catalog_indexes", run: indexes::indexes, seeds: indexes::index_seeds },
    Target { name: "version_ranges", run: catalogs::ranges, seeds: catalogs::range_seeds },
    Target { name: "selections", run: curators::selections, seeds: curators::selection_seeds },
    Target { name: "catalog_looks", run: curators::looks, seeds: curators::look_seeds },
    Target { name: "bundles", run: bundles::bundles, seeds: bundles::bundle_seeds },
    Target { name: "bundle_annotations", run: bundles::annotations, seeds: bundles::annotation_seeds },
    Target { name: "bundle_folders", run: bundle_folders::folders, seeds: bundle_folders::folder_seeds },
    Target { name: "classic_worlds", run: classic::worlds, seeds: classic::world_seeds },
    Target { name: "classic_properties", run: classic::annotations, seeds: classic::annotation_seeds },
    Target { name: "classic_bundles", run: classic::files, seeds: classic::file_seeds },
    Target { name: "update_graphs", run: drawings::graphs, seeds: drawings::graph_seeds },
    Target { name: "databases", run: databases::databases, seeds: databases::database_seeds },
    Target { name: "image_entries", run: image_entries::images, seeds: image_entries::seeds },
    Target { name: "image_layers", run: images::layers, seeds: images::layer_seeds },
    Target { name: "image_manifests", run: images::manifests, seeds: images::manifest_seeds },
    Target { name: "registries_conf", run: images::registries, seeds: images::registry_seeds },
    Target { name: "ignition_configs", run: ignition_configs::configs, seeds: ignition_configs::seeds },
    Target { name: "butane_configs", run: ignition_configs::butane_configs, seeds: ignition_configs::butane_seeds },
    Target { name: "auth_files", run: images::auth_files, seeds: images::auth_seeds },
    Target { name: "image_builds", run: images::builds, seeds: images::build_seeds },
];

/// Runs the target of this name; the entry of the fuzz targets.
pub fn run(name: &str, data: &[u8]) {
    match TARGETS.iter().find(|target| target.name == name) {
        Some(target) => (target.run)(data),
        None => panic!("no target is called {name}"),
    }
}

/// Two inputs in one: before the first line that is `--`, and after it.
fn halves(data: &[u8]) -> Option<(&[u8], &[u8])> {
    const BETWEEN: &[u8] = b"\n--\n";
    let at = data.windows(BETWEEN.len()).position(|window| window == BETWEEN)?;
    Some((&data[..at], &data[at + BETWEEN.len()..]))
}
