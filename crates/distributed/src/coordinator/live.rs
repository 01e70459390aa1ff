//! The workers for which queries are planned: those of the list that take queries.

use std::{fmt, sync::Arc};

use datafusion::error::Result;
use datafusion_distributed::WorkerResolver;
use url::Url;

use crate::net::Connections;

/// The workers of a list without those that are lost. Clones share them.
#[derive(Clone)]
pub(super) struct LiveWorkers {
    list: Arc<dyn WorkerResolver>,
    connections: Connections,
}

impl LiveWorkers {
    pub(super) fn new(list: Arc<dyn WorkerResolver>, connections: Connections) -> Self {
        Self { list, connections }
    }

    /// Returns all workers of the list.
    pub(super) fn list(&self) -> Result<Vec<Url>> {
        self.list.get_urls()
    }

    /// Returns those that take queries, as far as this process knows.
    pub(super) fn available(&self) -> Result<Vec<Url>> {
        Ok(self.connections.lost().retain(self.list.get_urls()?))
    }

    /// Asks those that are lost whether they take queries again.
    pub(super) async fn ask_lost(&self) {
        if let Ok(list) = self.list.get_urls() {
            self.connections.ask_lost(&list).await;
        }
    }

    pub(super) fn connections(&self) -> &Connections {
        &self.connections
    }
}

impl WorkerResolver for LiveWorkers {
    /// Returns the workers that take queries; the list if none does, since the engine cannot do without workers.
    fn get_urls(&self) -> Result<Vec<Url>> {
        let available = self.available()?;
        if available.is_empty() { self.list.get_urls() } else { Ok(available) }
    }
}

impl fmt::Debug for LiveWorkers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveWorkers").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workers;

    #[test]
    fn lost_workers_are_left_out_unless_all_are_lost() {
        let workers: Workers = "a:1,b:2".parse().unwrap();
        let urls = workers.urls().to_vec();
        let connections = Connections::default();
        let live = LiveWorkers::new(Arc::new(workers), connections.clone());
        connections.lost().note(&urls[0], false);
        assert_eq!((live.get_urls().unwrap(), live.list().unwrap()), (urls[1..].to_vec(), urls.clone()));
        connections.lost().note(&urls[1], false);
        assert_eq!((live.get_urls().unwrap(), live.available().unwrap()), (urls.clone(), Vec::new()));
        connections.lost().note(&urls[0], true);
        assert_eq!(live.get_urls().unwrap(), urls[..1]);
    }
}
