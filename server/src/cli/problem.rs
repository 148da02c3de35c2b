//! The server's no, for people: an RFC 9457 problem document as lines, and its exit code.

use serde::Deserialize;

use super::exit::{Exit, Failure};

/// What we use of a problem document. All parts are optional: a proxy between us and the server
/// has documents of its own.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Problem {
    title: Option<String>,
    detail: Option<String>,
    code: Option<String>,
    errors: Vec<FieldProblem>,
    request_id: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FieldProblem {
    field: String,
    problem: String,
}

/// How much of an answer that is no problem document is shown: its first line, most likely.
const EXCERPT_CHARS: usize = 200;

/// Makes a failure of an answer that is no success.
pub fn failure(status: u16, body: &[u8]) -> Failure {
    let failure = Failure::new(exit_for(status), message(status, body));
    match status {
        401 => failure.hint(
            "set SNAPHOOK_API_KEY to a key of this server; \
             `snaphook keys create --role operator` makes one",
        ),
        403 => failure.hint("use a key with the scope that this needs"),
        429 | 503 => failure.hint("try again in a while"),
        _ => failure,
    }
}

fn message(status: u16, body: &[u8]) -> String {
    let Ok(problem) = serde_json::from_slice::<Problem>(body) else {
        let text = String::from_utf8_lossy(body);
        let line: String = text.lines().next().unwrap_or("").chars().take(EXCERPT_CHARS).collect();
        return format!("the server answered {status} {line}").trim_end().to_owned();
    };
    let what = problem.detail.or(problem.title);
    let what = what.unwrap_or_else(|| format!("the server answered {status}"));
    let code = problem.code.map_or_else(String::new, |code| format!(" ({code})"));
    // With a single wrong field the sentence above says it all already.
    let fields = problem
        .errors
        .iter()
        .map(|FieldProblem { field, problem }| format!("{field}: {problem}"))
        .filter(|line| !what.contains(line.as_str()))
        .map(|line| format!("  {line}"));
    let mut lines = vec![format!("{what}{code}")];
    lines.extend(fields);
    // Only where the server's log has more to say.
    if let (500.., Some(id)) = (status, problem.request_id) {
        lines.push(format!("  the server's log has more under request {id}"));
    }
    lines.join("\n")
}

fn exit_for(status: u16) -> Exit {
    match status {
        400 | 413 | 415 | 422 => Exit::Usage,
        401 | 403 => Exit::NotAllowed,
        404 => Exit::NotFound,
        409 | 410 | 412 | 423 => Exit::Refused,
        429 | 502 | 503 | 504 => Exit::Unreachable,
        _ => Exit::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_document_is_read_out_field_by_field() {
        let body = br#"{"type":"about:blank","title":"Invalid input","status":422,
            "detail":"2 fields are wrong","code":"invalid_input","instance":"/x",
            "errors":[{"field":"url","problem":"10.0.0.1 is a private address"},
                      {"field":"timeout","problem":"must be 1s to 30s"}]}"#;

        let failure = failure(422, body);

        assert_eq!(failure.exit, Exit::Usage);
        assert_eq!(
            failure.to_string(),
            "2 fields are wrong (invalid_input)\n  url: 10.0.0.1 is a private address\n  \
             timeout: must be 1s to 30s"
        );
    }

    #[test]
    fn a_single_field_is_named_once() {
        let body = br#"{"detail":"type: no type","code":"invalid_input",
            "errors":[{"field":"type","problem":"no type"}]}"#;
        assert_eq!(failure(422, body).to_string(), "type: no type (invalid_input)");
    }

    #[test]
    fn every_status_has_its_exit_code() {
        for (status, expected, why) in [
            (400, Exit::Usage, "the input is wrong"),
            (401, Exit::NotAllowed, "no key"),
            (403, Exit::NotAllowed, "a key that may not"),
            (404, Exit::NotFound, "no such thing"),
            (409, Exit::Refused, "its state"),
            (413, Exit::Usage, "too large"),
            (422, Exit::Usage, "a field is wrong"),
            (429, Exit::Unreachable, "later"),
            (500, Exit::Failed, "a defect"),
            (502, Exit::Unreachable, "a proxy without a server"),
            (503, Exit::Unreachable, "later"),
        ] {
            assert_eq!(failure(status, b"").exit, expected, "{status}: {why}");
        }
    }

    #[test]
    fn what_is_no_problem_document_is_quoted_in_part() {
        let long = "x".repeat(1000);
        for (body, expected) in [
            ("", "the server answered 502"),
            ("<html>\n<body>", "the server answered 502 <html>"),
            ("{}", "the server answered 502"),
            ("[]", "the server answered 502"),
        ] {
            assert!(failure(502, body.as_bytes()).to_string().starts_with(expected), "{body}");
        }
        assert!(failure(502, long.as_bytes()).to_string().len() < 300);
    }
}
