//! The ring file, of which all hosts of the ring have a copy.

use std::{
    collections::HashMap,
    fs,
    net::{Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs},
    path::{Path, PathBuf},
};

use annulus_roundabout::secure::{FileError, HostName, Identity, Role};
use serde::Deserialize;
use toml::Spanned;

use crate::error::ClusterError;

/// The contents of `ring.toml`.
#[derive(Clone, Debug)]
pub struct RingFile {
    path: PathBuf,
    /// The folder of the ring's certificates. By default the folder of the file.
    pub certificates: PathBuf,
    /// Whether rows travel unencrypted. Control messages are always encrypted.
    pub trusted_network: bool,
    /// The libfabric provider that carries rows. Sockets carry them if `None`.
    pub fabric: Option<String>,
    /// The hosts, in the order of the ring.
    pub hosts: Vec<RingHost>,
}

/// A host of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingHost {
    /// The index in the file, from 0.
    pub number: usize,
    /// The name, which is also in the host's certificate.
    pub name: HostName,
    /// The address at which the host accepts joins.
    pub control: String,
    /// The address at which the previous host connects.
    pub data: String,
    /// The address of the host's interface to the fabric, if the provider needs one.
    pub fabric_address: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    certificates: PathBuf,
    #[serde(default)]
    trusted_network: bool,
    fabric: Option<String>,
    #[serde(default)]
    host: Vec<RawHost>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHost {
    name: Spanned<String>,
    control: Spanned<String>,
    data: Spanned<String>,
    fabric_address: Option<Spanned<String>>,
}

impl RingFile {
    /// Reads a file like this one:
    ///
    /// ```toml
    /// certificates = "certs"     # ca.pem, host-alpha.pem and host-alpha-key.pem; this folder by default
    /// trusted_network = false    # true: rows in the clear
    /// fabric = "verbs;ofi_rxm"   # rows by this provider of libfabric (feature `ofi`); by TCP if there is none
    ///
    /// [[host]]
    /// name = "alpha"
    /// control = "10.0.0.1:7400"
    /// data = "10.0.0.1:7401"
    /// fabric_address = "10.1.0.1"
    /// ```
    ///
    /// # Errors
    /// If the file cannot be read or parsed, has an invalid or repeated name or address, or needs
    /// libfabric and this program was built without it.
    pub fn load(path: &Path) -> Result<Self, ClusterError> {
        let unfit = |reason: String| ClusterError::RingFile { path: path.to_owned(), reason };
        let text = fs::read_to_string(path).map_err(|error| unfit(error.to_string()))?;
        // Backquotes are for options of the caller.
        let raw: Raw = toml::from_str(&text).map_err(|error| unfit(error.to_string().replace('`', "'")))?;
        if raw.fabric.is_some() && cfg!(not(feature = "ofi")) {
            let remedy = "build it with the feature ofi, or take the line out and rows go by TCP";
            return Err(unfit(format!("fabric: this program was built without libfabric; {remedy}")));
        }
        let hosts = check_hosts(&text, raw.host).map_err(unfit)?;
        if hosts.is_empty() {
            return Err(unfit("it has no [[host]]; add one for each host".to_owned()));
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let certificates = folder.join(raw.certificates);
        let (trusted_network, fabric) = (raw.trusted_network, raw.fabric);
        Ok(Self { path: path.to_owned(), certificates, trusted_network, fabric, hosts })
    }

    /// Returns the host with this name.
    ///
    /// # Errors
    /// If the file does not have it.
    pub fn host(&self, name: &HostName) -> Result<&RingHost, ClusterError> {
        self.hosts.iter().find(|host| host.name == *name).ok_or_else(|| {
            let names: Vec<_> = self.hosts.iter().map(|host| host.name.as_str()).collect();
            let reason = format!("it has no host '{name}'; its hosts are {}", names.join(", "));
            ClusterError::RingFile { path: self.path.clone(), reason }
        })
    }

    /// Loads the certificate and key of a member with this role: the member `name`, or the only one
    /// whose key is in the folder of certificates.
    ///
    /// # Errors
    /// If the key does not exist, or there are several and `name` is `None`.
    pub fn identity(&self, role: Role, name: Option<&HostName>) -> Result<Identity, ClusterError> {
        Identity::in_folder(&self.certificates, role, name).map_err(|error| match error {
            FileError::NoKey { .. } | FileError::SeveralKeys { .. } => {
                ClusterError::RingFile { path: self.path.clone(), reason: error.to_string() }
            }
            error => error.into(),
        })
    }
}

/// Checks the hosts of a file with this text. Errors name the line.
fn check_hosts(text: &str, raw: Vec<RawHost>) -> Result<Vec<RingHost>, String> {
    let at = |value: &Spanned<String>| format!("line {}", text[..value.span().start].matches('\n').count() + 1);
    let mut hosts = Vec::new();
    // The line of each name, and the use of each address.
    let (mut names, mut addresses) = (HashMap::new(), HashMap::new());
    for (number, host) in raw.into_iter().enumerate() {
        let line = at(&host.name);
        let name = HostName::new(host.name.get_ref().clone()).map_err(|error| format!("{line}: name: {error}"))?;
        if let Some(first) = names.insert(name.clone(), line.clone()) {
            return Err(format!("{line}: host '{name}' is in {first}, too; give each host its own name"));
        }
        for (field, address) in [("control", &host.control), ("data", &host.data)] {
            let (line, text) = (at(address), address.get_ref());
            check_address(text).map_err(|reason| format!("{line}: {field} of host '{name}': {reason}"))?;
            let here = format!("{field} of host '{name}' in {line}");
            if let Some(first) = addresses.insert(text.clone(), here) {
                let remedy = "give each its own port";
                return Err(format!("{line}: {field} of host '{name}': '{text}' is {first}, too; {remedy}"));
            }
        }
        let fabric_address = host.fabric_address.map(|address| {
            let line = at(&address);
            let address = address.into_inner();
            let reason = "must be the address of an interface, or left out";
            if address.is_empty() {
                Err(format!("{line}: fabric_address of host '{name}': {reason}"))
            } else {
                Ok(address)
            }
        });
        let (control, data) = (host.control.into_inner(), host.data.into_inner());
        hosts.push(RingHost { number, name, control, data, fabric_address: fabric_address.transpose()? });
    }
    Ok(hosts)
}

/// Checks that a text is `host:port`. An IPv6 address is in brackets.
fn check_address(text: &str) -> Result<(), String> {
    let is_host = |host: &str| match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => !host.is_empty() && !host.contains([':', '/', '[', ']']) && !host.contains(char::is_whitespace),
    };
    let port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    if text.rsplit_once(':').is_some_and(|(host, number)| is_host(host) && port(number)) {
        Ok(())
    } else {
        Err(format!("invalid address '{text}': expected host:port, like 10.0.0.1:7400 or [fd00::1]:7400"))
    }
}

/// Resolves a `host:port` to its first address.
pub(crate) fn resolve(address: &str) -> std::io::Result<SocketAddr> {
    let none =
        || std::io::Error::new(std::io::ErrorKind::NotFound, format!("cannot resolve '{address}': it has no address"));
    let unfit =
        |error: std::io::Error| std::io::Error::new(error.kind(), format!("cannot resolve '{address}': {error}"));
    address.to_socket_addrs().map_err(unfit)?.next().ok_or_else(none)
}

/// Listens at an address of the ring's file. `what` names its use in errors.
pub(crate) fn listen(address: &str, what: &str) -> std::io::Result<TcpListener> {
    TcpListener::bind(resolve(address)?)
        .map_err(|error| std::io::Error::new(error.kind(), format!("cannot listen at {address} for {what}: {error}")))
}
