//! Facts of explanations of OLM classic's objects (MS-EXPL-02). The decisions are `olm-classic-core`'s.

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams};
use mainstay_diagnostics::{Failure, FailureKind};
use mainstay_olm_classic_core::csv::Group;
use mainstay_olm_classic_core::explain::{
    self, CatalogSourceFacts, CsvFacts, Explanation, InstallPlanFacts, OperatorConditionFacts, OperatorGroupFacts, SubscriptionFacts,
};
use mainstay_olm_classic_core::overview::is_copy;
use mainstay_olm_classic_core::package::Package;
use mainstay_olm_classic_core::token_auth;
use serde_json::Value;

use super::objects::{
    CATALOG_SOURCE, CSV, INSTALL_PLAN, Kind, OPERATOR_CONDITION, OPERATOR_GROUP, SUBSCRIPTION, find, get, list, list_by, list_if_served,
    text,
};
use super::packages;
use super::platform::{account_rules, token_cloud, version};
use crate::session::Session;

/// The namespace whose catalogs every namespace sees.
pub(super) const GLOBAL_CATALOGS: &str = "openshift-marketplace";

/// The kind of an explained object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A Subscription.
    Subscription,
    /// A ClusterServiceVersion.
    Csv,
    /// An InstallPlan.
    InstallPlan,
    /// A CatalogSource.
    CatalogSource,
    /// An OperatorGroup.
    OperatorGroup,
    /// An OperatorCondition.
    OperatorCondition,
}

impl Subject {
    /// Reads a kind as kubectl takes it.
    pub fn parse(word: &str) -> Option<Self> {
        match word.to_lowercase().split('.').next().unwrap_or_default() {
            "subscription" | "subscriptions" | "sub" | "subs" => Some(Self::Subscription),
            "csv" | "csvs" | "clusterserviceversion" | "clusterserviceversions" => Some(Self::Csv),
            "installplan" | "installplans" | "ip" => Some(Self::InstallPlan),
            "catalogsource" | "catalogsources" | "catsrc" => Some(Self::CatalogSource),
            "operatorgroup" | "operatorgroups" | "og" => Some(Self::OperatorGroup),
            "operatorcondition" | "operatorconditions" | "condition" => Some(Self::OperatorCondition),
            _ => None,
        }
    }

    /// The kind in the API.
    pub fn kind(self) -> Kind {
        match self {
            Self::Subscription => SUBSCRIPTION,
            Self::Csv => CSV,
            Self::InstallPlan => INSTALL_PLAN,
            Self::CatalogSource => CATALOG_SOURCE,
            Self::OperatorGroup => OPERATOR_GROUP,
            Self::OperatorCondition => OPERATOR_CONDITION,
        }
    }
}

/// Explains an object. Without a namespace, the only one of this name is taken.
///
/// # Errors
/// It is not there, several have the name, or the facts cannot be read.
pub async fn explain(session: &Session, subject: Subject, namespace: Option<&str>, name: &str) -> Result<Explanation, Failure> {
    let object = object(session, subject.kind(), namespace, name).await?;
    let namespace = text(&object, "/metadata/namespace");
    match subject {
        Subject::Subscription => subscription(session, &namespace, object).await,
        Subject::Csv => {
            let facts = CsvObjects::read(session, object).await?;
            let mut found = explain::csv(&facts.facts());
            found.notes.extend(token_auth::author_notes(&facts.csv));
            Ok(found)
        }
        Subject::InstallPlan => {
            let groups = list(session, OPERATOR_GROUP, Some(&namespace)).await?;
            Ok(explain::install_plan(&InstallPlanFacts { plan: &object, groups: &groups }))
        }
        Subject::CatalogSource => {
            let mut subscriptions = list(session, SUBSCRIPTION, None).await?;
            let is_global = namespace == GLOBAL_CATALOGS;
            subscriptions.retain(|each| is_global || text(each, "/metadata/namespace") == namespace);
            Ok(explain::catalog_source(&CatalogSourceFacts { source: &object, subscriptions: &subscriptions }))
        }
        Subject::OperatorCondition => {
            let csvs = list(session, CSV, Some(&namespace)).await?;
            Ok(explain::operator_condition(&OperatorConditionFacts { condition: &object, csvs: &csvs }))
        }
        Subject::OperatorGroup => {
            let groups = list(session, OPERATOR_GROUP, None).await?;
            let csvs = list(session, CSV, None).await?;
            let account_rules = account_rules(session, &[Group::read(&object)]).await;
            Ok(explain::operator_group(&OperatorGroupFacts { group: &object, groups: &groups, csvs: &csvs, account_rules: &account_rules }))
        }
    }
}

/// Explains the only Subscription of a name, if OLM classic is there and one has it.
pub async fn subscription_named(session: &Session, namespace: Option<&str>, name: &str) -> Result<Option<Explanation>, Failure> {
    let Some(mut all) = list_if_served(session, SUBSCRIPTION, namespace).await? else { return Ok(None) };
    all.retain(|each| text(each, "/metadata/name") == name);
    match all.len() {
        0 => Ok(None),
        1 => {
            let object = all.remove(0);
            let namespace = text(&object, "/metadata/namespace");
            subscription(session, &namespace, object).await.map(Some)
        }
        _ => Err(several(SUBSCRIPTION, name, &all)),
    }
}

/// Finds an object by name, in a namespace or anywhere. Of a CSV and its copies, the CSV is meant.
async fn object(session: &Session, kind: Kind, namespace: Option<&str>, name: &str) -> Result<Value, Failure> {
    if let Some(namespace) = namespace {
        return get(session, kind, namespace, name).await;
    }
    let mut all = list_by(session, kind, None, &ListParams::default().fields(&format!("metadata.name={name}"))).await?;
    all.retain(|each| text(each, "/metadata/name") == name);
    if kind == CSV && all.iter().any(|csv| !is_copy(csv)) {
        all.retain(|csv| !is_copy(csv));
    }
    match all.len() {
        0 => Err(kind.not_found("", name).hint(format!("kubectl get {} -A lists them", kind.plural))),
        1 => Ok(all.remove(0)),
        _ => Err(several(kind, name, &all)),
    }
}

fn several(kind: Kind, name: &str, all: &[Value]) -> Failure {
    let namespaces: Vec<String> = all.iter().map(|each| text(each, "/metadata/namespace")).collect();
    let failure =
        Failure::new(FailureKind::Usage, format!("{} {name}", kind.word), "is in several namespaces").because(namespaces.join(", "));
    namespaces.iter().fold(failure, |failure, namespace| failure.hint(format!("-n {namespace} takes that one")))
}

async fn subscription(session: &Session, namespace: &str, object: Value) -> Result<Explanation, Failure> {
    let mut siblings = list(session, SUBSCRIPTION, Some(namespace)).await?;
    siblings.retain(|other| other["metadata"]["name"] != object["metadata"]["name"]);
    let groups = list(session, OPERATOR_GROUP, Some(namespace)).await?;
    let (source, source_namespace) = (text(&object, "/spec/source"), text(&object, "/spec/sourceNamespace"));
    let catalog = match (source.as_str(), source_namespace.as_str()) {
        ("", _) | (_, "") => None,
        (name, place) => find(session, CATALOG_SOURCE, place, name).await?,
    };
    let mut catalogs = list(session, CATALOG_SOURCE, Some(namespace)).await?;
    if namespace != GLOBAL_CATALOGS {
        catalogs.extend(list(session, CATALOG_SOURCE, Some(GLOBAL_CATALOGS)).await?);
    }
    let uid = catalog.as_ref().map(|catalog| text(catalog, "/metadata/uid"));
    catalogs.retain(|other| Some(text(other, "/metadata/uid")) != uid);
    let package: Option<Package> =
        packages::of_catalog(session, namespace, &text(&object, "/spec/name"), (&source, &source_namespace)).await;
    let reference = text(&object, "/status/installPlanRef/name");
    let plan = if reference.is_empty() { None } else { find(session, INSTALL_PLAN, namespace, &reference).await? };
    let (installed, current) = (text(&object, "/status/installedCSV"), text(&object, "/status/currentCSV"));
    let mut csv = None;
    for name in [current, installed].into_iter().filter(|name| !name.is_empty()) {
        csv = find(session, CSV, namespace, &name).await?;
        if csv.is_some() {
            break;
        }
    }
    let csv = match csv {
        Some(csv) => Some(CsvObjects::read(session, csv).await?),
        None => None,
    };
    // A user who may not read the namespace learns the rest all the same.
    let place = Api::<Namespace>::all(session.client.clone()).get(namespace).await.ok().and_then(|found| serde_json::to_value(found).ok());
    let mut found = explain::subscription(&SubscriptionFacts {
        subscription: &object,
        namespace: place.as_ref(),
        siblings: &siblings,
        groups: &groups,
        catalog: catalog.as_ref(),
        catalogs: &catalogs,
        package: package.as_ref(),
        plan: plan.as_ref(),
        csv: csv.as_ref().map(CsvObjects::facts),
    });
    let head = package.as_ref().and_then(|package| package.channel(object.pointer("/spec/channel").and_then(Value::as_str)));
    let annotations = csv.as_ref().map(|csv| &csv.csv["metadata"]["annotations"]).or(head.map(|head| &head.annotations));
    if let Some(annotations) = annotations
        && let Some(cloud) = token_cloud(session).await.filter(|cloud| cloud.is_declared(annotations))
    {
        let env = object.pointer("/spec/config/env").and_then(Value::as_array).cloned().unwrap_or_default();
        found.notes.extend(version(session).await.and_then(|version| token_auth::unavailable(cloud, &version)));
        found.notes.extend(token_auth::notes(cloud, &env, &text(&object, "/spec/installPlanApproval")));
    }
    Ok(found)
}

/// The objects on which the explanation of a CSV rests.
struct CsvObjects {
    csv: Value,
    groups: Vec<Value>,
    csvs: Vec<Value>,
    conditions: Vec<Value>,
    deployments: Vec<Value>,
    pods: Vec<Value>,
}

const DEPLOYMENT: Kind = Kind { group: "apps", version: "v1", kind: "Deployment", plural: "deployments", word: "deployment" };

impl CsvObjects {
    async fn read(session: &Session, csv: Value) -> Result<Self, Failure> {
        let (namespace, name) = (text(&csv, "/metadata/namespace"), text(&csv, "/metadata/name"));
        let groups = list(session, OPERATOR_GROUP, Some(&namespace)).await?;
        let csvs = list(session, CSV, None).await?;
        let conditions = list(session, OPERATOR_CONDITION, Some(&namespace)).await?;
        let labels = ListParams::default().labels(&format!("olm.owner={name},olm.owner.namespace={namespace}"));
        let deployments = if is_copy(&csv) { Vec::new() } else { list_by(session, DEPLOYMENT, Some(&namespace), &labels).await? };
        let mut pods = Vec::new();
        for deployment in &deployments {
            pods.extend(crate::extensions::pods(session, &namespace, &deployment["spec"]["selector"]["matchLabels"]).await?);
        }
        Ok(Self { csv, groups, csvs, conditions, deployments, pods })
    }

    fn facts(&self) -> CsvFacts<'_> {
        let Self { csv, groups, csvs, conditions, deployments, pods } = self;
        CsvFacts { csv, groups, csvs, conditions, deployments, pods }
    }
}
