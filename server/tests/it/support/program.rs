//! The binary itself, run as a person or a script runs it: in a folder of its own, with an
//! environment of its own.

use std::{
    fmt::Write as _,
    io::{self, BufRead, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio},
    time::Duration,
};

use snaphook::world::real::monotonic;
use tempfile::TempDir;

/// A folder to run in, and the environment that all runs share.
pub struct Program {
    folder: TempDir,
    environment: Vec<(String, String)>,
    /// What runs the program, if it is not run as it is.
    wrapper: Vec<String>,
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// The exit code.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Program {
    /// In an empty folder, with nothing in the environment but a path.
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), environment: Vec::new(), wrapper: Vec::new() }
    }

    /// With a variable for all runs to come.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Run by another program, as `sh -c` or `env` would.
    pub fn through(mut self, wrapper: &[&str]) -> Self {
        self.wrapper = wrapper.iter().map(ToString::to_string).collect();
        self
    }

    /// Writes a file into its folder.
    pub fn write(&self, name: &str, text: &str) {
        self.write_bytes(name, text.as_bytes());
    }

    /// The same, of bytes that need be no text.
    pub fn write_bytes(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.folder.path().join(name), bytes).unwrap();
    }

    /// The command, ready to run.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let words = self.wrapper.iter().map(String::as_str);
        let mut words = words.chain([env!("CARGO_BIN_EXE_snaphook")]);
        let mut command = Command::new(words.next().unwrap());
        command
            .args(words)
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    /// Runs to the end.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        self.command(arguments).output().unwrap().into()
    }

    /// Starts, and lets run.
    pub fn start(&self, arguments: &[&str]) -> Running {
        self.start_with(arguments, &[])
    }

    /// As `start`, with variables for this run alone.
    pub fn start_with(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Running {
        let mut child = self
            .command(arguments)
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let err = BufReader::new(child.stderr.take().unwrap());
        Running { child, out, err }
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A run that has not ended. Dropped, it is killed.
pub struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
    err: BufReader<ChildStderr>,
}

impl Running {
    /// The first line on standard error that has `part` in it.
    pub fn wait_for(&mut self, part: &str) -> String {
        self.errors_until(part).pop().unwrap()
    }

    /// All lines on standard error up to the first that has `part` in it.
    pub fn errors_until(&mut self, part: &str) -> Vec<String> {
        lines_until(&mut self.err, part)
    }

    /// All lines on standard output up to the first that has `part` in it.
    pub fn read_until(&mut self, part: &str) -> Vec<String> {
        lines_until(&mut self.out, part)
    }

    /// Sends a signal: `TERM`, `INT`.
    pub fn signal(&self, name: &str) {
        let process = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &process]).status().unwrap();
        assert!(sent.success(), "kill -s {name} {process}");
    }

    /// Whether it ends in time, with 0. What it prints meanwhile is dropped.
    pub fn ends_within(mut self, time: Duration) -> bool {
        let Self { child, out, err } = &mut self;
        std::thread::scope(|scope| {
            scope.spawn(|| drop(io::copy(out, &mut io::sink())));
            scope.spawn(|| drop(io::copy(err, &mut io::sink())));
            let end = monotonic() + time;
            while monotonic() < end {
                if let Some(status) = child.try_wait().unwrap() {
                    return status.success();
                }
                rest(Duration::from_millis(10));
            }
            child.kill().unwrap();
            false
        })
    }

    /// Waits for its end.
    pub fn end(mut self) -> Ended {
        let (mut out, mut err) = (String::new(), String::new());
        self.out.read_to_string(&mut out).unwrap();
        self.err.read_to_string(&mut err).unwrap();
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        Ended { code, out, err }
    }
}

/// Lets another process go on for a while.
pub fn rest(time: Duration) {
    #[expect(clippy::disallowed_methods, reason = "a test of another process, which has no clock")]
    std::thread::sleep(time);
}

fn lines_until(from: &mut impl BufRead, part: &str) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        let read = from.read_line(&mut line).unwrap();
        assert!(read > 0, "it ended before it said {part:?}: {lines:#?}");
        lines.push(line.trim_end().to_owned());
        if line.contains(part) {
            return lines;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Posts to `address` on this machine and gives the status.
pub fn post(address: &str, headers: &[(&str, &str)], body: &[u8]) -> u16 {
    exchange(address, "POST /", headers, body).unwrap().0
}

/// Gets a path from `address` on this machine, without a key: status and body.
pub fn get(address: &str, path: &str) -> (u16, String) {
    exchange(address, &format!("GET {path}"), &[], b"").unwrap()
}

/// As `get`, with headers; the body alone.
pub fn get_with(address: &str, path: &str, headers: &[(&str, &str)]) -> String {
    exchange(address, &format!("GET {path}"), headers, b"").unwrap().1
}

/// A port of loopback where nobody listens, so that connections to it are refused.
pub fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// One request on a connection of its own: status and body. An answer that is cut off is an
/// error.
pub fn exchange(
    address: &str,
    what: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<(u16, String)> {
    let (head, body) = whole_exchange(address, what, headers, body)?;
    Ok((head.split(' ').nth(1).unwrap().parse().unwrap(), body))
}

/// As [`exchange`]: status line with headers, and body.
pub fn whole_exchange(
    address: &str,
    what: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<(String, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut request = format!("{what} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    for (name, value) in headers {
        write!(request, "{name}: {value}\r\n").unwrap();
    }
    write!(request, "content-length: {}\r\n\r\n", body.len()).unwrap();
    stream.write_all(&[request.as_bytes(), body].concat())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok((head.to_owned(), body.to_owned()))
}
