//! One HTTP request: GET, plain, at most a few seconds and some kilobytes. No TLS, no redirects, no passwords.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

use crate::{Trouble, TroubleKind};

/// How long a meter may take for each of connecting, listening and answering.
const PATIENCE: Duration = Duration::from_secs(2);

/// More than any meter has to say.
const LONGEST: u64 = 64 << 10;

/// Where a meter listens.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Url {
    /// With its port.
    host: String,
    path: String,
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Url, String> {
        let rest = text
            .strip_prefix("http://")
            .ok_or_else(|| format!("{text:?}: write http://HOST/PATH or http://HOST:PORT/PATH"))?;
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if host.is_empty() || host.contains('@') || text.contains(char::is_whitespace) {
            return Err(format!(
                "{text:?}: write http://HOST/PATH, without spaces and passwords"
            ));
        }
        let port = host
            .rsplit_once(':')
            .is_some_and(|(_, p)| !p.is_empty() && p.chars().all(|c| c.is_ascii_digit()));
        Ok(Url {
            host: if port {
                host.into()
            } else {
                format!("{host}:80")
            },
            path: if path.is_empty() {
                "/".into()
            } else {
                path.into()
            },
        })
    }
}

impl Url {
    /// The body of the answer.
    pub(super) fn get(&self) -> Result<String, Trouble> {
        let failed = |what: &str, error: std::io::Error| {
            Trouble::new(
                TroubleKind::Failed,
                format!("{}: {what}: {error}", self.host),
            )
        };
        let address = self
            .host
            .to_socket_addrs()
            .map_err(|e| failed("no such host", e))?
            .next();
        let Some(address) = address else {
            let text = format!("{}: the name has no address", self.host);
            return Err(Trouble::new(TroubleKind::Missing, text));
        };
        let mut stream =
            TcpStream::connect_timeout(&address, PATIENCE).map_err(|e| failed("no answer", e))?;
        let talked = stream
            .set_read_timeout(Some(PATIENCE))
            .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
            // Version 1.0: the answer ends with the connection, in one piece.
            .and_then(|()| {
                write!(
                    stream,
                    "GET {} HTTP/1.0\r\nHost: {}\r\nAccept: */*\r\n\r\n",
                    self.path, self.host
                )
            });
        talked.map_err(|e| failed("it did not listen", e))?;
        let mut answer = Vec::new();
        let read = stream.take(LONGEST).read_to_end(&mut answer);
        // Some servers end the connection rudely when all is said.
        if let Err(error) = read
            && answer.is_empty()
        {
            return Err(failed("no answer", error));
        }
        self.body(&String::from_utf8_lossy(&answer))
    }

    fn body(&self, answer: &str) -> Result<String, Trouble> {
        let status = answer.lines().next().unwrap_or_default();
        let good = status.starts_with("HTTP/1.") && status.split(' ').nth(1) == Some("200");
        let body = answer
            .split_once("\r\n\r\n")
            .map(|(_, body)| body.to_owned());
        match body {
            Some(body) if good => Ok(body),
            _ => {
                let said: String = status.chars().take(60).collect();
                let text = format!("{}{} said {said:?}", self.host, self.path);
                Err(Trouble::new(TroubleKind::Garbage, text))
            }
        }
    }
}
