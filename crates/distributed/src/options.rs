//! The options of a coordinator's session, which its workers use for the stages of a query.
//!
//! datafusion-distributed sends the options of extensions that it was told about, with names as they
//! are in the extension. Those of DataFusion itself stay behind, and those of Annulus have their full
//! names, so both go here, in one header.

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

/// What a worker learns of a query, beside its options.
pub(crate) struct Addressed<'a> {
    /// The URL by which the worker is addressed.
    pub(crate) worker: &'a str,
    /// The execution of the query.
    pub(crate) execution: String,
}

/// What executing a plan depends on.
const SENT: [&str; 3] = ["annulus.", "datafusion.execution.", "datafusion.optimizer."];
/// A path on the coordinator. Each worker has the profile of its own machine.
const PROFILE: &str = "annulus.profile";

/// Adds the options that are not the default ones, and what else the worker learns.
pub(crate) fn send(options: &ConfigOptions, to: Addressed<'_>, headers: &mut HeaderMap) -> Result<()> {
    let defaults: BTreeMap<_, _> = known().entries().into_iter().map(|entry| (entry.key, entry.value)).collect();
    let is_sent = |key: &str| SENT.iter().any(|prefix| key.starts_with(prefix)) && key != PROFILE;
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
    headers.insert(WORKER, value(to.worker)?);
    headers.insert(EXECUTION, value(&to.execution)?);
    Ok(())
}

/// Sets the options that a coordinator has sent.
///
/// # Errors
/// If an option is unknown here, or does not take the value.
pub(crate) fn receive(headers: &HeaderMap, options: &mut ConfigOptions) -> Result<()> {
    let Some(value) = headers.get(&OPTIONS) else { return Ok(()) };
    let sent: BTreeMap<String, String> = serde_json::from_slice(value.as_bytes())
        .map_err(|error| config_datafusion_err!("the coordinator's options cannot be read: {error}"))?;
    sent.iter().try_for_each(|(key, value)| {
        let remedy = "run the same version of Annulus on coordinator and workers";
        options.set(key, value).map_err(|error| error.context(format!("option '{key}' of the coordinator: {remedy}")))
    })
}

/// Returns the URL by which the coordinator addresses this worker.
pub(crate) fn own_url(headers: &HeaderMap) -> Option<&str> {
    headers.get(&WORKER)?.to_str().ok()
}

/// Returns the execution of the query, which no other one has.
pub(crate) fn execution(headers: &HeaderMap) -> Option<&str> {
    headers.get(&EXECUTION)?.to_str().ok()
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
            ("datafusion.execution.batch_size", "100"),
            ("datafusion.execution.time_zone", "+01:00"),
            ("datafusion.catalog.default_schema", "here"),
        ] {
            options.set(key, value).unwrap();
        }
        let mut headers = HeaderMap::new();
        let to = Addressed { worker: "http://a:1/", execution: "e1".to_owned() };
        send(&options, to, &mut headers).unwrap();
        let mut received = known();
        receive(&headers, &mut received).unwrap();
        let annulus = received.extensions.get::<AnnulusConfig>().unwrap();
        assert_eq!((annulus.strategy, annulus.joins), (Strategy::Stock, Joins::Auto));
        assert_eq!(annulus.profile, "auto", "a path of the coordinator");
        assert_eq!(received.execution.batch_size.get(), 100);
        assert_eq!(received.execution.time_zone.as_deref(), Some("+01:00"));
        assert_eq!(received.catalog.default_schema, "public");
        assert_eq!((own_url(&headers), execution(&headers)), (Some("http://a:1/"), Some("e1")));
    }

    #[test]
    fn unknown_options_are_refused() {
        let mut headers = HeaderMap::new();
        receive(&headers, &mut known()).unwrap();
        headers.insert(OPTIONS, HeaderValue::from_static(r#"{"annulus.colour":"red"}"#));
        let error = receive(&headers, &mut known()).unwrap_err().to_string();
        assert!(error.contains("annulus.colour") && error.contains("same version"), "{error}");
        headers.insert(OPTIONS, HeaderValue::from_static("red"));
        assert!(receive(&headers, &mut known()).is_err());
    }
}
