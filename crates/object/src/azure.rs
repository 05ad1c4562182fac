//! Azure Blob Storage: pages of keys, and uploads. Objects are read as in S3.

use data_encoding::BASE64;
use http::{HeaderName, Method};
use quick_xml::de::from_reader;
use serde::Deserialize;
use verisum_digest::Output;
use verisum_files::percent;
use verisum_files::place::{FileIdentity, FileState};

use crate::client::{Client, Request};
use crate::error::RequestError;
use crate::google::{md5_of, recorded};
use crate::listing::{Listed, Page, encoded, identity, is_answer, no_list, time_of_header};
use crate::replaced::Upload;
use crate::upload::WrittenPart;

const KIND: HeaderName = HeaderName::from_static("x-ms-blob-type");
/// That of an object of parts, which the store keeps without a look at it.
const WHOLE_MD5: HeaderName = HeaderName::from_static("x-ms-blob-content-md5");
const MD5: HeaderName = HeaderName::from_static("content-md5");

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AzureAnswer {
    #[serde(default)]
    blobs: Blobs,
    #[serde(default)]
    next_marker: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Blobs {
    #[serde(default)]
    blob: Vec<Blob>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Blob {
    name: Name,
    properties: Properties,
}

/// A name, which is encoded where XML has no such characters.
#[derive(Deserialize)]
struct Name {
    #[serde(rename = "@Encoded", default)]
    encoded: bool,
    #[serde(rename = "$text", default)]
    text: String,
}

#[derive(Deserialize)]
struct Properties {
    #[serde(rename = "Last-Modified")]
    modified: Option<String>,
    #[serde(rename = "Content-Length")]
    length: Option<u64>,
    #[serde(rename = "Etag")]
    etag: Option<String>,
    #[serde(rename = "Content-MD5")]
    md5: Option<String>,
    /// Where an account has directories, they are listed too.
    #[serde(rename = "ResourceType")]
    resource: Option<String>,
}

/// Reads the XML of a page.
fn page(xml: &[u8]) -> Result<Page, RequestError> {
    let is_list = is_answer(xml, "EnumerationResults");
    let answer: AzureAnswer = from_reader(xml).ok().filter(|_| is_list).ok_or_else(|| no_list(is_list))?;
    let mut objects = Vec::with_capacity(answer.blobs.blob.len());
    let was_empty = answer.blobs.blob.is_empty();
    for Blob { name, properties } in answer.blobs.blob {
        if properties.resource.as_deref() == Some("directory") {
            continue;
        }
        let key = match name.encoded {
            true => percent::decoded(name.text.as_bytes()),
            false => Some(name.text.into_bytes()),
        };
        let key = key.ok_or(RequestError::Answer("a key is badly encoded"))?;
        let size = properties.length.ok_or(RequestError::Answer("an object has no length"))?;
        let modified = properties.modified.as_deref().and_then(time_of_header);
        let recorded = properties.md5.as_deref().and_then(recorded);
        let identity = properties.etag.as_deref().and_then(|etag| identity(&key, etag));
        objects.push(Listed { key, seen: FileState { size: Some(size), modified, identity }, recorded });
    }
    let next = Some(answer.next_marker).filter(|marker| !marker.is_empty());
    if was_empty && next.is_some() {
        return Err(RequestError::Answer("a page is empty"));
    }
    Ok(Page { objects, next })
}

impl Client {
    pub(crate) async fn azure_page(
        &self,
        prefix: &[u8],
        (next, most): (Option<&str>, usize),
    ) -> Result<Page, RequestError> {
        let mut query =
            format!("restype=container&comp=list&maxresults={most}&prefix={}", encoded(prefix, false));
        if let Some(next) = next {
            query.push_str(&format!("&marker={}", encoded(next.as_bytes(), false)));
        }
        let request = Request::new(Method::GET, b"", query);
        page(&self.ask(&request).await?.body)
    }

    /// Writes an object at once. The store checks its MD5, and keeps it.
    pub(crate) async fn azure_put(
        &self,
        upload: &Upload<'_>,
        body: Vec<u8>,
    ) -> Result<Option<FileIdentity>, RequestError> {
        let md5 = BASE64.encode(md5_of(&body)?.as_bytes());
        let mut headers = vec![(KIND, "BlockBlob".to_string()), (MD5, md5.clone())];
        headers.extend(upload.headers(self));
        let request = Request { headers, body: body.into(), ..Request::new(Method::PUT, upload.key, "") };
        let written = self.show(upload, request).await.map(|answer| self.written(upload.key, &answer));
        self.ended(upload, written, &md5).await
    }

    /// Writes a part, which the store keeps until an object is made of it.
    pub(crate) async fn azure_part(
        &self,
        key: &[u8],
        number: u64,
        body: Vec<u8>,
    ) -> Result<WrittenPart, RequestError> {
        let checksum = BASE64.encode(md5_of(&body)?.as_bytes());
        let name = BASE64.encode(format!("{number:020}").as_bytes());
        let query = format!("comp=block&blockid={}", encoded(name.as_bytes(), false));
        let headers = vec![(MD5, checksum.clone())];
        let request = Request { headers, body: body.into(), ..Request::new(Method::PUT, key, query) };
        self.ask(&request).await?;
        Ok(WrittenPart { number, etag: name, checksum })
    }

    /// Makes an object of its parts.
    pub(crate) async fn azure_complete(
        &self,
        upload: &Upload<'_>,
        parts: &[WrittenPart],
        md5: Option<Output>,
    ) -> Result<Option<FileIdentity>, RequestError> {
        let names: String =
            parts.iter().map(|part| format!("<Uncommitted>{}</Uncommitted>", part.etag)).collect();
        let body = format!("<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>{names}</BlockList>");
        let md5 = md5.map(|md5| BASE64.encode(md5.as_bytes())).unwrap_or_default();
        let mut headers = upload.headers(self);
        headers.push((WHOLE_MD5, md5.clone()));
        let body = body.into_bytes().into();
        let request = Request { headers, body, ..Request::new(Method::PUT, upload.key, "comp=blocklist") };
        let written = self.show(upload, request).await.map(|answer| self.written(upload.key, &answer));
        self.ended(upload, written, &md5).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read_with_what_the_store_recorded() {
        let xml = b"<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults ContainerName=\"c\"><Blobs>
            <Blob><Name>a b</Name><Properties><Last-Modified>Mon, 23 Nov 2026 02:50:00 GMT</Last-Modified>
            <Content-Length>7</Content-Length><Content-MD5>ABEiM0RVZneImaq7zN3u/w==</Content-MD5></Properties></Blob>
            <Blob><Name Encoded=\"true\">x%01+</Name><Properties><Content-Length>0</Content-Length><Content-MD5 />
            </Properties></Blob></Blobs><NextMarker>m</NextMarker></EnumerationResults>";
        let found = page(xml).unwrap();
        assert_eq!(found.next.as_deref(), Some("m"));
        assert_eq!((&found.objects[0].key[..], found.objects[0].seen.size), (&b"a b"[..], Some(7)));
        assert_eq!(found.objects[0].seen.modified.unwrap().time.seconds, 1_795_402_200);
        assert_eq!(found.objects[0].recorded.unwrap().md5, std::array::from_fn(|at| 0x11 * at as u8));
        assert_eq!((&found.objects[1].key[..], found.objects[1].recorded), (&b"x\x01+"[..], None));
        let empty = b"<EnumerationResults><Blobs /><NextMarker /></EnumerationResults>";
        assert!(page(empty).unwrap().objects.is_empty());
        assert!(page(b"<html>").is_err());
    }
}
