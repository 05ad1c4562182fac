//! Hardware and system of a remote host, read from its kernel as on this machine.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use verisum::digest::Policy;
use verisum_bench::host::{Folders, MeasuredMachine, mounted_at};

use verisum::remote::{Script, SessionError, Trial, Way};

const FACTS: &str = include_str!("remote_host.sh");

/// Files that are fetched, and how many of their lines.
const FILES: [(&str, u32); 7] = [
    // The first of all processors.
    ("proc/cpuinfo", 40),
    ("proc/meminfo", 3),
    ("proc/loadavg", 1),
    ("proc/self/mounts", 2000),
    ("etc/os-release", 40),
    ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", 1),
    ("sys/class/dmi/id/sys_vendor", 1),
];

/// The caches of the first processor, and what is told of each.
const CACHES: &str = "sys/devices/system/cpu/cpu0/cache/index";
const CACHE: [&str; 3] = ["level", "type", "size"];

/// Reads what a host is. The folder is where the files are that are measured.
pub(crate) fn host(trial: &Trial, folder: &[u8]) -> Result<MeasuredMachine, SessionError> {
    let files: Vec<(String, u32)> = FILES
        .iter()
        .map(|(name, most)| (name.to_string(), *most))
        .chain((0..5).flat_map(|index| CACHE.map(|what| (format!("{CACHES}{index}/{what}"), 1))))
        .collect();
    let mut script = FACTS.to_string();
    for (name, most) in &files {
        script.push_str(&format!("show {name} {most}\n"));
    }
    for way in trial.ways() {
        if let Some(command) = version(way) {
            script.push_str(&format!("first 'version {}' \"$({command} 2>&1 </dev/null)\"\n", way.program));
        }
    }
    let text = trial.run(&Script::new(&script).text(folder))?;
    let here = |error: io::Error| SessionError::Here(error.to_string());
    let copy = tempfile::tempdir().map_err(here)?;
    read(&text, &files, copy.path()).map_err(here)
}

/// Puts the files of the other machine into a folder, and reads them as those of this one.
fn read(text: &[u8], files: &[(String, u32)], copy: &Path) -> io::Result<MeasuredMachine> {
    let lines = || text.split(|byte| *byte == b'\n');
    for (name, _) in files {
        let start = format!("line {name} ");
        let mut content = Vec::new();
        for line in lines().filter_map(|line| line.strip_prefix(start.as_bytes())) {
            content.extend_from_slice(line);
            content.push(b'\n');
        }
        if !content.is_empty() {
            let path = copy.join(name);
            fs::create_dir_all(path.parent().unwrap_or(copy))?;
            fs::write(path, content)?;
        }
    }
    let folders = Folders { proc: copy.join("proc"), sys: copy.join("sys"), etc: copy.join("etc") };
    let mut host = MeasuredMachine::read(&folders, &Policy::default(), &[]);
    let fact = |name: &str| {
        let line = lines().find_map(|line| line.strip_prefix(format!("{name} ").as_bytes()));
        line.map(|line| String::from_utf8_lossy(line).trim().to_string())
    };
    let told = |name: &str| fact(name).unwrap_or_else(|| "unknown".to_string());
    host.kernel = told("system");
    host.architecture = told("architecture");
    host.processors = fact("processors").and_then(|count| count.parse().ok()).unwrap_or(0);
    if let Some(processor) = fact("processor") {
        host.processor = processor;
    }
    if let Some(memory) = fact("memory").and_then(|memory| memory.parse().ok()) {
        host.memory = memory;
    }
    host.file_system = fact("folder").and_then(|folder| {
        let mounts = fs::read_to_string(copy.join("proc/self/mounts")).ok()?;
        mounted_at(&mounts, Path::new(OsStr::from_bytes(folder.as_bytes())))
    });
    host.no_cycles = Some("it is another machine".to_string());
    // Of this program's kernels only what it runs itself would tell.
    host.level = "not asked".to_string();
    host.kernels.clear();
    host.versions.clear();
    for line in lines().filter_map(|line| line.strip_prefix(b"version ")) {
        if let Some((program, version)) = String::from_utf8_lossy(line).split_once(' ') {
            host.versions.insert(program.to_string(), version.trim().to_string());
        }
    }
    Ok(host)
}

/// What makes a program print its version; none where no option is known to.
fn version(way: &Way) -> Option<String> {
    let words = match way.name {
        "verisum" | "coreutils" | "shasum" | "python" => "--version",
        "busybox" => "--help",
        "openssl" => "version",
        "perl" => "-e 'printf \"%vd\", $^V'",
        _ => return None,
    };
    Some(format!("{} {words}", way.program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_machine_is_read_from_what_it_prints() {
        let files = FILES.map(|(name, most)| (name.to_string(), most));
        let text = b"system Linux 5.4\narchitecture riscv64\nprocessors 12\n\
            line proc/cpuinfo model name\t: Slow One\nline proc/meminfo MemTotal: 2048 kB\n\
            line proc/loadavg 0.25 0.1 0.1 1/2 3\nline ../../evil x\nline etc/os-release PRETTY_NAME=\"Old 1\"\n\
            line proc/self/mounts /dev/a / ext4 rw 0 0\nline proc/self/mounts /dev/b /srv xfs rw 0 0\n\
            folder /srv/www\nversion openssl OpenSSL 1.0.2\n";
        let copy = tempfile::tempdir().unwrap();
        let host = read(text, &files, copy.path()).unwrap();
        assert_eq!((host.processor.as_str(), host.kernel.as_str()), ("Slow One", "Linux 5.4"));
        assert_eq!((host.architecture.as_str(), host.processors), ("riscv64", 12));
        assert_eq!((host.memory, host.load, host.system.as_str()), (2048 * 1024, Some(0.25), "Old 1"));
        assert_eq!(host.file_system.as_deref(), Some("xfs on /dev/b"));
        assert_eq!(host.versions.get("openssl").map(String::as_str), Some("OpenSSL 1.0.2"));
        assert_eq!(host.versions.len(), 1);
        let silent = read(b"", &files, tempfile::tempdir().unwrap().path()).unwrap();
        assert_eq!((silent.processor.as_str(), silent.kernel.as_str()), ("unknown", "unknown"));
    }
}
