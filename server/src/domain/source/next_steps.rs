//! What is left to do once a source was made, for whoever made it.

use super::SourceSettings;

/// Providers that send their secret themselves, in the handshake that sets a webhook up.
const BRING_SECRET: &[&str] = &["asana", "notion"];

/// What to do next, step by step. `url` is where the source takes requests.
pub fn next_steps(settings: &SourceSettings, url: &str, has_secret: bool) -> Vec<String> {
    let name = &settings.name;
    let provider = settings.scheme.name();
    let mut steps =
        vec![format!("register {url} as the webhook's URL with the provider ({provider})")];
    if !has_secret {
        steps.push(if BRING_SECRET.contains(&provider) {
            "nothing more: the provider sends its secret when the webhook is set up".to_owned()
        } else {
            "add the secret that the provider shows: POST /v1/sources/{source}/secrets, or \
             `snaphook secrets add SOURCE`; until then every request is refused"
                .to_owned()
        });
    }
    steps.push(format!(
        "make an endpoint of the same tenant that wants {name}.*; its receiver gets the provider's \
         requests as they came"
    ));
    steps
}
