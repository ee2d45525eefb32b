//! Members: who is invited, who joins with which role, and how one leaves.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::app::{App, PASSWORD, Reply};
use crate::login::{DAY, QUARTER, sign_in, whoami};
use crate::provider_peers::Providers;
use crate::registration::staged;
use crate::signer::Signer;

const MEMBERS: &str = "/v1/members";
const INVITATIONS: &str = "/v1/invitations";
const ACCEPT: &str = "/auth/console/invitations/accept";
const INVITED: &str = "You are invited to an account";
const REQUIRED: &str = "reauthentication_required";

testkit::on_both!(
    an_invitation_makes_a_member,
    an_invitation_works_once_and_for_seven_days,
    an_invitation_is_withdrawn_or_replaced,
    an_address_belongs_to_one_account,
    a_weak_password_uses_up_no_invitation,
    a_provider_accepts_an_invitation,
    only_owners_manage_owners,
    the_last_owner_stays,
    of_two_owners_who_remove_each_other_one_stays,
    a_new_role_counts_at_once,
    who_is_removed_is_out_at_once,
    keys_of_who_is_removed_go_on_unless_they_are_revoked,
    claims_of_who_is_removed_are_given_back,
    claims_of_who_may_no_longer_resolve_them_are_given_back,
    invitations_by_who_is_removed_or_may_do_less_end,
    changing_members_needs_recent_proof,
    nobody_manages_another_account_s_members,
    strangers_are_not_flooded_with_invitations,
    nonsense_changes_no_member,
    members_and_invitations_are_listed_in_pages,
    an_account_beyond_a_page_of_members_is_managed_like_any_other,
);

/// The token in the newest invitation to an address.
pub(crate) async fn invitation_to(app: &App, email: &str) -> String {
    let mails = app.all_mails().await;
    let mail = mails.iter().rfind(|mail| mail.to == email && mail.subject == INVITED);
    let text = &mail.unwrap_or_else(|| panic!("no invitation for {email} in {mails:?}")).text;
    let (_, token) = text.split_once("/console/invitation?token=").expect("the mail has a link");
    token.split_whitespace().next().unwrap().to_owned()
}

pub(crate) async fn invite(app: &App, session: &str, email: &str, role: &str) -> Reply {
    app.call(session, Method::POST, INVITATIONS, &json!({"email": email, "role": role})).await
}

async fn accept(app: &App, token: &str) -> Reply {
    app.post(ACCEPT, &json!({"token": token, "password": PASSWORD})).await
}

/// Invites somebody, who accepts; their session.
pub(crate) async fn join(app: &App, session: &str, email: &str, role: &str) -> String {
    let reply = invite(app, session, email, role).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    let reply = accept(app, &invitation_to(app, email).await).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()["token"].as_str().unwrap().to_owned()
}

async fn id_of(app: &App, session: &str) -> String {
    whoami(app, session).await.json()["user_id"].as_str().unwrap().to_owned()
}

async fn set_role(app: &App, session: &str, user: &str, role: &str) -> Reply {
    app.call(session, Method::PATCH, &format!("{MEMBERS}/{user}"), &json!({"role": role})).await
}

async fn remove(app: &App, session: &str, user: &str) -> Reply {
    app.call(session, Method::DELETE, &format!("{MEMBERS}/{user}"), &Value::Null).await
}

async fn emails(app: &App, session: &str) -> Vec<(String, String)> {
    let listed = app.call(session, Method::GET, MEMBERS, &Value::Null).await.json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let members = listed["members"].as_array().unwrap();
    members.iter().map(|member| (text(&member["email"]), text(&member["role"]))).collect()
}

async fn an_invitation_makes_a_member(app: &App) {
    let owner = app.register("ann@example.com").await;
    let reply = invite(app, &owner, "Bob@Example.com", "analyst").await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    let made = reply.json();
    let expires = app.now() + 7 * DAY;
    let expected =
        json!({"id": made["id"], "email": "Bob@Example.com", "role": "analyst", "expires_at": expires});
    assert_eq!(made, expected);
    let listed = app.call(&owner, Method::GET, INVITATIONS, &Value::Null).await.json();
    assert_eq!(listed, json!({"invitations": [made]}));

    app.advance(DAY);
    let token = invitation_to(app, "Bob@Example.com").await;
    let reply = accept(app, &token).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let bob = reply.json()["token"].as_str().unwrap().to_owned();
    let me = whoami(app, &bob).await.json();
    assert_eq!((&me["role"], &me["member_role"]), (&json!("analyst"), &json!("analyst")));
    assert_eq!((&me["email"], &me["email_verified"]), (&json!("Bob@Example.com"), &json!(true)));
    let ann = sign_in(app, "ann@example.com").await;
    let owner = whoami(app, &ann).await.json();
    assert_eq!((&owner["role"], &owner["member_role"]), (&json!("admin"), &json!("owner")));
    assert_eq!(owner["tenant_id"], me["tenant_id"]);
    let listed = app.call(&ann, Method::GET, MEMBERS, &Value::Null).await.json();
    assert_eq!(
        listed["members"][1],
        json!({"user_id": me["user_id"], "email": "Bob@Example.com", "role": "analyst", "created_at": app.now()})
    );
    assert_eq!(listed["members"].as_array().unwrap().len(), 2);
    let open = app.call(&ann, Method::GET, INVITATIONS, &Value::Null).await.json();
    assert_eq!(open, json!({"invitations": []}));
    sign_in(app, "bob@example.com").await;
}

async fn an_invitation_works_once_and_for_seven_days(app: &App) {
    let owner = app.register("ann@example.com").await;
    join(app, &owner, "bob@example.com", "viewer").await;
    accept(app, &invitation_to(app, "bob@example.com").await).await.refused(400, "invalid_token");
    accept(app, "it_nothing").await.refused(400, "invalid_token");
    invite(app, &owner, "cleo@example.com", "viewer").await;
    let token = invitation_to(app, "cleo@example.com").await;
    app.advance(7 * DAY);
    accept(app, &token).await.refused(400, "invalid_token");
    let owner = sign_in(app, "ann@example.com").await;
    let open = app.call(&owner, Method::GET, INVITATIONS, &Value::Null).await.json();
    assert_eq!(open, json!({"invitations": []}));
}

async fn an_invitation_is_withdrawn_or_replaced(app: &App) {
    let owner = app.register("ann@example.com").await;
    let made = invite(app, &owner, "bob@example.com", "viewer").await.json();
    let first = invitation_to(app, "bob@example.com").await;
    app.advance(Duration::from_secs(1));
    let again = invite(app, &owner, "BOB@example.com", "admin").await.json();
    let second = invitation_to(app, "BOB@example.com").await;
    accept(app, &first).await.refused(400, "invalid_token");
    let path = |made: &Value| format!("{INVITATIONS}/{}", made["id"].as_str().unwrap());
    app.call(&owner, Method::DELETE, &path(&made), &Value::Null).await.refused(404, "not_found");
    assert_eq!(app.call(&owner, Method::DELETE, &path(&again), &Value::Null).await.status, 204);
    accept(app, &second).await.refused(400, "invalid_token");
    app.call(&owner, Method::DELETE, &path(&again), &Value::Null).await.refused(404, "not_found");
}

async fn an_address_belongs_to_one_account(app: &App) {
    let owner = app.register("ann@example.com").await;
    app.register("bob@example.com").await;
    assert_eq!(invite(app, &owner, "bob@example.com", "viewer").await.status, 201, "it tells nothing");
    let token = invitation_to(app, "bob@example.com").await;
    for _ in 0..2 {
        accept(app, &token).await.refused(409, "conflict");
    }
    invite(app, &owner, "Ann@example.com", "viewer").await.refused(409, "conflict");
    assert_eq!(emails(app, &owner).await.len(), 1);
}

async fn a_weak_password_uses_up_no_invitation(app: &App) {
    let owner = app.register("ann@example.com").await;
    invite(app, &owner, "bob@example.com", "viewer").await;
    let token = invitation_to(app, "bob@example.com").await;
    for weak in ["short", "password1", "bob@example.com"] {
        let reply = app.post(ACCEPT, &json!({"token": token, "password": weak})).await;
        reply.refused(400, "weak_password");
    }
    assert_eq!(accept(app, &token).await.status, 200);
}

async fn a_provider_accepts_an_invitation(stage: &Providers) {
    let app = &stage.app;
    let owner = app.register("ann@example.com").await;
    invite(app, &owner, "bob@example.com", "admin").await;
    stage.person("google", 1, "bob-private@example.com", true).await;
    let mut proof = stage.proof("google", 1).await;
    proof["invitation"] = json!("it_nothing");
    app.post("/auth/console/oauth/google", &proof).await.refused(400, "invalid_token");
    let mut proof = stage.proof("google", 1).await;
    proof["invitation"] = json!(invitation_to(app, "bob@example.com").await);
    let reply = app.post("/auth/console/oauth/google", &proof).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    let bob = reply.json()["token"].as_str().unwrap().to_owned();
    let me = whoami(app, &bob).await.json();
    assert_eq!((&me["email"], &me["member_role"]), (&json!("bob@example.com"), &json!("admin")));
    assert_eq!(stage.ways_in(&bob).await, (false, vec!["google".to_owned()]));
    assert_eq!(whoami(app, &stage.token("google", 1, 200).await).await.json()["user_id"], me["user_id"]);
    // Whoever has an account already does not get another.
    invite(app, &owner, "cleo@example.com", "viewer").await;
    let mut proof = stage.proof("google", 1).await;
    proof["invitation"] = json!(invitation_to(app, "cleo@example.com").await);
    app.post("/auth/console/oauth/google", &proof).await.refused(409, "conflict");
}

async fn only_owners_manage_owners(app: &App) {
    let owner = app.register("ann@example.com").await;
    let admin = join(app, &owner, "bob@example.com", "admin").await;
    let (ann, bob) = (id_of(app, &owner).await, id_of(app, &admin).await);
    let viewer = join(app, &admin, "cleo@example.com", "viewer").await;
    let cleo = id_of(app, &viewer).await;
    for reply in [
        invite(app, &admin, "dan@example.com", "owner").await,
        set_role(app, &admin, &bob, "owner").await,
        set_role(app, &admin, &cleo, "owner").await,
        set_role(app, &admin, &ann, "viewer").await,
        remove(app, &admin, &ann).await,
    ] {
        let message = reply.refused(403, "forbidden");
        assert_eq!(message, "this needs the role owner; yours is admin");
    }
    let message = invite(app, &viewer, "dan@example.com", "viewer").await.refused(403, "forbidden");
    assert_eq!(message, "this needs the role admin or owner; yours is viewer");
    assert_eq!(set_role(app, &admin, &cleo, "analyst").await.json()["role"], "analyst");
    let open = invite(app, &owner, "dan@example.com", "owner").await.json();
    let path = format!("{INVITATIONS}/{}", open["id"].as_str().unwrap());
    app.call(&admin, Method::DELETE, &path, &Value::Null).await.refused(403, "forbidden");
    assert_eq!(app.call(&owner, Method::DELETE, &path, &Value::Null).await.status, 204);
    assert_eq!(set_role(app, &owner, &bob, "owner").await.status, 200);
    assert_eq!(remove(app, &admin, &ann).await.status, 200, "an owner now");
}

async fn the_last_owner_stays(app: &App) {
    let owner = app.register("ann@example.com").await;
    let ann = id_of(app, &owner).await;
    join(app, &owner, "bob@example.com", "admin").await;
    set_role(app, &owner, &ann, "admin").await.refused(409, "conflict");
    remove(app, &owner, &ann).await.refused(409, "conflict");
    assert_eq!(set_role(app, &owner, &ann, "owner").await.status, 200, "nothing changes");
    let second = join(app, &owner, "cleo@example.com", "owner").await;
    assert_eq!(set_role(app, &owner, &ann, "viewer").await.status, 200);
    let cleo = id_of(app, &second).await;
    remove(app, &second, &cleo).await.refused(409, "conflict");
}

async fn of_two_owners_who_remove_each_other_one_stays(app: &App) {
    let first = app.register("ann@example.com").await;
    let second = join(app, &first, "bob@example.com", "owner").await;
    let (ann, bob) = (id_of(app, &first).await, id_of(app, &second).await);
    let (one, other) = tokio::join!(remove(app, &first, &bob), remove(app, &second, &ann));
    let mut statuses = [one.status.as_u16(), other.status.as_u16()];
    statuses.sort_unstable();
    assert!(statuses[0] == 200 && [401, 403, 409].contains(&statuses[1]), "{statuses:?}");
    let left = if one.status == 200 { &first } else { &second };
    let members = emails(app, left).await;
    assert_eq!(members.len(), 1);
    assert_eq!(members[0].1, "owner");
}

async fn a_new_role_counts_at_once(app: &App) {
    let owner = app.register("ann@example.com").await;
    let member = join(app, &owner, "bob@example.com", "admin").await;
    let bob = id_of(app, &member).await;
    let settings = json!({"auto_backfill_signals": true});
    assert_eq!(app.call(&member, Method::PATCH, "/v1/settings", &settings).await.status, 200);
    let changed = set_role(app, &owner, &bob, "viewer").await;
    assert_eq!((&changed.json()["role"], &changed.json()["user_id"]), (&json!("viewer"), &json!(bob)));
    app.call(&member, Method::PATCH, "/v1/settings", &settings).await.refused(403, "forbidden");
    app.call(&member, Method::GET, "/v1/billing", &Value::Null).await.refused(403, "forbidden");
    assert_eq!(app.call(&member, Method::GET, "/v1/objects", &Value::Null).await.status, 200);
}

async fn who_is_removed_is_out_at_once(app: &App) {
    let owner = app.register("ann@example.com").await;
    let member = join(app, &owner, "bob@example.com", "admin").await;
    let other = sign_in(app, "bob@example.com").await;
    let bob = id_of(app, &member).await;
    let reply = remove(app, &owner, &bob).await;
    assert_eq!((reply.status.as_u16(), reply.json()), (200, json!({"keys": []})));
    for session in [&member, &other] {
        whoami(app, session).await.refused(401, "unauthorized");
    }
    app.post("/auth/console/login", &json!({"email": "bob@example.com", "password": PASSWORD}))
        .await
        .refused(401, "unauthorized");
    remove(app, &owner, &bob).await.refused(404, "not_found");
    assert_eq!(emails(app, &owner).await.len(), 1);
    // Mails of one instant have no order.
    app.advance(Duration::from_secs(1));
    join(app, &owner, "bob@example.com", "viewer").await;
}

async fn claims_of_who_is_removed_are_given_back(app: &App) {
    let owner = app.register("ann@example.com").await;
    let member = join(app, &owner, "bob@example.com", "analyst").await;
    let events = json!({"wait": true, "events": [{"type": "event", "name": "seen"}]});
    assert_eq!(app.call(&owner, Method::POST, "/v1/objects/o1/events", &events).await.status, 200);
    let review = json!({"object_id": "o1", "queue": "q"});
    assert_eq!(app.call(&owner, Method::POST, "/v1/reviews", &review).await.status, 201);
    let next = json!({"queue": "q"});
    assert_eq!(app.call(&member, Method::POST, "/v1/reviews/next", &next).await.status, 200);
    assert_eq!(app.call(&owner, Method::POST, "/v1/reviews/next", &next).await.status, 204);
    let bob = id_of(app, &member).await;
    assert_eq!(remove(app, &owner, &bob).await.status, 200);
    assert_eq!(app.call(&owner, Method::POST, "/v1/reviews/next", &next).await.status, 200);
}

async fn claims_of_who_may_no_longer_resolve_them_are_given_back(app: &App) {
    let owner = app.register("ann@example.com").await;
    let member = join(app, &owner, "bob@example.com", "admin").await;
    let bob = id_of(app, &member).await;
    let events = json!({"wait": true, "events": [{"type": "event", "name": "seen"}]});
    assert_eq!(app.call(&owner, Method::POST, "/v1/objects/o1/events", &events).await.status, 200);
    let review = json!({"object_id": "o1", "queue": "q"});
    assert_eq!(app.call(&owner, Method::POST, "/v1/reviews", &review).await.status, 201);
    let next = json!({"queue": "q"});
    for what in ["inactive", "revoked", "viewer", "removed"] {
        let made = app.call(&member, Method::POST, "/v1/api_keys", &json!({})).await.json();
        let key = Signer::new(made["key"].as_str().unwrap(), made["secret"].as_str().unwrap());
        let path = format!("/v1/api_keys/{}", made["api_key"]["id"].as_str().unwrap());
        let claimed = if what == "viewer" {
            app.call(&member, Method::POST, "/v1/reviews/next", &next).await
        } else {
            key.call(app, Method::POST, "/v1/reviews/next", &next).await
        };
        assert_eq!(claimed.status, 200, "{what}: {}", claimed.text);
        assert_eq!(app.call(&owner, Method::POST, "/v1/reviews/next", &next).await.status, 204, "{what}");
        let done = match what {
            "inactive" => app.call(&owner, Method::PATCH, &path, &json!({"status": "inactive"})).await,
            "revoked" => app.call(&owner, Method::DELETE, &path, &Value::Null).await,
            "viewer" => set_role(app, &owner, &bob, "viewer").await,
            _ => remove(app, &owner, &format!("{bob}?revoke_keys=true")).await,
        };
        assert!(done.status.is_success(), "{what}: {}", done.text);
        let claimed = app.call(&owner, Method::POST, "/v1/reviews/next", &next).await;
        assert_eq!(claimed.status, 200, "{what}: {}", claimed.text);
        let path = format!("/v1/reviews/{}/release", claimed.json()["id"].as_str().unwrap());
        assert_eq!(app.call(&owner, Method::POST, &path, &Value::Null).await.status, 200, "{what}");
        if what == "viewer" {
            assert_eq!(set_role(app, &owner, &bob, "admin").await.status, 200);
        }
    }
}

async fn invitations_by_who_is_removed_or_may_do_less_end(app: &App) {
    let owner = app.register("ann@example.com").await;
    let lowered = join(app, &owner, "bob@example.com", "owner").await;
    let removed = join(app, &owner, "cleo@example.com", "admin").await;
    let [bob, cleo] = [id_of(app, &lowered).await, id_of(app, &removed).await];
    let mut tokens = Vec::new();
    for (session, guest, role) in [
        (&owner, "of-ann@example.com", "viewer"),
        (&lowered, "of-bob@example.com", "owner"),
        (&removed, "of-cleo@example.com", "admin"),
        (&removed, "friend@example.com", "admin"),
    ] {
        assert_eq!(invite(app, session, guest, role).await.status, 201);
        tokens.push(invitation_to(app, guest).await);
    }
    let [of_ann, of_bob, of_cleo, accepted] = &tokens[..] else { panic!("{tokens:?}") };
    let friend = accept(app, accepted).await;
    assert_eq!(set_role(app, &owner, &bob, "owner").await.status, 200);
    assert_eq!(set_role(app, &owner, &bob, "admin").await.status, 200);
    assert_eq!(remove(app, &owner, &cleo).await.status, 200);
    let listed = app.call(&owner, Method::GET, INVITATIONS, &Value::Null).await.json();
    let open = listed["invitations"].as_array().unwrap();
    assert_eq!((open.len(), &open[0]["email"]), (1, &json!("of-ann@example.com")));
    for token in [of_bob, of_cleo] {
        accept(app, token).await.refused(400, "invalid_token");
    }
    assert_eq!(accept(app, of_ann).await.status, 200);
    let friend = friend.json()["token"].as_str().unwrap().to_owned();
    assert_eq!(whoami(app, &friend).await.json()["role"], "admin", "who has accepted stays");
}

async fn keys_of_who_is_removed_go_on_unless_they_are_revoked(app: &App) {
    let owner = app.register("ann@example.com").await;
    for (email, revokes) in [("bob@example.com", false), ("cleo@example.com", true)] {
        let member = join(app, &owner, email, "admin").await;
        let user = id_of(app, &member).await;
        let key = app.api_key(&member).await;
        let path = format!("{MEMBERS}/{user}?revoke_keys={revokes}");
        let reply = app.call(&owner, Method::DELETE, &path, &Value::Null).await;
        let keys = reply.json()["keys"].as_array().unwrap().clone();
        assert_eq!(keys.len(), 1, "{}", reply.text);
        assert_eq!(keys[0]["key"], json!(key.key));
        assert_eq!(keys[0]["status"], if revokes { "revoked" } else { "active" });
        let used = key.call(app, Method::GET, "/v1/me", &Value::Null).await;
        assert_eq!(used.status, if revokes { 401 } else { 200 }, "{}", used.text);
        let lines = app.call(&owner, Method::GET, "/v1/audit_log?action=api_key.revoked", &Value::Null).await;
        let lines = lines.json()["entries"].as_array().unwrap().clone();
        assert_eq!(lines.len(), usize::from(revokes), "{lines:?}");
        if let Some(line) = lines.first() {
            assert_eq!(
                (&line["actor"]["name"], &line["target"]["id"]),
                (&json!("ann@example.com"), &keys[0]["id"])
            );
            assert_eq!(
                (&line["before"]["key"], &line["before"]["status"]),
                (&keys[0]["key"], &json!("active"))
            );
        }
        let subjects = app.subjects_to("ann@example.com").await;
        let told = subjects.iter().filter(|subject| subject.contains("revoked")).count();
        assert_eq!(told, usize::from(revokes), "{subjects:?}");
    }
}

async fn changing_members_needs_recent_proof(app: &App) {
    let owner = app.register("ann@example.com").await;
    let member = join(app, &owner, "bob@example.com", "viewer").await;
    let bob = id_of(app, &member).await;
    app.advance(QUARTER + Duration::from_secs(1));
    invite(app, &owner, "cleo@example.com", "viewer").await.refused(403, REQUIRED);
    set_role(app, &owner, &bob, "admin").await.refused(403, REQUIRED);
    remove(app, &owner, &bob).await.refused(403, REQUIRED);
    assert_eq!(emails(app, &owner).await.len(), 2, "reading goes on");
    app.reauthenticate(&owner).await;
    assert_eq!(set_role(app, &owner, &bob, "admin").await.status, 200);
}

async fn nobody_manages_another_account_s_members(app: &App) {
    let (ann, eve) = (app.register("ann@example.com").await, app.register("eve@example.com").await);
    let id = id_of(app, &ann).await;
    set_role(app, &eve, &id, "viewer").await.refused(404, "not_found");
    remove(app, &eve, &id).await.refused(404, "not_found");
    let made = invite(app, &ann, "bob@example.com", "viewer").await.json();
    let path = format!("{INVITATIONS}/{}", made["id"].as_str().unwrap());
    app.call(&eve, Method::DELETE, &path, &Value::Null).await.refused(404, "not_found");
    assert_eq!(emails(app, &eve).await, [("eve@example.com".to_owned(), "owner".to_owned())]);
    assert_eq!(accept(app, &invitation_to(app, "bob@example.com").await).await.status, 200);
}

/// A service on which anyone may open an account and write to others.
struct OpenToStrangers(App);

staged! {
    OpenToStrangers: &[("AUSPEX_CONFIRM_RECIPIENTS", "true")];
}

async fn strangers_are_not_flooded_with_invitations(app: &OpenToStrangers) {
    let owner = app.register("ann@example.com").await;
    let message = invite(app, &owner, "bob@example.com", "viewer").await.refused(403, "forbidden");
    assert!(message.contains("confirm your own email address"), "{message}");
    app.verify(&owner, "ann@example.com").await;
    for number in 0..50 {
        let reply = invite(app, &owner, &format!("guest{number}@example.com"), "viewer").await;
        assert_eq!(reply.status, 201, "{}", reply.text);
    }
    invite(app, &owner, "guest50@example.com", "viewer").await.refused(429, "rate_limited");
    app.advance(DAY + Duration::from_secs(1));
    let owner = sign_in(app, "ann@example.com").await;
    assert_eq!(invite(app, &owner, "guest50@example.com", "viewer").await.status, 201);
}

async fn nonsense_changes_no_member(app: &App) {
    let owner = app.register("ann@example.com").await;
    let id = id_of(app, &owner).await;
    for role in [json!("god"), json!(""), json!(null), json!(7), json!("Owner")] {
        let reply = app.call(&owner, Method::PATCH, &format!("{MEMBERS}/{id}"), &json!({"role": role})).await;
        assert!(reply.refused(400, "bad_request").starts_with("role: "), "{}", reply.text);
        let reply = app
            .call(&owner, Method::POST, INVITATIONS, &json!({"email": "b@example.com", "role": role}))
            .await;
        assert!(reply.refused(400, "bad_request").starts_with("role: "), "{}", reply.text);
    }
    for email in ["", "bob", "bob@", "a b@example.com"] {
        let message = invite(app, &owner, email, "viewer").await.refused(400, "bad_request");
        assert!(message.starts_with("email: "), "{message}");
    }
    set_role(app, &owner, "me", "admin").await.refused(400, "bad_request");
    set_role(app, &owner, &Uuid::from_u128(7).to_string(), "admin").await.refused(404, "not_found");
    let path = format!("{MEMBERS}/{id}?revoke_keys=maybe");
    app.call(&owner, Method::DELETE, &path, &Value::Null).await.refused(400, "bad_request");
    assert_eq!(emails(app, &owner).await, [("ann@example.com".to_owned(), "owner".to_owned())]);
}

async fn members_and_invitations_are_listed_in_pages(app: &App) {
    let owner = app.register("ann@example.com").await;
    for who in ["bob", "cleo", "dora"] {
        join(app, &owner, &format!("{who}@example.com"), "viewer").await;
        assert_eq!(invite(app, &owner, &format!("{who}-2@example.com"), "viewer").await.status, 201);
    }
    for (path, list, count) in [("/v1/members", "members", 4), (INVITATIONS, "invitations", 3)] {
        let whole = app.call(&owner, Method::GET, path, &Value::Null).await.json();
        assert_eq!((whole[list].as_array().unwrap().len(), &whole["next_cursor"]), (count, &Value::Null));
        let (mut rows, mut query) = (Vec::new(), String::new());
        loop {
            let page =
                app.call(&owner, Method::GET, &format!("{path}?limit=2{query}"), &Value::Null).await.json();
            rows.extend(page[list].as_array().unwrap().iter().cloned());
            let Some(cursor) = page["next_cursor"].as_str() else { break };
            query = format!("&cursor={cursor}");
        }
        assert_eq!(Value::Array(rows), whole[list], "{list}");
        let other = if list == "members" { INVITATIONS } else { "/v1/members" };
        let foreign = app.call(&owner, Method::GET, &format!("{other}?limit=1{query}"), &Value::Null).await;
        foreign.refused(400, "bad_request");
        for query in ["limit=0", "limit=201", "limit=x", "cursor=x"] {
            let reply = app.call(&owner, Method::GET, &format!("{path}?{query}"), &Value::Null).await;
            reply.refused(400, "bad_request");
        }
    }
}

/// More members than a page has.
const MANY: usize = 205;
/// What one change among them may take, on a busy machine.
const BOUND: Duration = Duration::from_secs(5);

/// All members, by cursor: email and role.
async fn all_members(app: &App, session: &str) -> Vec<(String, String)> {
    let (mut members, mut query) = (Vec::new(), String::new());
    loop {
        let started = std::time::Instant::now();
        let page = app.call(session, Method::GET, &format!("{MEMBERS}{query}"), &Value::Null).await.json();
        assert!(started.elapsed() < BOUND, "a page takes {:?}", started.elapsed());
        let rows = page["members"].as_array().unwrap();
        assert!(rows.len() <= 200, "a page has {} members", rows.len());
        let text = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
        members.extend(rows.iter().map(|row| (text(row, "email"), text(row, "role"))));
        let Some(cursor) = page["next_cursor"].as_str() else { return members };
        query = format!("?cursor={cursor}");
    }
}

async fn an_account_beyond_a_page_of_members_is_managed_like_any_other(app: &App) {
    let owner = app.register("ann@example.com").await;
    let ann = id_of(app, &owner).await;
    let service = app.service();
    let operators = &service.accounts.operators;
    let tenant = operators.tenants().await.unwrap()[0].tenant_id;
    let viewer = Some(model::MemberRole::Viewer);
    let mut ids = Vec::new();
    for number in 0..MANY {
        let email = format!("member-{number:03}@example.com");
        ids.push(operators.create_user(tenant, &email, PASSWORD, viewer).await.unwrap().to_string());
    }
    let members = all_members(app, &owner).await;
    assert_eq!(members.len(), MANY + 1);
    let mut emails: Vec<&str> = members.iter().map(|(email, _)| email.as_str()).collect();
    emails.sort_unstable();
    emails.dedup();
    assert_eq!(emails.len(), MANY + 1, "each once");

    // The only owner is on the first page, who is made one on the last.
    let last = ids.last().unwrap();
    set_role(app, &owner, &ann, "admin").await.refused(409, "conflict");
    remove(app, &owner, &ann).await.refused(409, "conflict");
    let started = std::time::Instant::now();
    assert_eq!(set_role(app, &owner, last, "owner").await.status, 200);
    assert!(started.elapsed() < BOUND, "a change takes {:?}", started.elapsed());
    assert_eq!(set_role(app, &owner, &ann, "admin").await.status, 200, "there is another owner");
    let members = all_members(app, &owner).await;
    let owners: Vec<&str> =
        members.iter().filter(|(_, role)| role == "owner").map(|(email, _)| email.as_str()).collect();
    assert_eq!(owners, [format!("member-{:03}@example.com", MANY - 1)]);
    set_role(app, &owner, last, "viewer").await.refused(403, "forbidden");
    let second = sign_in(app, owners[0]).await;
    remove(app, &second, last).await.refused(409, "conflict");
    assert_eq!(remove(app, &second, &ids[0]).await.status, 200);
    assert_eq!(all_members(app, &second).await.len(), MANY);
}
