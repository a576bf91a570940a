//! `grpc.health.v1.Health` (CATLG-36): a registry that answers is healthy, for every service name.

use futures::stream::Empty;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

pub(super) struct Healthy;

#[tonic::async_trait]
impl Health for Healthy {
    type WatchStream = Empty<Result<HealthCheckResponse, Status>>;

    async fn check(&self, _request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        Ok(Response::new(HealthCheckResponse { status: ServingStatus::Serving.into() }))
    }

    /// As upstream: after this answer a client treats the service as healthy and asks no more.
    async fn watch(&self, _request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("method Watch not implemented"))
    }
}
