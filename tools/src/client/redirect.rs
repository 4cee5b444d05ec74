//! What a redirect asks for: another request, without what only the first server may know.

use reqwest::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName,
    LOCATION, PROXY_AUTHORIZATION, TRANSFER_ENCODING,
};
use reqwest::{Method, Request, Response, StatusCode, Url};

use super::forbidden::SendError;

/// Headers that speak of a body.
const OF_BODY: [HeaderName; 4] =
    [CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING];

/// Headers that say who asks, whoever set them.
const CREDENTIALS: [HeaderName; 3] = [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION];

/// Makes the request that a redirect asks for out of the one that it answers.
pub(super) fn next(request: Request, response: &Response) -> Result<Option<Request>, SendError> {
    let place = response.headers().get(LOCATION);
    match (way(response.status(), request.method()), place) {
        (Some(drops_body), Some(place)) => {
            let place = place.to_str().map_err(|error| SendError::Target(error.to_string()))?;
            follow(request, place, drops_body).map(Some)
        }
        _ => Ok(None),
    }
}

/// Tells whether a status asks for nothing but the answer to what was already done.
pub(crate) fn is_taken(method: &Method, status: StatusCode) -> bool {
    way(status, method) == Some(true)
}

/// Tells whether a status is followed, and then whether as a GET without a body.
fn way(status: StatusCode, method: &Method) -> Option<bool> {
    match status {
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => Some(*method == Method::POST),
        StatusCode::SEE_OTHER => Some(!matches!(*method, Method::GET | Method::HEAD)),
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => Some(false),
        _ => None,
    }
}

fn follow(mut request: Request, place: &str, drops_body: bool) -> Result<Request, SendError> {
    let url = request.url().join(place).map_err(|error| SendError::Target(error.to_string()))?;
    if drops_body {
        *request.method_mut() = Method::GET;
        *request.body_mut() = None;
        for name in &OF_BODY {
            request.headers_mut().remove(name);
        }
    }
    retarget(&mut request, url);
    Ok(request)
}

/// Sends a request elsewhere; another origin does not get what only the first one may know.
pub(crate) fn retarget(request: &mut Request, url: Url) {
    if !is_same_origin(request.url(), &url) {
        *request.headers_mut() = without_credentials(request.headers());
    }
    *request.url_mut() = url;
}

pub(crate) fn is_same_origin(one: &Url, other: &Url) -> bool {
    one.origin().is_tuple() && one.origin() == other.origin()
}

fn without_credentials(headers: &HeaderMap) -> HeaderMap {
    let kept = headers.iter().filter(|(name, value)| {
        !value.is_sensitive() && CREDENTIALS.iter().all(|known| known != *name)
    });
    let mut left = HeaderMap::new();
    for (name, value) in kept {
        left.append(name.clone(), value.clone());
    }
    left
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn request(method: Method) -> Request {
        let mut request = Request::new(method, Url::parse("http://a.test/x/y?k=1").unwrap());
        let mut secret = HeaderValue::from_static("hidden");
        secret.set_sensitive(true);
        let headers = request.headers_mut();
        headers.insert("x-key", secret);
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer b"));
        headers.insert(COOKIE, HeaderValue::from_static("c=1"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        headers.insert("accept", HeaderValue::from_static("text/html"));
        *request.body_mut() = Some("body".into());
        request
    }

    #[test]
    fn a_method_changes_as_its_status_says() {
        let get = Some(Method::GET);
        let same = |method: &Method| Some(method.clone());
        for (status, method, expected) in [
            (301, Method::POST, get.clone()),
            (302, Method::POST, get.clone()),
            (302, Method::PUT, same(&Method::PUT)),
            (302, Method::HEAD, same(&Method::HEAD)),
            (303, Method::POST, get.clone()),
            (303, Method::DELETE, get.clone()),
            (303, Method::HEAD, same(&Method::HEAD)),
            (307, Method::POST, same(&Method::POST)),
            (308, Method::PATCH, same(&Method::PATCH)),
            (300, Method::GET, None),
            (304, Method::GET, None),
            (200, Method::GET, None),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let found = way(status, &method).map(|drops_body| {
                let next = follow(request(method.clone()), "/z", drops_body).unwrap();
                assert_eq!(next.body().is_none(), drops_body, "{status} {method}");
                assert_eq!(next.headers().contains_key(CONTENT_TYPE), !drops_body);
                next.method().clone()
            });
            assert_eq!(found, expected, "{status} {method}");
        }
    }

    #[test]
    fn credentials_stay_with_their_origin() {
        for (place, url, kept) in [
            ("z", "http://a.test/x/z", true),
            ("//a.test:80/z", "http://a.test/z", true),
            ("http://A.test/z", "http://a.test/z", true),
            ("https://a.test/z", "https://a.test/z", false),
            ("http://a.test:8080/", "http://a.test:8080/", false),
            ("//b.test/", "http://b.test/", false),
            ("file:///etc/passwd", "file:///etc/passwd", false),
        ] {
            let next = follow(request(Method::GET), place, false).unwrap();
            assert_eq!(next.url().as_str(), url);
            for name in ["x-key", "authorization", "cookie"] {
                assert_eq!(next.headers().contains_key(name), kept, "{place} {name}");
            }
            assert!(next.headers().contains_key("accept"));
        }
        assert!(matches!(
            follow(request(Method::GET), "http://[", false),
            Err(SendError::Target(_))
        ));
    }
}
