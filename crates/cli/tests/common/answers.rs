//! A server that answers as a test wants it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::bucket::{KEY, SECRET, run_at};
use super::{Ended, VERISUM, command};

/// A request, as it came.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    pub method: String,
    /// The path and the query.
    pub target: String,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Asked {
    pub fn is_listing(&self) -> bool {
        self.target.contains("list-type=2")
    }

    pub fn key(&self) -> &str {
        let path = self.target.split('?').next().unwrap();
        path.strip_prefix("/bucket/").unwrap_or_default()
    }

    /// The range of this content that was asked for, with its header.
    pub fn part(&self, content: &[u8]) -> Answer {
        let range = self.headers["range"].strip_prefix("bytes=").unwrap().split_once('-').unwrap();
        let (first, last): (usize, usize) = (range.0.parse().unwrap(), range.1.parse().unwrap());
        let end = content.len().min(last + 1);
        let range = format!("bytes {first}-{}/{}", end - 1, content.len());
        Answer::new(206, &content[first..end]).header("Content-Range", &range)
    }
}

/// In place of a status: the connection breaks without an answer.
pub const NONE: u16 = 0;

/// What the server answers.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// So much of the body is sent; the rest never comes.
    pub sent: usize,
    /// How many further bytes come at once, and how long they take.
    pub drip: Option<(usize, Duration)>,
}

impl Answer {
    pub fn new(status: u16, body: impl AsRef<[u8]>) -> Answer {
        let body = body.as_ref().to_vec();
        Answer { status, headers: Vec::new(), sent: body.len(), body, drip: None }
    }

    pub fn header(mut self, name: &str, value: &str) -> Answer {
        self.headers.push((name.to_string(), value.to_string()));
        self
    }
}

/// A server at a port of this machine, and what it was asked for.
pub struct Server {
    pub url: String,
    pub asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    pub fn start(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (noted, answer) = (asked.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (answer, noted) = (answer.clone(), noted.clone());
                std::thread::spawn(move || serve(stream.unwrap(), &*answer, &noted));
            }
        });
        Server { url, asked }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub fn run(&self, words: &[&str]) -> Ended {
        run_at(&self.url, words)
    }
}

fn serve(mut stream: TcpStream, answer: &dyn Fn(&Asked) -> Answer, noted: &Mutex<Vec<Asked>>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    if lines.read_line(&mut line).is_err() || line.is_empty() {
        return;
    }
    let mut words = line.split(' ').map(str::to_string);
    let mut asked =
        Asked { method: words.next().unwrap(), target: words.next().unwrap(), ..Asked::default() };
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line).is_err() || line.trim().is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').unwrap();
        asked.headers.insert(name.to_lowercase(), value.trim().to_string());
    }
    let length = asked.headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let _ = lines.take(length).read_to_end(&mut asked.body);
    noted.lock().unwrap().push(asked.clone());
    let Answer { status, headers, body, sent, drip } = answer(&asked);
    if status == NONE {
        return;
    }
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    let _ = write!(
        stream,
        "HTTP/1.1 {status} X\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    if asked.method == "HEAD" {
        return;
    }
    let _ = stream.write_all(&body[..sent]);
    let Some((piece, wait)) = drip else { return };
    for bytes in body[sent..].chunks(piece) {
        std::thread::sleep(wait);
        if stream.write_all(bytes).is_err() {
            return;
        }
    }
}

/// A page of keys, with lengths and ETags.
pub fn page(objects: &[(&str, usize, &str)]) -> Answer {
    let objects = objects.iter().map(|(key, size, etag)| {
        format!("<Contents><Key>{key}</Key><Size>{size}</Size><ETag>&quot;{etag}&quot;</ETag></Contents>")
    });
    let objects: String = objects.collect();
    Answer::new(200, format!("<ListBucketResult>{objects}</ListBucketResult>"))
}

/// Runs the command with a store at this address, and with these variables of the environment.
pub fn run_with(variables: &[(&str, &str)], url: &str, words: &[&str]) -> Ended {
    let mut command = command(VERISUM);
    command.args(words).env("AWS_ENDPOINT_URL", url);
    command.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET);
    command.envs(variables.iter().copied());
    Ended::of(command.output().unwrap())
}

/// Checks the exit code and a part of what was said, and that no secret was.
#[track_caller]
pub fn assert_said(ended: &Ended, code: i32, part: &str) {
    let about = format!("{:?} {}{}", ended.code, ended.out(), ended.stderr);
    assert_eq!(ended.code, Some(code), "{about}");
    assert!(ended.stderr.contains(part), "{about}");
    assert!(!about.contains(SECRET) && !about.contains(KEY) && !about.contains("panicked"), "{about}");
}
