//! Sockets with an address of the experiment's choice.

use anyhow::Result;
use reel_testkit::http::{Client, Response};
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect as connect_to, socket_with, sockopt,
};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::Duration;

/// Connects from an own address. Connecting, reading and writing fail after `patience`.
pub(super) fn connect(from: Ipv4Addr, to: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // It bounds connecting as well (socket(7)).
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(patience))?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(patience))?;
    bind(&socket, &SocketAddrV4::new(from, 0))?;
    connect_to(&socket, &to)?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// GET over a connection of its own.
pub(super) fn get(from: Ipv4Addr, to: SocketAddr, path: &str, patience: Duration) -> Result<Response> {
    let mut client = Client::on(connect(from, to, patience)?);
    client.request(&format!("GET {path} HTTP/1.1"), &format!("Host: {to}\r\nConnection: close\r\n"))?;
    let head = client.head()?;
    let body = client.body(&head)?;
    Ok(Response { head, body })
}
