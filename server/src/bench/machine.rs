//! The machine: what it is, how busy it was, and what a process took of it. All from `/proc`, so
//! that elsewhere than on Linux the figures are absent and the rates are measured all the same.

use std::{fmt, fs, time::Duration};

use serde::Serialize;

use super::database::Cluster;

/// What figures were measured on.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Machine {
    cpu: String,
    cores: usize,
    memory_mib: u64,
    system: String,
    database: String,
    /// Runnable processes, a minute's mean, before and after: others' work shows here.
    load_before: f64,
    load_after: f64,
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu, cores, memory_mib, system, database, load_before, load_after } = self;
        write!(
            f,
            "{cores} cores ({cpu}), {memory_mib} MiB, {system}; {database}; \
             load {load_before:.1} before, {load_after:.1} after"
        )
    }
}

impl Machine {
    /// This one.
    pub fn here(cluster: &Cluster, load_before: f64) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cpu = read("/proc/cpuinfo");
        let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let memory = read("/proc/meminfo");
        let memory = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kib = memory.and_then(|memory| memory.trim().trim_end_matches(" kB").parse().ok());
        let system = read("/proc/sys/kernel/osrelease");
        Self {
            cpu: cpu.map_or(std::env::consts::ARCH, |(_, name)| name.trim()).to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: kib.unwrap_or(0_u64) / 1_024,
            system: format!("{} {}", std::env::consts::OS, system.trim()),
            database: cluster.version().to_owned(),
            load_before,
            load_after: load(),
        }
    }
}

/// Runnable processes, the last minute's mean.
pub fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

/// The fields of `/proc/PID/stat` behind the name, which may hold blanks (proc(5)).
fn fields_of(process: u32) -> Option<Vec<u64>> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    Some(fields(&text))
}

fn fields(stat: &str) -> Vec<u64> {
    let behind = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    behind.split_ascii_whitespace().map(|field| field.parse().unwrap_or(0)).collect()
}

/// The parent of a process.
pub fn parent_of(process: u32) -> Option<u32> {
    let parent = *fields_of(process)?.get(1)?;
    u32::try_from(parent).ok().filter(|parent| *parent > 1)
}

/// CPU that a process took since its start, its own and the system's.
fn cpu_of(process: u32) -> Duration {
    ticks(fields_of(process).as_deref(), 11..13)
}

/// The same of a process and of all its children, those that have ended too.
fn cpu_of_family(parent: u32) -> Duration {
    let own = ticks(fields_of(parent).as_deref(), 11..15);
    let Ok(processes) = fs::read_dir("/proc") else { return own };
    let names = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let children = names.filter(|process| parent_of(*process) == Some(parent));
    own + children.map(cpu_of).sum::<Duration>()
}

/// The memory of a process that is in RAM, in MB: as of now, and at its most. 0 where the system
/// does not tell.
pub fn memory_of(process: u32) -> (f64, f64) {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    (megabytes(&status, "VmRSS:"), megabytes(&status, "VmHWM:"))
}

/// A line of `/proc/PID/status`, which counts in KiB.
fn megabytes(status: &str, name: &str) -> f64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    kib.map_or(0.0, |kib: f64| kib * 1_024.0 / 1e6)
}

/// What a part of the whole took of the processor, in microseconds for each unit of work. 0 where
/// it has no part, or the system does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cpu {
    /// The server under test.
    pub snaphook: f64,
    /// PostgreSQL.
    pub database: f64,
    /// Load and receiver; not pgbench.
    pub bench: f64,
}

/// CPU of all parts since they started.
#[derive(Clone, Copy, Debug)]
pub struct Usage([Duration; 3]);

impl Usage {
    /// As of now, with the server under test if there is one.
    pub fn now(server: Option<u32>, cluster: &Cluster) -> Self {
        let server = server.map_or(Duration::ZERO, cpu_of);
        let database = cluster.postmaster().map_or(Duration::ZERO, cpu_of_family);
        Self([server, database, cpu_of(std::process::id())])
    }

    /// What was taken since `before` for each of `many`.
    pub fn each_since(self, before: Self, many: f64) -> Cpu {
        let each = |part: usize| {
            self.0[part].saturating_sub(before.0[part]).as_secs_f64() * 1e6 / many.max(1.0)
        };
        Cpu { snaphook: each(0), database: each(1), bench: each(2) }
    }
}

/// The sum of some fields that count in ticks: a hundredth of a second on every Linux of today.
fn ticks(fields: Option<&[u64]>, places: std::ops::Range<usize>) -> Duration {
    let sum = fields.and_then(|fields| fields.get(places)).map_or(0, |fields| fields.iter().sum());
    Duration::from_millis(10 * sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_told_in_megabytes() {
        let status = "Name:\tsnaphook\nVmHWM:\t   46875 kB\nVmRSS:\t   31250 kB\n";
        for (name, expected) in [("VmHWM:", 48.0), ("VmRSS:", 32.0), ("VmNone:", 0.0)] {
            assert!((megabytes(status, name) - expected).abs() < 1e-9, "{name}");
        }
    }

    #[test]
    fn a_name_with_blanks_and_brackets_hides_no_field() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194304 100 0 0 0 12 3 40 5 20 0 1 0 9";
        let fields = fields(stat);
        assert_eq!(fields[1], 1, "the parent");
        assert_eq!(ticks(Some(&fields), 11..13), Duration::from_millis(150));
        assert_eq!(ticks(Some(&fields), 11..15), Duration::from_millis(600));
        assert_eq!(ticks(None, 11..13), Duration::ZERO);
    }
}
