//! A network that can be cut: a proxy that stops forwarding, or resets.

use std::net::SocketAddr;

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What the network does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Weather {
    /// Bytes pass.
    Fair,
    /// Nothing passes, and nobody is told.
    Silent,
    /// Every connection is reset, old and new.
    Resetting,
}

/// Stands between a node and those who dial it.
pub(super) struct Proxy {
    address: SocketAddr,
    target: watch::Sender<Option<SocketAddr>>,
    weather: watch::Sender<Weather>,
}

impl Proxy {
    /// One that leads nowhere yet, so that a node can be told to name it as its own address.
    pub(super) async fn open() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let weather = watch::Sender::new(Weather::Fair);
        let target = watch::Sender::new(None);
        let (mut way, forecast) = (target.subscribe(), weather.subscribe());
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let Ok(target) = way.wait_for(Option::is_some).await.map(|target| *target) else {
                    return;
                };
                tokio::spawn(carry(near, target.expect("waited for"), forecast.clone()));
            }
        });
        Self { address, target, weather }
    }

    pub(super) fn leads_to(&self, target: SocketAddr) {
        self.target.send_replace(Some(target));
    }

    pub(super) fn address(&self) -> Vec<String> {
        vec![self.address.to_string()]
    }

    pub(super) fn becomes(&self, weather: Weather) {
        self.weather.send_replace(weather);
    }
}

async fn carry(near: TcpStream, target: SocketAddr, mut weather: watch::Receiver<Weather>) {
    let Ok(far) = TcpStream::connect(target).await else { return };
    for stream in [&near, &far] {
        stream.set_nodelay(true).unwrap();
        SockRef::from(stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    }
    let (near_reader, near_writer) = near.into_split();
    let (far_reader, far_writer) = far.into_split();
    tokio::select! {
        () = pump(near_reader, far_writer, weather.clone()) => {}
        () = pump(far_reader, near_writer, weather.clone()) => {}
        // Dropping both sockets resets them, since they do not linger.
        _ = weather.wait_for(|weather| *weather == Weather::Resetting) => {}
    }
}

async fn pump(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut weather: watch::Receiver<Weather>,
) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if weather.wait_for(|weather| *weather == Weather::Fair).await.is_err() {
            return;
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
