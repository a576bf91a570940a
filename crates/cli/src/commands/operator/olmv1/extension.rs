//! ClusterExtensions: install, delete, get, update.

use std::time::{Duration, Instant};

use clap::Args;
use mainstay_api::condition::Status;
use mainstay_api::olm_v1::ClusterExtension;
use mainstay_objects::{Expect, Patch, Propagation, Step};
use mainstay_operations::apply::execute;
use mainstay_operations::extensions::{self, API_VERSION, condition, reference};
use mainstay_terminal::errors::{Exit, Failure};
use serde_json::{Map, Value, json};

use super::super::shared::{Context, SELF, age, failed, nothing, table, titles};
use super::objects::{self, all, value};
use super::{Doomed, Dry, Shown, labels, selector, show_object, status, text};

/// Interval between two reads of the state while waiting.
const LOOK: Duration = Duration::from_millis(250);
/// The namespace of an extension that names none.
const NAMESPACE: &str = "olmv1-system";

/// Flags that can be changed later.
#[derive(Debug, Args)]
struct Mutable {
    /// The channels to take versions from
    #[arg(long, short, value_delimiter = ',', value_name = "CHANNEL")]
    channels: Vec<String>,
    /// The acceptable versions
    #[arg(long, short, value_name = "RANGE")]
    version: Option<String>,
    /// KEY=VALUE; an empty value removes the label
    #[arg(long, value_delimiter = ',', value_name = "KEY=VALUE")]
    labels: Vec<String>,
    /// The CRD upgrade safety check
    #[arg(long, value_parser = ["Strict", "None"])]
    crd_upgrade_safety_enforcement: Option<String>,
    /// Keep to the update edges of the catalog, or not
    #[arg(long, value_parser = ["CatalogProvided", "SelfCertified"])]
    upgrade_constraint_policy: Option<String>,
    /// Only catalogs with these labels
    #[arg(long, short = 'l', value_name = "SELECTOR")]
    catalog_selector: Option<String>,
}

/// Arguments of `install extension`.
#[derive(Debug, Args)]
pub struct Install {
    /// Its name
    name: String,
    /// The package
    #[arg(long, short)]
    package_name: String,
    /// The account that installs it
    #[arg(long, short, default_value = "default")]
    service_account: String,
    #[command(flatten)]
    mutable: Mutable,
    /// The time to remove an extension that is not installed
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = crate::durations::parse)]
    pub cleanup_timeout: Duration,
    #[command(flatten)]
    dry: Dry,
}

/// Arguments of `update extension`.
#[derive(Debug, Args)]
pub struct Update {
    /// Its name
    name: String,
    #[command(flatten)]
    mutable: Mutable,
    /// Leaves what is not given as it is; false sets it back to the default
    #[arg(long, default_value = "true", action = clap::ArgAction::Set)]
    ignore_unset: bool,
    #[command(flatten)]
    dry: Dry,
}

/// The fields that the flags set; with `defaults`, the others are set back.
fn spec(mutable: &Mutable, defaults: bool) -> Result<Value, Failure> {
    let mut catalog = Map::new();
    let mut set = |key: &str, value: Option<Value>| match value {
        Some(value) => drop(catalog.insert(key.to_owned(), value)),
        None if defaults => drop(catalog.insert(key.to_owned(), Value::Null)),
        None => {}
    };
    set("channels", (!mutable.channels.is_empty()).then(|| json!(mutable.channels)));
    set("version", mutable.version.as_ref().map(|version| json!(version)));
    set("upgradeConstraintPolicy", mutable.upgrade_constraint_policy.as_ref().map(|policy| json!(policy)));
    let selected = mutable.catalog_selector.as_deref().map(selector::read).transpose()?;
    set("selector", selected.map(|selector| json!(selector)));
    let mut spec = json!({"source": {"catalog": catalog}});
    match &mutable.crd_upgrade_safety_enforcement {
        Some(enforcement) => spec["install"] = json!({"preflight": {"crdUpgradeSafety": {"enforcement": enforcement}}}),
        None if defaults => spec["install"] = Value::Null,
        None => {}
    }
    Ok(spec)
}

/// Creates an extension, and waits until it is installed; one that is not is removed.
pub async fn install(context: &Context, arguments: &Install) -> Result<(), Failure> {
    let Install { name, package_name, service_account, mutable, dry, .. } = arguments;
    let wanted = |outcome| failed(&format!("failed to install extension {name:?}"), outcome);
    let mut object =
        json!({"apiVersion": API_VERSION, "kind": "ClusterExtension", "metadata": {"name": name}, "spec": spec(mutable, false)?});
    object["spec"]["namespace"] = context.given.as_deref().unwrap_or(NAMESPACE).into();
    object["spec"]["serviceAccount"] = json!({"name": service_account});
    object["spec"]["source"]["sourceType"] = "Catalog".into();
    object["spec"]["source"]["catalog"]["packageName"] = package_name.as_str().into();
    let mut labels = labels(&mutable.labels)?;
    labels.retain(|_, value| !value.is_null());
    if !labels.is_empty() {
        object["metadata"]["labels"] = Value::Object(labels);
    }
    wanted(dry.carry_out(context, &Step::Create(object.clone())).await)?;
    if !dry.is_on()
        && let Err(failure) = installed(context, name).await
    {
        let step = Step::Delete { object: reference(name), expect: Expect::default(), propagation: Propagation::Background };
        return wanted(Err(match execute(&context.session, &step).await {
            Ok(()) => failure,
            Err(left) => failure.because(format!("it could not be removed: {}", left.to_line())),
        }));
    }
    dry.say(&format!("extension {name:?} created"), &object)
}

/// Waits until an extension is installed.
async fn installed(context: &Context, name: &str) -> Result<(), Failure> {
    let begun = Instant::now();
    loop {
        let extension = extensions::get(&context.session, name).await?;
        if condition(&extension, "Installed").is_some_and(|found| found.status == Status::True) {
            return Ok(());
        }
        if begun.elapsed() >= context.timeout {
            let failure = Failure::new(Exit::TimedOut, SELF, format!("timed out waiting for extension {name:?} to be installed"));
            return Err(match condition(&extension, "Progressing") {
                Some(found) => failure.because(found.message.clone()),
                None => failure,
            });
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Deletes one extension, or all.
pub async fn delete(context: &Context, arguments: &Doomed) -> Result<(), Failure> {
    let get = async |name: &str| extensions::get(&context.session, name).await.map_err(Failure::from);
    objects::delete::<ClusterExtension>(context, arguments, ("extension", "failed to delete extension"), get).await
}

/// Shows one extension, or all.
pub async fn get(context: &Context, arguments: &Shown) -> Result<(), Failure> {
    let mut found = match &arguments.name {
        Some(name) => match extensions::get(&context.session, name).await {
            Ok(found) => vec![value(&found)?],
            Err(failure) => return failed("failed getting installed extension(s)", Err(failure.into())),
        },
        None => all::<ClusterExtension>(context, arguments.selector.as_ref()).await?,
    };
    found.sort_by_key(|one| text(&one["metadata"]["name"]));
    if let Some(format) = &arguments.output {
        return match found.as_slice() {
            [one] => show_object(format, one),
            _ => show_object(format, &objects::listed::<ClusterExtension>(&found)),
        };
    }
    if found.is_empty() {
        return nothing(None);
    }
    let mut rows = vec![titles(&["NAME", "INSTALLED BUNDLE", "VERSION", "SOURCE TYPE", "INSTALLED", "PROGRESSING", "AGE"])];
    rows.extend(found.iter().map(|one| {
        let bundle = &one["status"]["install"]["bundle"];
        let source = text(&one["spec"]["source"]["sourceType"]);
        vec![
            text(&one["metadata"]["name"]),
            text(&bundle["name"]),
            text(&bundle["version"]),
            source,
            status(one, "Installed"),
            status(one, "Progressing"),
            age(one),
        ]
    }));
    table(&rows)
}

/// Changes an extension.
pub async fn update(context: &Context, arguments: &Update) -> Result<(), Failure> {
    let Update { name, mutable, ignore_unset, dry } = arguments;
    let wanted = |outcome| failed("failed to update extension", outcome);
    let live = match extensions::get(&context.session, name).await {
        Ok(live) => value(&live)?,
        Err(failure) => return wanted(Err(failure.into())),
    };
    let mut patch = json!({"metadata": {"uid": live["metadata"]["uid"]}, "spec": spec(mutable, !ignore_unset)?});
    let labels = labels(&mutable.labels)?;
    if !labels.is_empty() {
        patch["metadata"]["labels"] = Value::Object(labels);
    }
    let step = Step::Patch { object: reference(name), subresource: String::new(), patch: Patch::Merge(patch.clone()) };
    wanted(dry.carry_out(context, &step).await)?;
    let mut object = live;
    mainstay_merge::merge_patch(&mut object, &patch);
    dry.say(&format!("extension {name:?} updated"), &object)
}
