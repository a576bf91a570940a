//! A watch over a websocket: every event is a message of its own, as kube-apiserver sends it (KAPI-WATCH-01).
//!
//! ```text
//!   Pump ── event ──► message ──► connection     the next event is made when this one was taken
//!                                     │
//!                     ignored ◄── messages       pings are answered, the end is confirmed
//! ```

use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{SinkExt as _, StreamExt as _};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt as _;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use tokio_util::sync::CancellationToken;

use crate::context::{Context, Upgrade};
use crate::error::{ApiError, Result};
use crate::request::negotiate::Format;
use crate::respond::Answer;
use crate::websocket;

/// The largest message of a client, which has nothing to say.
const RECEIVED: usize = 64 * 1024;
/// Read at once.
const READ: usize = 4 * 1024;
/// The time that the other end may take to confirm the end.
const FAREWELL: Duration = Duration::from_secs(5);
/// Bytes of the length that begins a frame of the protobuf stream; a message has its length by itself.
const LENGTH: usize = 4;

/// Processor the connection into a websocket that tells these events.
pub fn answer(context: &Context, format: Format, events: BoxStream<'static, Bytes>) -> Result<Answer> {
    let response = match websocket::handshake(&context.request.headers) {
        Ok(response) => response,
        Err(refusal) => return Ok(Answer::sent(refusal)),
    };
    let Some(upgrade) = context.upgrade() else {
        return Err(ApiError::bad_request("this connection cannot become a websocket: HTTP/1.1 is needed"));
    };
    tokio::spawn(tell(upgrade, format, events, context.api.closing.clone()));
    Ok(Answer::sent(response))
}

async fn tell(upgrade: Upgrade, format: Format, mut events: BoxStream<'static, Bytes>, closing: CancellationToken) {
    // Held until the end, so that the listener waits for the farewell.
    let Upgrade { connection, place: _place } = upgrade;
    let connection = match connection.await {
        Ok(connection) => TokioIo::new(connection),
        Err(error) => {
            tracing::debug!(%error, "a connection did not become a websocket");
            return;
        }
    };
    let limits = WebSocketConfig::default()
        .read_buffer_size(READ)
        .write_buffer_size(0)
        .max_message_size(Some(RECEIVED))
        .max_frame_size(Some(RECEIVED));
    let socket = WebSocketStream::from_raw_socket(connection, Role::Server, Some(limits)).await;
    let (mut sink, mut messages) = socket.split();
    let told = {
        // What the client says is not for us, except that it goes.
        let mut gone = std::pin::pin!(async { while let Some(Ok(_)) = messages.next().await {} });
        let telling = async {
            while let Some(event) = events.next().await {
                sink.send(message(format, event)?).await?;
            }
            let code = if closing.is_cancelled() { CloseCode::Away } else { CloseCode::Normal };
            sink.send(Message::Close(Some(CloseFrame { code, reason: Utf8Bytes::default() }))).await
        };
        let told = tokio::select! {
            () = gone.as_mut() => None,
            told = telling => Some(told),
        };
        if matches!(told, Some(Ok(()))) && tokio::time::timeout(FAREWELL, gone).await.is_err() {
            tracing::debug!("the client of a websocket did not confirm its end");
        }
        told
    };
    if let Some(Err(error)) = told {
        tracing::debug!(%error, "a websocket broke off");
    } else if let Ok(mut socket) = sink.reunite(messages) {
        // The end of the connection is no news: whoever has gone already does not hear it.
        let _ = tokio::time::timeout(FAREWELL, socket.get_mut().shutdown()).await;
    }
}

/// An event as a message: text, except for protobuf.
fn message(format: Format, mut event: Bytes) -> std::result::Result<Message, Error> {
    match format {
        Format::Protobuf => Ok(Message::Binary(event.split_off(LENGTH.min(event.len())))),
        Format::Json | Format::Pretty | Format::Yaml => {
            Ok(Message::Text(Utf8Bytes::try_from(event).map_err(|error| Error::Utf8(error.to_string()))?))
        }
    }
}
