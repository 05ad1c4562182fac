//! Reads many small files of a host with one command.

use std::io::Read;

use verisum_files::place::FileRequest;

use crate::error::SessionError;
use crate::link::{Link, Script};

const WHOLE: &str = include_str!("script/whole.sh");

/// Names of so many bytes are on their way before an answer is read.
const MOST_NAMES: usize = 16 << 10;

/// The bytes of files of these lengths, in the order of the requests; none of one that is longer than `most`, or after
/// which nothing came.
///
/// They come one after the other and nothing stands between them, so that the host starts one program for all. If
/// one has another length by now, it has the bytes of others, and so have those after it: the caller has to
/// compare digests.
pub(crate) fn read(
    link: &Link,
    files: &[FileRequest],
    most: u64,
) -> Result<Vec<Option<Vec<u8>>>, SessionError> {
    let mut found: Vec<Option<Vec<u8>>> = files.iter().map(|_| None).collect();
    let is_small = |file: &FileRequest| file.seen.size.is_some_and(|size| size <= most);
    let small: Vec<usize> = (0..files.len()).filter(|at| is_small(&files[*at])).collect();
    let mut rest = &small[..];
    while !rest.is_empty() {
        let mut names = 0;
        let fits = |at: &&usize| {
            names += files[**at].path.len();
            names <= MOST_NAMES
        };
        let (group, others) = rest.split_at(rest.iter().take_while(fits).count().max(1));
        let script = Script::new(WHOLE).text(group.len().to_string().as_bytes());
        let script = group.iter().fold(script, |script, at| script.text(&files[*at].path));
        let mut running = link.start(false, &script)?;
        for at in group {
            let mut content =
                vec![0; files[*at].seen.size.and_then(|size| size.try_into().ok()).unwrap_or(0)];
            if running.stdout.read_exact(&mut content).is_err() {
                break;
            }
            found[*at] = Some(content);
        }
        rest = others;
    }
    Ok(found)
}
