//! Sign-in with a provider, and the ways to sign in that a user links and unlinks.

mod linking;
mod racing;

use reqwest::Method;
use serde_json::{Value, json};
use url::Url;

use crate::app::{PASSWORD, Reply};
use crate::login::whoami;
use crate::provider_peers::{PROVIDERS, Providers, callback, challenge, parameter};
use crate::two_factor::Phone;

testkit::on_both!(
    only_configured_providers_are_offered,
    the_browser_is_sent_to_the_provider_with_all_it_needs,
    malformed_and_unknown_requests_are_refused,
    a_stranger_signs_up_and_signs_in_again,
    an_account_that_nobody_named_gets_a_name,
    an_identity_stays_with_its_user_whatever_its_address,
    an_address_that_a_provider_showed_counts_as_verified,
    who_verified_the_address_keeps_password_and_keys,
    who_never_verified_the_address_loses_all_that_they_set_up,
    closed_registration_keeps_only_strangers_out,
    an_unverified_address_opens_nothing,
    a_code_works_once_and_only_with_its_verifier,
    a_provider_that_is_down_is_told_as_such,
    an_account_has_one_identity_of_a_provider,
    two_factor_is_not_asked_for_by_a_provider_s_sign_in,
);

const NEW_PASSWORD: &str = "quite another horse and staple";
/// The one of RFC 7636, appendix B.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const LINKED: &str = "A way to sign in was added";
const UNLINKED: &str = "A way to sign in was removed";

async fn only_configured_providers_are_offered(stage: &Providers) {
    let path = "/auth/console/oauth/providers";
    let offered = stage.app.get(path).await;
    assert_eq!(offered.status, 200);
    assert_eq!(offered.json(), json!({"providers": ["google", "github"], "allow_registration": true}));

    let settings = [("AUSPEX_GOOGLE_CLIENT_ID", ""), ("AUSPEX_GOOGLE_CLIENT_SECRET", "")];
    let closed = [settings.as_slice(), &[("AUSPEX_ALLOW_REGISTRATION", "false")]].concat();
    let node = stage.node_with(&closed).await;
    assert_eq!(node.get(path).await.json(), json!({"providers": ["github"], "allow_registration": false}));
    let request = json!({"state": "s", "code_challenge": challenge(VERIFIER)});
    node.post("/auth/console/oauth/google/authorize", &request).await.refused(404, "not_found");
    let proof = json!({"code": "any", "code_verifier": VERIFIER});
    node.post("/auth/console/oauth/google", &proof).await.refused(404, "not_found");
    let token = stage.app.register("ann@example.com").await;
    let linking = node.call(&token, Method::POST, "/v1/me/identities/google", &proof).await;
    linking.refused(404, "not_found");
    let ways = node.call(&token, Method::GET, "/v1/me/identities", &Value::Null).await.json();
    assert_eq!(ways["providers"], json!(["github"]));
    node.stop().await;

    let bare = stage.app.second_node(&[]).await;
    assert_eq!(bare.get(path).await.json(), json!({"providers": [], "allow_registration": true}));
    bare.stop().await;
}

async fn the_browser_is_sent_to_the_provider_with_all_it_needs(stage: &Providers) {
    let challenge = challenge(VERIFIER);
    for (provider, nonce) in [("google", challenge.as_str()), ("github", "")] {
        let request = json!({"state": "a~b&c", "code_challenge": challenge});
        let reply = stage.app.post(&format!("/auth/console/oauth/{provider}/authorize"), &request).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let url: Url = reply.json()["url"].as_str().unwrap().parse().unwrap();
        for (name, value) in [
            ("response_type", "code"),
            ("state", "a~b&c"),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("redirect_uri", &callback(provider)),
            ("nonce", nonce),
        ] {
            assert_eq!(parameter(&url, name), value, "{name} in {url}");
        }
        assert_ne!(parameter(&url, "client_id"), "");
        assert!(!url.as_str().contains("hush"), "the secret stays here: {url}");
    }
}

async fn malformed_and_unknown_requests_are_refused(stage: &Providers) {
    let app = &stage.app;
    let challenge = challenge(VERIFIER);
    for provider in PROVIDERS {
        let path = format!("/auth/console/oauth/{provider}/authorize");
        for body in [
            json!({}),
            json!({"state": "s"}),
            json!({"code_challenge": challenge}),
            json!({"state": "", "code_challenge": challenge}),
            json!({"state": "a\u{0}b", "code_challenge": challenge}),
            json!({"state": "s".repeat(5000), "code_challenge": challenge}),
            json!({"state": 1, "code_challenge": challenge}),
            json!({"state": "s", "code_challenge": ""}),
            json!({"state": "s", "code_challenge": VERIFIER[1..]}),
            json!({"state": "s", "code_challenge": format!("{challenge}=")}),
            json!({"state": "s", "code_challenge": format!("+{}", &challenge[1..])}),
        ] {
            app.post(&path, &body).await.refused(400, "bad_request");
        }
        let path = format!("/auth/console/oauth/{provider}");
        for body in [
            json!({}),
            json!({"code": "c"}),
            json!({"code_verifier": VERIFIER}),
            json!({"code": "", "code_verifier": VERIFIER}),
            json!({"code": "c", "code_verifier": &VERIFIER[1..]}),
            json!({"code": "c", "code_verifier": format!("+{VERIFIER}")}),
            json!({"code": "c", "code_verifier": "v".repeat(129)}),
            json!({"code": "c\u{0}", "code_verifier": VERIFIER}),
        ] {
            app.post(&path, &body).await.refused(400, "bad_request");
        }
    }
    let token = app.register("ann@example.com").await;
    let proof = json!({"code": "c", "code_verifier": VERIFIER});
    let request = json!({"state": "s", "code_challenge": challenge});
    app.post("/auth/console/oauth/%00", &proof).await.refused(400, "bad_request");
    for unknown in ["facebook", "Google", "google%20"] {
        app.post(&format!("/auth/console/oauth/{unknown}/authorize"), &request)
            .await
            .refused(404, "not_found");
        app.post(&format!("/auth/console/oauth/{unknown}"), &proof).await.refused(404, "not_found");
        let path = format!("/v1/me/identities/{unknown}");
        app.call(&token, Method::POST, &path, &proof).await.refused(404, "not_found");
        app.call(&token, Method::DELETE, &path, &Value::Null).await.refused(404, "not_found");
    }
}

async fn a_stranger_signs_up_and_signs_in_again(stage: &Providers) {
    for provider in PROVIDERS {
        let email = format!("Ann-{provider}@example.com");
        stage.person(provider, 1, &email, true).await;
        let mut proof = stage.proof(provider, 1).await;
        proof["tenant_name"] = json!("Ann's shop");
        let reply = stage.app.post(&format!("/auth/console/oauth/{provider}"), &proof).await;
        assert_eq!(reply.status, 201, "{}", reply.text);
        let signed_up = reply.json();
        assert_eq!((&signed_up["token_type"], &signed_up["new_user"]), (&json!("console"), &json!(true)));
        let day = std::time::Duration::from_hours(24);
        assert_eq!(signed_up["expires_at"], json!(stage.app.now() + day));

        let token = signed_up["token"].as_str().unwrap();
        let me = stage.get(token, "/v1/me").await;
        assert_eq!(me["tenant_name"], "Ann's shop");
        assert_eq!((&me["auth_type"], &me["role"]), (&json!("console"), &json!("admin")));
        assert_eq!((&me["email"], &me["onboarded"]), (&json!(email), &json!(false)));
        assert_eq!(stage.ways_in(token).await, (false, vec![provider.to_owned()]));

        // The name is for a new account only.
        let mut proof = stage.proof(provider, 1).await;
        proof["tenant_name"] = json!("Another shop");
        let again = stage.app.post(&format!("/auth/console/oauth/{provider}"), &proof).await;
        assert_eq!(again.status, 200, "{}", again.text);
        assert_ne!(again.json()["new_user"], true);
        assert_ne!(again.json()["token"], token);
        assert_eq!(stage.get(again.json()["token"].as_str().unwrap(), "/v1/me").await, me);
        assert_eq!(stage.get(token, "/v1/me").await, me, "one sign-in does not end another");
    }
    assert_eq!(stage.accounts().await, 2);
}

async fn an_account_that_nobody_named_gets_a_name(stage: &Providers) {
    for provider in PROVIDERS {
        stage.person(provider, 1, &format!("ann-{provider}@example.com"), true).await;
        let token = stage.token(provider, 1, 201).await;
        assert_eq!(stage.get(&token, "/v1/me").await["tenant_name"], "Ann", "what they call themselves");

        stage.person(provider, 2, &format!("bob-{provider}@example.com"), true).await;
        for name in ["", "  ", "a\u{0}b", &"n".repeat(10_000)] {
            let mut proof = stage.proof(provider, 2).await;
            proof["tenant_name"] = json!(name);
            let reply = stage.app.post(&format!("/auth/console/oauth/{provider}"), &proof).await;
            reply.refused(400, "bad_request");
        }
        stage.token(provider, 2, 201).await;
    }
}

async fn an_identity_stays_with_its_user_whatever_its_address(stage: &Providers) {
    stage.app.register("other@example.com").await;
    for provider in PROVIDERS {
        let email = format!("ann-{provider}@example.com");
        stage.person(provider, 1, &email, true).await;
        let token = stage.token(provider, 1, 201).await;
        let me = stage.get(&token, "/v1/me").await;
        // Now the provider shows an address that has an account here.
        stage.person(provider, 1, "other@example.com", true).await;
        let token = stage.token(provider, 1, 200).await;
        assert_eq!(stage.get(&token, "/v1/me").await, me);
        assert_eq!(me["email"], email);
    }
}

async fn an_address_that_a_provider_showed_counts_as_verified(stage: &Providers) {
    for (first, second) in [("google", "github"), ("github", "google")] {
        let email = format!("ann-{first}@example.com");
        let (at_first, at_second) = (1, 2);
        stage.person(first, at_first, &email, true).await;
        stage.person(second, at_second, &email.to_uppercase(), true).await;
        let first_token = stage.token(first, at_first, 201).await;
        let key = stage.app.api_key(&first_token).await;
        let me = stage.get(&first_token, "/v1/me").await;

        let token = stage.token(second, at_second, 200).await;
        assert_eq!(stage.get(&token, "/v1/me").await, me);
        whoami(&stage.app, &first_token).await.refused(401, "unauthorized");
        assert_eq!(key.call(&stage.app, Method::GET, "/v1/me", &Value::Null).await.status, 200);
        assert_eq!(stage.ways_in(&token).await.1.len(), 2);
        assert_eq!(count(&stage.app.subjects_to(&email).await, LINKED), 1);
    }
}

async fn who_verified_the_address_keeps_password_and_keys(stage: &Providers) {
    for provider in PROVIDERS {
        let email = format!("ann-{provider}@example.com");
        stage.app.register(&email).await;
        stage.reset_password(&email, NEW_PASSWORD).await;
        let by_password = token_of(&stage.log_in(&email, NEW_PASSWORD).await);
        let key = stage.app.api_key(&by_password).await;
        Phone::switched_on(&stage.app, &by_password).await;
        let me = stage.get(&by_password, "/v1/me").await;

        stage.person(provider, 1, &email.to_uppercase(), true).await;
        let token = stage.token(provider, 1, 200).await;
        assert_eq!(stage.get(&token, "/v1/me").await, me);
        // A new way to sign in ends all other sessions.
        whoami(&stage.app, &by_password).await.refused(401, "unauthorized");
        assert_eq!(key.call(&stage.app, Method::GET, "/v1/me", &Value::Null).await.status, 200);
        assert_eq!(stage.ways_in(&token).await, (true, vec![provider.to_owned()]));
        assert_eq!(stage.get(&token, "/v1/me/mfa").await["enabled"], true);
        stage.log_in(&email, NEW_PASSWORD).await.refused(401, "mfa_required");
        assert_eq!(count(&stage.app.subjects_to(&email).await, LINKED), 1);
        stage.token(provider, 1, 200).await;
        assert_eq!(count(&stage.app.subjects_to(&email).await, LINKED), 1, "linked once, told once");
        let linked = stage.get(&token, "/v1/audit_log?action=identity.linked").await;
        let [line] = linked["entries"].as_array().unwrap().as_slice() else { panic!("one line: {linked}") };
        assert_eq!(line["actor"], json!({"kind": "user", "id": me["user_id"], "name": email}));
        assert_eq!(line["target"], json!({"kind": "identity", "id": provider}));
        assert!(line["address"].is_string() && line["request_id"].is_string(), "{line}");
    }
}

/// Somebody registers another's address and waits for the owner to come.
async fn who_never_verified_the_address_loses_all_that_they_set_up(stage: &Providers) {
    for (provider, other) in [("google", "github"), ("github", "google")] {
        let email = format!("ann-{provider}@example.com");
        let squatter = stage.app.register(&email).await;
        let key = stage.app.api_key(&squatter).await;
        Phone::switched_on(&stage.app, &squatter).await;
        // An identity of the squatter's own shows another address, so it verifies nothing.
        stage.person(other, 6, &format!("eve-{provider}@example.com"), true).await;
        assert_eq!(stage.link(&squatter, other, 6).await.status, 201);
        let mut me = stage.get(&squatter, "/v1/me").await;

        stage.person(provider, 1, &email, true).await;
        let token = stage.token(provider, 1, 200).await;
        me["email_verified"] = json!(true);
        assert_eq!(stage.get(&token, "/v1/me").await, me);
        assert_eq!(stage.ways_in(&token).await, (false, vec![provider.to_owned()]));
        assert_eq!(
            stage.get(&token, "/v1/me/mfa").await,
            json!({"enabled": false, "recovery_codes_remaining": 0})
        );
        assert_eq!(stage.get(&token, "/v1/api_keys").await, json!({"api_keys": []}));
        assert_eq!(count(&stage.app.subjects_to(&email).await, LINKED), 2);

        let refused = stage.app.call(&squatter, Method::GET, "/v1/me", &Value::Null).await;
        refused.refused(401, "unauthorized");
        let refused = key.call(&stage.app, Method::GET, "/v1/me", &Value::Null).await;
        refused.refused(401, "unauthorized");
        stage.log_in(&email, PASSWORD).await.refused(401, "unauthorized");
        let theirs = stage.token(other, 6, 201).await;
        assert_ne!(stage.get(&theirs, "/v1/me").await["tenant_id"], me["tenant_id"]);
        assert_eq!(stage.get(&stage.token(provider, 1, 200).await, "/v1/me").await, me);
    }
}

async fn closed_registration_keeps_only_strangers_out(stage: &Providers) {
    let closed = stage.node_with(&[("AUSPEX_ALLOW_REGISTRATION", "false")]).await;
    for provider in PROVIDERS {
        let path = format!("/auth/console/oauth/{provider}");
        let [known, registered, stranger] =
            ["known", "registered", "stranger"].map(|who| format!("{who}-{provider}@example.com"));
        stage.person(provider, 1, &known, true).await;
        stage.token(provider, 1, 201).await;
        stage.app.register(&registered).await;
        stage.person(provider, 2, &registered, true).await;
        stage.person(provider, 3, &stranger, true).await;

        assert_eq!(closed.post(&path, &stage.proof(provider, 1).await).await.status, 200);
        assert_eq!(closed.post(&path, &stage.proof(provider, 2).await).await.status, 200);
        closed.post(&path, &stage.proof(provider, 3).await).await.refused(403, "forbidden");
        assert!(stage.app.subjects_to(&stranger).await.is_empty());
        stage.token(provider, 3, 201).await;
    }
    closed.stop().await;
}

async fn an_unverified_address_opens_nothing(stage: &Providers) {
    for provider in PROVIDERS {
        let email = format!("ann-{provider}@example.com");
        let token = stage.app.register(&email).await;
        stage.person(provider, 1, &email, false).await;
        stage.person(provider, 2, &format!("bob-{provider}@example.com"), false).await;
        for person in [1, 2] {
            stage.sign_in(provider, person).await.refused(403, "forbidden");
            stage.link(&token, provider, person).await.refused(403, "forbidden");
        }
        assert_eq!(stage.ways_in(&token).await, (true, vec![]));
        assert_eq!(count(&stage.app.subjects_to(&email).await, LINKED), 0);
        stage.person(provider, 2, &format!("bob-{provider}@example.com"), true).await;
        stage.token(provider, 2, 201).await;
    }
}

async fn a_code_works_once_and_only_with_its_verifier(stage: &Providers) {
    for provider in PROVIDERS {
        stage.person(provider, 1, &format!("ann-{provider}@example.com"), true).await;
        let path = format!("/auth/console/oauth/{provider}");
        let proof = stage.proof(provider, 1).await;
        assert_eq!(stage.app.post(&path, &proof).await.status, 201);
        stage.app.post(&path, &proof).await.refused(400, "bad_request");
        let made_up = json!({"code": "made-up", "code_verifier": VERIFIER});
        stage.app.post(&path, &made_up).await.refused(400, "bad_request");
        let mut stolen = stage.proof(provider, 1).await;
        stolen["code_verifier"] = json!(VERIFIER);
        let message = stage.app.post(&path, &stolen).await.refused(400, "bad_request");
        assert!(!message.contains(VERIFIER));

        let token = stage.app.register(&format!("bob-{provider}@example.com")).await;
        let path = format!("/v1/me/identities/{provider}");
        for proof in [proof, made_up, stolen] {
            stage.app.call(&token, Method::POST, &path, &proof).await.refused(400, "bad_request");
        }
        assert_eq!(stage.ways_in(&token).await, (true, vec![]));
    }
}

async fn a_provider_that_is_down_is_told_as_such(stage: &Providers) {
    let request = json!({"state": "s", "code_challenge": challenge(VERIFIER)});
    for provider in PROVIDERS {
        let email = format!("ann-{provider}@example.com");
        stage.person(provider, 1, &email, true).await;
        let [to_sign_in, to_link] = [stage.proof(provider, 1).await, stage.proof(provider, 1).await];
        stage.stop(provider);
        let reply = stage.app.post(&format!("/auth/console/oauth/{provider}"), &to_sign_in).await;
        let message = reply.refused(502, "identity_provider_error");
        assert!(!message.contains("127.0.0.1"), "{message}");
        // The address is still free: nothing was half done.
        let token = stage.app.register(&email).await;
        let path = format!("/v1/me/identities/{provider}");
        let reply = stage.app.call(&token, Method::POST, &path, &to_link).await;
        reply.refused(502, "identity_provider_error");
        assert_eq!(stage.ways_in(&token).await, (true, vec![]));
    }
    // A node that has not met the issuer before cannot say where its page is.
    let node = stage.node_with(&[]).await;
    let reply = node.post("/auth/console/oauth/google/authorize", &request).await;
    reply.refused(502, "identity_provider_error");
    assert_eq!(node.post("/auth/console/oauth/github/authorize", &request).await.status, 200);
    node.stop().await;
}

async fn an_account_has_one_identity_of_a_provider(stage: &Providers) {
    for provider in PROVIDERS {
        let email = format!("ann-{provider}@example.com");
        stage.person(provider, 1, &email, true).await;
        let token = stage.token(provider, 1, 201).await;
        // Somebody else, to whom the provider gave the address later.
        stage.person(provider, 2, &email, true).await;
        stage.sign_in(provider, 2).await.refused(409, "conflict");
        stage.link(&token, provider, 2).await.refused(409, "conflict");
        assert_eq!(stage.ways_in(&token).await.1, [provider]);
        stage.token(provider, 1, 200).await;
    }
}

async fn two_factor_is_not_asked_for_by_a_provider_s_sign_in(stage: &Providers) {
    for provider in PROVIDERS {
        let email = format!("ann-{provider}@example.com");
        let token = stage.app.register(&email).await;
        Phone::switched_on(&stage.app, &token).await;
        stage.person(provider, 1, &email, true).await;
        assert_eq!(stage.link(&token, provider, 1).await.status, 201);
        stage.log_in(&email, PASSWORD).await.refused(401, "mfa_required");
        let by_provider = stage.token(provider, 1, 200).await;
        assert_eq!(stage.get(&by_provider, "/v1/me/mfa").await["enabled"], true);
    }
}

fn token_of(reply: &Reply) -> String {
    reply.json()["token"].as_str().unwrap_or_else(|| panic!("{}", reply.text)).to_owned()
}

fn count(subjects: &[String], subject: &str) -> usize {
    subjects.iter().filter(|found| *found == subject).count()
}
