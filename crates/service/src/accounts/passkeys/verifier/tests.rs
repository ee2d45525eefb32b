//! Authenticators that do right, and others that do each thing wrong.

use serde_json::{Value, json};
use testkit::{Authenticator, authenticator_flags as flags};

use super::*;

const SITE: &str = "https://auspex.example.com";
const HANDLE: Uuid = Uuid::from_u128(7);

fn verifier() -> Verifier {
    Verifier::new(&SITE.parse().unwrap(), Duration::from_mins(5)).unwrap()
}

fn creation(verifier: &Verifier) -> (Value, String) {
    let Ceremony { options, state } = verifier.ask_to_create(HANDLE, "ann@example.com", &["AAAA"]).unwrap();
    (serde_json::to_value(options).unwrap(), state)
}

fn request(verifier: &Verifier) -> (Value, String) {
    let Ceremony { options, state } = verifier.ask_to_sign().unwrap();
    (serde_json::to_value(options).unwrap(), state)
}

/// What becomes of a passkey that an authenticator makes, once `change` has been at the browser's answer.
fn created_with(
    authenticator: &mut Authenticator,
    change: impl FnOnce(&mut Value),
) -> Result<Credential, String> {
    let verifier = verifier();
    let (options, state) = creation(&verifier);
    let mut answer = authenticator.create(&options);
    change(&mut answer);
    let answer: PasskeyAttestation = serde_json::from_value(answer["response"].clone()).unwrap();
    challenge_in(&answer.client_data)
        .and_then(|_| verifier.verify_created(&state, &answer))
        .map_err(|reason| reason.to_string())
}

fn created(authenticator: &mut Authenticator) -> Result<Credential, String> {
    created_with(authenticator, |_| ())
}

/// What becomes of the use of a passkey, once `change` has been at the browser's answer.
fn used_with(
    authenticator: &Authenticator,
    stored: &str,
    change: impl FnOnce(&mut Value),
) -> Result<String, String> {
    let verifier = verifier();
    let (options, state) = request(&verifier);
    let mut answer = authenticator.sign(&options);
    change(&mut answer);
    let answer: PasskeyAssertion = serde_json::from_value(answer).unwrap();
    let verified = || {
        challenge_in(&answer.response.client_data)?;
        let claim = verifier.claim(&answer)?;
        assert_eq!(claim.user_handle, HANDLE);
        verifier.verify_signed(&state, &claim, stored)
    };
    verified().map_err(|reason: Refused| reason.to_string())
}

fn used(authenticator: &Authenticator, stored: &str) -> Result<String, String> {
    used_with(authenticator, stored, |_| ())
}

fn authenticator() -> Authenticator {
    Authenticator::p256(SITE, 1)
}

fn bytes(field: &Value) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(field.as_str().unwrap()).unwrap()
}

#[test]
fn a_passkey_is_made_and_used() {
    let (options, _) = creation(&verifier());
    assert_eq!(options["rp"], json!({"id": "auspex.example.com", "name": "Auspex"}));
    assert_eq!(options["user"]["id"], encoded(HANDLE.as_bytes()), "the handle is not the email");
    assert_eq!(options["excludeCredentials"], json!([{"type": "public-key", "id": "AAAA"}]));
    assert_eq!(options["authenticatorSelection"]["residentKey"], "required");
    assert_eq!(options["authenticatorSelection"]["userVerification"], "required");
    assert_eq!(options["pubKeyCredParams"][0]["alg"], -7);
    let (options, _) = request(&verifier());
    assert_eq!(
        (&options["rpId"], &options["userVerification"]),
        (&json!("auspex.example.com"), &json!("required"))
    );
    assert_eq!(bytes(&options["challenge"]).len(), 32);

    let mut phone = authenticator();
    let credential = created(&mut phone).unwrap();
    assert_eq!(credential.id, encoded(&phone.credential_id));
    assert_eq!(used(&phone, &credential.content).unwrap(), credential.content, "it does not count");
}

#[test]
fn a_service_without_a_domain_has_no_passkeys() {
    for (url, is_possible) in [
        ("https://auspex.example.com/", true),
        ("http://localhost:8080", true),
        ("http://127.0.0.1:8080", false),
        ("https://[::1]", false),
    ] {
        let verifier = Verifier::new(&url.parse().unwrap(), Duration::from_mins(5));
        assert_eq!(verifier.is_some(), is_possible, "{url}");
    }
}

#[test]
fn another_site_another_domain_or_an_absent_user_is_refused() {
    let mut right = authenticator();
    let stored = created(&mut right).unwrap().content;
    let changes: [fn(&mut Authenticator); 8] = [
        |one| one.origin = "https://evil.example".to_owned(),
        |one| one.origin = "http://auspex.example.com".to_owned(),
        |one| one.origin = "https://auspex.example.com:8443".to_owned(),
        |one| one.origin = "https://console.auspex.example.com".to_owned(),
        |one| one.origin = "https://auspex.example.com.evil.example".to_owned(),
        |one| one.domain = "evil.example".to_owned(),
        |one| one.flags = flags::PRESENT,
        |one| one.flags = flags::VERIFIED,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut wrong = authenticator();
        change(&mut wrong);
        created(&mut wrong).expect_err(&format!("change {number}"));
        let kept = (right.origin.clone(), right.domain.clone(), right.flags);
        change(&mut right);
        used(&right, &stored).expect_err(&format!("change {number}"));
        (right.origin, right.domain, right.flags) = kept;
    }
    assert!(used(&right, &stored).is_ok());
}

#[test]
fn the_browser_s_data_is_checked() {
    let mut phone = authenticator();
    let stored = created(&mut phone).unwrap().content;
    let other = encoded(&[8; 32]);
    for (field, value) in [
        ("type", json!("webauthn.get")),
        ("challenge", json!(other)),
        ("challenge", json!("?")),
        ("challenge", Value::Null),
        ("origin", json!("null")),
        ("crossOrigin", json!(true)),
    ] {
        let change = |answer: &mut Value| {
            let mut data: Value =
                serde_json::from_slice(&bytes(&answer["response"]["clientDataJSON"])).unwrap();
            // What is right for a new passkey is wrong for a used one.
            let swapped =
                if data["type"] == "webauthn.get" { json!("webauthn.create") } else { value.clone() };
            data[field] = if field == "type" { swapped } else { value.clone() };
            answer["response"]["clientDataJSON"] = json!(encoded(data.to_string().as_bytes()));
        };
        created_with(&mut authenticator(), change).expect_err(&format!("{field}: {value}"));
        // The signature would not fit either; what is refused before it is looked at is shown by the passkey above.
        used_with(&phone, &stored, change).expect_err(&format!("{field}: {value}"));
    }
}

#[test]
fn a_tampered_signature_and_another_key_are_refused() {
    let mut phone = authenticator();
    let stored = created(&mut phone).unwrap().content;
    for field in ["signature", "authenticatorData", "clientDataJSON"] {
        let refused = used_with(&phone, &stored, |answer| {
            let mut changed = bytes(&answer["response"][field]);
            *changed.last_mut().unwrap() ^= 1;
            answer["response"][field] = json!(encoded(&changed));
        });
        refused.expect_err(field);
    }
    let mut stranger = authenticator();
    created(&mut stranger).unwrap();
    used(&stranger, &stored).expect_err("the same id, another key");
    let mut other = Authenticator::p256(SITE, 2);
    created(&mut other).unwrap();
    used(&other, &stored).expect_err("another id");
}

#[test]
fn a_count_that_does_not_grow_is_refused() {
    let mut key = authenticator();
    key.count = 3;
    let stored = created(&mut key).unwrap().content;
    for count in [0, 2, 3] {
        key.count = count;
        used(&key, &stored).expect_err("it may be a copy");
    }
    key.count = 4;
    let stored = used(&key, &stored).unwrap();
    used(&key, &stored).expect_err("the new count is stored");
    key.count = 9;
    assert!(used(&key, &stored).is_ok());
}

#[test]
fn an_algorithm_that_was_not_offered_is_refused() {
    let (options, _) = creation(&verifier());
    let offered: Vec<i64> = serde_json::from_value::<Vec<Value>>(options["pubKeyCredParams"].clone())
        .unwrap()
        .iter()
        .map(|one| one["alg"].as_i64().unwrap())
        .collect();
    assert!(!offered.contains(&-8));
    created(&mut Authenticator::ed25519(SITE, 1)).expect_err("EdDSA");
}

#[test]
fn what_is_cut_off_nested_or_too_long_is_refused() {
    let verifier = verifier();
    let (options, state) = creation(&verifier);
    let answer = authenticator().create(&options);
    let data = answer["response"]["clientDataJSON"].as_str().unwrap();
    let object = bytes(&answer["response"]["attestationObject"]);
    let verify = |object: &[u8]| {
        let attestation_object = encoded(object);
        verifier
            .verify_created(&state, &PasskeyAttestation { client_data: data.to_owned(), attestation_object })
    };
    assert!(verify(&object).is_ok());
    for length in 0..object.len() {
        verify(&object[..length]).expect_err(&format!("{length} bytes"));
    }
    for head in [0x81, 0xa1, 0x9f, 0xbf, 0xc1] {
        verify(&vec![head; 12_000]).expect_err("nested too deeply");
    }
    for (number, hostile) in [
        b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff".as_slice(),
        b"\xbb\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x5b\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x7b\xff\xff\xff\xff\xff\xff\xff\xff",
        b"",
        b"\xa0",
        b"\xff",
    ]
    .into_iter()
    .enumerate()
    {
        verify(hostile).expect_err(&format!("hostile {number}"));
    }
    let mut long = authenticator();
    long.credential_id = vec![1; MAX_CREDENTIAL_ID];
    assert!(created(&mut long).is_ok());
    long.credential_id = vec![1; MAX_CREDENTIAL_ID + 1];
    assert!(created(&mut long).unwrap_err().contains("too long"));
    long.credential_id = Vec::new();
    created(&mut long).expect_err("an empty id");
    let too_long = "A".repeat(MAX_FIELD + 1);
    let huge = PasskeyAttestation { client_data: data.to_owned(), attestation_object: too_long.clone() };
    assert_eq!(verifier.verify_created(&state, &huge).unwrap_err().to_string(), "a field is too long");
    assert!(challenge_in(&too_long).is_err());
}

#[test]
fn a_use_without_or_with_another_handle_names_nobody() {
    let mut phone = authenticator();
    created(&mut phone).unwrap();
    let verifier = verifier();
    let (options, _) = request(&verifier);
    let mut answer = phone.sign(&options);
    for handle in [json!("AAAA"), json!(""), json!("?"), Value::Null] {
        answer["response"]["userHandle"] = handle.clone();
        let answer: PasskeyAssertion = serde_json::from_value(answer.clone()).unwrap();
        assert!(verifier.claim(&answer).is_err(), "{handle}");
    }
}
