//! HTTP/2 by hand: a client that does what no library would.

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::scene::Scene;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// A request to be written.
pub struct Request {
    method: &'static str,
    path: String,
    headers: Vec<(String, String)>,
}

impl Request {
    pub fn get(path: &str) -> Self {
        Self { method: "GET", path: path.to_owned(), headers: Vec::new() }
    }

    pub fn post(path: &str) -> Self {
        Self { method: "POST", path: path.to_owned(), headers: Vec::new() }.header("content-type", "application/json")
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn token(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    /// The header block: literals, nothing indexed, nothing compressed.
    fn block(&self) -> Vec<u8> {
        let mut block = Vec::new();
        let pseudo = [(":method", self.method), (":scheme", "https"), (":path", &self.path), (":authority", "localhost")];
        let own = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in pseudo.into_iter().chain(own) {
            block.push(0);
            for text in [name, value] {
                length(&mut block, text.len());
                block.extend_from_slice(text.as_bytes());
            }
        }
        block
    }
}

/// An integer with a prefix of seven bits.
fn length(block: &mut Vec<u8>, length: usize) {
    if length < 127 {
        block.push(length as u8);
        return;
    }
    block.push(127);
    let mut rest = length - 127;
    while rest >= 128 {
        block.push((rest % 128 + 128) as u8);
        rest /= 128;
    }
    block.push(rest as u8);
}

/// A connection, and what was written to it and not yet sent.
pub struct Raw {
    stream: TlsStream<TcpStream>,
    out: Vec<u8>,
    next: u32,
}

impl Raw {
    /// Opens a connection whose streams may be sent this many bytes each.
    pub async fn open(scene: &Scene, window: u32) -> Self {
        Self::try_open(scene, window).await.unwrap()
    }

    /// The same; the server may have ended it for others.
    pub async fn try_open(scene: &Scene, window: u32) -> io::Result<Self> {
        let stream = scene.try_secure().await?;
        let mut raw = Self { stream, out: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), next: 1 };
        let mut settings = vec![0, 4];
        settings.extend(window.to_be_bytes());
        raw.frame(SETTINGS, 0, 0, &settings);
        raw.frame(SETTINGS, 1, 0, &[]);
        raw.flush().await;
        Ok(raw)
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
        self.out.extend_from_slice(&[kind, flags]);
        self.out.extend_from_slice(&stream.to_be_bytes());
        self.out.extend_from_slice(payload);
    }

    /// Begins a request; a GET ends with it.
    pub fn request(&mut self, request: &Request) -> u32 {
        let stream = self.next;
        self.next += 2;
        let end = if request.method == "GET" { END_STREAM } else { 0 };
        self.frame(HEADERS, END_HEADERS | end, stream, &request.block());
        stream
    }

    /// A piece of its body.
    pub fn data(&mut self, stream: u32, bytes: &[u8], end: bool) {
        self.frame(DATA, u8::from(end), stream, bytes);
    }

    /// Sends what was written; a connection that the server has ended takes nothing.
    pub async fn flush(&mut self) {
        let _ = self.try_flush().await;
    }

    /// The same, and whether the connection is still there.
    pub async fn try_flush(&mut self) -> io::Result<()> {
        let out = std::mem::take(&mut self.out);
        self.stream.write_all(&out).await?;
        self.stream.flush().await?;
        // What the server says is thrown away, as far as it is there.
        let mut scratch = [0; 16 << 10];
        loop {
            tokio::select! {
                biased;
                read = self.stream.read(&mut scratch) => {
                    if read? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                () = std::future::ready(()) => return Ok(()),
            }
        }
    }

    /// Gives up one of the last requests.
    pub fn reset(&mut self, back: u32) {
        let stream = self.next.saturating_sub(2 * back + 2).max(1);
        self.frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    }

    /// A thousand frames of a sort.
    pub async fn nuisance(&mut self, sort: usize, token: &str) -> io::Result<()> {
        self.frames(sort, 1_000, token);
        self.try_flush().await
    }

    /// Frames of a sort.
    pub fn frames(&mut self, sort: usize, count: u32, token: &str) {
        let stream = match sort {
            2 | 4 | 5 => Some(self.request(&Request::post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").token(token))),
            _ => None,
        };
        for n in 0..count {
            match (sort, stream) {
                (0, _) => self.frame(PING, 0, 0, &[7; 8]),
                (1, _) => self.frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0xff, 0xff]),
                (2, Some(stream)) => self.frame(DATA, 0, stream, &[]),
                (3, _) => {
                    let stream = self.request(&Request::get("/openapi/v2").token(token));
                    self.frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes());
                }
                (4, Some(stream)) => self.frame(WINDOW_UPDATE, 0, stream, &1_u32.to_be_bytes()),
                (5, Some(stream)) => self.frame(DATA, 0, stream, b" "),
                _ => {
                    // One header after the other, and never the last.
                    let block = Request::get("/").header(&format!("x-{n}"), &"v".repeat(200)).block();
                    let first = n == 0;
                    let stream = self.next;
                    self.frame(if first { HEADERS } else { CONTINUATION }, 0, stream, &block);
                }
            }
        }
    }
}
