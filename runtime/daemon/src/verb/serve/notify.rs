//! Tells systemd how the daemon is doing, where it runs under one.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends a state such as `READY=1` to the socket in `NOTIFY_SOCKET`; without one, nothing happens.
pub(super) fn tell(state: &str) {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else { return };
    let sent = address(&path).and_then(|addr| {
        UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &addr).map(|_| ())
    });
    if let Err(error) = sent {
        tracing::warn!(%error, "the service manager was not told {state}");
    }
}

/// Reads the address of the socket; a leading `@` stands for a name that is in no directory.
#[cfg(target_os = "linux")]
fn address(path: &OsStr) -> io::Result<SocketAddr> {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::ffi::OsStrExt as _;
    match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(path),
    }
}

#[cfg(not(target_os = "linux"))]
fn address(path: &OsStr) -> io::Result<SocketAddr> {
    SocketAddr::from_pathname(path)
}
