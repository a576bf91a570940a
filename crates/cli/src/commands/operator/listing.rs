//! Lists: what is installed, what could be, and the custom resources of an operator.

use mainstay_olm_classic_core::category::Category;
use mainstay_olm_classic_core::removal;
use mainstay_operations::classic::objects::{CSV, SUBSCRIPTION, get, list as objects, text};
use mainstay_operations::classic::{operands as custom_resources, packages};
use mainstay_terminal::errors::{Exit, Failure};
use mainstay_terminal::output::{self, Format};
use serde_json::{Value, json};

use super::{Context, SELF, age, nothing, table, titles};

/// Arguments of `list`.
#[derive(Debug, clap::Args)]
pub struct List {
    /// List operators in all namespaces
    #[arg(long, short = 'A')]
    all_namespaces: bool,
}

/// Arguments of `list-available`.
#[derive(Debug, clap::Args)]
pub struct Available {
    /// The operator [default: all]
    operator: Option<String>,
    /// Catalog to query [default: all]
    #[arg(long, short, value_name = "[NAMESPACE/]NAME")]
    catalog: Option<String>,
    /// Only catalogs of this category: Red Hat, Certified, Marketplace, Community or Custom
    #[arg(long, value_name = "CATEGORY", value_parser = Category::parse)]
    category: Option<Category>,
    /// wide: with the category of each catalog
    #[arg(long, short, value_name = "FORMAT", value_parser = ["wide"])]
    output: Option<String>,
}

/// Arguments of `list-operands`.
#[derive(Debug, clap::Args)]
pub struct Operands {
    /// The operator
    operator: String,
    /// json or yaml
    #[arg(long, short, value_name = "FORMAT", value_parser = output::among("json or yaml"))]
    output: Option<Format>,
}

/// Lists the Subscriptions.
pub async fn list(context: &Context, arguments: &List) -> Result<(), Failure> {
    let namespace = (!arguments.all_namespaces).then_some(context.namespace.as_str());
    let mut all = objects(&context.session, SUBSCRIPTION, namespace).await?;
    if all.is_empty() {
        return nothing(namespace);
    }
    all.sort_by_key(|each| text(each, "/spec/name"));
    let mut rows = vec![titles(&["PACKAGE", "SUBSCRIPTION", "INSTALLED CSV", "CURRENT CSV", "STATUS", "AGE"])];
    if arguments.all_namespaces {
        rows[0].insert(1, "NAMESPACE".to_owned());
    }
    for each in &all {
        let mut row = vec![text(each, "/spec/name")];
        if arguments.all_namespaces {
            row.push(text(each, "/metadata/namespace"));
        }
        row.push(text(each, "/metadata/name"));
        row.extend(["installedCSV", "currentCSV", "state"].map(|field| text(each, &format!("/status/{field}"))));
        row.push(age(each));
        rows.push(row);
    }
    table(&rows)
}

/// The PackageManifests of a verb: all, those of an operator, those of a catalog.
pub async fn manifests(context: &Context, operator: Option<&str>, catalog: Option<&str>) -> Result<Vec<Value>, Failure> {
    let mut all = match operator {
        Some(operator) => packages::manifests(&context.session, &context.namespace, operator).await?,
        None => packages::all(&context.session, &context.namespace, None).await?,
    };
    if let Some(catalog) = catalog {
        let is_it = |manifest: &Value| {
            let (name, namespace) = (text(manifest, "/status/catalogSource"), text(manifest, "/status/catalogSourceNamespace"));
            catalog == name || *catalog == format!("{namespace}/{name}")
        };
        all.retain(is_it);
    }
    match operator {
        Some(operator) if all.is_empty() => {
            Err(Failure::new(Exit::NotFound, SELF, format!("packagemanifests.packages.operators.coreos.com {operator:?} not found")))
        }
        _ => Ok(all),
    }
}

/// Lists the packages with the heads of their channels.
pub async fn available(context: &Context, arguments: &Available) -> Result<(), Failure> {
    let mut all = manifests(context, arguments.operator.as_deref(), arguments.catalog.as_deref()).await?;
    all.retain(|manifest| arguments.category.is_none_or(|category| Category::of_manifest(manifest) == category));
    if all.is_empty() {
        return nothing(Some(&context.namespace));
    }
    all.sort_by_key(|each| text(each, "/metadata/name"));
    let is_wide = arguments.output.is_some();
    let mut rows = vec![titles(&["NAME", "CATALOG", "CHANNEL", "LATEST CSV", "AGE"])];
    if is_wide {
        rows[0].push("CATEGORY".to_owned());
    }
    for manifest in &all {
        for channel in manifest["status"]["channels"].as_array().into_iter().flatten() {
            let title = text(manifest, "/status/catalogSourceDisplayName");
            let catalog = if title.is_empty() { text(manifest, "/status/catalogSource") } else { title };
            let mut row =
                vec![text(manifest, "/metadata/name"), catalog, text(channel, "/name"), text(channel, "/currentCSV"), age(manifest)];
            if is_wide {
                row.push(Category::of_manifest(manifest).to_string());
            }
            rows.push(row);
        }
    }
    table(&rows)
}

/// Finds the Subscription of a package.
pub async fn subscription(context: &Context, package: &str) -> Result<Option<Value>, Failure> {
    let all = objects(&context.session, SUBSCRIPTION, Some(&context.namespace)).await?;
    Ok(all.into_iter().find(|each| text(each, "/spec/name") == package))
}

/// Lists the custom resources of an operator.
pub async fn operands(context: &Context, arguments: &Operands) -> Result<(), Failure> {
    let Context { session, namespace, .. } = context;
    let impossible = |message: String| Err(Failure::new(Exit::Impossible, SELF, message));
    let Some(subscription) = subscription(context, &arguments.operator).await? else {
        return impossible(format!("package {:?} not found in namespace {namespace:?}", arguments.operator));
    };
    let name = text(&subscription, "/status/installedCSV");
    if name.is_empty() {
        return impossible(format!("could not find underlying CSV for operator {}.{namespace}", arguments.operator));
    }
    let csv = get(session, CSV, namespace, &name).await?;
    if removal::definitions(&csv, "owned").next().is_none() {
        let what = "no owned CustomResourceDefinitions specified on CSV";
        return impossible(format!("{what} {namespace}/{name}, no custom resources to display"));
    }
    if text(&csv, "/status/phase") != "Succeeded" {
        return impossible("CSV underlying operator is not in a succeeded state: custom resource list may not be accurate".to_owned());
    }
    let mut all = custom_resources::all(session, &csv).await?;
    all.sort_by_key(|each| ["/apiVersion", "/kind", "/metadata/namespace", "/metadata/name"].map(|field| text(each, field)));
    if let Some(format) = &arguments.output {
        return output::value(format, &json!({"apiVersion": "v1", "kind": "List", "items": all}));
    }
    if all.is_empty() {
        return output::line("No resources found");
    }
    let mut rows = vec![titles(&["APIVERSION", "KIND", "NAMESPACE", "NAME", "AGE"])];
    for each in &all {
        let fields = ["/apiVersion", "/kind", "/metadata/namespace", "/metadata/name"].map(|field| text(each, field));
        rows.push([fields.as_slice(), &[age(each)]].concat());
    }
    table(&rows)
}
