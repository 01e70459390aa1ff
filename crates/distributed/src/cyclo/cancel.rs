//! Adapters of the token that cancels a join to the tokens of other crates.

use annulus_join::CancelToken;
use annulus_roundabout::StopHandle;
use tokio::runtime::Handle;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::net;

/// The tokens of other crates, which follow the token of a join while this exists.
pub(super) struct WorkTokens {
    /// Ends local joins.
    pub(super) local: CancelToken,
    /// Ends the host of the ring, also while it connects.
    pub(super) host: StopHandle,
    _following: AbortOnDropHandle<()>,
}

impl WorkTokens {
    /// Returns tokens that are cancelled with `token`. `runtime` is that of the query.
    pub(super) fn follow(token: &CancellationToken, runtime: &Handle) -> Self {
        let (local, host) = (CancelToken::new(), StopHandle::default());
        let following = {
            let (token, local, host) = (token.clone(), local.clone(), host.clone());
            async move {
                token.cancelled().await;
                local.cancel();
                host.stop();
            }
        };
        // The threads of connections are never busy with rows. Without them, it is the runtime of this thread.
        let _entered = runtime.enter();
        Self { local, host, _following: AbortOnDropHandle::new(net::network_threads().spawn(following)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tokens_of_other_crates_are_cancelled_with_the_join() {
        let token = CancellationToken::new();
        let tokens = WorkTokens::follow(&token, &Handle::current());
        assert!(!tokens.local.is_cancelled());
        token.cancel();
        while !tokens.local.is_cancelled() {
            tokio::task::yield_now().await;
        }
    }
}
