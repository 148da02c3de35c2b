//! What commands print: data on standard output and nothing else there; all words for people go
//! to standard error. Tables on a terminal, lines of tab-separated values in a pipe, the server's
//! own JSON with `--json`; colors on a terminal only.
//!
//! Whatever comes from the server is shown without its control characters: a tenant's data must
//! not steer the operator's terminal.

use std::io::{self, IsTerminal as _, Write};

use serde_json::{Value, value::RawValue};

/// One column of a listing, or one line of a single thing.
pub struct Column {
    /// As in the API, in capitals on a terminal.
    pub title: &'static str,
    /// The cell's text, empty when there is nothing.
    pub text: fn(&Value) -> String,
}

/// Where and how a command prints.
pub struct Output<W = io::Stdout> {
    to: W,
    json: bool,
    terminal: bool,
    colors: bool,
}

impl Output {
    /// To standard output; as JSON when asked for.
    pub fn new(json: bool) -> Self {
        let to = io::stdout();
        let terminal = to.is_terminal();
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { json, terminal, colors: terminal && !plain, to }
    }
}

impl<W: Write> Output<W> {
    /// Prints a listing.
    pub fn list(&mut self, columns: &[Column], items: &[Box<RawValue>]) -> anyhow::Result<()> {
        if self.json {
            return items.iter().try_for_each(|item| self.json_line(item));
        }
        let mut rows = Vec::with_capacity(items.len());
        for item in items {
            let value: Value = serde_json::from_str(item.get())?;
            rows.push(columns.iter().map(|column| visible(&(column.text)(&value))).collect());
        }
        if self.terminal { self.table(columns, &rows) } else { self.lines(&rows) }
    }

    /// Prints more of a listing as it comes: no header, columns as wide as they happen to be.
    pub fn follow(&mut self, columns: &[Column], item: &RawValue) -> anyhow::Result<()> {
        if self.json {
            return self.json_line(item);
        }
        let value: Value = serde_json::from_str(item.get())?;
        let cells: Vec<_> = columns.iter().map(|column| visible(&(column.text)(&value))).collect();
        let between = if self.terminal { "  " } else { "\t" };
        writeln!(self.to, "{}", cells.join(between))?;
        Ok(self.to.flush()?)
    }

    /// Prints one thing: a name and a value a line.
    pub fn one(&mut self, columns: &[Column], item: &RawValue) -> anyhow::Result<()> {
        if self.json {
            return self.json_line(item);
        }
        let value: Value = serde_json::from_str(item.get())?;
        let width = columns.iter().map(|column| column.title.len()).max().unwrap_or(0);
        for Column { title, text } in columns {
            let text = visible(&text(&value));
            match (self.terminal, text.is_empty()) {
                (_, true) => {}
                (true, _) => {
                    let text = self.painted(&text);
                    writeln!(self.to, "{title:width$}  {text}")?;
                }
                (false, _) => writeln!(self.to, "{title}\t{text}")?,
            }
        }
        Ok(())
    }

    /// Prints a line that is the whole result: an id, a key.
    pub fn line(&mut self, text: &str) -> anyhow::Result<()> {
        Ok(writeln!(self.to, "{text}")?)
    }

    /// Prints bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.to.write_all(bytes)?;
        Ok(self.to.flush()?)
    }

    /// Whether `--json` was given.
    pub fn is_json(&self) -> bool {
        self.json
    }

    fn json_line(&mut self, item: &RawValue) -> anyhow::Result<()> {
        // A line end in JSON is a blank; inside a string it would be written `\\n`.
        writeln!(self.to, "{}", item.get().replace(['\n', '\r'], " "))?;
        Ok(self.to.flush()?)
    }

    fn lines(&mut self, rows: &[Vec<String>]) -> anyhow::Result<()> {
        for row in rows {
            writeln!(self.to, "{}", row.join("\t"))?;
        }
        Ok(())
    }

    fn table(&mut self, columns: &[Column], rows: &[Vec<String>]) -> anyhow::Result<()> {
        let titles: Vec<_> = columns.iter().map(|column| column.title.to_uppercase()).collect();
        let width = |place: usize| {
            let cells = rows.iter().map(|row| &row[place]).chain([&titles[place]]);
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..columns.len()).map(width).collect();
        for row in [&titles].into_iter().chain(rows) {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                // Padded by hand, because the codes of a color are characters that take no room.
                let room = " ".repeat(width - cell.chars().count() + 2);
                line += &self.painted(cell);
                line += &room;
            }
            writeln!(self.to, "{}", line.trim_end())?;
        }
        Ok(())
    }

    /// Words that tell how something is get the color that people expect.
    fn painted(&self, text: &str) -> String {
        let color = match text {
            _ if !self.colors => return text.to_owned(),
            "delivered" | "healthy" | "active" | "ok" => 32,
            "retrying" | "failing" | "paused" | "held" => 33,
            "dead" | "disabled" | "failed" => 31,
            _ => return text.to_owned(),
        };
        format!("\x1b[{color}m{text}\x1b[0m")
    }
}

/// The text without what would move the cursor, split a line or reverse its direction.
pub fn visible(text: &str) -> String {
    let steers = |c: char| {
        c.is_control()
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}'..='\u{2029}')
    };
    let shown = |c: char| if matches!(c, '\t' | '\n' | '\r') { ' ' } else { '\u{fffd}' };
    text.chars().map(|c| if steers(c) { shown(c) } else { c }).collect()
}

/// The same for several lines of ours that quote something: line ends stay.
pub fn visible_lines(text: &str) -> String {
    text.lines().map(visible).collect::<Vec<_>>().join("\n")
}

/// The text of a field; empty when it is not there. `name` may lead inside: `health.state`.
pub fn field(value: &Value, name: &str) -> String {
    name.split('.').try_fold(value, |value, part| value.get(part)).map(text).unwrap_or_default()
}

/// Strings as they are, lists with commas, other values as JSON; nothing for what is empty.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(","),
        Value::Object(map) if map.is_empty() => String::new(),
        other => other.to_string(),
    }
}

/// A column for each name, showing the field of that name.
macro_rules! columns {
    ($($title:literal),+ $(,)?) => {
        &[$($crate::cli::output::Column {
            title: $title,
            text: |value| $crate::cli::output::field(value, $title),
        }),+]
    };
}
pub(super) use columns;

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = columns!["id", "state", "event_types"];

    fn output(json: bool, terminal: bool) -> Output<Vec<u8>> {
        Output { to: Vec::new(), json, terminal, colors: terminal }
    }

    fn items() -> Vec<Box<RawValue>> {
        [
            r#"{"id":"ep_1","state":"disabled","event_types":["order.*","x"],"n":1.10}"#,
            r#"{"id":"ep_22","state":null}"#,
        ]
        .map(|text| RawValue::from_string(text.to_owned()).unwrap())
        .into()
    }

    fn printed(output: Output<Vec<u8>>) -> String {
        String::from_utf8(output.to).unwrap()
    }

    #[test]
    fn a_terminal_gets_a_table_and_a_pipe_gets_lines() {
        let mut to_terminal = output(false, true);
        to_terminal.list(COLUMNS, &items()).unwrap();
        assert_eq!(
            printed(to_terminal),
            "ID     STATE     EVENT_TYPES\n\
             ep_1   \x1b[31mdisabled\x1b[0m  order.*,x\n\
             ep_22\n"
        );

        let mut to_pipe = output(false, false);
        to_pipe.list(COLUMNS, &items()).unwrap();
        assert_eq!(printed(to_pipe), "ep_1\tdisabled\torder.*,x\nep_22\t\t\n");
    }

    #[test]
    fn json_is_the_servers_own_text_one_thing_a_line() {
        let mut json = output(true, true);
        json.list(COLUMNS, &items()).unwrap();
        let [first, second] = &items()[..] else { panic!("two items") };
        assert_eq!(printed(json), format!("{first}\n{second}\n"));
    }

    #[test]
    fn one_thing_is_shown_without_what_it_lacks() {
        let mut shown = output(false, false);
        shown.one(COLUMNS, &items()[1]).unwrap();
        assert_eq!(printed(shown), "id\tep_22\n");
    }

    #[test]
    fn nothing_from_the_server_steers_the_terminal() {
        let evil = "\u{1b}[2Jx\r\ny\u{202e}z\u{9b}";
        assert_eq!(visible(evil), "\u{fffd}[2Jx  y\u{fffd}z\u{fffd}");
    }
}
