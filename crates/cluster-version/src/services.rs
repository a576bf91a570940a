//! The update service over HTTP, releases that were given when the program was started, and the metrics of the cluster.

use std::borrow::Cow;
use std::collections::BTreeSet;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use mainstay_update_client::{ClusterProxy, LIMITS, Metrics};
use mainstay_update_graph::graph_data::Channel;
use mainstay_update_graph::{
    BuildError, EvaluationError, GraphData, GraphLimits, MatchingRule, Parameters, Query, Release, RetrievalError, Retrieved, answer,
    build, retrieve,
};

use crate::updates::{Proxy, UpdateService};

/// The update service of a cluster that names none (CVO-USC-01).
const DEFAULT: &str = "https://api.openshift.com/api/upgrades_info/v1/graph";
/// The name of the graph of given releases; nothing is asked there.
const GIVEN: &str = "https://releases.mainstay.invalid/graph";

/// The update service and the metrics of one cluster.
pub struct Services {
    given: Vec<Release>,
    graph_data: Option<GraphData>,
    metrics: Metrics,
    user_agent: String,
}

impl Services {
    /// Asks the update service that the cluster names. If it names none and releases were given, these are the graph: each of them is in every
    /// channel, with the edges that their metadata have.
    pub fn new(given: Vec<Release>, metrics: Metrics, user_agent: String) -> Self {
        Self { given, graph_data: None, metrics, user_agent }
    }

    /// The same, with channels and blocked edges of the given releases: those of an update service, without one.
    #[must_use]
    pub fn with_graph_data(self, data: GraphData) -> Self {
        Self { graph_data: Some(data), ..self }
    }

    /// The graph-data of the given releases: every release in the channel that is asked for, where none was given.
    fn graph_data(&self, channel: &str) -> Cow<'_, GraphData> {
        if let Some(data) = &self.graph_data {
            return Cow::Borrowed(data);
        }
        let versions: BTreeSet<_> = self.given.iter().map(|release| release.metadata.version.clone()).collect();
        let channel =
            Channel { file: "given".to_owned(), name: channel.to_owned(), versions: versions.into_iter().collect(), unknown: Vec::new() };
        Cow::Owned(GraphData { channels: vec![channel], ..GraphData::default() })
    }

    fn known(&self, query: &Query) -> Result<Retrieved, RetrievalError> {
        let request = query.request()?;
        let data = self.graph_data(&query.channel);
        let invalid = |error: &dyn std::fmt::Display| RetrievalError::RemoteFailed(error.to_string());
        let built = build(self.given.clone(), &data, &GraphLimits::default()).map_err(|error: BuildError| invalid(&error))?;
        let architecture = query.desired_architecture.to_lowercase();
        let graph = answer(&built, &Parameters { channel: query.channel.clone(), architecture });
        let body = serde_json::to_vec(&graph).map_err(|error| invalid(&error))?;
        retrieve(query, &request.version, "200 OK", &body)
    }
}

impl UpdateService for Services {
    fn endpoint(&self) -> String {
        if self.given.is_empty() { DEFAULT } else { GIVEN }.to_owned()
    }

    fn ask<'a>(&'a self, query: &'a Query, proxy: &'a Proxy) -> BoxFuture<'a, Result<Retrieved, RetrievalError>> {
        async move {
            if query.update_service == GIVEN {
                return self.known(query);
            }
            mainstay_update_client::ask(query, &proxy.of_requests().outbound(&self.user_agent, LIMITS)).await
        }
        .boxed()
    }

    fn evaluate<'a>(&'a self, rule: &'a MatchingRule) -> BoxFuture<'a, Result<bool, EvaluationError>> {
        async move { self.metrics.matches(rule).await.map_err(|error| EvaluationError(error.to_string())) }.boxed()
    }
}

impl Proxy {
    /// The proxy as clients take it.
    pub(crate) fn of_requests(&self) -> ClusterProxy<'_> {
        ClusterProxy { http: &self.http_proxy, https: &self.https_proxy, none: &self.no_proxy, authorities: &self.trusted }
    }
}
