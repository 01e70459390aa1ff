//! The hosts of a ring, in a file that all of them have.

use std::{
    collections::HashSet,
    fs,
    net::{SocketAddr, TcpListener, ToSocketAddrs},
    path::{Path, PathBuf},
};

use annulus_roundabout::secure::{HostFiles, HostName, Identity};
use serde::Deserialize;

use crate::error::ClusterError;

/// What `ring.toml` says.
#[derive(Clone, Debug)]
pub struct RingFile {
    path: PathBuf,
    /// The folder of the ring's certificates, beside the file unless it says otherwise.
    pub certificates: PathBuf,
    /// Whether rows go from host to host in the clear. Orders and reports never do.
    pub trusted_network: bool,
    /// libfabric's provider by which rows go, if not by sockets.
    pub fabric: Option<String>,
    /// The hosts, in the order in which they stand in the ring.
    pub hosts: Vec<RingHost>,
}

/// A host of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingHost {
    /// Its place in the file, from 0.
    pub number: usize,
    /// Its name, which its certificate bears.
    pub name: HostName,
    /// Where it takes orders.
    pub control: String,
    /// Where its predecessor connects to.
    pub data: String,
    /// The address of its interface to the fabric, where the provider has such.
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
    host: Vec<RawHost>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHost {
    name: String,
    control: String,
    data: String,
    fabric_address: Option<String>,
}

impl RingFile {
    /// Reads a file like this:
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
    /// If it cannot be read, is not such a file, or asks for libfabric, with which this program was not built.
    pub fn load(path: &Path) -> Result<Self, ClusterError> {
        let unfit = |reason: String| ClusterError::RingFile { path: path.to_owned(), reason };
        let text = fs::read_to_string(path).map_err(|error| unfit(error.to_string()))?;
        let raw: Raw = toml::from_str(&text).map_err(|error| unfit(error.to_string()))?;
        if raw.fabric.is_some() && cfg!(not(feature = "ofi")) {
            let remedy = "build it with the feature ofi, or take the line out and rows go by TCP";
            return Err(unfit(format!("fabric: this program was built without libfabric; {remedy}")));
        }
        let mut hosts = Vec::new();
        let mut names = HashSet::new();
        for (number, RawHost { name, control, data, fabric_address }) in raw.host.into_iter().enumerate() {
            let name = HostName::new(name).map_err(|error| unfit(error.to_string()))?;
            if !names.insert(name.clone()) {
                return Err(unfit(format!("host '{name}' is there twice; give each host a name of its own")));
            }
            hosts.push(RingHost { number, name, control, data, fabric_address });
        }
        if hosts.is_empty() {
            return Err(unfit("it has no [[host]]; add one for each host".to_owned()));
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let certificates = folder.join(raw.certificates);
        let (trusted_network, fabric) = (raw.trusted_network, raw.fabric);
        Ok(Self { path: path.to_owned(), certificates, trusted_network, fabric, hosts })
    }

    /// A host by its name.
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

    /// What a member of the ring shows to others: the one named, or the only one whose key is in the folder of certificates.
    ///
    /// # Errors
    /// If there is no such key, or several and none is named.
    pub fn identity(&self, name: Option<&HostName>) -> Result<Identity, ClusterError> {
        let name = match name {
            Some(name) => name.clone(),
            None => self.only_key()?,
        };
        let HostFiles { authority, certificate, key } = HostFiles::of(&self.certificates, &name);
        Ok(Identity::load(&authority, &certificate, &key)?)
    }

    fn only_key(&self) -> Result<HostName, ClusterError> {
        let unfit = |reason: String| ClusterError::RingFile { path: self.path.clone(), reason };
        let shown = self.certificates.display();
        let entries =
            fs::read_dir(&self.certificates).map_err(|error| unfit(format!("cannot list '{shown}': {error}")))?;
        let name_of = |name: &str| name.strip_prefix("host-")?.strip_suffix("-key.pem")?.parse::<HostName>().ok();
        let mut keys = entries.filter_map(|entry| name_of(entry.ok()?.file_name().to_str()?));
        match (keys.next(), keys.next()) {
            (Some(name), None) => Ok(name),
            (None, _) => Err(unfit(format!("no host-NAME-key.pem in '{shown}'; make one with annulus node add-host"))),
            _ => Err(unfit(format!("several keys in '{shown}'; say who this is with --name"))),
        }
    }
}

/// The first address that a `host:port` stands for.
pub(crate) fn resolve(address: &str) -> std::io::Result<SocketAddr> {
    let none = || std::io::Error::new(std::io::ErrorKind::NotFound, format!("'{address}' has no address"));
    let unfit = |error: std::io::Error| {
        std::io::Error::new(
            error.kind(),
            format!("'{address}' is no address: {error}; in the ring's file it is written host:port"),
        )
    };
    address.to_socket_addrs().map_err(unfit)?.next().ok_or_else(none)
}

/// Listens where the ring's file says, for what is told in an error.
pub(crate) fn listen(address: &str, what: &str) -> std::io::Result<TcpListener> {
    TcpListener::bind(resolve(address)?)
        .map_err(|error| std::io::Error::new(error.kind(), format!("cannot listen at {address} for {what}: {error}")))
}
