//! The binary itself, run as a person or a script runs it: in a folder of its own, with an
//! environment of its own.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use tempfile::TempDir;

/// A folder to run in, and the environment that all runs share.
pub struct Program {
    folder: TempDir,
    environment: Vec<(String, String)>,
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
        Self { folder: tempfile::tempdir().unwrap(), environment: Vec::new() }
    }

    /// With a variable for all runs to come.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Writes a file into its folder.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    /// The command, ready to run.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_snaphook"));
        command
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
        let mut child =
            self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let err = BufReader::new(child.stderr.take().unwrap());
        Running { child, err }
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
    err: BufReader<std::process::ChildStderr>,
}

impl Running {
    /// The first line on standard error that has `part` in it.
    pub fn wait_for(&mut self, part: &str) -> String {
        loop {
            let mut line = String::new();
            let read = self.err.read_line(&mut line).unwrap();
            assert!(read > 0, "it ended before it said {part:?}");
            if line.contains(part) {
                return line.trim_end().to_owned();
            }
        }
    }

    /// Waits for its end.
    pub fn end(mut self) -> Ended {
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let mut err = String::new();
        self.err.read_to_string(&mut err).unwrap();
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        Ended { code, out, err }
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
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    write!(stream, "POST / HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n").unwrap();
    for (name, value) in headers {
        write!(stream, "{name}: {value}\r\n").unwrap();
    }
    write!(stream, "content-length: {}\r\n\r\n", body.len()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}
