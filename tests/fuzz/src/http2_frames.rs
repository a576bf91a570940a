//! HTTP/2 by its structure: whatever bytes come, they are frames that are nearly well-formed, so that what is tried is what frames mean
//! together and not how a length may be wrong.
//!
//! A byte says which frame comes next; those after it choose its stream, its flags and its content from a few that meet often. One of the
//! choices repeats the last frames, so that a short input is a flood.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::{get, post};
use mainstay_serve::Limits;
use mainstay_serve::fuzz::Listener;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::choices::Choices;
use crate::connections::is_empty;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Frames of one connection.
const MOST_FRAMES: usize = 2_000;
/// Bytes of one connection.
const MOST_BYTES: usize = 1 << 20;
/// The largest answer.
const LARGE: usize = 100_000;
/// How long a connection may take to end after its client did. It takes milliseconds; a machine may be busy.
const ENDS: Duration = Duration::from_secs(60);

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const UNKNOWN: u8 = 0x2a;

/// A connection ends soon after its client does, and then holds neither its place nor a byte; on the way it says no more than its requests
/// and frames account for.
pub(crate) fn frames(data: &[u8]) {
    let Written { bytes, frames, heads } = written(data);
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        let listener = Listener::new(router(), None, Limits::default());
        let (ours, theirs) = tokio::io::duplex(16 << 10);
        let Some(served) = listener.connect(theirs, HERE) else { panic!("the first connection has no place") };
        let (mut reading, mut writing) = tokio::io::split(ours);
        let client = async {
            let write = async {
                // A connection that the server has ended takes nothing.
                let _ = writing.write_all(&bytes).await;
                let _ = writing.shutdown().await;
            };
            let read = async {
                let (mut told, mut scratch) = (0, vec![0; 16 << 10]);
                while let Ok(read @ 1..) = reading.read(&mut scratch).await {
                    told += read;
                }
                told
            };
            tokio::join!(write, read).1
        };
        let ended = tokio::time::timeout(ENDS, Box::pin(async { tokio::join!(served, client).1 })).await;
        let Ok(told) = ended else { panic!("the connection of a client that is gone does not end") };
        assert!(told > 0, "the server does not greet");
        // An answer in frames of 16 KiB, its headers, and what each frame is answered with.
        let allowed = 4096 + heads * (LARGE + LARGE / 500 + 1024) + frames * 64;
        assert!(told <= allowed, "{told} bytes for {frames} frames, {heads} of them heads");
        assert!(is_empty(&listener).await, "{} connections and {} bytes that nobody has any more", listener.open(), listener.held());
    });
}

fn router() -> Router {
    let echo = |body: Bytes| async move { if body.len() > LARGE { Bytes::new() } else { body } };
    Router::new()
        .route("/", get(|| async { "small" }).post(echo))
        .route("/large", get(|| async { Body::from(vec![b'x'; LARGE]) }))
        .route("/never", get(std::future::pending::<&'static str>))
        .route("/unread", post(|| async { "not read" }))
}

/// What a client sends.
struct Written {
    bytes: Vec<u8>,
    frames: usize,
    /// Frames that may begin a request.
    heads: usize,
}

impl Written {
    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.frames += 1;
        self.heads += usize::from(kind == HEADERS);
        self.bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
        self.bytes.extend_from_slice(&[kind, flags]);
        self.bytes.extend_from_slice(&stream.to_be_bytes());
        self.bytes.extend_from_slice(payload);
    }
}

fn written(data: &[u8]) -> Written {
    let mut choices = Choices(data);
    let mut out = Written { bytes: PREFACE.to_vec(), frames: 0, heads: 0 };
    out.frame(SETTINGS, 0, 0, &[]);
    // Where the last frames began, and what had been counted then.
    let mut begun = vec![(out.bytes.len(), out.frames, out.heads)];
    let mut next = 1;
    while let Some(what) = choices.next() {
        if out.frames >= MOST_FRAMES || out.bytes.len() >= MOST_BYTES {
            break;
        }
        begun.push((out.bytes.len(), out.frames, out.heads));
        if what % 16 == 15 {
            let (back, times) = (choices.number() % 4 + 1, choices.number() + 1);
            let (at, frames, heads) = begun[begun.len().saturating_sub(back + 1)];
            let (part, frames, heads) = (out.bytes[at..].to_vec(), out.frames - frames, out.heads - heads);
            let room = (MOST_BYTES / part.len().max(1)).min(MOST_FRAMES / frames.max(1));
            for _ in 0..times.min(room) {
                out.bytes.extend_from_slice(&part);
                out.frames += frames;
                out.heads += heads;
            }
            continue;
        }
        append(&mut out, what % 16, &mut next, &mut choices);
    }
    out
}

fn append(out: &mut Written, what: u8, next: &mut u32, choices: &mut Choices<'_>) {
    match what {
        // A request on a stream of its own, whole or to be gone on with.
        0..=3 => {
            let (block, flags) = (block(choices), choices.of(&[0x4, 0x5, 0x5, 0x4, 0x1, 0x0, 0x2d, 0x24]));
            let stream = *next;
            *next += 2;
            out.frame(HEADERS, flags, stream, &padded(flags, &block, choices));
        }
        // Headers, or more of them, where they may not be: trailers, an even stream, the connection.
        4 => {
            let (stream, block) = (stream(choices), block(choices));
            out.frame(HEADERS, choices.of(&[0x5, 0x4]), stream, &block);
        }
        5 => {
            let (stream, block) = (stream(choices), block(choices));
            out.frame(CONTINUATION, choices.of(&[0x0, 0x4]), stream, &block);
        }
        6 | 7 => {
            let (stream, flags, length) = (stream(choices), choices.of(&[0, 1, 0, 8, 9]), choices.number() * choices.of(&[0, 1, 40]));
            out.frame(DATA, flags, stream, &padded(flags, &vec![b'x'; length], choices));
        }
        8 => {
            let code = (choices.number() % 15) as u32;
            out.frame(RST_STREAM, 0, stream(choices), &code.to_be_bytes());
        }
        9 => {
            let mut settings = Vec::new();
            for _ in 0..choices.number() % 4 {
                let (name, value) =
                    (choices.number() as u16 % 10, choices.of(&[0_u32, 1, 100, 16_384, 65_535, 0x7fff_ffff, 0x8000_0000, u32::MAX]));
                settings.extend(name.to_be_bytes());
                settings.extend(value.to_be_bytes());
            }
            let acknowledges = choices.number().is_multiple_of(8);
            out.frame(SETTINGS, u8::from(acknowledges), 0, if acknowledges { &[] } else { &settings });
        }
        10 => out.frame(PING, choices.of(&[0, 0, 1]), choices.of(&[0, 0, 0, 1]), &[7; 9][..choices.of(&[8, 8, 8, 9, 0])]),
        11 | 12 => {
            let by = choices.of(&[0_u32, 1, 65_535, 0x7fff_ffff, u32::MAX]);
            out.frame(WINDOW_UPDATE, 0, stream(choices), &by.to_be_bytes());
        }
        13 => {
            let (stream, on) = (stream(choices), stream(choices));
            out.frame(PRIORITY, 0, stream, &[on.to_be_bytes().as_slice(), &[16]].concat());
        }
        _ => match choices.number() % 5 {
            0 => out.frame(GOAWAY, 0, 0, &[0, 0, 0, 9, 0, 0, 0, 0, b'b', b'y', b'e']),
            1 => out.frame(PUSH_PROMISE, 4, 1, &[0, 0, 0, 2, 0x82]),
            2 => out.frame(UNKNOWN, 0xff, stream(choices), b"whatever"),
            3 => {
                let count = choices.number();
                let bytes = choices.bytes(count).to_vec();
                out.frames += bytes.len();
                out.bytes.extend(bytes);
            }
            // A frame that is said to be longer than a server takes.
            _ => out.bytes.extend([0xff, 0xff, 0xff, choices.of(&[DATA, HEADERS, SETTINGS]), 0, 0, 0, 0, 1]),
        },
    }
}

/// The streams that frames meet on; those of the connection, of servers, and beyond all others among them.
fn stream(choices: &mut Choices<'_>) -> u32 {
    choices.of(&[1, 1, 3, 3, 5, 7, 9, 0, 2, 101, 0x7fff_ffff])
}

/// A payload as its flags say: with padding, with a priority.
fn padded(flags: u8, payload: &[u8], choices: &mut Choices<'_>) -> Vec<u8> {
    let padding = if flags & 0x8 == 0 { 0 } else { choices.number() % 20 };
    let mut bytes = Vec::with_capacity(payload.len() + 26);
    if flags & 0x8 != 0 {
        // Some say more than there is.
        bytes.push(if padding == 13 { 255 } else { padding as u8 });
    }
    if flags & 0x20 != 0 {
        bytes.extend([0, 0, 0, (choices.number() % 8) as u8, 16]);
    }
    bytes.extend_from_slice(payload);
    bytes.resize(bytes.len() + padding, 0);
    bytes
}

/// A block of headers: one of a few requests, and what may be wrong with it.
fn block(choices: &mut Choices<'_>) -> Vec<u8> {
    let (method, path) = choices.of(&[
        ("GET", "/"),
        ("GET", "/large"),
        ("GET", "/never"),
        ("POST", "/"),
        ("POST", "/unread"),
        ("GET", "/none"),
        ("CONNECT", ""),
    ]);
    let mut block = Vec::new();
    let oddity = choices.number();
    let pseudo = [(":method", method), (":scheme", "https"), (":path", path), (":authority", "localhost")];
    for (at, (name, value)) in pseudo.into_iter().enumerate() {
        if oddity != 200 + at {
            literal(&mut block, name, value);
        }
    }
    match oddity {
        100..=109 => literal(&mut block, "content-length", choices.of(&["0", "5", "4000", "99999999999999999999", "-1"])),
        110..=119 => literal(&mut block, "x-large", &"v".repeat(choices.number() * 70)),
        120..=129 => (0..choices.number()).for_each(|n| literal(&mut block, &format!("x-{n}"), "v")),
        130..=139 => literal(
            &mut block,
            choices.of(&["connection", "te", "transfer-encoding", "upgrade", "Upper-Case", "", ":path", ":status", "a b"]),
            "close",
        ),
        140..=149 => literal(&mut block, "expect", "100-continue"),
        150..=159 => block.splice(0..0, [0x3f, 0xff, 0xff, 0xff, 0x0f]).for_each(drop),
        160..=169 => block.extend(vec![choices.of(&[0x80, 0xbe, 0xff, 0x82, 0x20]); choices.number() % 40 + 1]),
        170..=179 => block.extend([0x00, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        180..=189 => block.extend([0x40, 0x83, 0xff, 0xff, 0xff, 0x83, 0xfe, 0xfe, 0xfe]),
        190..=199 => {
            // Indexed, so that the table fills, and then each costs a byte.
            block.push(0x40);
            length(&mut block, 3);
            block.extend_from_slice(b"x-i");
            length(&mut block, 3000);
            block.extend(vec![b'i'; 3000]);
            block.extend(vec![0xbe; choices.number()]);
        }
        // Most blocks have nothing odd.
        _ => {}
    }
    block
}

/// A header that is not indexed and not compressed.
fn literal(block: &mut Vec<u8>, name: &str, value: &str) {
    block.push(0);
    for text in [name, value] {
        length(block, text.len());
        block.extend_from_slice(text.as_bytes());
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

pub(crate) fn frame_seeds() -> Vec<Vec<u8>> {
    vec![
        // Requests one after the other, one of them large, with a body, and reset.
        vec![0, 0, 0, 1, 0, 1, 0, 1, 1, 3, 0, 0, 6, 2, 1, 10, 1, 8, 0, 2],
        // Heads that are reset at once, often.
        vec![0, 1, 0, 1, 8, 0, 8, 15, 1, 255],
        // No window, then requests for large answers.
        vec![9, 1, 4, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 15, 0, 120],
        // Pings, settings, windows and empty data without end.
        vec![10, 0, 0, 0, 9, 0, 1, 3, 3, 0, 0, 11, 1, 1, 6, 1, 0, 0, 0, 15, 3, 255, 15, 3, 255],
        // Headers that are never whole.
        vec![0, 0, 120, 40, 5, 5, 0, 0, 110, 200, 0, 15, 0, 255],
        // What is not allowed.
        vec![4, 7, 0, 0, 13, 0, 0, 14, 2, 1, 14, 1, 14, 4, 0],
        // Tables that are filled and used.
        vec![0, 0, 190, 200, 1, 1, 0, 160, 1, 30, 1, 0, 0, 150, 1, 14, 0],
    ]
}
