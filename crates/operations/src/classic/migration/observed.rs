//! The facts of a migration, read from the cluster. Nothing is written.

use kube::api::{Api, DynamicObject, ListParams};
use mainstay_api::olm_v1::NAME_LABEL;
use mainstay_apply::Writer;
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_objects::{Expect, LabelSelector, ObjectRef};
use mainstay_olm_classic_core::migration::{self, Facts, Offer};
use mainstay_olm_classic_core::removal;
use mainstay_olm_v1_core::extension::permissions::{Installer, default_account, manifests, needed};
use mainstay_olm_v1_core::extension::{owner, supported};
use mainstay_resolver::Request as Wanted;
use serde_json::{Value, json};

use super::{Backup, Planned, Request};
use crate::bundles::{self, Chosen};
use crate::catalogs::CatalogSnapshot;
use crate::classic::objects::{
    CATALOG_SOURCE, CSV, DEFINITION, INSTALL_PLAN, NAMESPACE, OPERATOR_CONDITION, OPERATOR_GROUP, find, get, list, text,
};
use crate::classic::removal::{found, objects};
use crate::cluster_catalogs::{self, CatalogRequest};
use crate::failure::{not_written, refused};
use crate::ownership::stored_resource;
use crate::plan::installer::labelled;
use crate::progress::Progress;
use crate::session::Session;
use crate::settings::Settings;
use crate::{extensions, token_access};

/// Maximum number of custom resources that a backup holds.
const MOST: usize = 100_000;
/// Custom resources of one page of a list.
const PAGE: u32 = 500;

/// Looks at an operator and at what OLM v1 offers for it, and plans the migration.
pub async fn observe(session: &Session, request: &Request, progress: &mut dyn Progress) -> Result<Planned, Failure> {
    let Request { namespace, operator, .. } = request;
    progress.doing("look at the operator");
    let (subscription, csv) = found(session, namespace, operator).await?;
    let (mut notes, mut owned, mut definitions, mut condition) = (Vec::new(), Vec::new(), Vec::new(), None);
    let (csvs, plans, groups) = (
        list(session, CSV, None).await?,
        list(session, INSTALL_PLAN, Some(namespace)).await?,
        list(session, OPERATOR_GROUP, Some(namespace)).await?,
    );
    let csv_name = csv.as_ref().map(|csv| text(csv, "/metadata/name")).unwrap_or_default();
    if let Some(csv) = &csv {
        owned = objects(session, csv, &mut notes).await;
        condition = find(session, OPERATOR_CONDITION, namespace, &csv_name).await?;
        for name in removal::definitions(csv, "owned") {
            definitions.extend(find(session, DEFINITION, "", &name).await?);
        }
    }
    let package = subscription.as_ref().map_or_else(|| operator.clone(), |subscription| text(subscription, "/spec/name"));
    let name = request.extension.clone().unwrap_or_else(|| package.clone());
    if extensions::find(session, &name).await?.is_some() {
        return Err(Failure::new(FailureKind::Impossible, format!("clusterextension {name}"), "exists already")
            .hint("--name NAME migrates to an extension of another name"));
    }
    let settings = Settings::read(session).await;
    let group = groups.first().cloned().unwrap_or(Value::Null);
    let watch = match group["status"]["namespaces"].as_array().map(Vec::as_slice) {
        Some([Value::String(one)]) if !one.is_empty() => Some(one.clone()),
        _ => None,
    };
    let version = csv.as_ref().map(|csv| text(csv, "/spec/version")).unwrap_or_default();
    let config = subscription.as_ref().map(|subscription| subscription["spec"]["config"].clone()).unwrap_or_default();
    let wanted = Wanted {
        package: package.clone(),
        version: Some(version.clone()),
        selector: request
            .catalog
            .as_ref()
            .map(|one| LabelSelector { match_labels: [(NAME_LABEL.to_owned(), one.clone())].into(), ..LabelSelector::default() }),
        ..Wanted::default()
    };
    let offer = offer(session, &settings, &wanted, (namespace, watch.as_deref()), progress).await.map_err(|failure| failure.to_line());
    let missing_catalog = match &subscription {
        Some(subscription) if offer.is_err() && request.catalog.is_none() => missing_catalog(session, subscription, &package).await?,
        _ => None,
    };
    let (mut applied, mut foreign) = (Vec::new(), Vec::new());
    if let Ok(offer) = &offer {
        progress.doing("look at the bundle's objects");
        let others = present(session, &offer.objects, &owned, &definitions).await?;
        let (mine, theirs) = others.into_iter().partition(|object| brought_by(object, &package, namespace));
        foreign = theirs;
        owned.extend::<Vec<Value>>(mine);
        progress.doing("ask what would change");
        applied = dry_run(session, &offer.objects, &owned, &mut notes).await;
    }
    let facts = Facts {
        subscription: subscription.as_ref(),
        csv: csv.as_ref(),
        csvs: &csvs,
        plans: &plans,
        groups: &groups,
        condition: condition.as_ref(),
        owned: &owned,
        definitions: &definitions,
        foreign: &foreign,
        offer: offer.as_ref().map_err(String::as_str),
        applied: &applied,
        takes_config: settings.gates.on("DeploymentConfig"),
        takes_watch: settings.gates.on("SingleOwnNamespaceInstallSupport"),
    };
    let migration = migration::plan(&facts);
    let mut backup = Backup {
        cluster: text(&get(session, NAMESPACE, "", "kube-system").await?, "/metadata/uid"),
        namespace: namespace.clone(),
        package: package.clone(),
        csv_name,
        extension_name: name.clone(),
        keep_pin: request.keep_pin || migration.keeps_pin,
        subscription: subscription.unwrap_or_default(),
        csv: csv.unwrap_or_default(),
        group,
        condition: condition.unwrap_or_default(),
        owned,
        ..Backup::new()
    };
    if let Ok(offer) = offer
        && migration.obstacles.is_empty()
    {
        backup.custom_resources = custom_resources(session, &definitions, progress).await?;
        let installer = Installer { extension: name.clone(), service_account: default_account(&name), namespace: namespace.clone() };
        let access = token_access::needed(session, &settings, &name, (namespace, &installer.service_account)).await;
        let with = manifests(&needed(&offer.objects, &name), &installer).into_iter().chain(access);
        backup.with = with.map(|object| labelled(object, &name)).collect();
        backup.extension = extension(&backup, &version, request.catalog.as_deref(), watch.as_deref(), &config);
        backup.rendered = offer.objects;
    }
    backup.definitions = definitions;
    Ok(Planned { migration, backup, missing_catalog, notes })
}

/// The ClusterCatalog of the image of a Subscription's CatalogSource; none if one that serves has the package, or if the catalog is no image.
async fn missing_catalog(session: &Session, subscription: &Value, package: &str) -> Result<Option<CatalogRequest>, Failure> {
    let served = CatalogSnapshot::open(session, None).await?;
    let contents = served.catalogs().iter().filter_map(|catalog| catalog.content.as_ref().ok());
    if contents.into_iter().any(|content| content.index.package(package).is_some()) {
        return Ok(None);
    }
    let (name, namespace) = (text(subscription, "/spec/source"), text(subscription, "/spec/sourceNamespace"));
    let Some(source) = find(session, CATALOG_SOURCE, &namespace, &name).await? else { return Ok(None) };
    let reference = text(&source, "/spec/image");
    if reference.is_empty() || !text(&source, "/spec/address").is_empty() {
        return Ok(None);
    }
    // A tag is looked at again as often as OLM classic does it.
    let interval = text(&source, "/spec/updateStrategy/registryPoll/interval");
    let minutes = mainstay_golang::parse_duration(&interval).ok().map(|interval| interval.as_secs().div_ceil(60));
    let poll_minutes = minutes.and_then(|minutes| i64::try_from(minutes).ok()).filter(|minutes| *minutes > 0 && !reference.contains('@'));
    for name in [name.clone(), format!("{name}-classic")] {
        // A catalog of this name that cannot be read, or has another image, is left alone.
        if cluster_catalogs::find(session, &name).await?.is_none() {
            return Ok(Some(CatalogRequest { name, reference, poll_minutes, priority: 0, pull_secret: None }));
        }
    }
    Ok(None)
}

/// The offer of OLM v1 for this version.
async fn offer(
    session: &Session,
    settings: &Settings,
    wanted: &Wanted,
    (namespace, watch): (&str, Option<&str>),
    progress: &mut dyn Progress,
) -> Result<Offer, Failure> {
    let Chosen { resolution, bundle } = bundles::choose(session, wanted, progress).await?;
    let impossible =
        |error: &dyn std::error::Error| Failure::new(FailureKind::Impossible, format!("bundle {}", bundle.csv.name), error.to_string());
    supported::check(&bundle, &settings.gates).map_err(|error| impossible(&error))?;
    let objects = bundles::rendered(&bundle, namespace, watch, settings.gates.certificates())?;
    let properties = bundle.opm_properties().map_err(|error| impossible(&error))?;
    let requires = |property: &&Value| supported::check_dependencies(&bundle.csv.name, [*property]).is_err();
    let needs = properties.iter().filter(requires).map(|property| format!("{} {}", text(property, "/type"), property["value"])).collect();
    let choice = resolution.choice;
    Ok(Offer { catalog: choice.catalog, bundle: choice.bundle, version: choice.version, objects, needs })
}

/// The live objects among these that are in neither list.
async fn present(session: &Session, rendered: &[Value], owned: &[Value], definitions: &[Value]) -> Result<Vec<Value>, Failure> {
    let mut found = Vec::new();
    for object in rendered {
        let place = migration::reference(object);
        if owned.iter().chain(definitions).any(|known| migration::reference(known).same(&place)) {
            continue;
        }
        match session.writer.get(&place).await {
            Ok(live) => found.extend(live),
            // A kind that is not served has no objects.
            Err(mainstay_apply::WriteError::Kind { .. }) => {}
            Err(error) => return Err(not_written(&error)),
        }
    }
    Ok(found)
}

/// Returns true if an object carries the label of the operator's component: its InstallPlan brought it.
fn brought_by(object: &Value, package: &str, namespace: &str) -> bool {
    let label = format!("operators.coreos.com/{package}.{namespace}");
    object["metadata"]["labels"].get(&label).is_some()
}

/// The adopted Deployments as they would be once the extension has applied its own.
async fn dry_run(session: &Session, rendered: &[Value], owned: &[Value], notes: &mut Vec<String>) -> Vec<Value> {
    let writer: Writer = session.writer.dry();
    let mut applied = Vec::new();
    for object in rendered.iter().filter(|object| object["kind"] == "Deployment") {
        let place = migration::reference(object);
        if !owned.iter().any(|live| migration::reference(live).same(&place)) {
            continue;
        }
        match writer.apply(object, true, &Expect::default()).await {
            Ok((after, _)) => applied.push(after),
            Err(error) => notes.push(format!("{place}: {}", not_written(&error).to_line())),
        }
    }
    applied
}

/// The custom resources of these CRDs, in full.
async fn custom_resources(session: &Session, definitions: &[Value], progress: &mut dyn Progress) -> Result<Vec<Value>, Failure> {
    let mut all = Vec::new();
    for definition in definitions {
        let Some(resource) = stored_resource(definition) else { continue };
        progress.doing(&format!("back up {}.{}", resource.plural, resource.group));
        let api: Api<DynamicObject> = Api::all_with(session.client.clone(), &resource);
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let list = api.list(&page).await.map_err(|error| refused(resource.plural.clone(), &error))?;
            for item in list.items {
                let mut value = serde_json::to_value(item).map_err(|error| Failure::failed(&resource.plural, &error))?;
                value["apiVersion"] = resource.api_version.clone().into();
                value["kind"] = resource.kind.clone().into();
                all.push(value);
            }
            if all.len() > MOST {
                return Err(Failure::new(
                    FailureKind::Impossible,
                    resource.plural.clone(),
                    format!("more than {MOST} custom resources cannot be backed up"),
                ));
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => break,
            }
        }
    }
    Ok(all)
}

/// The extension that takes over, pinned to the installed version.
fn extension(backup: &Backup, version: &str, catalog: Option<&str>, watch: Option<&str>, config: &Value) -> Value {
    let mut source = json!({"packageName": backup.package, "version": version});
    let channel = text(&backup.subscription, "/spec/channel");
    if !channel.is_empty() {
        source["channels"] = json!([channel]);
    }
    if let Some(catalog) = catalog {
        source["selector"] = json!({"matchLabels": {NAME_LABEL: catalog}});
    }
    let mut extension = json!({
        "apiVersion": extensions::API_VERSION, "kind": "ClusterExtension", "metadata": {"name": backup.extension_name},
        "spec": {"namespace": backup.namespace, "serviceAccount": {"name": default_account(&backup.extension_name)},
            "source": {"sourceType": "Catalog", "catalog": source}},
    });
    let mut inline = serde_json::Map::new();
    if let Some(watch) = watch {
        inline.insert("watchNamespace".to_owned(), watch.into());
    }
    if !config.is_null() {
        inline.insert("deploymentConfig".to_owned(), config.clone());
    }
    if !inline.is_empty() {
        extension["spec"]["config"] = json!({"configType": "Inline", "inline": inline});
    }
    extension
}

/// The marks of an extension on its objects.
pub(super) fn marks(extension: &str) -> Result<Vec<(String, String)>, Failure> {
    let object = json!({"apiVersion": extensions::API_VERSION, "kind": "ClusterExtension", "metadata": {"name": extension},
        "spec": {"namespace": "any", "source": {"sourceType": "Catalog", "catalog": {"packageName": "any"}}}});
    let typed = serde_json::from_value(object).map_err(|error| Failure::failed("clusterextension", &error))?;
    Ok(owner(&typed).labels)
}

/// The live objects of these references.
pub(super) async fn live(session: &Session, places: impl Iterator<Item = ObjectRef>) -> Result<Vec<Value>, Failure> {
    let mut found = Vec::new();
    for place in places {
        found.extend(session.writer.get(&place).await.map_err(|error| not_written(&error))?);
    }
    Ok(found)
}
