//! Errors of requests to object stores and web servers.

/// How the library words a request that has failed, and the status of an answer.
const REQUEST: &str = "Error performing ";
const STATUS: &str = "Server returned non-2xx status code: ";
const RESPONSE: &str = "Server returned error response: ";

/// The words in which the library wraps errors, and which add nothing.
const WRAPPERS: [&str; 4] =
    ["Generic HTTP error: ", "Object at location ", "The operation lacked ", "Operation not supported: "];

/// The words before the remedy of a request that a store refused.
pub const ACCESS: &str = "; to get access, ";

/// The longest answer of a server that is shown.
const SHOWN_CHARS: usize = 200;

/// Returns an error with the URL and the status of the request that failed, without the page that a server
/// sends with it. `None` for other errors.
pub fn shortened(text: &str) -> Option<String> {
    match text.split_once(ACCESS) {
        Some((refused, remedy)) => Some(format!("{}{ACCESS}{remedy}", request(refused)?)),
        None => request(text),
    }
}

/// Returns the error of a request as [`shortened`] does, without its remedy.
fn request(text: &str) -> Option<String> {
    let Some((before, rest)) = text.split_once(REQUEST) else { return without_location(text) };
    let (request, cause) = rest.split_once(" - ")?;
    // The method, the URL and the time.
    let url = request.split(' ').nth(1).filter(|url| url.contains("://")).unwrap_or_default();
    let end = WRAPPERS.iter().filter_map(|wrapper| before.find(wrapper)).min().unwrap_or(before.len());
    let before = before[..end].trim_end().trim_end_matches(':');
    let url = if before.contains(url) { "" } else { url };
    let cause = answer(cause);
    let parts = [before, url, &cause].into_iter().filter(|part| !part.is_empty());
    Some(parts.collect::<Vec<_>>().join(": "))
}

/// Returns an error of a store of web servers without the words in which the library wraps it.
fn without_location(text: &str) -> Option<String> {
    if let Some((before, reason)) = text.split_once("Operation not supported: the server ") {
        return Some(format!("{before}the server {reason}"));
    }
    let before = text.strip_suffix(" not found: 404 Not Found")?;
    Some(format!("{}404 Not Found", &before[..before.rfind("Object at location ")?]))
}

/// Returns what a server has answered, or why it has not.
fn answer(cause: &str) -> String {
    let (status, body) = match (cause.strip_prefix(STATUS), cause.strip_prefix(RESPONSE)) {
        (Some(answer), _) => answer.split_once(':').unwrap_or((answer, "")),
        (_, Some(body)) => ("the server refused", body),
        _ => return without_wrappers(cause),
    };
    match message(body) {
        Some(message) => format!("{status}: {message}"),
        None => status.to_owned(),
    }
}

/// Returns the message in the body of an answer, if it is not a page.
fn message(body: &str) -> Option<String> {
    let body = body.trim();
    // Of S3 and stores like it.
    if let Some((_, rest)) = body.split_once("<Message>")
        && let Some((message, _)) = rest.split_once("</Message>")
    {
        return Some(message.to_owned());
    }
    let is_short = !body.is_empty() && !body.contains('<') && body.chars().count() <= SHOWN_CHARS;
    is_short.then(|| body.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Returns why a request has failed, from the chain of the libraries' errors.
fn without_wrappers(cause: &str) -> String {
    if cause.contains("timed out") {
        return "the server does not answer in time".to_owned();
    }
    let cause = cause.trim_start_matches("HTTP error: ");
    // The last part is that of the system.
    match cause.rsplit_once("tcp connect error: ").or_else(|| cause.rsplit_once("client error (Connect): ")) {
        Some((_, system)) => format!("cannot connect: {system}"),
        None => cause.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_and_the_url_are_left() {
        let html = "<!DOCTYPE HTML>\n<html><head>404</head></html>";
        for (text, expected) in [
            (
                format!(
                    "cannot read 'http://h/x.csv': Object at location x.csv not found: Error performing HEAD \
                     http://h/x.csv in 1.2ms - Server returned non-2xx status code: 404 Not Found: {html}"
                ),
                "cannot read 'http://h/x.csv': 404 Not Found",
            ),
            (
                format!(
                    "Generic HTTP error: Error performing GET http://h/x in 2s, after 3 retries, max_retries: 3, \
                     retry_timeout: 30s  - Server returned non-2xx status code: 500 Internal Server Error: {html}"
                ),
                "http://h/x: 500 Internal Server Error",
            ),
            (
                "Generic S3 error: Error performing GET https://b.s3/x in 1ms - Server returned non-2xx status code: \
                 403 Forbidden: <Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
                    .to_owned(),
                "Generic S3 error: https://b.s3/x: 403 Forbidden: Access Denied",
            ),
            (
                "Generic HTTP error: Error performing GET http://h:1/x in 1ms - HTTP error: error sending request: \
                 client error (Connect): tcp connect error: Connection refused (os error 111)"
                    .to_owned(),
                "http://h:1/x: cannot connect: Connection refused (os error 111)",
            ),
        ] {
            assert_eq!(shortened(&text).as_deref(), Some(expected));
        }
        let refused = "Generic S3 error: Error performing GET https://b.s3/x in 1ms - Server returned non-2xx status \
                       code: 403 Forbidden: <html></html>; to get access, set AWS_ACCESS_KEY_ID";
        let expected = "Generic S3 error: https://b.s3/x: 403 Forbidden; to get access, set AWS_ACCESS_KEY_ID";
        assert_eq!(shortened(refused).as_deref(), Some(expected));
        let missing = "cannot read 'http://h/x': Object at location x not found: 404 Not Found";
        assert_eq!(shortened(missing).as_deref(), Some("cannot read 'http://h/x': 404 Not Found"));
        let folder = "cannot read 'http://h/x/': Operation not supported: the server lists no folder '/x'";
        assert_eq!(shortened(folder).as_deref(), Some("cannot read 'http://h/x/': the server lists no folder '/x'"));
        assert_eq!(shortened("cannot read 'x.csv'"), None);
    }
}
