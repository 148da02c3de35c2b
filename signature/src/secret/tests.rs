use proptest::prelude::*;

use super::*;

fn with_bytes(prefix: &str, count: usize) -> String {
    format!("{prefix}{}", BASE64_STANDARD.encode(vec![7_u8; count]))
}

#[test]
fn takes_the_sizes_of_the_specification_and_no_other() {
    for (prefix, bytes, good) in [
        (HMAC_PREFIX, 23, false),
        (HMAC_PREFIX, 24, true),
        (HMAC_PREFIX, 64, true),
        (HMAC_PREFIX, 65, false),
        (HMAC_PREFIX, 0, false),
        (PRIVATE_PREFIX, 31, false),
        (PRIVATE_PREFIX, 32, true),
        (PRIVATE_PREFIX, 33, false),
        (PUBLIC_PREFIX, 31, false),
        (PUBLIC_PREFIX, 32, true),
        (PUBLIC_PREFIX, 64, false),
    ] {
        let result = Secret::parse(&with_bytes(prefix, bytes));
        assert_eq!(result.is_ok(), good, "{prefix} {bytes}: {result:?}");
        if let Err(error) = result {
            assert!(error.to_string().contains(&format!("{bytes} bytes")), "{error}");
        }
    }
}

#[test]
fn the_same_key_is_known_however_it_is_written() {
    let read = |text: &str| Secret::parse(text).unwrap();
    let hmac = Secret::new_hmac(&[7; 32]);
    let pair = Secret::new_ed25519(&[7; 32]);
    let seed = with_bytes(PRIVATE_PREFIX, 32);
    for (one, other, same, why) in [
        (&hmac, read(hmac.text().trim_end_matches('=')), true, "without its padding"),
        (&hmac, Secret::new_hmac(&[8; 32]), false, "other bytes"),
        (&hmac, pair.clone(), false, "another kind"),
        (&pair, Secret::new_ed25519(&[7; 32]), true, "the same"),
        (&pair, Secret::new_ed25519(&[8; 32]), false, "another pair"),
        (&pair, read(&pair.public_text().unwrap()), false, "which cannot sign"),
        (&read(&seed), read(seed.trim_end_matches('=')), true, "the seed alone"),
    ] {
        assert_eq!(one.is_same_key(&other), same, "{why}");
        assert_eq!(other.is_same_key(one), same, "{why}");
    }
}

#[test]
fn an_error_names_what_is_wrong_and_shows_nothing_of_the_secret() {
    let good = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";
    for (text, expected) in [
        (format!("v1,{good}"), "leave that out and begin with whsec_"),
        (format!("{good}\n"), "white space"),
        (format!(" {good}"), "white space"),
        (good.replace("AAEC", "_-EC"), "URL alphabet"),
        (good.replace("AAEC", "!AEC"), "not base64"),
        (format!("{good}A"), "not base64"),
        (good.replace("whsec", "WHSEC"), "write one that begins with whsec_"),
        ("sk_live_AAECAwQFBgcICQoL".to_owned(), "write one that begins with whsec_"),
        (String::new(), "write one that begins with whsec_"),
        (format!("whsec_{}", "A".repeat(10_000_000)), "none has more than 256"),
    ] {
        let error = Secret::parse(&text).expect_err("no secret").to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("AwQF"), "{error}");
    }
}

#[test]
fn padding_may_be_missing_and_the_text_stays_as_given() {
    let trimmed = with_bytes(HMAC_PREFIX, 32).trim_end_matches('=').to_owned();
    assert_eq!(Secret::parse(&trimmed).unwrap().text(), trimmed);
    let pasted = trimmed.trim_start_matches("whsec_");
    assert_eq!(Secret::parse_pasted(pasted).unwrap().text(), trimmed);
    assert_eq!(Secret::parse(pasted).unwrap_err(), SecretError::UnknownPrefix);
}

#[test]
fn both_forms_of_a_private_key_are_the_same_key() {
    let seed = [9; 32];
    let long = Secret::new_ed25519(&seed);
    let short = Secret::parse(&with_seed(&seed)).unwrap();
    assert_eq!(long.public_text(), short.public_text());
    assert_eq!(Secret::parse(long.text()).unwrap().public_text(), long.public_text());

    let mut bytes = BASE64_STANDARD.decode(&long.text()[5..]).unwrap();
    bytes[63] ^= 1;
    let broken = format!("{PRIVATE_PREFIX}{}", BASE64_STANDARD.encode(bytes));
    assert_eq!(Secret::parse(&broken).unwrap_err(), SecretError::Mismatch);
}

fn with_seed(seed: &[u8]) -> String {
    format!("{PRIVATE_PREFIX}{}", BASE64_STANDARD.encode(seed))
}

#[test]
fn debug_prints_the_kind_alone() {
    let secret = Secret::new_hmac(&[5; 32]);
    assert_eq!(format!("{secret:?}"), "Secret(Hmac)");
    assert_eq!(secret.fingerprint().len(), 8);
}

proptest! {
    #[test]
    fn no_text_panics(text in "(wh(sec|sk|pk)_)?.{0,120}") {
        let _ = Secret::parse(&text);
        let _ = Secret::parse_pasted(&text);
    }

    #[test]
    fn a_new_secret_reads_as_itself(bytes in any::<[u8; 32]>()) {
        for secret in [Secret::new_hmac(&bytes), Secret::new_ed25519(&bytes)] {
            let again = Secret::parse(secret.text()).unwrap();
            prop_assert_eq!(again.kind(), secret.kind());
            prop_assert_eq!(again.text(), secret.text());
        }
    }
}
