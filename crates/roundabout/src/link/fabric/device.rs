//! The addresses of this machine's RDMA devices.

use std::{
    collections::BTreeSet,
    fs, io,
    net::{Ipv4Addr, Ipv6Addr},
    path::{Path, PathBuf},
};

use nix::{
    ifaddrs::{InterfaceAddress, getifaddrs},
    net::if_::InterfaceFlags,
};

/// The folder with an entry for each RDMA device.
const DEVICES: &str = "/sys/class/infiniband";

/// Returns the address of a device for the providers of `verbs`, which find no device unless one is
/// given: that of the first network interface, by name, that is up and belongs to a device. `None`
/// for other providers, and if there is none, as with native InfiniBand.
pub(super) fn address(provider: &str) -> Option<String> {
    if !provider.starts_with("verbs") {
        return None;
    }
    let all: Vec<_> = getifaddrs().ok()?.collect();
    let of = |name: &String| {
        let is_up = |address: &&InterfaceAddress| address.flags.contains(InterfaceFlags::IFF_UP);
        let mut own = all.iter().filter(is_up).filter(|address| address.interface_name == *name);
        own.clone().find_map(v4).map(|ip| ip.to_string()).or_else(|| own.find_map(v6).map(|ip| ip.to_string()))
    };
    interfaces(Path::new(DEVICES)).iter().find_map(of)
}

/// Returns the network interfaces of the devices in a folder. A port has a file for each of its
/// global identifiers, with the name of the interface.
fn interfaces(devices: &Path) -> BTreeSet<String> {
    let ports = below([devices.to_owned()]).map(|device| device.join("ports"));
    let tables = below(ports).map(|port| port.join("gid_attrs/ndevs"));
    // Identifiers that are not in use cannot be read.
    let names = below(tables).filter_map(|file| fs::read_to_string(file).ok());
    names.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

/// Returns the entries of folders, none of those that cannot be read.
fn below(folders: impl IntoIterator<Item = PathBuf>) -> impl Iterator<Item = PathBuf> {
    let entries = |folder: PathBuf| -> io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect()
    };
    folders.into_iter().flat_map(move |folder| entries(folder).unwrap_or_default())
}

/// Returns the address if it is one of IPv4.
fn v4(address: &InterfaceAddress) -> Option<Ipv4Addr> {
    Some(address.address.as_ref()?.as_sockaddr_in()?.ip())
}

/// Returns the address if it is one of IPv6, but not of the link, which needs a scope.
fn v6(address: &InterfaceAddress) -> Option<Ipv6Addr> {
    Some(address.address.as_ref()?.as_sockaddr_in6()?.ip()).filter(|ip| !ip.is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interfaces_of_devices_are_found() {
        let devices = tempfile::tempdir().unwrap();
        for (file, name) in [
            ("mlx5_0/ports/1/gid_attrs/ndevs/0", "eth1\n"),
            ("mlx5_0/ports/1/gid_attrs/ndevs/1", "eth1\n"),
            ("mlx5_1/ports/2/gid_attrs/ndevs/0", "eth0\n"),
            ("mlx5_1/ports/2/gid_attrs/ndevs/1", ""),
            ("mlx5_2/ports/1/state", "4: ACTIVE\n"),
        ] {
            let path = devices.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        assert_eq!(interfaces(devices.path()), ["eth0", "eth1"].map(str::to_owned).into());
        assert_eq!(interfaces(Path::new("/nowhere")), BTreeSet::new());
        assert_eq!(address("tcp"), None);
    }
}
