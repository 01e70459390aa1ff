//! The endpoints in shared memory of this process. libfabric uses such a neighbour's own mapping
//! (prov/shm/src/smr_util.c, `smr_map_to_region`), which ends with that endpoint: a message sent
//! later would crash the process. So neighbours own each other's endpoints until both are dropped.

use std::{
    collections::HashMap,
    process,
    sync::{Arc, LazyLock, Weak},
};

use parking_lot::{Mutex, MutexGuard};

use super::{endpoint::OpenEndpoint, left_behind};

type Endpoints = HashMap<String, Weak<OpenEndpoint>>;

/// By the names of their files.
static ENDPOINTS: LazyLock<Mutex<Endpoints>> = LazyLock::new(Mutex::default);

/// Adds an endpoint, if it lies in shared memory. It can be found until it is dropped.
pub(super) fn add(address: &[u8], endpoint: &Arc<OpenEndpoint>) {
    if let Some(name) = left_behind::name(address) {
        let mut endpoints = lock();
        endpoints.retain(|_, endpoint| endpoint.strong_count() > 0);
        endpoints.insert(name.to_owned(), Arc::downgrade(endpoint));
    }
}

/// An endpoint, seen from this process.
pub(super) enum PeerEndpoint {
    Elsewhere,
    Here(Arc<OpenEndpoint>),
    /// It was in shared memory of this process.
    Closed,
}

/// Finds the endpoint with this address.
pub(super) fn find(address: &[u8]) -> PeerEndpoint {
    match left_behind::name(address) {
        Some(name) if name.split(':').next() == Some(&process::id().to_string()) => {
            lock().get(name).and_then(Weak::upgrade).map_or(PeerEndpoint::Closed, PeerEndpoint::Here)
        }
        _ => PeerEndpoint::Elsewhere,
    }
}

fn lock() -> MutexGuard<'static, Endpoints> {
    ENDPOINTS.lock()
}
