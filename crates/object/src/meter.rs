//! Counts the requests to a store, which cost money.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use http::Method;

/// Counts requests and bytes; shared between all that ask. Requests that are sent again count again.
#[derive(Debug, Default)]
pub struct Meter {
    requests: [AtomicU64; RequestClass::ALL.len()],
    received: AtomicU64,
    sent: AtomicU64,
}

/// The classes of requests that stores have prices for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestClass {
    /// A page of keys.
    List,
    /// A range of an object.
    Get,
    /// What is known of an object besides its content.
    Head,
    /// The checksums that the store recorded of an object.
    Attributes,
    /// An object, or a step of writing one.
    Put,
    /// The end of an upload that failed, or of an object; it costs nothing usually.
    Delete,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Requests by their classes, in the order of [`RequestClass::ALL`].
    pub requests: [u64; RequestClass::ALL.len()],
    /// Bytes of objects and answers.
    pub received: u64,
    /// Bytes of objects that were written.
    pub sent: u64,
}

/// How the queries of pages of keys begin, in the stores of all kinds.
const LISTS: [&str; 4] =
    ["encoding-type=url&list-type=", "continuation-token=", "prefix=", "restype=container&comp=list"];

impl RequestClass {
    /// All of them.
    pub const ALL: [RequestClass; 6] = [
        RequestClass::List,
        RequestClass::Get,
        RequestClass::Head,
        RequestClass::Attributes,
        RequestClass::Put,
        RequestClass::Delete,
    ];

    /// Its name in price lists and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            RequestClass::List => "list",
            RequestClass::Get => "get",
            RequestClass::Head => "head",
            RequestClass::Attributes => "attributes",
            RequestClass::Put => "put",
            RequestClass::Delete => "delete",
        }
    }

    pub(crate) fn of(method: &Method, query: &str) -> RequestClass {
        match *method {
            Method::HEAD => RequestClass::Head,
            Method::DELETE => RequestClass::Delete,
            Method::PUT | Method::POST => RequestClass::Put,
            _ if LISTS.iter().any(|start| query.starts_with(start)) => RequestClass::List,
            _ if query.starts_with("attributes") => RequestClass::Attributes,
            _ => RequestClass::Get,
        }
    }
}

impl fmt::Display for RequestClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Meter {
    /// What was counted so far.
    pub fn usage(&self) -> Usage {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Usage {
            requests: self.requests.each_ref().map(count),
            received: count(&self.received),
            sent: count(&self.sent),
        }
    }

    pub(crate) fn request(&self, class: RequestClass, sent: usize) {
        self.requests[class as usize].fetch_add(1, Ordering::Relaxed);
        self.sent.fetch_add(sent as u64, Ordering::Relaxed);
    }

    pub(crate) fn receive(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_stand_where_they_are_counted() {
        for (place, class) in RequestClass::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, place, "{class}");
        }
        let meter = Meter::default();
        for (method, query) in [
            (
                Method::GET,
                "continuation-token=x&encoding-type=url&list-type=2&max-keys=1000&prefix=attributes",
            ),
            (Method::GET, "encoding-type=url&list-type=2&max-keys=1000&prefix="),
            (Method::GET, "prefix=a&maxResults=1000&fields=kind"),
            (Method::GET, "restype=container&comp=list&maxresults=1000&prefix=a"),
            (Method::GET, ""),
            (Method::GET, "attributes="),
            (Method::HEAD, "partNumber=1"),
            (Method::POST, "uploads="),
            (Method::PUT, ""),
        ] {
            meter.request(RequestClass::of(&method, query), 2);
        }
        assert_eq!(meter.usage(), Usage { requests: [4, 1, 1, 1, 2, 0], received: 0, sent: 18 });
    }
}
