//! Asking a process as its probes say, by TCP, HTTP and gRPC on 127.0.0.1 (KAPI-WL-07).

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::error::ProcessError;

/// The most that is read of an answer, in bytes.
const LONGEST: usize = 10 << 10;

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Opens a connection.
///
/// # Errors
/// The reason why there is none, in the words of the kubelet.
pub async fn tcp(port: u16) -> Result<TcpStream, ProcessError> {
    Ok(TcpStream::connect(local(port)).await.map_err(|error| format!("dial tcp 127.0.0.1:{port}: {error}"))?)
}

/// Asks by HTTP.
///
/// # Errors
/// The answer is no success, or there is none.
pub async fn http(tls: bool, port: u16, path: &str, headers: &[(String, String)]) -> Result<(), ProcessError> {
    let scheme = if tls { "https" } else { "http" };
    let failed = |why: &dyn std::fmt::Display| format!("Get \"{scheme}://127.0.0.1:{port}{path}\": {why}");
    let mut request = format!("GET {path} HTTP/1.1\r\n");
    let own = [("Host", format!("127.0.0.1:{port}")), ("User-Agent", "kube-probe/1.34".to_owned()), ("Accept", "*/*".to_owned())];
    let own = own.into_iter().filter(|(name, _)| !headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)));
    for (name, value) in own.map(|(name, value)| (name.to_owned(), value)).chain(headers.iter().cloned()) {
        request.extend([&name, ": ", &value, "\r\n"]);
    }
    request.push_str("Connection: close\r\n\r\n");
    let stream = tcp(port).await.map_err(|why| failed(&why))?;
    let status = if tls {
        let connector = TlsConnector::from(Arc::new(unverified().map_err(|error| failed(&error))?));
        let name = ServerName::IpAddress(Ipv4Addr::LOCALHOST.into());
        let stream = connector.connect(name, stream).await.map_err(|error| failed(&error))?;
        ask(stream, &request).await
    } else {
        ask(stream, &request).await
    };
    match status.map_err(|why| failed(&why))? {
        200..400 => Ok(()),
        other => Err(format!("HTTP probe failed with statuscode: {other}").into()),
    }
}

async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> Result<u16, ProcessError> {
    stream.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
    let mut answer = Vec::new();
    let mut part = [0; 1024];
    while !answer.contains(&b'\n') && answer.len() < LONGEST {
        match stream.read(&mut part).await {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&part[..count]),
            Err(error) => return Err(error.to_string().into()),
        }
    }
    let line = String::from_utf8_lossy(&answer);
    let line = line.lines().next().unwrap_or_default();
    let mut words = line.split(' ');
    let protocol = words.next().unwrap_or_default();
    let status = words.next().and_then(|status| status.parse().ok()).filter(|_| protocol.starts_with("HTTP/1."));
    Ok(status.ok_or("the answer is not HTTP/1")?)
}

/// Asks the gRPC health service.
///
/// # Errors
/// It is not serving, or does not answer.
pub async fn grpc(port: u16, service: &str) -> Result<(), ProcessError> {
    let failed = |why: &dyn std::fmt::Display| format!("failed to connect service \"127.0.0.1:{port}\": {why}");
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://127.0.0.1:{port}")).map_err(|error| failed(&error))?;
    let channel = endpoint.connect().await.map_err(|error| failed(&error))?;
    let asked = HealthClient::new(channel).check(HealthCheckRequest { service: service.to_owned() }).await;
    let status = asked.map_err(|status| format!("rpc error: {}", status.message()))?.into_inner().status();
    if status == ServingStatus::Serving {
        Ok(())
    } else {
        Err(format!("service unhealthy (responded with {:?})", status.as_str_name()).into())
    }
}

/// TLS without a look at the certificate, as the kubelet's probes do it: they ask whether the process answers, and send it nothing.
fn unverified() -> Result<ClientConfig, rustls::Error> {
    let provider = ring::default_provider();
    let verifier = Arc::new(Unverified(provider.signature_verification_algorithms));
    let builder = ClientConfig::builder_with_provider(Arc::new(provider)).with_protocol_versions(rustls::ALL_VERSIONS)?;
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

#[derive(Debug)]
struct Unverified(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;
    use tonic::transport::Server;
    use tonic::transport::server::TcpIncoming;
    use tonic_health::ServingStatus as Status;

    use super::*;

    async fn listen() -> (TcpListener, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, port)
    }

    /// KAPI-WL-07: the gRPC health service is asked for a service, and anything but SERVING is a failure.
    #[tokio::test]
    async fn grpc_is_asked() {
        let (listener, port) = listen().await;
        let (reporter, service) = tonic_health::server::health_reporter();
        reporter.set_service_status("up", Status::Serving).await;
        reporter.set_service_status("down", Status::NotServing).await;
        let serving = tokio::spawn(Server::builder().add_service(service).serve_with_incoming(TcpIncoming::from(listener)));
        assert_eq!((grpc(port, "").await, grpc(port, "up").await), (Ok(()), Ok(())));
        assert_eq!(grpc(port, "down").await.unwrap_err().to_string(), "service unhealthy (responded with \"NOT_SERVING\")");
        assert!(grpc(port, "unknown").await.unwrap_err().to_string().starts_with("rpc error: "));
        serving.abort();
        let _ = serving.await;
        assert!(grpc(port, "").await.unwrap_err().to_string().starts_with(&format!("failed to connect service \"127.0.0.1:{port}\"")));
    }

    /// KAPI-WL-07: HTTP and HTTPS, with a certificate of any signer: 2xx and 3xx are successes; what is no HTTP, and no answer, are failures.
    #[tokio::test]
    async fn http_is_asked() {
        let made = rcgen::generate_simple_self_signed(vec!["elsewhere".to_owned()]).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config =
            rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider())).with_safe_default_protocol_versions().unwrap();
        let acceptor =
            TlsAcceptor::from(Arc::new(config.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).unwrap()));
        for (tls, answer, expected) in [
            (false, "HTTP/1.1 200 OK\r\n\r\n", None),
            (true, "HTTP/1.0 302 Found\r\n\r\n", None),
            (false, "HTTP/1.1 404 Not Found\r\n\r\n", Some("HTTP probe failed with statuscode: 404")),
            (true, "HTTP/1.1 500 No\r\n\r\n", Some("HTTP probe failed with statuscode: 500")),
            (false, "SSH-2.0-x\r\n", Some("the answer is not HTTP/1")),
            (false, "", Some("the answer is not HTTP/1")),
        ] {
            let (listener, port) = listen().await;
            let acceptor = acceptor.clone();
            let serving = tokio::spawn(async move {
                let (stream, _) = listener.accept().await.unwrap();
                let mut request = vec![0; 1_000];
                if tls {
                    let mut stream = acceptor.accept(stream).await.unwrap();
                    let count = stream.read(&mut request).await.unwrap();
                    stream.write_all(answer.as_bytes()).await.unwrap();
                    let _ = stream.shutdown().await;
                    request.truncate(count);
                } else {
                    let mut stream = stream;
                    let count = stream.read(&mut request).await.unwrap();
                    stream.write_all(answer.as_bytes()).await.unwrap();
                    request.truncate(count);
                }
                String::from_utf8(request).unwrap()
            });
            let headers = [("Host".to_owned(), "named".to_owned()), ("X-A".to_owned(), "1".to_owned())];
            let outcome = http(tls, port, "/healthz?x=1", &headers).await;
            match expected {
                None => assert_eq!(outcome, Ok(()), "{answer}"),
                Some(why) => assert!(outcome.as_ref().unwrap_err().to_string().contains(why), "{outcome:?}"),
            }
            let asked = serving.await.unwrap();
            assert!(
                asked.starts_with("GET /healthz?x=1 HTTP/1.1\r\n") && asked.contains("Host: named\r\n") && asked.contains("X-A: 1\r\n"),
                "{asked}"
            );
            assert_eq!(asked.matches("Host:").count(), 1);
        }
        let (listener, port) = listen().await;
        drop(listener);
        assert!(http(false, port, "/", &[]).await.unwrap_err().to_string().contains("dial tcp 127.0.0.1:"));
    }
}
