//! The headers of a plan: the options of the coordinator's session, which workers use for the stages of a
//! query, and the identity of the query.
//!
//! datafusion-distributed sends the options of registered extensions, with their names in the extension. It
//! does not send options of DataFusion itself, and options of Annulus have full names. So both travel in one
//! header of this crate.

use std::collections::BTreeMap;

use annulus_datafusion::AnnulusConfig;
use datafusion::{
    common::{config_datafusion_err, internal_datafusion_err},
    config::ConfigOptions,
    error::{DataFusionError, Result},
};
use http::{HeaderMap, HeaderName, HeaderValue};

const OPTIONS: HeaderName = HeaderName::from_static("x-annulus-options");
const WORKER: HeaderName = HeaderName::from_static("x-annulus-worker");
const EXECUTION: HeaderName = HeaderName::from_static("x-annulus-execution");
const RESTARTS: HeaderName = HeaderName::from_static("x-annulus-restarts");

/// What a worker learns about a query, beside its options.
pub(super) struct QueryHeaders<'a> {
    /// The URL by which the worker is addressed.
    pub(super) worker: &'a str,
    /// The identifier of the execution.
    pub(super) execution: &'a str,
    /// The number of times that the query has started again.
    pub(super) restarts: usize,
}

/// The number of times that a query has started again, in the configuration of the session that runs it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueryRestarts(pub(crate) usize);

/// The prefixes of options on which the execution of a plan depends.
const SENT: [&str; 3] = ["annulus.", "datafusion.execution.", "datafusion.optimizer."];
/// Options for the coordinator alone: a path, since each worker has the profile of its own machine, and the number
/// of times that it starts a query again.
const NOT_SENT: [&str; 2] = ["annulus.profile", "annulus.retries"];

/// Adds the headers of a query. Options with their default values are left out.
pub(super) fn add(options: &ConfigOptions, query: QueryHeaders<'_>, headers: &mut HeaderMap) -> Result<()> {
    let defaults: BTreeMap<_, _> = known().entries().into_iter().map(|entry| (entry.key, entry.value)).collect();
    let is_sent = |key: &str| SENT.iter().any(|prefix| key.starts_with(prefix)) && !NOT_SENT.contains(&key);
    let changed: BTreeMap<_, _> = options
        .entries()
        .into_iter()
        .filter(|entry| is_sent(&entry.key) && defaults.get(&entry.key) != Some(&entry.value))
        .filter_map(|entry| Some((entry.key, entry.value?)))
        .collect();
    let text = serde_json::to_string(&changed).map_err(|error| DataFusionError::External(Box::new(error)))?;
    let value = |text: &str| {
        HeaderValue::from_bytes(text.as_bytes())
            .map_err(|error| internal_datafusion_err!("a header cannot hold '{text}': {error}"))
    };
    headers.insert(OPTIONS, value(&text)?);
    headers.insert(WORKER, value(query.worker)?);
    headers.insert(EXECUTION, value(query.execution)?);
    headers.insert(RESTARTS, HeaderValue::from(query.restarts));
    Ok(())
}

/// Sets the options that a coordinator has sent in the headers of a query.
///
/// # Errors
/// If an option is unknown here, or does not take the value.
pub(crate) fn set_options(headers: &HeaderMap, options: &mut ConfigOptions) -> Result<()> {
    let Some(value) = headers.get(&OPTIONS) else { return Ok(()) };
    let sent: BTreeMap<String, String> = serde_json::from_slice(value.as_bytes())
        .map_err(|error| config_datafusion_err!("the coordinator's options cannot be read: {error}"))?;
    sent.iter().try_for_each(|(key, value)| {
        let remedy = "run the same version of Annulus on coordinator and workers";
        options.set(key, value).map_err(|error| error.context(format!("option '{key}' of the coordinator: {remedy}")))
    })
}

/// Returns the URL by which the coordinator addresses this worker.
pub(crate) fn worker_url(headers: &HeaderMap) -> Option<&str> {
    headers.get(&WORKER)?.to_str().ok()
}

/// Returns the identifier of the execution.
pub(crate) fn execution(headers: &HeaderMap) -> Option<&str> {
    headers.get(&EXECUTION)?.to_str().ok()
}

/// Returns the number of times that the query has started again.
pub(crate) fn restarts(headers: &HeaderMap) -> usize {
    headers.get(&RESTARTS).and_then(|value| value.to_str().ok()?.parse().ok()).unwrap_or(0)
}

/// Returns the default options.
fn known() -> ConfigOptions {
    let mut options = ConfigOptions::new();
    options.extensions.insert(AnnulusConfig::default());
    options
}

#[cfg(test)]
mod tests {
    use annulus_datafusion::{Joins, config::Strategy};

    use super::*;

    #[test]
    fn options_that_were_set_arrive() {
        let mut options = known();
        for (key, value) in [
            ("annulus.strategy", "stock"),
            ("annulus.profile", "/home/me/profile.json"),
            ("annulus.retries", "7"),
            ("datafusion.execution.batch_size", "100"),
            ("datafusion.execution.time_zone", "+01:00"),
            ("datafusion.catalog.default_schema", "here"),
        ] {
            options.set(key, value).unwrap();
        }
        let mut headers = HeaderMap::new();
        let query = QueryHeaders { worker: "http://a:1/", execution: "e1", restarts: 2 };
        add(&options, query, &mut headers).unwrap();
        let mut received = known();
        set_options(&headers, &mut received).unwrap();
        let annulus = received.extensions.get::<AnnulusConfig>().unwrap();
        assert_eq!((annulus.strategy, annulus.joins), (Strategy::Stock.into(), Joins::Auto));
        assert_eq!((annulus.profile.as_str(), annulus.retries), ("auto", 2), "options of the coordinator");
        assert_eq!(received.execution.batch_size.get(), 100);
        assert_eq!(received.execution.time_zone.as_deref(), Some("+01:00"));
        assert_eq!(received.catalog.default_schema, "public");
        assert_eq!((worker_url(&headers), execution(&headers)), (Some("http://a:1/"), Some("e1")));
        assert_eq!((restarts(&headers), restarts(&HeaderMap::new())), (2, 0));
    }

    #[test]
    fn unknown_options_are_refused() {
        let mut headers = HeaderMap::new();
        set_options(&headers, &mut known()).unwrap();
        headers.insert(OPTIONS, HeaderValue::from_static(r#"{"annulus.colour":"red"}"#));
        let error = set_options(&headers, &mut known()).unwrap_err().to_string();
        assert!(error.contains("annulus.colour") && error.contains("same version"), "{error}");
        headers.insert(OPTIONS, HeaderValue::from_static("red"));
        assert!(set_options(&headers, &mut known()).is_err());
    }
}
