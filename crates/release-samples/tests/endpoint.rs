//! The metrics endpoint.

use jiff::Timestamp;
use mainstay_release_samples::metrics::Endpoint;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

async fn ask(address: std::net::SocketAddr, method: &str, path: &str, kind: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let head =
        format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

/// CVO-SIM-06, CVO-RISK-03: a known query has one sample whose value is switched; others have none; errors are Prometheus' own.
#[tokio::test]
async fn answers_as_prometheus_does() {
    let endpoint = Endpoint::new(["up > bool 0"], false, || Timestamp::from_millisecond(1_500).unwrap());
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(endpoint.serve(listener, std::future::pending()));
    let get = async |path: &str| ask(address, "GET", path, "text/plain", "").await;
    let vector = |result: &str| format!(r#"{{"data":{{"result":{result},"resultType":"vector"}},"status":"success"}}"#);
    let known = "/api/v1/query?query=up+%3E+bool+0";
    assert_eq!(get(known).await, (200, vector(r#"[{"metric":{},"value":[1.5,"0"]}]"#)));
    assert_eq!(ask(address, "PUT", "/value", "text/plain", "1").await, (200, "1\n".to_owned()));
    assert_eq!(get(known).await, (200, vector(r#"[{"metric":{},"value":[1.5,"1"]}]"#)));
    let form = ask(address, "POST", "/api/v1/query", "application/x-www-form-urlencoded", "query=up+%3E+bool+0&time=7").await;
    assert_eq!(form, (200, vector(r#"[{"metric":{},"value":[7.0,"1"]}]"#)));
    assert_eq!(get("/api/v1/query?query=other").await, (200, vector("[]")));
    let (status, body) = get("/api/v1/query").await;
    assert_eq!(status, 400);
    assert!(body.contains(r#""errorType":"bad_data""#) && body.contains("no expression found in input"), "{body}");
    assert_eq!(get("/api/v1/query?query=a&time=noon").await.0, 400);
    assert_eq!(ask(address, "PUT", "/value", "text/plain", "2").await.0, 400);
    assert_eq!(get("/value").await, (200, "1\n".to_owned()));
}
