//! Catalogs: add, list, remove.

use mainstay_olm_classic_core::category::Category;
use mainstay_operations::Silent;
use mainstay_operations::classic::catalogs::{self, NewCatalog};
use mainstay_operations::classic::objects::text;
use mainstay_terminal::errors::Failure;
use mainstay_terminal::output;

use super::{Context, age, failed, nothing, table, titles};

/// Verbs.
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// Add an operator catalog
    Add {
        /// Its name
        name: String,
        /// Its image
        image: String,
        /// Display name of the index
        #[arg(long, short, value_name = "TEXT")]
        display_name: Option<String>,
        /// Publisher of the index
        #[arg(long, short, value_name = "TEXT")]
        publisher: Option<String>,
        /// The time to wait for the removal of a catalog that does not serve
        #[arg(long, value_name = "TIME", default_value = "1m", value_parser = crate::durations::parse)]
        cleanup_timeout: std::time::Duration,
    },
    /// List installed operator catalogs
    List {
        /// List catalogs in all namespaces
        #[arg(long, short = 'A')]
        all_namespaces: bool,
        /// wide: with the category of each catalog
        #[arg(long, short, value_name = "FORMAT", value_parser = ["wide"])]
        output: Option<String>,
    },
    /// Remove an operator catalog
    Remove {
        /// Its name
        name: String,
    },
}

impl Verb {
    /// The time that may be needed to remove a catalog that does not serve.
    pub fn clean_up(&self) -> std::time::Duration {
        match self {
            Self::Add { cleanup_timeout, .. } => *cleanup_timeout,
            Self::List { .. } | Self::Remove { .. } => std::time::Duration::ZERO,
        }
    }
}

/// Runs a verb.
pub async fn run(context: &Context, verb: &Verb) -> Result<(), Failure> {
    let Context { session, namespace, timeout, .. } = context;
    match verb {
        Verb::Add { name, image, display_name, publisher, cleanup_timeout } => {
            let new = NewCatalog {
                name: name.clone(),
                namespace: namespace.clone(),
                image: image.clone(),
                display_name: display_name.clone(),
                publisher: publisher.clone(),
            };
            let new = match catalogs::titled(session, new).await {
                Ok(new) => new,
                Err(failure) => return failed("failed to add catalog", Err(failure.into())),
            };
            let added = catalogs::add(session, &new, *timeout, &mut Silent).await;
            if let Err(failure) = added {
                // What does not serve is taken back, unless it was there before.
                if failure.kind() == mainstay_diagnostics::FailureKind::TimedOut {
                    let removal = tokio::time::timeout(*cleanup_timeout, catalogs::remove(session, namespace, name)).await;
                    if let Ok(removal) = removal {
                        removal?;
                    }
                }
                return failed("failed to add catalog", Err(failure.into()));
            }
            output::line(format!("created catalogsource {name:?}"))
        }
        Verb::List { all_namespaces, output } => {
            let of = (!all_namespaces).then_some(namespace.as_str());
            let mut all = catalogs::all(session, of).await?;
            if all.is_empty() {
                return nothing(of);
            }
            all.sort_by_key(|each| text(each, "/metadata/name"));
            let mut rows = vec![titles(&["NAME", "DISPLAY", "TYPE", "PUBLISHER", "AGE"])];
            if *all_namespaces {
                rows[0].insert(1, "NAMESPACE".to_owned());
            }
            if output.is_some() {
                rows[0].push("CATEGORY".to_owned());
            }
            for each in &all {
                let mut row = vec![text(each, "/metadata/name")];
                if *all_namespaces {
                    row.push(text(each, "/metadata/namespace"));
                }
                row.extend(["displayName", "sourceType", "publisher"].map(|field| text(each, &format!("/spec/{field}"))));
                row.push(age(each));
                if output.is_some() {
                    row.push(Category::of_source(each).to_string());
                }
                rows.push(row);
            }
            table(&rows)
        }
        Verb::Remove { name } => {
            let removed = catalogs::remove(session, namespace, name).await.map_err(Failure::from);
            failed(&format!("failed to remove catalog {name:?}"), removed)?;
            output::line(format!("catalogsource {name:?} removed"))
        }
    }
}
