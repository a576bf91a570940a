//! Modules and their uses: no circle of files leads through several folders, unless it is small enough to be read as one thing.
//!
//! A file uses what its paths name (`use` and inline, from `crate`, `super`, `self` or a child). A name that is re-exported counts for the
//! file that defines it, so that a folder's own file may offer what its children have. Tests are left out.
#![allow(clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

/// The most files of a circle that leads through several folders.
const LARGEST: usize = 5;

/// The path of a module below its crate's root.
type Module = Vec<String>;

/// The modules of one crate.
#[derive(Default)]
struct Modules {
    /// The text of each module, without comments, strings and tests.
    texts: BTreeMap<Module, String>,
    /// Names that a module offers, and the paths that they stand for.
    exports: BTreeMap<Module, Module>,
}

static PATH: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(^|[^\w:])((?:r#)?[a-z_][a-z0-9_]*)::").expect("constant pattern"));
static COMMENT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"//[^\n]*").expect("constant pattern"));
static TEXT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#""(?:[^"\\\n]|\\.)*""#).expect("constant pattern"));
static EXPORT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"pub(\([^)]*\))?\s+use\s+$").expect("constant pattern"));

impl Modules {
    /// Reads the `src` folder of a crate.
    fn read(src: &Path) -> Self {
        let mut modules = Self::default();
        modules.read_folder(src, &[]);
        modules
    }

    fn read_folder(&mut self, folder: &Path, of: &[String]) {
        for entry in fs::read_dir(folder).expect("source folder") {
            let path = entry.expect("source file").path();
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            let own: Module = of.iter().cloned().chain([name.clone()]).collect();
            if path.is_dir() {
                self.read_folder(&path, &own);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !matches!(name.as_str(), "tests" | "testing") {
                let root = matches!(name.as_str(), "lib" | "main") && of.is_empty();
                let module = if name == "mod" || root { of.to_vec() } else { own };
                let text = fs::read_to_string(&path).expect("source file");
                let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                let text = TEXT.replace_all(&COMMENT.replace_all(text, ""), "\"\"").into_owned();
                // A program beside its library is one more file at the root.
                self.texts.entry(module).or_default().push_str(&text);
            }
        }
    }

    /// The files that each file uses.
    fn uses(&mut self) -> BTreeMap<Module, BTreeSet<Module>> {
        let mut named: Vec<(Module, Module)> = Vec::new();
        for (module, text) in &self.texts {
            for found in PATH.captures_iter(text) {
                let (Some(head), Some(whole)) = (found.get(2), found.get(0)) else { continue };
                let Some((base, at)) = self.base(module, head.as_str(), &text[whole.end()..]) else { continue };
                let rest = &text[whole.end() + at..];
                let before = &text[..head.start()];
                let statement = &before[before.rfind([';', '}']).map_or(0, |end| end + 1)..];
                let exported = EXPORT.is_match(statement);
                for (path, name) in tree(rest, &base).0 {
                    match path.last().filter(|_| exported) {
                        Some(last) => {
                            let offered = module.iter().cloned().chain([name.unwrap_or_else(|| last.clone())]).collect();
                            self.exports.insert(offered, path);
                        }
                        None => named.push((module.clone(), path)),
                    }
                }
            }
        }
        let mut uses = BTreeMap::<Module, BTreeSet<Module>>::new();
        for (module, path) in named {
            let used = self.home(&path, 8);
            if used != module {
                uses.entry(module).or_default().insert(used);
            }
        }
        uses
    }

    /// The module that a path begins in, and the length of the text behind its first word that belongs to it; `None` for other crates.
    fn base(&self, module: &[String], head: &str, rest: &str) -> Option<(Module, usize)> {
        match head {
            "crate" => Some((Module::new(), 0)),
            "self" => Some((module.to_vec(), 0)),
            "super" => {
                let more = rest.split("super::").take_while(|between| between.is_empty()).count().min(rest.matches("super::").count());
                Some((module[..module.len().checked_sub(1 + more)?].to_vec(), more * "super::".len()))
            }
            child => {
                let child: Module = module.iter().cloned().chain([child.to_owned()]).collect();
                self.texts.contains_key(&child).then_some((child, 0))
            }
        }
    }

    /// The module that defines what a path names.
    fn home(&self, path: &[String], patience: usize) -> Module {
        for end in 1..=path.len() {
            if let Some(meant) = self.exports.get(&path[..end]).filter(|_| patience > 0 && !self.texts.contains_key(&path[..end])) {
                let whole: Module = meant.iter().chain(&path[end..]).cloned().collect();
                return self.home(&whole, patience - 1);
            }
        }
        (0..=path.len()).rev().map(|end| path[..end].to_vec()).find(|module| self.texts.contains_key(module)).unwrap_or_default()
    }

    /// The folder that a module's file counts as in: its own if it has one.
    fn folder(&self, module: &[String]) -> Module {
        let has_folder = self.texts.keys().any(|other| other.len() > module.len() && other.starts_with(module));
        let end = if has_folder { module.len() } else { module.len().saturating_sub(1) };
        module[..end].to_vec()
    }
}

/// The paths of a use tree, each with its alias, if any; and the text behind the tree.
fn tree<'a>(text: &'a str, base: &[String]) -> (Vec<(Module, Option<String>)>, &'a str) {
    if let Some(mut rest) = text.strip_prefix('{') {
        let mut paths = Vec::new();
        loop {
            rest = rest.trim_start_matches([' ', '\n', ',']);
            if rest.is_empty() {
                return (paths, rest);
            }
            if let Some(behind) = rest.strip_prefix('}') {
                return (paths, behind);
            }
            let (found, behind) = tree(rest, base);
            paths.extend(found);
            rest = behind;
        }
    }
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '*')).unwrap_or(text.len());
    if end == 0 {
        return (vec![(base.to_vec(), None)], text.get(1..).unwrap_or_default());
    }
    let (name, rest) = text.split_at(end);
    let path: Module = base.iter().cloned().chain((!matches!(name, "self" | "*")).then(|| name.to_owned())).collect();
    match rest.strip_prefix("::") {
        Some(more) if !more.starts_with('<') => tree(more, &path),
        _ => match rest.trim_start().strip_prefix("as ") {
            Some(more) => {
                let end = more.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(more.len());
                (vec![(path, Some(more[..end].to_owned()))], &more[end..])
            }
            None => (vec![(path, None)], rest),
        },
    }
}

/// The files that each file reaches, itself only by a circle.
fn reach(uses: &BTreeMap<Module, BTreeSet<Module>>) -> BTreeMap<&Module, BTreeSet<&Module>> {
    let from = |start| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
        while let Some(module) = open.pop() {
            open.extend(uses.get(module).into_iter().flatten().filter(|next| seen.insert(*next)));
        }
        seen
    };
    uses.keys().map(|module| (module, from(module))).collect()
}

/// The circles of a crate that lead through several folders, the largest first.
fn circles(src: &Path) -> Vec<Vec<Module>> {
    let mut modules = Modules::read(src);
    let uses = modules.uses();
    let reach = reach(&uses);
    let together = |one: &Module, other: &Module| reach[one].contains(other) && reach.get(other).is_some_and(|from| from.contains(one));
    let mut left: BTreeSet<&Module> = uses.keys().collect();
    let mut found = Vec::new();
    while let Some(one) = left.pop_first() {
        let mut circle: Vec<Module> = left.iter().filter(|other| together(one, other)).map(|other| (*other).clone()).collect();
        circle.push(one.clone());
        left.retain(|other| !circle.contains(other));
        let folders: BTreeSet<Module> = circle.iter().map(|module| modules.folder(module)).collect();
        if folders.len() > 1 {
            found.push(circle);
        }
    }
    found.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    found
}

/// A circle of files through several folders has at most five files.
#[test]
fn no_circle_between_folders_above_five_files() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut worst = Vec::new();
    for entry in fs::read_dir(crates).expect("crates") {
        let path = entry.expect("crate").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        for circle in circles(&path.join("src")).into_iter().filter(|circle| circle.len() > LARGEST) {
            let files: Vec<String> = circle.iter().map(|module| module.join("::")).collect();
            worst.push(format!("{name}: {} files (at most {LARGEST}): {}", files.len(), files.join(", ")));
        }
    }
    assert!(worst.is_empty(), "circles of files through several folders:\n{}", worst.join("\n"));
}

/// Paths are read as the compiler reads them: trees, aliases, parents of parents, and re-exports of another module.
#[test]
fn paths_lead_home() {
    let module = |path: &str| path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect::<Module>();
    let texts = [
        ("", "pub mod a; pub use a::b::Thing;"),
        ("a", "pub(crate) mod b; use b::Thing as Same;"),
        ("a::b", "use super::super::{c, d::{self, Two}};"),
        ("c", "use crate::Thing; fn f() { crate::d::two() }"),
        ("d", "use std::fmt::{self, Debug};"),
    ];
    let mut modules = Modules { texts: texts.map(|(path, text)| (module(path), text.to_owned())).into(), ..Modules::default() };
    let uses = modules.uses();
    let of = |path: &str| uses.get(&module(path)).into_iter().flatten().map(|used| used.join("::")).collect::<Vec<_>>();
    assert_eq!(of(""), Vec::<String>::new(), "what is offered is not used");
    assert_eq!(of("a"), ["a::b"]);
    assert_eq!(of("a::b"), ["c", "d"]);
    assert_eq!(of("c"), ["a::b", "d"]);
    assert_eq!(of("d"), Vec::<String>::new());
}
