//! `/openapi.json`, and `/docs`: the same as a page for people, made once, with no script.

use std::sync::{Arc, LazyLock};

use axum::{
    Router,
    http::{Method, header},
    response::{IntoResponse, Redirect},
    routing::get,
};
use serde_json::{Map, Value};

use super::{Api, openapi};

/// The page needs its own style sheet and nothing else; `data:` is its empty icon, without which
/// browsers ask for `/favicon.ico`.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

const STYLE: &str = include_str!("docs.css");

static DOCUMENT: LazyLock<Value> = LazyLock::new(openapi::document);
static PAGE: LazyLock<String> = LazyLock::new(|| page(&DOCUMENT));

/// The routes of this file.
pub fn router() -> Router<Arc<Api>> {
    Router::new()
        .route("/", get(async || Redirect::to("/docs")))
        .route("/openapi.json", get(async || json(DOCUMENT.to_string())))
        .route("/docs", get(html))
        .route("/docs.css", get(async || ([(header::CONTENT_TYPE, "text/css")], STYLE)))
}

/// Whether the operation at `path` has parameters in its query.
pub fn takes_query(method: &Method, path: &str) -> bool {
    let method = if *method == Method::HEAD { Method::GET } else { method.clone() };
    let operation = &DOCUMENT["paths"][path][method.as_str().to_ascii_lowercase()];
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    parameters.into_iter().any(|parameter| parameter["in"] == "query")
}

fn json(text: String) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], text)
}

async fn html() -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (headers, PAGE.as_str())
}

fn page(document: &Value) -> String {
    let mut out = String::from(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <link rel=\"icon\" href=\"data:,\"><link rel=\"stylesheet\" href=\"/docs.css\">\
         <title>snaphook API</title></head><body><header><h1>snaphook API</h1><p>",
    );
    push_prose(&mut out, text(&document["info"]["description"]));
    out.push_str("</p><p><a href=\"/openapi.json\">The same as OpenAPI</a></p></header><nav><ul>");
    let groups = groups(document);
    link(&mut out, "authentication", "authentication");
    for (tag, _, _) in &groups {
        link(&mut out, &format!("tag-{}", anchor(tag)), tag);
    }
    link(&mut out, "schemas", "schemas");
    out.push_str("</ul></nav><main><section id=\"authentication\"><h2>authentication</h2>");
    push_paragraph(&mut out, &document["components"]["securitySchemes"]["key"]["description"]);
    out.push_str("</section>");
    for (tag, description, operations) in &groups {
        out.extend(["<section id=\"tag-", &anchor(tag), "\"><h2>"]);
        push_text(&mut out, tag);
        out.push_str("</h2>");
        push_paragraph(&mut out, description);
        for (method, path, operation) in operations {
            push_operation(&mut out, method, path, operation);
        }
        out.push_str("</section>");
    }
    out.push_str("<section id=\"schemas\"><h2>schemas</h2>");
    for (name, schema) in object(&document["components"]["schemas"]) {
        push_schema(&mut out, name, schema);
    }
    out.push_str("</section></main></body></html>");
    out
}

type Operations<'a> = Vec<(&'a str, &'a str, &'a Value)>;

/// Operations by their tags, in the order of the document's tags.
fn groups(document: &Value) -> Vec<(&str, &Value, Operations<'_>)> {
    let tags = document["tags"].as_array().into_iter().flatten();
    tags.map(|tag| {
        let operations = object(&document["paths"]).flat_map(|(path, item)| {
            object(item).map(move |(method, operation)| (method.as_str(), path.as_str(), operation))
        });
        let own = operations.filter(|(_, _, operation)| operation["tags"][0] == tag["name"]);
        (text(&tag["name"]), &tag["description"], own.collect())
    })
    .collect()
}

fn push_operation(out: &mut String, method: &str, path: &str, operation: &Value) {
    let id = text(&operation["operationId"]);
    let method = method.to_ascii_uppercase();
    out.extend(["<article id=\"", &anchor(id), "\"><h3><code><b>", &method, "</b> "]);
    push_text(out, path);
    out.push_str("</code></h3>");
    push_paragraph(out, &operation["summary"]);
    push_paragraph(out, &operation["description"]);
    let parameters = operation["parameters"].as_array();
    if let Some(parameters) = parameters.filter(|parameters| !parameters.is_empty()) {
        out.push_str("<table><thead><tr><th>parameter<th>in<th>meaning</thead><tbody>");
        for parameter in parameters {
            out.push_str("<tr><td><code>");
            push_text(out, text(&parameter["name"]));
            out.push_str("</code><td>");
            push_text(out, text(&parameter["in"]));
            out.push_str("<td>");
            push_prose(out, text(&parameter["description"]));
        }
        out.push_str("</tbody></table>");
    }
    push_body(out, "Body", &operation["requestBody"]["content"]);
    for (status, response) in object(&operation["responses"]) {
        push_body(out, status, &response["content"]);
        if response.get("content").is_none() {
            out.extend(["<p>", status, ": "]);
            push_prose(out, text(&response["description"]));
            out.push_str("</p>");
        }
    }
    out.push_str("</article>");
}

fn push_body(out: &mut String, label: &str, content: &Value) {
    for (content_type, media) in object(content) {
        out.push_str("<p>");
        push_text(out, label);
        out.push_str(": <code>");
        push_text(out, content_type);
        out.push_str("</code> ");
        push_type(out, &media["schema"]);
        out.push_str("</p>");
    }
}

fn push_schema(out: &mut String, name: &str, schema: &Value) {
    out.extend(["<article id=\"schema-", &anchor(name), "\"><h3>"]);
    push_text(out, name);
    out.push_str("</h3>");
    push_paragraph(out, &schema["description"]);
    out.push_str("<table><thead><tr><th>field<th>type<th>meaning</thead><tbody>");
    for (field, property) in object(&schema["properties"]) {
        out.push_str("<tr><td><code>");
        push_text(out, field);
        out.push_str("</code><td>");
        push_type(out, property);
        out.push_str("<td>");
        push_prose(out, text(&property["description"]));
    }
    out.push_str("</tbody></table></article>");
}

/// The type of a schema in a word, with a link where it has a name.
fn push_type(out: &mut String, schema: &Value) {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        out.extend(["<a href=\"#schema-", &anchor(name), "\">"]);
        push_text(out, name);
        out.push_str("</a>");
        return;
    }
    for many in ["oneOf", "anyOf", "allOf"] {
        for (index, one) in schema[many].as_array().into_iter().flatten().enumerate() {
            if index > 0 {
                out.push_str(" or ");
            }
            push_type(out, one);
        }
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => {
            out.push_str("list of ");
            push_type(out, &schema["items"]);
        }
        Value::String(name) => push_text(out, name),
        Value::Array(names) => {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            push_text(out, &names.join(" or "));
        }
        _ => {}
    }
}

fn link(out: &mut String, target: &str, label: &str) {
    out.extend(["<li><a href=\"#", target, "\">"]);
    push_text(out, label);
    out.push_str("</a>");
}

fn push_paragraph(out: &mut String, words: &Value) {
    if let Some(words) = words.as_str() {
        out.push_str("<p>");
        push_prose(out, words);
        out.push_str("</p>");
    }
}

/// A text in which code stands between backticks.
fn push_prose(out: &mut String, text: &str) {
    let mut rest = text;
    while let Some((before, code, after)) = rest.split_once('`').and_then(|(before, inside)| {
        let (code, after) = inside.split_once('`')?;
        Some((before, code, after))
    }) {
        push_text(out, before);
        out.push_str("<code>");
        push_text(out, code);
        out.push_str("</code>");
        rest = after;
    }
    push_text(out, rest);
}

/// What stands between `<` and `>` must never come from a text.
fn push_text(out: &mut String, text: &str) {
    for letter in text.chars() {
        match letter {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            letter => out.push(letter),
        }
    }
}

fn anchor(text: &str) -> String {
    text.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().map(Map::iter).into_iter().flatten()
}
