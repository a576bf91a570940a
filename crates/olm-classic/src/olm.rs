//! The OLM operator: ClusterServiceVersions, OperatorGroups, OperatorConditions and OLMConfig.
