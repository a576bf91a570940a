//! `mainstay list`: lists installed extensions (MS-CLI-05).

use std::cell::Cell;
use std::collections::BTreeMap;

use clap::Args;
use futures::TryStreamExt as _;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use mainstay_api::condition::Status;
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_diagnostics::FailureKind;
use mainstay_olm_classic_core::overview::Overview;
use mainstay_operations::classic::listing::{self, Operators, Watched};
use mainstay_operations::extensions::API_VERSION;
use mainstay_operations::{Session, extensions, refused};
use mainstay_terminal::cluster::ClusterArgs;
use mainstay_terminal::errors::{Exit, Failure, warn};
use mainstay_terminal::output::{self, Format, Table};
use mainstay_terminal::runtime;

use crate::commands::classic;
use crate::commands::listed::{age, with_kind, without_managed_fields};
use crate::named;

/// Arguments.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay list
  mainstay list beacon harbour
  mainstay list -l team=sea
  mainstay list --classic -n lights                the Subscriptions and CSVs of OLM classic in a namespace
  mainstay list -w                                 and every change from now on
  mainstay list -o 'jsonpath={.items[*].status.install.bundle.name}'")]
pub struct Arguments {
    /// The extensions; of OLM classic, also Subscriptions, packages or CSVs [default: all]
    names: Vec<String>,
    /// Only those with these labels: key=value, key!=value, key, several with commas
    #[arg(long, short = 'l', value_name = "SELECTOR", conflicts_with = "names")]
    selector: Option<String>,
    /// Only what OLM classic has installed
    #[arg(long)]
    classic: bool,
    /// Only what is installed in this namespace
    #[arg(long, short, value_name = "NAMESPACE", value_parser = named::namespace)]
    namespace: Option<String>,
    /// Go on with every change of an extension or operator, until interrupted
    #[arg(long, short)]
    watch: bool,
    /// table, wide, json, yaml, name or jsonpath=PATH
    #[arg(short, long, default_value = "table", value_name = "FORMAT", value_parser = output::among("table, wide, json, yaml, name or jsonpath=PATH"))]
    output: Format,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Lists extensions.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    runtime::block_on(async {
        let session = arguments.cluster.open().await?;
        let operators = operators(&session, arguments).await?;
        let (mut all, version) = match listed(&session, arguments).await {
            _ if arguments.classic => (Vec::new(), String::new()),
            // A cluster that has OLM classic alone has no extensions.
            Err(failure) if failure.exit == Exit::NotFound && operators.is_some() => (Vec::new(), String::new()),
            listed => listed?,
        };
        all.retain(|extension| is_placed(arguments, extension));
        let is_listed = |name: &String| {
            let is_operator = |each: &Operators| each.operators.iter().any(|operator| classic::list::is_named(operator, name));
            operators.as_ref().is_some_and(is_operator) || all.iter().any(|extension| extension.metadata.name.as_ref() == Some(name))
        };
        if let Some(name) = arguments.names.iter().find(|name| !is_listed(name)) {
            let what = if arguments.classic { "operator" } else { "clusterextension" };
            return Err(Failure::new(Exit::NotFound, format!("{what} {name}"), "not found").hint("mainstay list shows what is installed"));
        }
        if !arguments.watch {
            return show_all(arguments, &all, operators.unwrap_or_default());
        }
        let has_extensions = !version.is_empty();
        let mut watched = match &operators {
            Some(_) => Some(Watched::start(&session, arguments.namespace.as_deref()).await?),
            None => None,
        };
        let now = watched.as_ref().map(|watched| narrowed(watched.operators(), arguments)).unwrap_or_default();
        let screen = Screen::new(if now.operators.is_empty() { Section::Extensions } else { Section::Operators });
        let seen = now.operators.clone();
        show_all(arguments, &all, now)?;
        let extensions = async { if has_extensions { watch(&session, arguments, all, version, &screen).await } else { Ok(()) } };
        let classic = async {
            match &mut watched {
                Some(watched) => watch_operators(watched, arguments, seen, &screen).await,
                None => Ok(()),
            }
        };
        futures::try_join!(extensions, classic).map(drop)
    })
}

/// Returns whether an extension is in the namespace that is asked for.
fn is_placed(arguments: &Arguments, extension: &ClusterExtension) -> bool {
    arguments.namespace.as_ref().is_none_or(|namespace| extension.spec.namespace == *namespace)
}

fn narrowed(all: Operators, arguments: &Arguments) -> Operators {
    classic::list::narrowed(all, &arguments.names, arguments.selector.as_deref())
}

/// The tables of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    Extensions,
    Operators,
}

/// The table of the last printed row: rows of another table begin with their titles.
struct Screen(Cell<Section>);

impl Screen {
    fn new(last: Section) -> Self {
        Self(Cell::new(last))
    }

    /// Prints a row.
    fn row(&self, section: Section, table: &Table) -> Result<(), Failure> {
        let drawn = table.render(0);
        let rows = drawn.split_once('\n').map_or("", |(_, rows)| rows);
        output::print(if self.0.replace(section) == section { rows } else { &drawn })
    }
}

/// Prints one extension and every change of it.
pub async fn follow(session: &Session, name: &str, output: Format) -> Result<(), Failure> {
    let arguments = Arguments {
        names: vec![name.to_owned()],
        selector: None,
        classic: false,
        namespace: None,
        watch: true,
        output,
        cluster: ClusterArgs::default(),
    };
    let (all, version) = listed(session, &arguments).await?;
    show(&arguments, &all)?;
    watch(session, &arguments, all, version, &Screen::new(Section::Extensions)).await
}

/// The requested extensions that exist, and the resource version of the list.
async fn listed(session: &Session, arguments: &Arguments) -> Result<(Vec<ClusterExtension>, String), Failure> {
    let api: Api<ClusterExtension> = Api::all(session.client.clone());
    let which = arguments.selector.as_deref().map_or_else(ListParams::default, |labels| ListParams::default().labels(labels));
    let list = api.list(&which).await.map_err(|error| refused("clusterextensions", &error))?;
    let version = list.metadata.resource_version.clone().unwrap_or_default();
    if arguments.names.is_empty() {
        return Ok((list.items, version));
    }
    let named = |name: &String| list.items.iter().find(|extension| extension.metadata.name.as_ref() == Some(name)).cloned();
    Ok((arguments.names.iter().filter_map(named).collect(), version))
}

/// The operators of OLM classic, narrowed to what is asked for; `None` if the cluster does not have it.
async fn operators(session: &Session, arguments: &Arguments) -> Result<Option<Operators>, Failure> {
    match listing::operators(session, arguments.namespace.as_deref()).await {
        Ok(Some(all)) => Ok(Some(narrowed(all, arguments))),
        Ok(None) if arguments.classic => Err(Failure::new(
            Exit::NotFound,
            "list --classic",
            "the cluster does not serve Subscriptions: OLM classic is not installed on it",
        )),
        Ok(None) => Ok(None),
        // Who may not read it sees the extensions all the same.
        Err(failure) if !arguments.classic && failure.kind() == FailureKind::Impossible => {
            warn("list", &format!("operators of OLM classic are left out: {}", failure.to_line()));
            Ok(None)
        }
        Err(failure) => Err(failure.into()),
    }
}

/// Prints extensions, and below them the operators of OLM classic.
fn show_all(arguments: &Arguments, all: &[ClusterExtension], operators: Operators) -> Result<(), Failure> {
    let Operators { operators, subscriptions, csvs } = operators;
    if !arguments.output.is_table() {
        let mut list = with_kind(all, API_VERSION, "ClusterExtension")?;
        if let Some(items) = list["items"].as_array_mut() {
            items.extend(subscriptions);
            items.extend(csvs);
            items.iter_mut().for_each(without_managed_fields);
        }
        return output::value(&arguments.output, &list);
    }
    if operators.is_empty() && arguments.classic && arguments.watch {
        return classic::list::table(&arguments.output, &operators).print();
    }
    if operators.is_empty() && arguments.classic {
        return output::line("nothing is installed; mainstay install PACKAGE --classic -n NAMESPACE installs something");
    }
    if !all.is_empty() || operators.is_empty() {
        show(arguments, all)?;
    }
    if operators.is_empty() {
        return Ok(());
    }
    if !all.is_empty() {
        output::line("")?;
    }
    classic::list::table(&arguments.output, &operators).print()
}

fn show(arguments: &Arguments, all: &[ClusterExtension]) -> Result<(), Failure> {
    if !arguments.output.is_table() {
        return output::value(&arguments.output, &with_kind(all, API_VERSION, "ClusterExtension")?);
    }
    let mut table = titled(arguments);
    for extension in all {
        table.row(row(arguments, extension));
    }
    if table.is_empty() && !arguments.watch {
        let none = if arguments.selector.is_some() {
            "no extension has these labels"
        } else {
            "nothing is installed; mainstay install PACKAGE installs something"
        };
        return output::line(none);
    }
    table.print()
}

fn titled(arguments: &Arguments) -> Table {
    let mut titles = vec!["NAME", "PACKAGE", "VERSION", "INSTALLED", "PROGRESSING", "NAMESPACE", "AGE"];
    if arguments.output == Format::Wide {
        titles.extend(["PINNED TO", "CHANNELS", "ACCOUNT"]);
    }
    Table::new(&titles)
}

fn row(arguments: &Arguments, extension: &ClusterExtension) -> Vec<String> {
    let text = |status: Status| format!("{status:?}");
    let mut row = vec![
        extension.metadata.name.clone().unwrap_or_default(),
        extensions::package(extension).to_owned(),
        extensions::installed(extension).map(|bundle| bundle.version).unwrap_or_default(),
        extensions::condition(extension, "Installed").map(|condition| text(condition.status)).unwrap_or_default(),
        extensions::condition(extension, "Progressing").map(|condition| condition.reason.clone()).unwrap_or_default(),
        extension.spec.namespace.clone(),
        age(extension.metadata.creation_timestamp.as_ref()),
    ];
    if arguments.output == Format::Wide {
        let catalog = extension.spec.source.catalog.as_ref();
        let channels = catalog.iter().flat_map(|catalog| &catalog.channels).map(|channel| channel.0.as_str());
        row.push(catalog.and_then(|catalog| catalog.version.clone()).unwrap_or_default());
        row.push(channels.collect::<Vec<_>>().join(","));
        row.push(extension.spec.service_account.as_ref().and_then(|account| account.name.clone()).unwrap_or_default());
    }
    row
}

/// Extensions as the watch last showed them.
#[derive(Default)]
struct Seen(BTreeMap<String, ClusterExtension>);

/// A change to print.
#[derive(Debug, PartialEq)]
enum News {
    Changed(ClusterExtension),
    Removed(ClusterExtension),
}

impl Seen {
    /// Notes an extension; returns it unless it is what was seen last.
    fn note(&mut self, extension: ClusterExtension) -> Option<News> {
        let name = extension.metadata.name.clone().unwrap_or_default();
        let before = self.0.insert(name, extension.clone());
        (before.as_ref() != Some(&extension)).then_some(News::Changed(extension))
    }

    /// Notes that an extension is gone; returns it if it was there.
    fn gone(&mut self, name: &str) -> Option<News> {
        self.0.remove(name).map(News::Removed)
    }

    /// Notes all extensions of a list; returns those that changed and those that are gone.
    fn note_all(&mut self, all: Vec<ClusterExtension>) -> Vec<News> {
        let named = |name: &String| all.iter().any(|extension| extension.metadata.name.as_ref() == Some(name));
        let missing: Vec<String> = self.0.keys().filter(|name| !named(name)).cloned().collect();
        let removed: Vec<News> = missing.iter().filter_map(|name| self.gone(name)).collect();
        all.into_iter().filter_map(|extension| self.note(extension)).chain(removed).collect()
    }
}

/// Prints each change, a row or a document at a time. A watch that ends, as they all do, is begun again from a list.
async fn watch(
    session: &Session,
    arguments: &Arguments,
    all: Vec<ClusterExtension>,
    mut version: String,
    screen: &Screen,
) -> Result<(), Failure> {
    let api: Api<ClusterExtension> = Api::all(session.client.clone());
    let which = arguments.selector.as_deref().map_or_else(WatchParams::default, |labels| WatchParams::default().labels(labels));
    let failed = |error: &kube::Error| refused("clusterextensions", error);
    let asked = |extension: &ClusterExtension| {
        let is_named = |name: &String| extension.metadata.name.as_ref() == Some(name);
        is_placed(arguments, extension) && (arguments.names.is_empty() || arguments.names.iter().any(is_named))
    };
    let mut seen = Seen::default();
    seen.note_all(all);
    loop {
        let mut events = Box::pin(api.watch(&which, &version).await.map_err(|error| failed(&error))?);
        loop {
            let news = match events.try_next().await.map_err(|error| failed(&error))? {
                Some(WatchEvent::Added(extension) | WatchEvent::Modified(extension)) => {
                    if asked(&extension) {
                        seen.note(extension)
                    } else {
                        None
                    }
                }
                Some(WatchEvent::Deleted(extension)) => seen.gone(extension.metadata.name.as_deref().unwrap_or_default()),
                Some(WatchEvent::Bookmark(_)) => None,
                // Too old: the missed changes are printed with the rest.
                Some(WatchEvent::Error(_)) | None => break,
            };
            news.iter().try_for_each(|news| tell(arguments, news, screen))?;
        }
        let (mut all, now) = listed(session, arguments).await?;
        all.retain(|extension| is_placed(arguments, extension));
        seen.note_all(all).iter().try_for_each(|news| tell(arguments, news, screen))?;
        version = now;
    }
}

fn tell(arguments: &Arguments, news: &News, screen: &Screen) -> Result<(), Failure> {
    let (News::Changed(extension) | News::Removed(extension)) = news;
    if !arguments.output.is_table() {
        let mut list = with_kind(std::slice::from_ref(extension), API_VERSION, "ClusterExtension")?;
        return output::value(&arguments.output, &list["items"][0].take());
    }
    let mut table = titled(arguments);
    let mut row = row(arguments, extension);
    if matches!(news, News::Removed(_)) {
        "removed".clone_into(&mut row[4]);
    }
    table.row(row);
    screen.row(Section::Extensions, &table)
}

/// Prints each change of the operators of OLM classic, a row or an object at a time.
async fn watch_operators(watched: &mut Watched, arguments: &Arguments, mut seen: Vec<Overview>, screen: &Screen) -> Result<(), Failure> {
    while let Some((object, is_gone)) = watched.change().await? {
        let now = narrowed(watched.operators(), arguments);
        let news = classic::list::news(&arguments.output, &seen, &now.operators);
        if arguments.output.is_table() {
            for row in &news {
                screen.row(Section::Operators, &classic::list::table(&arguments.output, std::slice::from_ref(row)))?;
            }
        } else if let Some(object) = object {
            // An object that is gone belongs to none of the operators any more.
            let is_shown = [&now.subscriptions, &now.csvs].iter().any(|all| all.contains(&object));
            if is_shown || (is_gone && !news.is_empty()) {
                output::value(&arguments.output, &object)?;
            }
        }
        seen = now.operators;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn extension(name: &str, version: &str) -> ClusterExtension {
        serde_json::from_value(json!({
            "apiVersion": API_VERSION, "kind": "ClusterExtension", "metadata": {"name": name, "resourceVersion": version},
            "spec": {"namespace": "n", "source": {"sourceType": "Catalog", "catalog": {"packageName": name}}},
        }))
        .unwrap()
    }

    /// MS-CLI-05: a watch shows what changed, once, and what is gone; beginning again from a list repeats nothing.
    #[test]
    fn changes_are_shown_once() {
        let mut seen = Seen::default();
        seen.note_all(vec![extension("a", "1"), extension("b", "2")]);
        assert_eq!(seen.note_all(vec![extension("a", "1"), extension("b", "2")]), []);
        assert_eq!(seen.note(extension("a", "1")), None, "an event that tells of what was listed");
        assert_eq!(seen.note(extension("a", "3")), Some(News::Changed(extension("a", "3"))));
        assert_eq!(seen.note_all(vec![extension("a", "3")]), [News::Removed(extension("b", "2"))]);
        assert_eq!(seen.gone("b"), None, "it was told of already");
        assert_eq!(seen.gone("a"), Some(News::Removed(extension("a", "3"))));
        assert_eq!(seen.note(extension("a", "9")), Some(News::Changed(extension("a", "9"))), "it is there again");
    }
}
