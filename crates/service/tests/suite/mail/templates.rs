//! Snapshots of every mail of the service, as text and HTML.

use model::MemberRole;
use model::rule::ActionTest;
use service::mail::{Ended, KeyFacts, Mail, MailTemplates};

use super::stage::START;

const TO: &str = "ann@example.com";
const KEY: KeyFacts<'_> = KeyFacts { name: "Shop & <sons>", public_id: "ak_0123456789" };

const ENDED: Ended = Ended {
    password: true,
    two_factor: false,
    sessions: 2,
    identities: 0,
    passkeys: 2,
    keys: 1,
    endpoints: 3,
    rules: 1,
    invitations: 2,
};

#[test]
fn every_mail_matches_its_snapshot() {
    let templates = MailTemplates::new("https://auspex.example");
    let all = [
        templates.password_reset(TO, "rt_0123456789abcdef"),
        templates.password_changed(TO, START),
        templates.mfa_enabled(TO, false, START),
        templates.mfa_disabled(TO, START),
        templates.identity_linked(TO, "Google", START),
        templates.identity_unlinked(TO, "GitHub", START),
        templates.passkey_added(TO, "Phone & <tablet>", START),
        templates.passkey_removed(TO, "Phone & <tablet>", START),
        templates.api_key_created(TO, KEY, START),
        templates.api_key_rotated(TO, KEY, START),
        templates.api_keys_revoked(TO, &[KEY], START),
        templates.low_balance(TO, 87, 100),
        templates.topup_credited(TO, 2_500, 2_587, START),
        templates.confirm_recipient(
            TO,
            ("Shop & <sons>: http://evil.example", "bob@shop.example"),
            "token",
            "other",
        ),
        templates.email_verification(TO, "vt_0123456789abcdef"),
        templates.address_proved(TO, ENDED, START),
        templates.deletion_requested(TO, "Shop & <sons>", START),
        templates.deletion_cancelled(TO, "Shop & <sons>"),
        templates.invitation(
            TO,
            ("Shop & <sons>: http://evil.example", "bob@shop.example"),
            MemberRole::Analyst,
            "it_0123456789abcdef",
        ),
        templates.new_network(TO, "203.0.113.9", Some("Mozilla/5.0 <b>\nPay here"), START),
        templates.rule_test(TO, None, &ActionTest { rule_name: "Shop & <sons>", at: START }, "other"),
        templates.webhook_dead(TO, "https://shop.example/hook?a=1&b=2", "the receiver answered 500", START),
    ];
    for mail in &all {
        assert_eq!(mail.to, TO);
        assert_eq!(mail.check(), Ok(()));
        assert!(mail.text.is_ascii() && mail.html.is_ascii(), "mails are readable without decoding");
        insta::assert_snapshot!(mail.event.as_str(), shown(mail));
    }
    // The same event as a delivery that was given up, and another text.
    let resting = templates.webhook_resting(TO, "https://shop.example/hook", "the request timed out", START);
    assert_eq!((resting.event.as_str(), resting.check()), ("webhook_dead", Ok(())));
    assert!(resting.text.is_ascii() && resting.html.is_ascii());
    insta::assert_snapshot!("webhook_resting", shown(&resting));
}

fn shown(mail: &Mail) -> String {
    format!("Subject: {}\n\n=== text ===\n{}\n=== html ===\n{}", mail.subject, mail.text, mail.html)
}
