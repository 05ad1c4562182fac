//! Every vector by both programs: as files, with and without holes, and as standard input.

use crate::common;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use common::{BLKSUM, VERISUM, command, image_sum, stdin_of, values, with_pipe};
use serde_json::Value;
use verisum_testkit::{Run, content, paint, total_length};

/// Messages longer than this are given as files only: standard input takes a process each.
const LONGEST_STDIN: u64 = 2 << 20;

struct Vector {
    digest: String,
    block_size: String,
    runs: Vec<Run>,
    hex: String,
    /// The value of the padded message; that of the message itself if it is whole sectors.
    padded: String,
}

impl Vector {
    fn read(value: &Value) -> Vector {
        let text = |name: &str| value[name].as_str().map(str::to_string);
        let hex = text("hex").unwrap();
        let run = |run: &Value| {
            let length = run["length"].as_u64().unwrap();
            match run["kind"].as_str().unwrap() {
                "data" => Run::data(length),
                _ => Run::hole(length),
            }
        };
        Vector {
            digest: text("digest").unwrap(),
            block_size: value["block_size"].to_string(),
            runs: value["runs"].as_array().unwrap().iter().map(run).collect(),
            padded: text("hex_padded").unwrap_or_else(|| hex.clone()),
            hex,
        }
    }

    fn is_whole_sectors(&self) -> bool {
        total_length(&self.runs).is_multiple_of(512)
    }
}

fn list(name: &str) -> Vec<Vector> {
    let text = std::fs::read_to_string(common::repository().join("vectors/blockhash.json")).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    all[name].as_array().unwrap().iter().map(Vector::read).collect()
}

/// The vectors and the files of their messages, of which many share one.
struct Painted {
    _folder: tempfile::TempDir,
    vectors: Vec<(Vector, PathBuf)>,
}

fn painted(longest: u64) -> Painted {
    let folder = tempfile::tempdir().unwrap();
    let mut known: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut vectors = Vec::new();
    for vector in list("vectors") {
        if total_length(&vector.runs) > longest {
            continue;
        }
        let next = folder.path().join(known.len().to_string());
        let path = known.entry(format!("{:?}", vector.runs)).or_insert_with(|| {
            // Half of the files have holes, the others the same zeros written.
            let written = |run: &Run| {
                if run.kind == verisum_testkit::Kind::Hole { Run::zero(run.length) } else { *run }
            };
            let full: Vec<Run> = vector.runs.iter().map(written).collect();
            let runs = if next.to_str().unwrap().ends_with(['0', '2', '4', '6', '8']) {
                &vector.runs
            } else {
                &full
            };
            paint(&next, runs).unwrap();
            next
        });
        vectors.push((vector, path.clone()));
    }
    Painted { _folder: folder, vectors }
}

/// Does `work` for every item on two threads.
fn each<T: Send>(items: Vec<T>, work: impl Fn(T) + Sync) {
    let items = Mutex::new(items.into_iter());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let next = items.lock().unwrap().next();
                    let Some(item) = next else { break };
                    work(item);
                }
            });
        }
    });
}

#[test]
fn verisum_gives_the_value_of_every_file() {
    let painted = painted(u64::MAX);
    let mut groups: BTreeMap<(&str, &str), Vec<&(Vector, PathBuf)>> = BTreeMap::new();
    for pair in &painted.vectors {
        groups.entry((&pair.0.digest, &pair.0.block_size)).or_default().push(pair);
    }
    assert!(groups.len() > 50);
    each(groups.into_iter().collect(), |((digest, block_size), group)| {
        let run = |extra: &[&str]| {
            let files = group.iter().map(|(_, path)| path);
            image_sum(
                ["-a", digest, "--block-size", block_size]
                    .iter()
                    .chain(extra)
                    .map(Path::new)
                    .chain(files.map(PathBuf::as_path)),
            )
        };
        let ended = run(&["--cache"]);
        assert_eq!(ended.code, Some(0));
        let wanted: Vec<&str> = group.iter().map(|(vector, _)| vector.padded.as_str()).collect();
        assert_eq!(values(ended.out()), wanted, "{digest} {block_size}");
        // Padding is announced for the files that have it.
        let padded = group.iter().filter(|(vector, _)| !vector.is_whole_sectors()).count();
        assert_eq!(ended.stderr.lines().count(), padded);

        if block_size == "4096" {
            let wanted: Vec<&str> = group.iter().map(|(vector, _)| vector.hex.as_str()).collect();
            assert_eq!(values(&run(&["--exact", "-t", "3"]).clean()), wanted, "{digest} exact");
        }
    });
}

#[test]
fn both_programs_give_the_value_of_every_short_standard_input() {
    let painted = painted(LONGEST_STDIN);
    each(painted.vectors.iter().enumerate().collect(), |(n, (vector, path))| {
        let mut program = command(if n % 4 < 2 { BLKSUM } else { VERISUM });
        match n % 4 {
            0 | 1 => program.args(["-d", &vector.digest]),
            2 => program.args(["image", "sum", "--untagged", "--exact", "-a", &vector.digest]),
            _ => program.args(["image", "sum", "--untagged", "-a", &vector.digest, "-"]),
        };
        program.args(["--block-size", &vector.block_size]);
        let ended = match n % 2 {
            0 => common::Ended::of(program.stdin(stdin_of(path)).output().unwrap()),
            _ => with_pipe(&mut program, &content(&vector.runs)),
        };
        let wanted = if n % 4 == 3 { &vector.padded } else { &vector.hex };
        assert_eq!(
            (ended.code, ended.out()),
            (Some(0), format!("{wanted}  -\n").as_str()),
            "{vector_of}",
            vector_of = path.display()
        );
        let remarks = usize::from(n % 4 == 3 && !vector.is_whole_sectors());
        assert_eq!(ended.stderr.lines().count(), remarks);
    });
}

#[test]
fn blksum_gives_the_value_of_every_short_file() {
    let painted = painted(200_000);
    each(painted.vectors.iter().collect(), |(vector, path)| {
        let arguments = ["-c", "-d", &vector.digest, "--block-size", &vector.block_size].map(Path::new);
        let out = common::blksum(arguments.into_iter().chain([path.as_path()])).clean();
        assert_eq!(out, format!("{}  {}\n", vector.padded, path.display()));
    });
}

#[test]
fn sixteen_tebibytes_of_holes_take_little_memory() {
    // ext4 has no files so long.
    let folder = match tempfile::tempdir_in("/dev/shm") {
        Ok(folder) => folder,
        Err(error) => return verisum_testkit::skip(&format!("/dev/shm: {error}")),
    };
    let Some(python) = verisum_testkit::require_python() else { return };
    let path = folder.path().join("sparse");
    // With blocks of 64 KiB the digests of the blocks alone are 8 GiB to hash.
    let is_it = |one: &Vector| total_length(&one.runs) == 1 << 44 && one.block_size == "1048576";
    let vector = list("sparse").into_iter().find(is_it).unwrap();
    paint(&path, &vector.runs).unwrap();
    let (out, kibibytes) = measured(&python, &["--block-size=1M".as_ref(), "-t8".as_ref(), path.as_os_str()]);
    assert_eq!(out, format!("{}  {}\n", vector.hex, path.display()));
    assert!(kibibytes <= 64 << 10, "{kibibytes} KiB resident");
}

/// Where blocks are shorter than their digests it is these that could fill the memory.
#[test]
fn short_blocks_take_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let Some(python) = verisum_testkit::require_python() else { return };
    let path = folder.path().join("data");
    paint(&path, &[Run::data(4 << 20)]).unwrap();
    for (digest, threads, block_size) in [("sha512", "2", "2"), ("sha256", "128", "16"), ("md5", "8", "1M")] {
        let arguments = ["-a", digest, "-t", threads, "--block-size", block_size].map(OsStr::new);
        let (_, kibibytes) = measured(&python, &[&arguments[..], &[path.as_os_str()]].concat());
        assert!(kibibytes <= 64 << 10, "{kibibytes} KiB resident for {digest}, {block_size}");
    }
}

/// What `verisum image sum` prints, and the most KiB that it had resident.
fn measured(python: &Path, arguments: &[&OsStr]) -> (String, u64) {
    let script = "import resource, subprocess, sys\n\
            print(subprocess.run(sys.argv[1:], check=True, capture_output=True, text=True).stdout, end='')\n\
            print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";
    let mut command = command(python.to_str().unwrap());
    command.args(["-c", script, VERISUM, "image", "sum", "--untagged"]).args(arguments);
    let out = common::Ended::of(command.output().unwrap()).clean();
    let (sum, memory) = out.trim_end().rsplit_once('\n').unwrap();
    (format!("{sum}\n"), memory.parse().unwrap())
}
