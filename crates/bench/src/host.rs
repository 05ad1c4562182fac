//! Hardware and settings of the machine that change measured times, read from the kernel's folders.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use verisum_digest::{ALGORITHMS, Digest, Policy};

/// Where the kernel tells of the machine; others in tests.
#[derive(Clone, Debug)]
pub struct Folders {
    /// `/proc`
    pub proc: PathBuf,
    /// `/sys`
    pub sys: PathBuf,
    /// `/etc`
    pub etc: PathBuf,
}

impl Default for Folders {
    fn default() -> Folders {
        Folders { proc: "/proc".into(), sys: "/sys".into(), etc: "/etc".into() }
    }
}

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasuredMachine {
    /// The processor's name.
    pub processor: String,
    /// Its kind, as `x86_64`.
    pub architecture: String,
    /// Those of its instructions that hashes are made of.
    pub instructions: Vec<String>,
    /// How many processors this process may run on.
    pub processors: usize,
    /// The caches of the first processor, as `L2 1024K`.
    pub caches: Vec<String>,
    /// Bytes of memory.
    pub memory: u64,
    /// The kernel of the operating system.
    pub kernel: String,
    /// The operating system.
    pub system: String,
    /// The hypervisor, or `yes` if it has no name; none on a real machine.
    pub virtualised: Option<String>,
    /// What decides over the clock of the processor; none where nothing is said.
    pub governor: Option<String>,
    /// Processes that ran or waited to, on average over the last minute.
    pub load: Option<f64>,
    /// Why there is no count of the processor's cycles; none if there is.
    pub no_cycles: Option<String>,
    /// The file system that the files lie in, as `ext4 on /dev/sda1`.
    pub file_system: Option<String>,
    /// The highest level of our own kernels that was permitted.
    pub level: String,
    /// Who of ours computes each digest: stream, then batch.
    pub kernels: BTreeMap<String, String>,
    /// The versions of the programs and libraries that took part.
    pub versions: BTreeMap<String, String>,
}

/// Instructions that hashes are made of, as the kernel names them.
const INSTRUCTIONS: [&str; 17] = [
    "sha_ni",
    "sha512",
    "sm3",
    "ssse3",
    "sse4_2",
    "avx",
    "avx2",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "pclmulqdq",
    "vpclmulqdq",
    "sha1",
    "sha2",
    "sha3",
    "crc32",
    "pmull",
];

impl MeasuredMachine {
    /// This machine. `files` are where the data of the measurement lies.
    pub fn read(folders: &Folders, policy: &Policy, files: &[PathBuf]) -> MeasuredMachine {
        let cpuinfo = text(&folders.proc.join("cpuinfo"));
        let flags: Vec<&str> = ["flags", "Features"]
            .iter()
            .find_map(|name| field(&cpuinfo, name))
            .map(|flags| flags.split_whitespace().collect())
            .unwrap_or_default();
        let memory = field(&text(&folders.proc.join("meminfo")), "MemTotal")
            .and_then(|size| size.strip_suffix(" kB")?.trim().parse::<u64>().ok());
        let system = text(&folders.etc.join("os-release"));
        let system = system.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
        let name = rustix::system::uname();
        let governor = text(&folders.sys.join("devices/system/cpu/cpu0/cpufreq/scaling_governor"));
        let mut versions = BTreeMap::from([("verisum".to_string(), env!("CARGO_PKG_VERSION").to_string())]);
        if let Ok(version) = verisum_digest::openssl_version() {
            versions.insert("libcrypto".to_string(), version);
        }
        MeasuredMachine {
            processor: ["model name", "Model", "cpu"]
                .iter()
                .find_map(|name| field(&cpuinfo, name))
                .unwrap_or("unknown")
                .to_string(),
            architecture: std::env::consts::ARCH.to_string(),
            instructions: INSTRUCTIONS
                .iter()
                .filter(|name| flags.contains(*name))
                .map(|name| name.to_string())
                .collect(),
            processors: std::thread::available_parallelism().map_or(1, |number| number.get()),
            caches: caches(&folders.sys),
            memory: memory.unwrap_or(0) * 1024,
            kernel: format!("{} {}", name.sysname().to_string_lossy(), name.release().to_string_lossy()),
            system: system.map_or("unknown", |name| name.trim_matches('"')).to_string(),
            virtualised: hypervisor(folders, &flags),
            governor: Some(governor.trim().to_string()).filter(|text| !text.is_empty()),
            load: text(&folders.proc.join("loadavg")).split(' ').next().and_then(|load| load.parse().ok()),
            no_cycles: crate::measure::Cycles::missing(),
            file_system: files.first().and_then(|file| file_system(&folders.proc, file)),
            level: policy.max_level.name().to_string(),
            kernels: kernels(policy),
            versions,
        }
    }

    /// What differs from another machine in a way that makes times differ, a sentence each.
    pub fn differences(&self, other: &MeasuredMachine) -> Vec<String> {
        let pairs = [
            ("processor", self.processor.clone(), other.processor.clone()),
            ("processors", self.processors.to_string(), other.processors.to_string()),
            ("instructions", self.instructions.join(" "), other.instructions.join(" ")),
            ("kernel", self.kernel.clone(), other.kernel.clone()),
            ("governor", show(&self.governor), show(&other.governor)),
            ("hypervisor", show(&self.virtualised), show(&other.virtualised)),
            ("file system", show(&self.file_system), show(&other.file_system)),
            ("level", self.level.clone(), other.level.clone()),
        ];
        let mut found: Vec<String> = pairs
            .into_iter()
            .filter(|(_, first, second)| first != second)
            .map(|(what, first, second)| format!("{what}: {first}; {second}"))
            .collect();
        for (name, version) in &self.versions {
            if let Some(another) = other.versions.get(name).filter(|another| *another != version) {
                found.push(format!("version of {name}: {version}; {another}"));
            }
        }
        found
    }

    /// All of it, as rows of a table.
    pub fn rows(&self) -> Vec<(String, String)> {
        let virtualised = match self.virtualised.as_deref() {
            None => "no".to_string(),
            Some("yes") => "yes".to_string(),
            Some(name) => format!("yes: {name}"),
        };
        let cycles =
            self.no_cycles.as_ref().map_or("counted".to_string(), |why| format!("not available: {why}"));
        let mut rows: Vec<(String, String)> = [
            ("processor", self.processor.clone()),
            ("architecture", self.architecture.clone()),
            ("instructions for hashing", self.instructions.join(" ")),
            ("processors", self.processors.to_string()),
            ("caches", self.caches.join(", ")),
            ("memory", format!("{:.1} GiB", self.memory as f64 / (1u64 << 30) as f64)),
            ("kernel", self.kernel.clone()),
            ("operating system", self.system.clone()),
            ("virtualised", virtualised),
            ("governor", show(&self.governor)),
            ("load before", self.load.map_or("unknown".to_string(), |load| format!("{load:.2}"))),
            ("cycles", cycles),
            ("file system", show(&self.file_system)),
            ("highest level of our kernels", self.level.clone()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_string(), value))
        .collect();
        rows.extend(
            self.versions.iter().map(|(name, version)| (format!("version of {name}"), version.clone())),
        );
        rows
    }
}

fn show(value: &Option<String>) -> String {
    value.as_deref().unwrap_or("not known").to_string()
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The first value of a field of a file of lines as `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then(|| value.trim())
    })
}

fn caches(sys: &Path) -> Vec<String> {
    let folder = sys.join("devices/system/cpu/cpu0/cache");
    (0..8)
        .filter_map(|index| {
            let read = |name: &str| {
                let value = text(&folder.join(format!("index{index}")).join(name));
                Some(value.trim().to_string()).filter(|value| !value.is_empty())
            };
            let kind = match read("type")?.as_str() {
                "Data" => "d",
                "Instruction" => "i",
                _ => "",
            };
            Some(format!("L{}{kind} {}", read("level")?, read("size")?))
        })
        .collect()
}

fn hypervisor(folders: &Folders, flags: &[&str]) -> Option<String> {
    let kind = text(&folders.sys.join("hypervisor/type"));
    let product = text(&folders.sys.join("class/dmi/id/sys_vendor"));
    match (kind.trim(), product.trim()) {
        ("", _) if !flags.contains(&"hypervisor") => None,
        ("", "") => Some("yes".to_string()),
        ("", product) => Some(product.to_string()),
        (kind, _) => Some(kind.to_string()),
    }
}

/// The file system with the longest mount point above the file.
fn file_system(proc: &Path, file: &Path) -> Option<String> {
    // Of a file that is yet to be made, that of its folder.
    let file = file.ancestors().find_map(|file| std::fs::canonicalize(file).ok())?;
    mounted_at(&text(&proc.join("self/mounts")), &file)
}

/// The file system of a path without links, by the text of `/proc/self/mounts`.
pub fn mounted_at(mounts: &str, file: &Path) -> Option<String> {
    let above = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (device, folder, kind) = (fields.next()?, fields.next()?, fields.next()?);
        // Spaces and their like are written in octal.
        let folder = folder.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\");
        file.starts_with(&folder).then(|| (folder.len(), format!("{kind} on {device}")))
    });
    // The last of equals hides the others.
    above.max_by_key(|(length, _)| *length).map(|(_, name)| name)
}

fn kernels(policy: &Policy) -> BTreeMap<String, String> {
    let one = |digest: Digest| {
        let stream = match digest.stream_level() {
            Some(level) => level.name(),
            None => digest.stream_provider(),
        };
        match digest.batch_level() {
            Some((level, lanes)) => format!("{stream}; {} × {lanes}", level.name()),
            None => stream.to_string(),
        }
    };
    let all =
        ALGORITHMS.iter().filter_map(|row| Some((row.id.to_string(), one(Digest::of(row, policy).ok()?))));
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_machine_is_read_from_its_folders() {
        let root = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put(
            "proc/cpuinfo",
            "processor\t: 0\nmodel name\t: Fast One\nflags\t\t: fpu sha_ni avx2 hypervisor\n",
        );
        put("proc/meminfo", "MemTotal:       2048 kB\nMemFree: 1 kB\n");
        put("proc/loadavg", "0.25 0.1 0.1 1/2 3\n");
        put("proc/self/mounts", "/dev/a / ext4 rw 0 0\nnone /proc proc rw 0 0\n");
        put("etc/os-release", "NAME=x\nPRETTY_NAME=\"Some System 1\"\n");
        put("sys/devices/system/cpu/cpu0/cache/index0/level", "1\n");
        put("sys/devices/system/cpu/cpu0/cache/index0/type", "Data\n");
        put("sys/devices/system/cpu/cpu0/cache/index0/size", "48K\n");
        put("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
        put("sys/class/dmi/id/sys_vendor", "QEMU\n");
        let at = |name: &str| root.path().join(name);
        let folders = Folders { proc: at("proc"), sys: at("sys"), etc: at("etc") };
        let host = MeasuredMachine::read(&folders, &Policy::default(), &[at("etc")]);
        assert_eq!(host.processor, "Fast One");
        assert_eq!(host.instructions, ["sha_ni", "avx2"]);
        assert_eq!((host.memory, host.load), (2048 * 1024, Some(0.25)));
        assert_eq!(
            (host.system.as_str(), host.caches.as_slice()),
            ("Some System 1", &["L1d 48K".to_string()][..])
        );
        assert_eq!(host.governor.as_deref(), Some("performance"));
        assert_eq!(host.virtualised.as_deref(), Some("QEMU"));
        assert_eq!(host.file_system.as_deref(), Some("ext4 on /dev/a"));
        assert!(host.kernels.contains_key("sha256") && host.versions.contains_key("verisum"));

        let mut other = host.clone();
        assert_eq!(host.differences(&other), [""; 0]);
        other.processor = "Slow One".to_string();
        other.versions.insert("verisum".to_string(), "0.0.1".to_string());
        let differences = host.differences(&other);
        assert_eq!(differences.len(), 2);
        assert_eq!(differences[0], "processor: Fast One; Slow One");
        assert!(host.rows().iter().any(|(name, value)| name == "virtualised" && value == "yes: QEMU"));
    }

    #[test]
    fn a_machine_that_tells_nothing_is_read_too() {
        let nowhere = PathBuf::from("/nowhere");
        let folders = Folders { proc: nowhere.clone(), sys: nowhere.clone(), etc: nowhere.clone() };
        let host = MeasuredMachine::read(&folders, &Policy::default(), &[nowhere]);
        assert_eq!((host.processor.as_str(), host.virtualised, host.file_system), ("unknown", None, None));
        // A name that is relative, and of nothing, is nowhere.
        assert_eq!(file_system(Path::new("/proc"), Path::new("")), None);
        let real = MeasuredMachine::read(&Folders::default(), &Policy::default(), &["/".into()]);
        assert!(real.memory > 0 && real.processors > 0);
    }
}
