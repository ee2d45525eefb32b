//! Signing in and out, and whose credentials count.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::world::{PASSWORD, World};

testkit::on_both!(
    a_person_signs_up_out_and_in,
    a_new_sign_in_replaces_the_key,
    variables_win_over_the_profile,
    who_may_make_no_key_is_told_who_may,
    a_key_that_cannot_be_stored_is_revoked,
);

async fn a_person_signs_up_out_and_in(world: &World) {
    let person = world.person();
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(person.credentials()), 0o600);
    assert_eq!(mode(person.credentials().parent().unwrap().to_owned()), 0o700);
    let stored = std::fs::read_to_string(person.credentials()).unwrap();
    assert!(!stored.contains(PASSWORD), "the password is not stored");
    assert_eq!(person.json(&["whoami"])["tenant_name"], "Acme");
    assert!(person.says(&["whoami"]).contains(&world.url));
    let names: Vec<_> = person.json(&["keys", "list"])["api_keys"].as_array().unwrap().clone();
    assert_eq!(names.len(), 1);
    assert!(names[0]["name"].as_str().unwrap().starts_with("auspex on "), "{names:?}");

    assert!(person.says(&["logout"]).contains("its key is revoked"));
    assert_eq!(person.run(&["whoami"]).code, 3);
    std::fs::create_dir_all(person.credentials().parent().unwrap()).unwrap();
    std::fs::write(person.credentials(), &stored).unwrap();
    std::fs::set_permissions(person.credentials(), std::fs::Permissions::from_mode(0o644)).unwrap();
    let ran = person.run(&["whoami"]);
    assert_eq!(ran.code, 3, "the key is revoked: {ran:?}");
    assert!(ran.err.contains("others can read"), "the file was written with another mode: {ran:?}");

    let wrong = person.run_with(&["login", "--email", &person.email, "--password-stdin"], "something else");
    assert_eq!((wrong.code, wrong.out.as_str()), (3, ""), "{wrong:?}");
    let ran = person.run_with(&["login", "--email", &person.email, "--password-stdin"], PASSWORD);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(person.json(&["whoami"])["tenant_name"], "Acme");
    assert!(!ran.out.contains("sk_") && !ran.err.contains("sk_"), "{ran:?}");
}

async fn a_new_sign_in_replaces_the_key(world: &World) {
    let person = world.person();
    let login = ["login", "--email", &person.email, "--password-stdin"];
    assert_eq!(person.run_with(&login, PASSWORD).code, 0);
    assert_eq!(
        person.json(&["keys", "list"])["api_keys"].as_array().unwrap().len(),
        1,
        "the old one is revoked"
    );
    let second = ["login", "--email", &person.email, "--password-stdin", "--profile", "second"];
    assert_eq!(person.run_with(&second, PASSWORD).code, 0);
    assert_eq!(
        person.json(&["keys", "list", "--profile", "second"])["api_keys"].as_array().unwrap().len(),
        2
    );
    let ran = person.run(&["whoami", "--profile", "third"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("default, second"), "{ran:?}");
}

async fn variables_win_over_the_profile(world: &World) {
    let mut person = world.person();
    let (client, key, secret) = world.client().await;
    let other = client.me().await.unwrap().tenant_id;
    assert_ne!(person.json(&["whoami"])["tenant_id"], json!(other));
    person.variables = vec![("AUSPEX_KEY".to_owned(), key)];
    let ran = person.run(&["whoami"]);
    assert_eq!(ran.code, 2, "half a credential is a mistake: {ran:?}");
    person.variables.push(("AUSPEX_SECRET".to_owned(), secret));
    assert_eq!(person.json(&["whoami"])["tenant_id"], json!(other));
    std::fs::remove_file(person.credentials()).unwrap();
    assert_eq!(person.json(&["whoami"])["tenant_id"], json!(other));
}

async fn who_may_make_no_key_is_told_who_may(world: &World) {
    let (_, owner) = world.owner().await;
    for (role, named) in [("viewer", "a viewer"), ("analyst", "an analyst"), ("admin", "")] {
        let (mut person, session) = world.member(&owner, role).await;
        let ran = person.run_with(&["login", "--email", &person.email, "--password-stdin"], PASSWORD);
        let sessions = session.sessions().await.unwrap();
        assert_eq!(sessions.len(), 1, "{role}: the session of the command has ended: {sessions:?}");
        if named.is_empty() {
            assert_eq!(ran.code, 0, "{ran:?}");
            continue;
        }
        assert_eq!((ran.code, ran.out.as_str()), (3, ""), "{ran:?}");
        for part in ["admin or owner", named, "AUSPEX_KEY", "request id"] {
            assert!(ran.err.contains(part), "{part}: {ran:?}");
        }
        assert!(!ran.err.contains("auspex login") && !person.credentials().exists(), "{ran:?}");
        let made = owner.create_key(Some(role)).await.unwrap();
        person.variables =
            vec![("AUSPEX_KEY".to_owned(), made.key), ("AUSPEX_SECRET".to_owned(), made.secret)];
        assert_eq!(person.json(&["whoami"])["tenant_name"], "Acme");
    }
}

async fn a_key_that_cannot_be_stored_is_revoked(world: &World) {
    let (person, session) = world.owner().await;
    // A link that leads nowhere: there are no profiles to read, and no folder to write one to.
    let folder = person.credentials().parent().unwrap().to_owned();
    std::fs::create_dir(folder.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(person.home.path().join("missing/folder"), &folder).unwrap();
    let ran = person.run_with(&["login", "--email", &person.email, "--password-stdin"], PASSWORD);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{ran:?}");
    assert!(ran.err.contains("credentials.toml"), "{ran:?}");
    assert_eq!(session.keys().await.unwrap().len(), 0, "{ran:?}");
    assert_eq!(session.sessions().await.unwrap().len(), 1, "{ran:?}");
}
