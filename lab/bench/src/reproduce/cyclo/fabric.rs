//! The links over libfabric that this machine has.

use std::collections::BTreeSet;

use crate::Stop;
use crate::{join::Link, roundabout::Transport};

/// A provider of libfabric, as a link of joins and as a way of transfers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Provider {
    pub(super) link: Link,
    pub(super) way: Transport,
}

/// The folder with an entry for each RDMA device.
#[cfg(feature = "ofi")]
const DEVICES: &str = "/sys/class/infiniband";

/// Returns the providers that work. The others are in `absent`, with the reason.
#[cfg(feature = "ofi")]
pub(super) fn providers(absent: &mut BTreeSet<String>, stop: &Stop) -> Vec<Provider> {
    let all =
        [(Link::OfiTcp, Transport::OfiTcp), (Link::OfiShm, Transport::OfiShm), (Link::OfiVerbs, Transport::OfiVerbs)];
    let mut works = |&(_, way): &(Link, Transport)| {
        let device = || std::fs::read_dir(DEVICES).is_ok_and(|mut devices| devices.next().is_some());
        let reason = if way == Transport::OfiVerbs && !device() {
            Some("this machine has no RDMA device".to_owned())
        } else {
            crate::roundabout::check_works(way, stop).err().map(|error| format!("{error:#}"))
        };
        absent.extend(reason.as_ref().map(|reason| format!("links over {}: {reason}", way.name())));
        reason.is_none()
    };
    all.into_iter().filter(|provider| works(provider)).map(|(link, way)| Provider { link, way }).collect()
}

/// Returns no provider, and the reason in `absent`.
#[cfg(not(feature = "ofi"))]
pub(super) fn providers(absent: &mut BTreeSet<String>, _: &Stop) -> Vec<Provider> {
    absent.insert("links over libfabric (RDMA): this program was built without the feature 'ofi'".to_owned());
    Vec::new()
}
